"""Remembering, and what is said of memories later: the API over a real store, in this process."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.runtime.values import Namespace

NOBODY = "019ce53a-7a40-7000-8000-000000000001"
WHEN = datetime(2025, 5, 8, 12, tzinfo=UTC)


@pytest.fixture
def store(nf_store: nf.Store) -> nf.Store:
    return nf_store.scoped(agent="ada")


def texts(memories: Any) -> list[str]:
    return [memory.text for memory in memories]


# ---- remember ------------------------------------------------------------------------------------


def test_everything_that_was_said_comes_back(store: nf.Store) -> None:
    said: dict[str, Any] = {
        "key": "home",
        "type": "place",
        "tags": ("geo:city", "ada"),
        "importance": 7,
        "confidence": 0.5,
        "source": "chat",
        "agent": "bob",
        "speaker": "Ada",
        "namespace": Namespace(("acme", "eu")),
        "metadata": {"big": 2**80, "raw": b"\x00", "odd": "x\ud83dy", "deep": [{"a": None}]},
        "occurred_at": WHEN,
        "context": "Where do you live?",
        "valid_from": WHEN,
        "valid_to": WHEN + timedelta(days=1),
    }
    made = store.remember("I live in Oslo\x00 \ud83d", **said)
    assert {name: getattr(made, name) for name in said} == said
    assert made.text == "I live in Oslo\x00 \ud83d"
    assert (made.version, made.status, made.by) == (1, "active", "ada")
    assert uuid.UUID(made.id).version == 7
    assert made.created_at == made.revised_at and made.created_at.tzinfo is UTC
    assert store.get(made.id) == store.get(key="home", namespace=("acme", "eu")) == made
    assert type(store.get(made.id).namespace) is Namespace


def test_the_defaults_are_those_of_the_signature(store: nf.Store) -> None:
    made = store.remember("plain")
    assert (made.type, made.tags, made.importance, made.confidence) == ("fact", (), 1.0, 1.0)
    assert (made.key, made.source, made.speaker, made.context) == (None, None, None, None)
    assert (made.agent, made.namespace, made.metadata) == ("ada", (), {})
    assert (made.occurred_at, made.valid_from, made.valid_to) == (None, None, None)
    assert store.scoped(namespace="a").remember("x").namespace == ("a",)


def test_times_come_in_any_aware_form_and_naive_ones_are_refused(store: nf.Store) -> None:
    forms: list[Any] = ["2025-05-08T14:00:00+02:00", 1746705600000, WHEN]
    assert [store.remember("x", occurred_at=form).occurred_at for form in forms] == [WHEN] * 3
    for naive in (datetime(2025, 5, 8), "2025-05-08T12:00:00", "yesterday"):
        with pytest.raises(nf.InvalidArgument, match="occurred_at"):
            store.remember("x", occurred_at=naive)


def test_a_batch_is_stored_as_a_whole_or_not_at_all(store: nf.Store) -> None:
    made = store.remember_many({"text": f"fact {n}", "tags": "t"} for n in range(5))
    assert texts(made) == [f"fact {n}" for n in range(5)]
    assert [memory.id for memory in made] == sorted(memory.id for memory in made)
    assert store.remember_many([]) == []
    bad: list[tuple[Any, str]] = [
        ([{"text": "x"}, {"text": ""}], r"items\[1\]: text is empty"),
        ([{"text": "x"}, {"text": "y", "tag": "z"}], r"items\[1\]: no argument tag"),
        ([{}], r"items\[0\]: text is missing"),
        (["x"], r"items\[0\]: it is a str"),
        ("x", "items is a str"),
        ([{"text": "x"}, {"text": "y", "on_conflict": "revise"}], "on_conflict differs"),
        ([{"text": "x"}, {"text": "y", "sync": "process"}], "sync differs"),
    ]
    for items, words in bad:
        with pytest.raises(nf.InvalidArgument, match=words):
            store.remember_many(items)
    with pytest.raises(nf.NotFound):
        store.remember_many([{"text": "x"}, {"text": "y", "related_to": NOBODY}])
    assert len(store.memories()) == 5


def test_a_batch_above_the_limit_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    with nf.open(tmp_path / "s", inline=True, batch_bytes_max=100_000, embedder="none") as store:
        with pytest.raises(nf.InvalidArgument, match="in parts"):
            store.remember("x" * 100_001)
        assert len(store.memories()) == 0
        store.remember("x" * 90_000)


REFUSED: list[dict[str, Any]] = [
    {"text": ""},
    {"text": "  "},
    {"text": 5},
    {"text": None},
    {"key": ""},
    {"key": 5},
    {"key": "k" * 5_000},
    {"on_conflict": "replace"},
    {"type": ""},
    {"type": "fact-chunk"},
    {"type": "fact-summary"},
    {"tags": "Upper"},
    {"tags": ("a", "b c")},
    {"tags": "a:b:c:d:e"},
    {"tags": "a::b"},
    {"tags": "\u0661"},
    {"tags": {"a": 1}},
    {"tags": 5},
    {"importance": 11},
    {"importance": -1},
    {"importance": True},
    {"importance": float("nan")},
    {"confidence": 1.1},
    {"confidence": "high"},
    {"source": ""},
    {"agent": ""},
    {"speaker": 5},
    {"namespace": ("",)},
    {"metadata": [1]},
    {"metadata": {"a": (1,)}},
    {"metadata": {1: "a"}},
    {"metadata": {"at": WHEN}},
    {"related_to": 5},
    {"related_to": {"a": "b"}},
    {"related_to": [(NOBODY,)]},
    {"related_to": [(NOBODY, "")]},
    {"related_to": [(NOBODY, "k", float("inf"))]},
    {"related_to": nf.TurnRef((), "chat", 3, 2)},
    {"occurred_at": 1.5},
    {"context": b"x"},
    {"valid_from": WHEN, "valid_to": WHEN - timedelta(1)},
    {"type": "two\nlines"},
    {"type": "bell\x07"},
    {"sync": "replica"},
]


def test_what_cannot_be_meant_is_refused(store: nf.Store) -> None:
    for said in REFUSED:
        with pytest.raises(nf.InvalidArgument) as caught:
            store.remember(**{"text": "x", **said})
        named = [name.removesuffix("s") for name in said]
        assert any(name in caught.value.message for name in named), said
    assert len(store.memories()) == 0


# ---- keys ----------------------------------------------------------------------------------------


def test_a_key_is_unique_in_its_namespace(store: nf.Store) -> None:
    first = store.remember("Oslo", key="home", tags=("a", "b"))
    again = store.remember("Oslo", key="home", tags=("b", "a"))
    assert again == first
    with pytest.raises(nf.Conflict, match="home"):
        store.remember("Paris", key="home", tags=("a", "b"))
    elsewhere = store.remember("Paris", key="home", namespace="x")
    assert elsewhere.id != first.id
    revised = store.remember("Paris", key="home", tags=("a", "b"), on_conflict="revise")
    assert (revised.id, revised.version, revised.text) == (first.id, 2, "Paris")
    assert store.remember("Paris", key="home", tags=("a", "b"), on_conflict="revise") == revised


def test_forgetting_frees_the_key(store: nf.Store) -> None:
    first = store.remember("Oslo", key="home")
    store.forget(first.id, confirm=nf.CONFIRMED)
    assert store.get(key="home", default=None) is None
    second = store.remember("Paris", key="home")
    assert second.id != first.id and store.get(key="home") == second


def test_a_key_may_hold_what_no_name_may(store: nf.Store) -> None:
    made = store.remember("x", key="\ud83d")
    assert store.get(key="\ud83d") == made


# ---- get -----------------------------------------------------------------------------------------


def test_what_is_not_there_raises_or_gives_the_default(store: nf.Store) -> None:
    made = store.remember("x")
    for wanted in (NOBODY, "home", "", "../..", made.id + "0", "\ud83d"):
        with pytest.raises(nf.NotFound):
            store.get(wanted)
        assert store.get(wanted, default=None) is None
    with pytest.raises(nf.NotFound):
        store.get(key="home")
    with pytest.raises(KeyError):
        store.get(NOBODY)
    assert store.get(made.id.upper()) == made
    assert store.get(uuid.UUID(made.id)) == made  # type: ignore[call-overload]
    wrong: list[dict[str, Any]] = [
        {},
        {"id": made.id, "key": "k"},
        {"id": 5},
        {"id": made},
        {"key": 5},
        {"id": made.id, "namespace": "a"},
        {"key": "k", "include_forgotten": True},
    ]
    for arguments in wrong:
        with pytest.raises(nf.InvalidArgument):
            store.get(**arguments, default=None)


def test_many_come_in_the_order_asked_with_none_for_the_missing(store: nf.Store) -> None:
    made = store.remember_many([{"text": str(n)} for n in range(3)])
    asked = [made[2].id, NOBODY, made[0].id, "nonsense", made[2].id]
    assert store.get_many(asked) == [made[2], None, made[0], None, made[2]]
    assert store.get_many(made[1].id) == [made[1]]
    assert store.get_many(iter(())) == []
    with pytest.raises(nf.InvalidArgument, match=r"ids\[0\]"):
        store.get_many([5])  # type: ignore[list-item]


# ---- listings ------------------------------------------------------------------------------------


@pytest.fixture
def filled(store: nf.Store) -> Iterator[nf.Store]:
    store.remember_many(
        [
            {
                "text": f"fact {n}",
                "tags": ("even:two" if n % 2 == 0 else "odd", "all"),
                "type": "event" if n == 7 else "fact",
                "namespace": ("acme", "eu") if n < 5 else "acme-corp",
                "metadata": {"n": n, "name": str(n)} if n != 3 else {},
                "importance": n,
                "agent": "bob" if n == 4 else None,
                "occurred_at": WHEN + timedelta(days=n) if n < 8 else None,
            }
            for n in range(10)
        ]
    )
    yield store


FILTERS: list[tuple[dict[str, Any], Any]] = [
    ({}, range(10)),
    ({"namespace": "acme"}, range(5)),
    ({"namespace": ("acme", "eu")}, range(5)),
    ({"namespace": "acm"}, []),
    ({"types": "event"}, [7]),
    ({"types": ("event", "fact")}, range(10)),
    ({"tags": "even"}, range(0, 10, 2)),
    ({"tags": ("even", "all")}, range(0, 10, 2)),
    ({"tags": ("even", "odd")}, []),
    ({"tags": "two"}, []),
    ({"tags": ()}, range(10)),
    ({"agent": "bob"}, [4]),
    ({"where": {"metadata.n": 5}}, [5]),
    ({"where": {"metadata.n": {"$gt": 7}}}, [8, 9]),
    ({"where": {"metadata.n": {"$gte": 1.0, "$lt": 3}}}, [1, 2]),
    ({"where": {"metadata.name": {"$in": ("1", "2")}}}, [1, 2]),
    ({"where": {"metadata.name": {"$gt": 1}}}, []),
    ({"where": {"importance": {"$gte": 9}}}, [9]),
    ({"where": {}}, range(10)),
    ({"timeframe": "8 may 2025"}, [0]),
    ({"timeframe": (WHEN, WHEN + timedelta(days=2))}, [0, 1]),
    ({"timeframe": (None, WHEN + timedelta(days=1))}, [0]),
    ({"timeframe": "today"}, [8, 9]),
    ({"status": "archived"}, []),
    ({"status": None}, range(10)),
    ({"tags": "all", "where": {"metadata.n": {"$lt": 9}}, "types": "fact"}, [0, 1, 2, 4, 5, 6, 8]),
]


def test_listings_are_filtered(filled: nf.Store) -> None:
    for asked, found in FILTERS:
        assert texts(filled.memories(**asked)) == [f"fact {n}" for n in found], asked


NO_FILTERS: list[dict[str, Any]] = [
    {"types": ()},
    {"types": 5},
    {"tags": "Not a tag"},
    {"agent": ""},
    {"where": "n > 5"},
    {"where": {"n": 5}},
    {"where": {"metadata.": 5}},
    {"where": {5: 5}},
    {"where": {"metadata.n": {"$near": 5}}},
    {"where": {"metadata.n": {"$gt": [1]}}},
    {"where": {"metadata.n": {"$in": 5}}},
    {"where": {"metadata.at": WHEN}},
    {"timeframe": "some day"},
    {"timeframe": (WHEN, WHEN)},
    {"timeframe": (datetime(2025, 1, 1), None)},
    {"status": "gone"},
    {"limit": 0},
    {"limit": -1},
    {"limit": True},
    {"after": 5},
    {"after": "nonsense"},
]


def test_a_listing_that_cannot_be_meant_is_refused(store: nf.Store) -> None:
    for asked in NO_FILTERS:
        with pytest.raises(nf.InvalidArgument):
            store.memories(**asked)
            pytest.fail(str(asked))


def test_pages_show_each_memory_once_and_go_on_where_they_ended(filled: nf.Store) -> None:
    for limit in (1, 3, 10, 100):
        page = filled.memories(where={"metadata.n": {"$gte": 0}}, limit=limit)
        walked = texts(page)
        while page.has_more:
            page = filled.memories(where={"metadata.n": {"$gte": 0}}, limit=limit, after=page.next)
            walked += texts(page)
        assert walked == [f"fact {n}" for n in range(10) if n != 3]
    assert not filled.memories(where={"metadata.n": {"$gte": 0}}, after=page.next)
    filled.remember("late", metadata={"n": 99})
    assert texts(filled.memories(where={"metadata.n": {"$gte": 0}}, after=page.next)) == ["late"]
    with pytest.raises(nf.InvalidArgument, match="another listing"):
        filled.memories(after=page.next)


def test_a_cursor_stays_good_while_the_meaning_of_today_moves(filled: nf.Store) -> None:
    page = filled.memories(timeframe="today", limit=1)
    assert texts(page) == ["fact 8"]
    assert texts(filled.memories(timeframe="today", limit=1, after=page.next)) == ["fact 9"]


# ---- versions ------------------------------------------------------------------------------------


def test_a_revision_keeps_what_it_does_not_name(store: nf.Store) -> None:
    first = store.remember("Oslo", key="home", tags="geo", metadata={"a": 1}, source="chat")
    second = store.revise(first.id, text="Paris", importance=5, source=None)
    assert (second.version, second.text, second.importance, second.source) == (2, "Paris", 5, None)
    assert (second.key, second.tags, second.metadata) == ("home", ("geo",), {"a": 1})
    assert second.created_at == first.created_at and second.revised_at >= first.revised_at
    assert store.get(first.id) == second
    third = store.revise(
        first.id, tags=("x", "y"), metadata={}, valid_to=WHEN, type="place", confidence=0.25,
        agent="bob", speaker="Eve", context="near", occurred_at=WHEN, valid_from=WHEN,
    )  # fmt: skip
    assert (third.tags, third.metadata, third.valid_to) == (("x", "y"), {}, WHEN)
    assert (third.type, third.confidence, third.agent) == ("place", 0.25, "bob")
    assert (third.speaker, third.context, third.occurred_at) == ("Eve", "near", WHEN)
    assert [each.version for each in store.history(first.id)] == [1, 2, 3]
    assert texts(store.history(first.id)) == ["Oslo", "Paris", "Paris"]
    assert store.revise(first.id, confidence=0.25) == third  # nothing changed, nothing written


def test_a_revision_of_another_version_than_expected_is_a_conflict(store: nf.Store) -> None:
    made = store.remember("one")
    store.revise(made.id, text="two", expect_version=1)
    with pytest.raises(nf.Conflict) as caught:
        store.revise(made.id, text="three", expect_version=1)
    assert caught.value.seq == 2
    wrong: list[dict[str, Any]] = [
        {},
        {"text": None},
        {"text": ""},
        {"importance": 11},
        {"tags": "X"},
        {"metadata": None},
        {"type": None},
        {"valid_to": datetime(2025, 1, 1)},
        {"text": "x", "expect_version": 0},
        {"text": "x", "expect_version": True},
    ]
    for changes in wrong:
        with pytest.raises(nf.InvalidArgument):
            store.revise(made.id, **changes)
    with pytest.raises(nf.NotFound):
        store.revise(NOBODY, text="x")


def test_reverting_writes_a_new_version(store: nf.Store) -> None:
    made = store.remember("one", tags="a")
    store.revise(made.id, text="two", tags="b")
    back = store.revert(made.id, 1)
    assert (back.version, back.text, back.tags) == (3, "one", ("a",))
    assert texts(store.history(made.id)) == ["one", "two", "one"]
    with pytest.raises(nf.NotFound):
        store.revert(made.id, 9)
    with pytest.raises(nf.InvalidArgument):
        store.revert(made.id, 0)


# ---- tags and relations --------------------------------------------------------------------------


def test_tags_are_given_and_taken(store: nf.Store) -> None:
    made = store.remember("x", tags="a")
    store.tag(made.id, "b:c", "a")
    assert store.get(made.id).tags == ("a", "b:c") and store.get(made.id).version == 1
    store.untag(made.id, "b")  # exactly that one
    assert store.get(made.id).tags == ("a", "b:c")
    store.untag(made.id, "b:c", "a")
    assert store.get(made.id).tags == ()
    wrong: list[tuple[Any, ...]] = [(), ("X",), (["a"],)]
    for tags in wrong:
        with pytest.raises(nf.InvalidArgument):
            store.tag(made.id, *tags)
    with pytest.raises(nf.NotFound):
        store.tag(NOBODY, "a")


def test_relations_are_found_from_both_ends(store: nf.Store) -> None:
    one, two = store.remember_many([{"text": "one"}, {"text": "two"}])
    ref = nf.TurnRef(("acme",), "chat", 2, 5)
    three = store.remember("three", related_to=[one.id, (two.id, "about", 0.5), ref])
    assert store.relations(three.id, direction="out") == [
        nf.Relation(three.id, one.id, "related-to", 1.0),
        nf.Relation(three.id, two.id, "about", 0.5),
        nf.Relation(three.id, ref, "derived-from", 1.0),
    ]
    assert store.relations(two.id) == [nf.Relation(three.id, two.id, "about", 0.5)]
    assert store.relations(two.id, direction="out") == []
    assert store.relations(three.id, kind="about", direction="in") == []
    assert store.provenance(three.id) == [ref]
    store.relate(three.id, two.id, "about", weight=2)
    assert [relation.weight for relation in store.relations(two.id)] == [2.0]
    store.unrelate(three.id, two.id, "about")
    assert store.relations(two.id) == []
    store.unrelate(three.id, ref, "derived-from")
    assert store.provenance(three.id) == []
    with pytest.raises(nf.NotFound):
        store.unrelate(three.id, two.id, "about")
    with pytest.raises(nf.NotFound):
        store.relate(three.id, NOBODY, "about")
    turn = store.session("chat", namespace="acme").append("user", "hi")
    wrong: list[Any] = [(three.id, three.id, "k"), (three.id, turn, "k"), (three.id, one, "k"),
                        (three.id, one.id, "")]  # fmt: skip
    for arguments in wrong:
        with pytest.raises(nf.InvalidArgument):
            store.relate(*arguments)
    with pytest.raises(nf.InvalidArgument):
        store.relations(three.id, direction="up")  # type: ignore[arg-type]


def test_turns_that_are_not_there_are_no_end_of_a_relation(store: nf.Store) -> None:
    """A relation to a session that nobody ever heard of was made, and led nowhere."""
    memory = store.remember("one")
    chat = store.session("chat", namespace="acme")
    for missing in (nf.TurnRef(("acme",), "chat", 0, 0), nf.TurnRef((), "chta", 0, 0)):
        with pytest.raises(nf.NotFound, match="has no turn 0"):
            store.relate(memory.id, missing, "derived-from")
    chat.append_many([{"role": "user", "content": str(n)} for n in range(2)])
    store.relate(memory.id, nf.TurnRef(("acme",), "chat", 0, 1), "derived-from")
    with pytest.raises(nf.NotFound, match="session 'chat' in acme has no turn 2: it has 2 turns"):
        store.relate(memory.id, nf.TurnRef(("acme",), "chat", 0, 2), "derived-from")
    fork = chat.fork("other", at=1)
    store.relate(memory.id, nf.TurnRef(fork.namespace, "other", 0, 0), "derived-from")
    store.unrelate(memory.id, nf.TurnRef(("acme",), "chat", 0, 1), "derived-from")


def test_bare_ends_are_tuples_of_one(store: nf.Store) -> None:
    one = store.remember("one")
    two = store.remember("two", related_to=one.id)
    three = store.remember("three", related_to=nf.TurnRef((), "chat", 0, 0))
    assert [relation.target for relation in store.relations(two.id)] == [one.id]
    assert store.provenance(three.id) == [nf.TurnRef((), "chat", 0, 0)]


# ---- views ---------------------------------------------------------------------------------------


def test_nothing_outside_a_view_is_seen_or_touched(store: nf.Store) -> None:
    outside = store.remember("secret", key="k", namespace="other")
    inside = store.remember("plain", key="k", namespace="acme")
    store.relate(outside.id, inside.id, "about")
    view = store.scoped(namespace="acme")
    assert view.get(key="k") == inside == view.get(inside.id)
    assert texts(view.memories()) == ["plain"]
    assert view.get(outside.id, default=None) is None
    assert view.get_many([outside.id, inside.id]) == [None, inside]
    assert view.relations(inside.id) == []
    touches: list[Any] = [
        lambda: view.get(outside.id),
        lambda: view.get(key="k", namespace=outside.namespace),
        lambda: view.revise(outside.id, text="x"),
        lambda: view.history(outside.id),
        lambda: view.revert(outside.id, 1),
        lambda: view.tag(outside.id, "x"),
        lambda: view.untag(outside.id, "x"),
        lambda: view.relate(inside.id, outside.id, "x"),
        lambda: view.relate(outside.id, inside.id, "x"),
        lambda: view.relate(inside.id, nf.TurnRef(outside.namespace, "chat", 0, 0), "x"),
        lambda: view.unrelate(outside.id, inside.id, "about"),
        lambda: view.relations(outside.id),
        lambda: view.provenance(outside.id),
        lambda: view.forget(outside.id, confirm=nf.CONFIRMED),
        lambda: view.undo_forget(outside.id),
        lambda: view.archive(outside.id, confirm=nf.CONFIRMED),
        lambda: view.unarchive(outside.id),
        lambda: view.erase(outside.id, confirm=nf.CONFIRMED),
        lambda: view.memories(namespace=outside.namespace),
        lambda: view.recall("secret", namespace=outside.namespace),
        lambda: view.remember("x", namespace=outside.namespace),
        lambda: view.remember("x", related_to=outside.id),
        lambda: view.erase_where(namespace=outside.namespace, confirm=nf.CONFIRMED),
    ]
    for touch in touches:
        with pytest.raises(nf.NotFound):
            touch()
    assert len(view.audit(target=outside)) == 0
    assert store.get(outside.id) == outside
    assert len(store.relations(outside.id)) == 1


def test_memories_of_a_view_have_absolute_namespaces(store: nf.Store) -> None:
    made = store.scoped(namespace="acme").scoped(namespace="eu").remember("x", namespace="oslo")
    assert made.namespace == ("acme", "eu", "oslo")
    assert store.get(made.id).namespace == made.namespace
    assert store.namespaces().items == (("acme", "eu", "oslo"),)


def test_namespaces_are_those_of_sessions_and_of_memories(store: nf.Store) -> None:
    store.session("a", namespace=("one", "x")).append("user", "hi")
    store.remember("x", namespace=("one", "y"))
    store.remember("x", namespace="two")
    assert store.namespaces().items == (("one", "x"), ("one", "y"), ("two",))
    assert store.namespaces(max_depth=1).items == (("one",), ("two",))
    assert store.namespaces("one", limit=1).items == (("one", "x"),)


def test_the_store_opens_again_with_what_it_remembered(tmp_path: Path) -> None:
    with nf.testing.store(tmp_path / "s") as store:
        made = store.remember("Ada lives in Oslo", key="home")
        store.revise(made.id, text="Ada lives in Paris")
    with nf.testing.store(tmp_path / "s") as store:
        assert store.get(key="home").text == "Ada lives in Paris"
        assert [hit.memory.id for hit in store.recall("Paris")] == [made.id]
        assert len(store.history(made.id)) == 2


def test_two_agents_that_remember_the_same_under_a_key_share_the_memory(store: nf.Store) -> None:
    ada, bob = store.scoped(agent="ada"), store.scoped(agent="bob")
    made = ada.remember("the door code changes on Monday", key="door")
    assert bob.remember("the door code changes on Monday", key="door") == made
    assert made.agent == "ada"
    with pytest.raises(nf.Conflict):
        bob.remember("the door code changes on Friday", key="door")
