"""Recall over a real store in this process: filters, time, what is said of the hits."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.actors.searching import STRATEGIES as SEARCHED
from neverforget.runtime import recalling
from neverforget.runtime.embedder_hash import HashEmbedder
from neverforget.runtime.operation import Call

STRATEGIES: tuple[Any, ...] = ("hybrid", "vector", "text")
FUSIONS: tuple[Any, ...] = ("weighted", "rrf")
WEDNESDAY = datetime(2026, 3, 11, 14, 30, tzinfo=UTC)


class StoppedClock:
    """It is always Wednesday, half past two; waiting takes as long as elsewhere."""

    def now_us(self) -> int:
        return int(WEDNESDAY.timestamp()) * 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


def ids(hits: nf.Hits) -> list[str]:
    return [hit.memory.id for hit in hits]


def texts(hits: nf.Hits) -> list[str]:
    return [hit.memory.text for hit in hits]


def test_what_was_remembered_is_found_at_once(nf_store: nf.Store) -> None:
    for n in range(20):
        made = nf_store.remember(f"the parcel number {n} is in Oslo")
        hits = nf_store.recall(f"parcel number {n}", limit=30)
        assert made.id in ids(hits) and len(hits) == n + 1
        assert hits.complete and hits.pending == 0


def test_the_best_hit_comes_first_and_says_why(nf_store: nf.Store) -> None:
    nf_store.remember_many([{"text": f"note {n} about cats"} for n in range(5)])
    made = nf_store.remember("Ada lives in Oslo", tags="geo")
    for strategy, fusion in product(STRATEGIES, FUSIONS):
        hits = nf_store.recall("where in Oslo", strategy=strategy, fusion=fusion, explain=True)
        assert hits[0].memory == made
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        wanted = {"hybrid": {"text", "vector"}, "vector": {"vector"}, "text": {"text"}}[strategy]
        assert set(hits[0].sources) == wanted and set(hits[0].sources.values()) == {1}
        assert hits[0].arithmetic is not None and hits[0].arithmetic["score"] == hits[0].score
        assert nf_store.recall("Oslo", strategy=strategy)[0].arithmetic is None
        assert pickle.loads(pickle.dumps(hits)) == hits


def test_the_strategies_are_those_of_the_owner() -> None:
    assert set(recalling.STRATEGIES) == set(SEARCHED)


@pytest.fixture
def filled(nf_store: nf.Store) -> Iterator[nf.Store]:
    nf_store.remember_many(
        [
            {
                "text": f"cat number {n}",
                "tags": ("pets:cats", "even") if n % 2 == 0 else ("pets",),
                "type": "event" if n == 7 else "fact",
                "namespace": ("acme", "eu") if n < 5 else "acme-corp",
                "metadata": {"n": n},
                "agent": "bob" if n == 4 else None,
                "valid_from": WEDNESDAY if n == 3 else None,
                "valid_to": WEDNESDAY if n == 2 else None,
                "occurred_at": WEDNESDAY - timedelta(days=n),
            }
            for n in range(10)
        ]
    )
    yield nf_store


FILTERS: list[tuple[dict[str, Any], Any]] = [
    ({}, range(10)),
    ({"namespace": "acme"}, range(5)),
    ({"namespace": "acme", "tags": "even"}, [0, 2, 4]),
    ({"types": "event"}, [7]),
    ({"tags": "pets"}, range(10)),
    ({"tags": ("pets:cats", "even")}, [0, 2, 4, 6, 8]),
    ({"agent": "bob"}, [4]),
    ({"where": {"metadata.n": {"$gte": 8}}}, [8, 9]),
    ({"as_of": WEDNESDAY}, [0, 1, 3, 4, 5, 6, 7, 8, 9]),
    ({"as_of": WEDNESDAY - timedelta(1)}, [0, 1, 2, 4, 5, 6, 7, 8, 9]),
    ({"timeframe": "yesterday", "now": WEDNESDAY}, [1]),
    ({"timeframe": "last week", "now": WEDNESDAY}, [3, 4, 5, 6, 7, 8, 9]),
    ({"timeframe": (WEDNESDAY - timedelta(2), None)}, [0, 1, 2]),
]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_filters_hold_in_every_strategy(filled: nf.Store, strategy: Any) -> None:
    for asked, found in FILTERS:
        hits = filled.recall("cat number", limit=50, strategy=strategy, **asked)
        assert sorted(texts(hits)) == [f"cat number {n}" for n in found], asked
    for namespace in ("acme", ("acme", "eu"), "acme-corp"):
        view = filled.scoped(namespace=namespace)
        hits = view.recall("cat number 3 4 5 6", limit=50, strategy=strategy)
        assert len(hits) == 5
        root = (namespace,) if isinstance(namespace, str) else namespace
        assert all(hit.memory.namespace[: len(root)] == root for hit in hits)


def test_pages_of_hits_go_on(filled: nf.Store) -> None:
    whole = filled.recall("cat number", limit=10)
    paged = [hit for n in range(0, 12, 3) for hit in filled.recall("cat number", limit=3, offset=n)]
    assert ids(nf.Hits(paged)) == ids(whole)


def test_equal_texts_are_one_hit_that_names_the_others(nf_store: nf.Store) -> None:
    made = [nf_store.remember("the parcel is in Oslo").id for _ in range(3)]
    nf_store.remember("the parcel is in Rome")
    hits = nf_store.recall("parcel Oslo")
    assert len(hits) == 2
    assert sorted([hits[0].memory.id, *hits[0].duplicates]) == sorted(made)
    assert hits[1].duplicates == () and "2 more alike" in repr(hits[0])


def test_archived_ones_are_found_where_asked_and_forgotten_ones_never(filled: nf.Store) -> None:
    first, second = filled.recall("cat number", limit=2)
    filled.archive(first.memory.id, confirm=nf.CONFIRMED)
    filled.forget(second.memory.id, confirm=nf.CONFIRMED)
    assert len(filled.recall("cat number", limit=50)) == 8
    hits = filled.recall("cat number", limit=50, include_archived=True)
    assert len(hits) == 9 and first.memory.id in ids(hits)
    assert {hit.memory.status for hit in hits} == {"active", "archived"}


# ---- time ----------------------------------------------------------------------------------------


def test_a_timeframe_says_what_was_taken(filled: nf.Store) -> None:
    hits = filled.recall("cat", timeframe="last week", now=WEDNESDAY, limit=50)
    assert hits.timeframe == nf.Timeframe(
        datetime(2026, 3, 2, tzinfo=UTC), datetime(2026, 3, 9, tzinfo=UTC)
    )
    assert filled.recall("cat").timeframe is None
    again = filled.recall("cat", timeframe=hits.timeframe, limit=50)
    assert ids(again) == ids(hits)


def test_auto_takes_the_phrase_out_of_the_query(filled: nf.Store) -> None:
    hits = filled.recall("which cat number last week", timeframe="auto", now=WEDNESDAY, limit=50)
    assert hits.timeframe is not None and hits.timeframe.phrase == "last week"
    assert len(hits) == 7
    hits = filled.recall("which cat in may", timeframe="auto", now=WEDNESDAY, limit=50)
    assert hits.timeframe is None or hits.timeframe.phrase == "in may"
    assert filled.recall("cat number", timeframe="auto").timeframe is None
    nothing_left = filled.recall("last week", timeframe="auto", now=WEDNESDAY)
    assert nothing_left.timeframe is not None


def test_phrases_are_meant_in_the_zone_of_the_store_unless_another_is_named(
    tmp_path: Path,
) -> None:
    with nf.open(
        tmp_path / "s", inline=True, embedder="none", timezone="Asia/Tokyo", partitions=1
    ) as store:
        view = store.scoped(namespace="x")
        hits = view.recall("x", timeframe="yesterday", now=WEDNESDAY)
        assert hits.timeframe is not None
        assert hits.timeframe.start == datetime(2026, 3, 9, 15, tzinfo=UTC)
        hits = view.recall("x", timeframe="yesterday", now=WEDNESDAY, tz="UTC")
        assert hits.timeframe is not None
        assert hits.timeframe.start == datetime(2026, 3, 10, tzinfo=UTC)


def test_now_is_the_clock_of_the_store(tmp_path: Path) -> None:
    with nf.testing.store(tmp_path / "s", clock=StoppedClock()) as store:
        made = store.remember("the cat")
        assert made.created_at == WEDNESDAY
        hits = store.recall("cat", timeframe=(WEDNESDAY, None))
        assert ids(hits) == [made.id]
        assert not store.recall("cat", timeframe="yesterday")


# ---- what cannot be meant ------------------------------------------------------------------------


REFUSED: list[dict[str, Any]] = [
    {"query": ""},
    {"query": "  "},
    {"query": 5},
    {"strategy": "best"},
    {"fusion": "sum"},
    {"limit": 0},
    {"limit": -1},
    {"limit": 2**31},
    {"offset": -1},
    {"offset": 2**31},
    {"wait": -1},
    {"wait": "long"},
    {"wait": float("nan")},
    {"timeframe": "in a while"},
    {"timeframe": ""},
    {"timeframe": 5},
    {"timeframe": "today", "tz": "Nowhere/There"},
    {"timeframe": "today", "now": datetime(2026, 1, 1)},
    {"as_of": datetime(2026, 1, 1)},
    {"where": {"nothing": 1}},
    {"tags": "Not a tag"},
    {"types": []},
]


def test_a_recall_that_cannot_be_meant_is_refused(nf_store: nf.Store) -> None:
    for asked in REFUSED:
        with pytest.raises(nf.InvalidArgument):
            nf_store.recall(**{"query": "x", **asked})
            pytest.fail(str(asked))


def test_any_text_is_a_query(filled: nf.Store) -> None:
    odd = ["C ++", '"', "AND", ":*", "🙂", "x" * 10_000, "\ud83d", "\x00", "a AND (b OR", "-x"]
    for query in odd:
        filled.recall(query)


# ---- not complete --------------------------------------------------------------------------------


class Broken:
    """An embedder that fails until it is repaired."""

    model_id = "broken"
    dimension = 8
    works = False

    def embed(self, given: Any) -> Any:
        if not type(self).works:
            raise ConnectionError("no line")
        return HashEmbedder(8).embed(given)


def test_while_the_embedder_fails_words_find_and_the_hits_say_so(tmp_path: Path) -> None:
    with nf.testing.store(tmp_path / "s", embedder=Broken()) as store:
        made = store.remember("Ada lives in Oslo")
        hits = store.recall("Oslo", wait=60)
        assert ids(hits) == [made.id]
        assert not hits.complete and hits.pending == 1 and hits.reason
        with pytest.raises(nf.Unavailable):
            store.recall("Oslo", strategy="vector", wait=60)
        assert store.recall("Oslo", strategy="text").complete


def test_without_an_embedder_words_find(tmp_path: Path) -> None:
    with nf.testing.store(tmp_path / "s", embedder="none") as store:
        made = store.remember("Ada lives in Oslo")
        assert ids(store.recall("Oslo")) == [made.id] and store.recall("Oslo").complete
        with pytest.raises(nf.InvalidArgument, match="embedder"):
            store.recall("Oslo", strategy="vector")


# ---- the loop over replies, by hand --------------------------------------------------------------


def test_a_recall_goes_on_while_replies_are_cut(filled: nf.Store) -> None:
    """A reply may hold less than was asked for; the next one is asked for what lies behind it. What
    moved down meanwhile is not shown twice.
    """
    asked = recalling.question(
        filled._context, filled._scope, "cat number", None, None, None, False, {},
        strategy="hybrid", fusion="weighted", limit=8, offset=1, explain=False, wait=1.0,
    )  # fmt: skip
    operation = recalling.recall(filled._context, filled._scope, asked)
    call = operation.send(None)
    offsets: list[tuple[int, int]] = []
    try:
        while True:
            assert isinstance(call, Call)
            request: Any = call.request
            offsets.append((request.offset, request.limit))
            assert call.patience_s == filled._scope.deadline_s + 1.0
            assert request.after == filled._context.longterm.end > 0
            request.limit, wanted = min(request.limit, 3), request.limit
            reply: Any = filled._engine.channel.call(call.partition, request, 1e9)
            reply.more = wanted > 3
            call = operation.send(reply)
    except StopIteration as stop:
        hits: nf.Hits = stop.value
    assert offsets == [(1, 8), (4, 5), (7, 2)]
    assert ids(hits) == ids(filled.recall("cat number", limit=8, offset=1))
