"""Which memories a filter means, and paging through them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neverforget.storage.errors import InvalidArgument
from neverforget.storage.longterm_results import MemoryFilter
from neverforget.storage.memory_table import Interned
from neverforget.storage.region_options import RegionOptions
from tests.storage.small_longterm import LongTermBench, everything, longterm


@pytest.fixture
def b(tmp_path: Path) -> Iterator[LongTermBench]:
    with longterm(tmp_path / "lt") as opened:
        yield opened


def test_a_namespace_holds_what_is_below_it_element_by_element(b: LongTermBench) -> None:
    for namespace in ((), ("acme",), ("acme", "eu"), ("acme-corp",), ("acme", "eu-1")):
        b.remember("/".join(namespace) or "root", namespace=namespace)
    assert b.texts(namespace=("acme",)) == ["acme", "acme/eu", "acme/eu-1"]
    assert b.texts(namespace=("acme", "eu")) == ["acme/eu"]
    assert b.texts(namespace=("ac",)) == []
    assert len(b.texts()) == 5


def test_every_filter_must_hold(b: LongTermBench) -> None:
    b.remember("one", type="fact", agent="ana", tags=("x",), metadata={"n": 1})
    b.remember("two", type="event", agent="ana", tags=("x", "y"), metadata={"n": 2})
    b.remember("three", type="fact", agent="bob", tags=("y",))
    assert b.texts(types=("fact", "event")) == ["one", "two", "three"]
    assert b.texts(types=()) == []
    assert b.texts(agent="ana", types=("fact",)) == ["one"]
    assert b.texts(agent="nobody") == []
    assert b.texts(tags=("x",), where={"metadata.n": {"$gt": 1}}) == ["two"]
    with pytest.raises(InvalidArgument):
        b.texts(status="lost")


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ({"metadata.n": 10}, ["ten", "ten float"]),
        ({"metadata.n": {"$gt": 9}}, ["ten", "ten float"]),
        ({"metadata.n": {"$gte": 9, "$lt": 10}}, ["nine"]),
        ({"metadata.n": {"$gt": "1"}}, ["text"]),
        ({"metadata.n": {"$lt": 11.5}}, ["nine", "ten", "ten float"]),
        ({"metadata.n": True}, ["true"]),
        ({"metadata.n": {"$ne": 9}}, ["ten", "ten float", "text", "true", "list"]),
        ({"metadata.n": {"$in": [9, "10"]}}, ["nine", "text"]),
        ({"metadata.n": {"$nin": [9, "10", 10]}}, ["true", "list"]),
        ({"metadata.n": [1, 2]}, ["list"]),
        ({"metadata.missing": {"$gt": 0}}, []),
        ({"metadata.n.deeper": 1}, []),
        ({"metadata.deep.er.n": 7}, ["deep"]),
        ({"metadata.dotted.name": 1}, ["dotted"]),
        ({"importance": {"$gte": 5}}, ["important"]),
        ({"source": "mail"}, ["important"]),
        ({"source": {"$ne": "x"}}, ["important"]),
    ],
)
def test_metadata_is_compared_as_what_it_is(
    b: LongTermBench, where: dict[str, Any], found: list[str]
) -> None:
    metadata: list[tuple[str, dict[str, Any]]] = [
        ("nine", {"n": 9}), ("ten", {"n": 10}), ("ten float", {"n": 10.0}), ("text", {"n": "10"}),
        ("true", {"n": True}), ("list", {"n": [1, 2.0]}), ("none", {}),
        ("deep", {"deep": {"er": {"n": 7}}}), ("dotted", {"dotted.name": 1}),
    ]  # fmt: skip
    b.remember_many(*(b.new(text, metadata=held) for text, held in metadata))
    b.remember("important", importance=5, source="mail")
    assert b.texts(where=where) == found


@pytest.mark.parametrize(
    "where",
    [{"n": 1}, {"metadata.": 1}, {"metadata.n": {"$regex": "x"}}, {"metadata.n": {"$in": 5}},
     {"metadata.n": {"$gt": None}}, {"metadata.n": {"$lt": True, "$gt": [1]}}],
)  # fmt: skip
def test_a_filter_that_no_memory_could_answer_is_refused(
    b: LongTermBench, where: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgument):
        b.texts(where=where)


def test_time_is_when_it_occurred_or_else_when_it_was_remembered(b: LongTermBench) -> None:
    b.remember("ancient", occurred_at=-(10**15))
    b.remember("at ten", occurred_at=10)
    now = b.remember("now")
    assert b.texts(timeframe=(10, 11)) == ["at ten"]
    assert b.texts(timeframe=(None, 10)) == ["ancient"], "half open"
    assert b.texts(timeframe=(11, None)) == ["now"]
    assert b.texts(timeframe=(None, None)) == ["ancient", "at ten", "now"]
    assert b.texts(older_than=now.created_at) == ["ancient", "at ten"], "by creation"


def test_what_was_valid_at_a_time(b: LongTermBench) -> None:
    b.remember("always")
    b.remember("until ten", valid_to=10)
    b.remember("from ten", valid_from=10)
    b.remember("between", valid_from=5, valid_to=15)
    assert b.texts(as_of=9) == ["always", "until ten", "between"]
    assert b.texts(as_of=10) == ["always", "from ten", "between"]
    assert b.texts(as_of=15) == ["always", "from ten"]


def test_pages_hold_every_memory_once_in_a_stable_order(b: LongTermBench) -> None:
    texts = [f"m{n}" for n in range(23)]
    told = [b.remember(text, tags=("even",) if n % 2 == 0 else ()) for n, text in enumerate(texts)]
    b.derive(told[4], 1)
    seen: list[str] = []
    after = None
    while True:
        page = b.region.memories(MemoryFilter(), after=after, limit=5)
        seen += [m.text for m in page.memories]
        after = page.next
        b.revise(told[len(seen) - 1].id, importance=5)  # a new version keeps its place
        if not page.more:
            break
        if len(seen) == 10:
            b.reopen(seal=True)
    assert seen == texts
    assert b.region.memories(MemoryFilter(), after=after, limit=5).memories == []
    b.remember("later")
    polled = b.region.memories(MemoryFilter(), after=after, limit=5)
    assert [m.text for m in polled.memories] == ["later"], "the last cursor can be polled from"
    last = b.region.memories(MemoryFilter(), newest=True, limit=3)
    assert [m.text for m in last.memories] == ["m21", "m22", "later"]
    before = b.region.memories(MemoryFilter(), before=last.previous, limit=3)
    assert [m.text for m in before.memories] == ["m18", "m19", "m20"]
    assert before.more
    evens = b.region.memories(MemoryFilter(tags=("even",)), after=told[3].born, limit=2)
    assert [m.text for m in evens.memories] == ["m4", "m6"]
    with pytest.raises(InvalidArgument):
        b.region.memories(MemoryFilter(), limit=0)


def test_a_page_is_bounded_by_bytes_and_always_holds_one(tmp_path: Path) -> None:
    options = RegionOptions(reply_bytes_max=10_000)
    with longterm(tmp_path / "lt", options=options) as b:
        for _ in range(4):
            b.remember("x" * 20_000)
        page = b.region.memories(everything())
        assert (len(page.memories), page.more) == (1, True)


@pytest.mark.parametrize("backwards", [False, True])
def test_a_page_looks_at_so_many_records_and_says_where_it_stopped(
    tmp_path: Path, backwards: bool
) -> None:
    """A rare ``where`` never makes one request read the whole store."""
    with longterm(tmp_path / "lt", options=RegionOptions(scan_records_max=10)) as b:
        for n in range(45):
            b.remember(f"m{n}", metadata={"n": n % 20})
        wanted = MemoryFilter(where={"metadata.n": 7})
        cursor: int | None = None
        told: list[str] = []
        pages = 0
        while True:
            if backwards:
                page = b.region.memories(wanted, before=cursor, newest=cursor is None)
            else:
                page = b.region.memories(wanted, after=cursor)
            told += [m.text for m in page.memories]
            pages += 1
            cursor = page.previous if backwards else page.next
            if not page.more:
                break
        assert (told, pages) == (["m27", "m7"] if backwards else ["m7", "m27"], 5)


def test_pages_go_through_every_window_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neverforget.storage.longterm_filters._WINDOW_ROWS", 3)
    with longterm(tmp_path / "lt") as b:
        texts = [b.remember(f"m{n}", tags=("odd",) if n % 2 else ()).text for n in range(60)]
        assert b.texts(tags=("odd",)) == texts[1::2]
        page = b.region.memories(MemoryFilter(tags=("odd",)), newest=True, limit=20)
        assert [m.text for m in page.memories] == texts[1::2][-20:]


def test_values_are_found_by_the_names_above_them() -> None:
    held: Interned[tuple[str, ...]] = Interned((), above=lambda value: value)
    codes = [held.code(value) for value in (("a", "b"), ("b",), ("c", "a", "a"))]
    assert held.under("a").tolist() == [False, True, False, True]
    assert held.under("a", "b").tolist() == [False, True, False, False]
    assert held.under("nobody").tolist() == [False] * 4
    held.code(("a", "d"))
    assert np.flatnonzero(held.under("a")).tolist() == [codes[0], codes[2], 4], "also what is new"
