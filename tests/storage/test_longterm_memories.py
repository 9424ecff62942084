"""Remembering, revising, tagging, relating: what a caller is told, and what an opening finds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from neverforget.storage.errors import Conflict, Corrupt, InvalidArgument, NotFound
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.longterm_deriving import derived_id
from neverforget.storage.longterm_results import (
    Changes,
    MemoryFilter,
    NewDerived,
    NewMemory,
    NewRelation,
    TurnPoint,
)
from tests.storage.small_longterm import SPLITTER, LongTermBench, longterm, memory_id

TURNS = TurnPoint(("acme",), "chat", 3, 9)


@pytest.fixture
def b(tmp_path: Path) -> Iterator[LongTermBench]:
    with longterm(tmp_path / "lt") as opened:
        yield opened


def test_a_memory_comes_back_as_it_was_given(b: LongTermBench) -> None:
    told = b.remember(
        "likes \ud83d tea", key="drink", type="preference", tags=("food:tea", "food:tea", "mood"),
        importance=7, confidence=0.25, source="chat", agent="ana", speaker="bob",
        namespace=("acme", "eu"), metadata={"n": 1, "deep": {"x": [1, 2.5, None, True]}},
        occurred_at=-5, context="before", valid_from=10, valid_to=20,
    )  # fmt: skip
    for _ in range(2):
        assert b.region.get(told.id) == told
        assert b.region.by_key(("acme", "eu"), "drink") == told
        b.reopen(seal=True)
    assert told.text == "likes \ud83d tea"
    assert told.tags == ("food:tea", "mood")
    assert (told.importance, told.confidence) == (7.0, 0.25)
    assert told.metadata == {"n": 1, "deep": {"x": [1, 2.5, None, True]}}
    assert (told.occurred_at, told.valid_from, told.valid_to) == (-5, 10, 20)
    assert (told.version, told.status, told.by) == (1, "active", "tester")
    assert told.created_at == told.revised_at > 0
    assert b.findings() == []


@pytest.mark.parametrize(
    "fields",
    [
        {"importance": math.nan}, {"importance": 10.1}, {"importance": -1}, {"importance": True},
        {"confidence": math.nan}, {"confidence": 1.1}, {"confidence": "1"},
        {"text": ""}, {"text": "  "}, {"text": b"x"}, {"type": "fact-chunk"},
        {"type": "x-summary"}, {"type": ""}, {"tags": ("A",)}, {"tags": ("a:b:c:d:e",)},
        {"tags": ("a::b",)}, {"tags": ("",)}, {"tags": "ai"}, {"tags": ("ü",)},
        {"metadata": {"x": {1, 2}}}, {"metadata": {1: 2}}, {"metadata": ["x"]},
        {"occurred_at": 1.5}, {"valid_from": 2, "valid_to": 1}, {"namespace": ("",)},
        {"id": "not an id"}, {"id": "018f0000-0001-4000-8000-000000000001"},
        {"id": "018F0000-0001-7000-8000-000000000001"}, {"key": ""}, {"context": 5},
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_and_writes_nothing(
    b: LongTermBench, fields: dict[str, Any]
) -> None:
    tail = b.region._log.tail
    given: dict[str, Any] = {"id": memory_id(9), "text": "x"} | fields
    with pytest.raises(InvalidArgument):
        b.remember_many(b.new("good"), NewMemory(**given))
    assert b.region._log.tail == tail
    assert b.texts() == []


def test_a_batch_is_all_or_nothing(b: LongTermBench) -> None:
    with pytest.raises(NotFound):
        b.remember_many(b.new("one"), b.new("two", related_to=(NewRelation(memory_id(999)),)))
    assert b.texts() == []
    first, second = b.new("one"), b.new("two")
    third = b.new("three", related_to=(NewRelation(first.id, "derived-from", 0.5),))
    told = b.remember_many(first, second, third)
    assert [m.text for m in told.memories] == ["one", "two", "three"]
    assert told.new == [True] * 3
    (relation,) = b.region.relations(first.id)
    assert (relation.source, relation.kind, relation.weight) == (third.id, "derived-from", 0.5)
    with pytest.raises(Conflict):
        b.remember_many(NewMemory(first.id, "again"))
    with pytest.raises(InvalidArgument):
        b.remember_many(NewMemory(memory_id(50), "x"), NewMemory(memory_id(50), "y"))


# ---- keys and repeats ----------------------------------------------------------------------------


@pytest.mark.parametrize("restart", [False, True])
def test_a_key_is_held_for_ever(b: LongTermBench, restart: bool) -> None:
    held = b.remember("tea", key="drink", namespace=("a",), metadata={"n": 1})
    other = b.remember("coffee", key="drink", namespace=("b",))
    if restart:
        b.reopen(seal=True)
    again = b.remember_many(b.new("tea", key="drink", namespace=("a",), metadata={"n": 1}))
    assert (again.memories, again.new) == ([held], [False])
    for different in ({"metadata": {"n": True}}, {"metadata": {"n": 1.0}}, {"importance": 2}):
        fields: dict[str, Any] = {"metadata": {"n": 1}} | different
        with pytest.raises(Conflict) as refused:
            b.remember("tea", key="drink", namespace=("a",), **fields)
        assert refused.value.seq == 1
    second = b.remember("cocoa", key="drink", namespace=("a",), on_conflict="revise")
    assert (second.id, second.version, second.text) == (held.id, 2, "cocoa")
    assert [v.text for v in b.region.history(held.id)] == ["tea", "cocoa"]
    assert b.region.get(other.id).text == "coffee"
    b.forget(held.id)
    third = b.remember("water", key="drink", namespace=("a",))
    assert third.id != held.id, "forgetting frees the key"
    with pytest.raises(Conflict):
        b.undo(held.id)
    assert b.findings() == []


def test_tags_given_since_do_not_make_a_repeat_another_memory(b: LongTermBench) -> None:
    held = b.remember("tea", key="k", tags=("x",))
    b.tag(held.id, "y")
    assert b.remember("tea", key="k", tags=("x",)).tags == ("x", "y")
    assert b.remember("tea", key="k", tags=("y", "x")).version == 1
    with pytest.raises(Conflict):
        b.remember("tea", key="k", tags=("z",))


def test_one_key_twice_in_a_batch(b: LongTermBench) -> None:
    told = b.remember_many(b.new("tea", key="k"), b.new("tea", key="k"), b.new("free"))
    assert told.new == [True, False, True]
    assert told.memories[0].id == told.memories[1].id
    with pytest.raises(Conflict):
        b.remember_many(b.new("a", key="j"), b.new("b", key="j"))


@pytest.mark.parametrize("restart", [False, True])
def test_a_repeated_request_gets_its_first_answer(b: LongTermBench, restart: bool) -> None:
    keyed = b.remember("held", key="k")
    request = b.next_request()
    asked = [b.new("one"), NewMemory(memory_id(77), "held", key="k"), b.new("two", key="j")]
    first = b.remember_many(*asked, request=request)
    b.revise(first.memories[0].id, text="one, revised")
    if restart:
        b.reopen()
    again = b.remember_many(*asked, request=request)
    assert [m.text for m in again.memories] == ["one", "held", "two"]
    assert [m.id for m in again.memories] == [m.id for m in first.memories]
    assert again.memories[1].id == keyed.id
    assert len(b.texts()) == 3
    with pytest.raises(Conflict):
        b.remember_many(asked[0], request=request)
    with pytest.raises(Conflict):
        b.region.tag(keyed.id, ("x",), by="t", request=request)


@pytest.mark.parametrize("restart", [False, True])
def test_every_change_answers_its_repeat(b: LongTermBench, restart: bool) -> None:
    one, two = b.remember("one"), b.remember("two")
    region = b.region
    calls: list[Callable[[LongTermRegion, tuple[int, int]], object]] = [
        lambda r, request: r.revise(one.id, Changes(text="v2"), by="t", request=request).memories,
        lambda r, request: r.revert(one.id, 1, by="t", request=request).memories,
        lambda r, request: r.tag(one.id, ("x",), by="t", request=request),
        lambda r, request: r.untag(one.id, ("x",), by="t", request=request),
        lambda r, request: r.relate(one.id, two.id, "k", by="t", request=request),
        lambda r, request: r.unrelate(one.id, two.id, "k", by="t", request=request),
    ]
    for call in calls:
        request = b.next_request()
        first = call(region, request)
        b.commit()
        if restart:
            region = b.reopen()
        tail = region._log.tail
        assert call(region, request) == first
        assert region._log.tail == tail, "a repeat writes nothing"
    assert len(b.region.history(one.id)) == 3


# ---- versions ------------------------------------------------------------------------------------


def test_versions_are_kept_and_can_be_reverted_to(b: LongTermBench) -> None:
    told = b.remember("lives in Paris", tags=("home",), metadata={"n": 1}, key="home")
    second = b.revise(told.id, expect=1, text="lives in Oslo", importance=9, metadata={})
    assert (second.version, second.text, second.importance) == (2, "lives in Oslo", 9)
    assert second.metadata == {}
    assert second.created_at == told.created_at < second.revised_at
    with pytest.raises(Conflict) as refused:
        b.revise(told.id, expect=1, text="x")
    assert refused.value.seq == 2
    b.tag(told.id, "city")
    third = b.revert(told.id, 1)
    assert (third.version, third.text, third.tags) == (3, "lives in Paris", ("home",))
    with pytest.raises(NotFound):
        b.revert(told.id, 9)
    for _ in range(2):
        texts = [v.text for v in b.region.history(told.id)]
        assert texts == ["lives in Paris", "lives in Oslo", "lives in Paris"]
        assert b.region.by_key((), "home").version == 3
        assert b.texts() == ["lives in Paris"]
        b.reopen(seal=True)
    tail = b.region._log.tail
    assert b.revise(told.id, text="lives in Paris").version == 3
    assert b.region._log.tail == tail, "what changes nothing writes nothing"
    with pytest.raises(InvalidArgument):
        b.revise(told.id)
    with pytest.raises(NotFound):
        b.revise(memory_id(500), text="x")


def test_a_field_can_be_taken_away_again(b: LongTermBench) -> None:
    told = b.remember("x", source="s", occurred_at=5, valid_to=9, tags=("a",), agent="g")
    bare = b.revise(told.id, source=None, occurred_at=None, valid_to=None, tags=(), agent=None)
    for view in (bare, b.reopen().get(told.id)):
        assert (view.source, view.occurred_at, view.valid_to, view.agent) == (None,) * 4
        assert view.tags == ()
    assert b.texts(as_of=100) == ["x"]


# ---- tags and relations --------------------------------------------------------------------------


def test_tags_are_found_from_above_and_only_whole_levels(b: LongTermBench) -> None:
    b.remember("one", tags=("ai:llm:embeddings",))
    two = b.remember("two", tags=("ai", "x"))
    b.remember("three", tags=("aix:llm",))
    assert b.texts(tags=("ai",)) == ["one", "two"]
    assert b.texts(tags=("ai:llm",)) == ["one"]
    assert b.texts(tags=("ai:llm:embeddings",)) == ["one"]
    assert b.texts(tags=("ai", "x")) == ["two"], "both"
    b.tag(two.id, "ai:llm", "z")
    b.untag(two.id, "ai", "never-had")
    b.reopen()
    assert b.region.get(two.id).tags == ("x", "ai:llm", "z")
    assert b.texts(tags=("ai:llm",)) == ["one", "two"]
    with pytest.raises(InvalidArgument):
        b.texts(tags=("AI",))


def test_relations_are_found_from_both_ends(b: LongTermBench) -> None:
    one, two, three = (b.remember(t) for t in ("one", "two", "three"))
    b.relate(one.id, two.id, "supports", 0.5)
    b.relate(three.id, two.id, "contradicts")
    b.relate(one.id, TURNS, "derived-from")
    b.relate(one.id, two.id, "supports", 0.75)
    for _ in range(2):
        region = b.region
        assert [(r.source, r.weight) for r in region.relations(two.id)] == [
            (one.id, 0.75),
            (three.id, 1.0),
        ]
        assert [r.kind for r in region.relations(one.id, direction="out")] == [
            "supports",
            "derived-from",
        ]
        assert region.relations(one.id, direction="in") == []
        assert [r.kind for r in region.relations(two.id, kind="contradicts")] == ["contradicts"]
        assert region.relations(two.id, kind="never") == []
        assert region.provenance(one.id) == [TURNS]
        b.reopen(seal=True)
    b.unrelate(one.id, two.id, "supports")
    with pytest.raises(NotFound):
        b.unrelate(one.id, two.id, "supports")
    with pytest.raises(InvalidArgument):
        b.relate(one.id, one.id, "is")
    with pytest.raises(InvalidArgument):
        b.relate(one.id, two.id, "k", math.inf)
    with pytest.raises(InvalidArgument):
        b.region.relations(one.id, direction="up")
    b.reopen()
    assert [r.source for r in b.region.relations(two.id)] == [three.id]


# ---- chunks --------------------------------------------------------------------------------------


def test_a_chunking_is_one_batch_that_joins_to_the_original(b: LongTermBench) -> None:
    told = b.remember("abcdefghij", tags=("t",), agent="ana", namespace=("n",), importance=8)
    made = b.derive(told, 3, 7, summary="letters")
    for _ in range(2):
        chunks = b.chunks(told.id)
        assert [c.text for c in chunks] == ["abc", "defg", "hij", "letters"]
        assert [c.span for c in chunks] == [(0, 3), (3, 7), (7, 10), None]
        assert {c.type for c in chunks} == {"fact-chunk", "fact-summary"}
        for chunk in chunks:
            assert (chunk.tags, chunk.agent, chunk.namespace) == (("t",), "ana", ("n",))
            assert chunk.importance == 8
            assert b.region.original(chunk.id).id == told.id
        kinds = {r.kind for r in b.region.relations(told.id)}
        assert kinds == {"chunk-of", "summarizes"}
        middle = [r.kind for r in b.region.relations(chunks[1].id)]
        assert sorted(middle) == ["chunk-of", *["part-of-sequence"] * 4]
        assert b.texts() == ["abcdefghij"]
        assert len(b.texts(derived=True)) == 5
        b.reopen(seal=True)
    tail = b.region._log.tail
    parts = [NewDerived(m.id, m.text, m.type.removeprefix("fact-"), m.span) for m in made.memories]
    again = b.region.derive(told.id, 1, parts, by="c", request=b.next_request(), splitter=SPLITTER)
    assert again.new == [False] * 4
    assert b.region._log.tail == tail, "the same chunking again changes nothing"
    with pytest.raises(InvalidArgument):
        b.revise(made.memories[0].id, text="x")
    with pytest.raises(InvalidArgument):
        b.forget(made.memories[0].id)


def test_a_chunking_of_another_version_is_refused(b: LongTermBench) -> None:
    told = b.remember("abcdef")
    b.derive(told, 3)
    b.revise(told.id, text="uvwxyz")
    assert b.chunks(told.id) == [], "a revision retires them"
    assert b.texts(derived=True) == ["uvwxyz"]
    with pytest.raises(Conflict):
        b.derive(told, 2)
    b.reopen()
    assert b.chunks(told.id) == []
    now = b.region.get(told.id)
    for wrong in ("uvwxy", "uvwxyzz"):
        with pytest.raises(InvalidArgument):
            b.derive(msgspec.structs.replace(now, text=wrong))
    b.derive(now, 1)
    assert [c.text for c in b.chunks(told.id)] == ["u", "vwxyz"]
    b.archive(told.id)
    with pytest.raises(Conflict):
        b.derive(now, 2)


def test_derived_ids_are_the_same_everywhere() -> None:
    one = derived_id(memory_id(1), 1, "chunk", (0, 5), "v1")
    assert one == "8d4cf920-f93c-836c-9857-586262bff590"
    assert one[14] == "8"
    assert one != derived_id(memory_id(1), 2, "chunk", (0, 5), "v1")


# ---- what is broken ------------------------------------------------------------------------------


def test_an_unreadable_memory_says_so_and_is_never_empty(b: LongTermBench) -> None:
    one, two = b.remember("one", key="k"), b.remember("two")
    second = b.revise(two.id, text="two, second")
    b.region.noop_if_idle()
    b.region.close()
    for position in (one.position, second.position):
        path = next((b.directory / "log").glob("*.seg"))
        with path.open("r+b") as file:
            file.seek(position + 64)
            byte = file.read(1)[0]
            file.seek(position + 64)
            file.write(bytes([byte ^ 0xFF]))
    b.region = b.open()
    for told in (one, two):
        with pytest.raises(Corrupt):
            b.region.get(told.id)
    page = b.region.memories(MemoryFilter())
    assert [(m.id, m.status) for m in page.memories] == [
        (one.id, "unreadable"),
        (two.id, "unreadable"),
    ]
    assert [v.status for v in b.region.history(two.id)] == ["active", "unreadable"]
    assert b.findings().count("corrupt_body") == 2
    b.forget(one.id)
    assert [m.id for m in b.region.memories(MemoryFilter()).memories] == [two.id]


def test_a_damaged_header_in_a_sealed_log_hides_nobody(b: LongTermBench) -> None:
    """A side file still says that the record is there: opening raised, for one flipped byte."""
    told = b.remember("one", key="k")
    damaged, forgotten = b.remember("two", key="l"), b.remember("three")
    entry = b.forget(forgotten.id).entry
    assert entry is not None
    b.region.seal()
    b.region.close()
    for position in (damaged.position, entry.position):
        flip(b.directory / "log" / "0000000000000000.seg", position + 20)
    b.region = b.open()
    assert b.region.get(told.id).text == "one"
    with pytest.raises(Corrupt):
        b.region.get(damaged.id)
    assert [m.status for m in b.region.memories(MemoryFilter()).memories] == [
        "active",
        "unreadable",
    ]
    assert b.texts(status="forgotten") == ["three"], "one that was forgotten stays forgotten"
    assert [e.operation for e in b.audit()] == ["forget"]
    assert b.erase(told.id, damaged.id).memories == 2
    assert b.texts() == []


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)
