"""What broke in other memory systems, asked of a whole store in this process.

Each test is a scenario of the field reports; those that are real at a lower level stand there:

    16  killed while a generation is written    faults/test_longterm_generations.py
    17  an index file of another generation     storage/test_manifest.py
    21  every fault of an embedder              actors/test_longterm_embedder_faults.py
    22  forgetting 10,001 by tag                storage/test_longterm_forgetting.py, and here
    23  50,000 operations against a model       storage/test_longterm_generations_machine.py
    24  a revision hides what it replaces       here
    25  another embedder                        actors/test_longterm_reindex.py
    26  an erased canary                        storage/test_longterm_every_byte.py, and here;
                                                every step: faults/test_longterm_deaths.py
    27  scripts and hostile queries             storage/test_text_index.py, and here
    28  every filter in every strategy          here
    29  numbers as numbers, what is missing     storage/test_longterm_filters.py, and here
    30  deep pages over chunked memories        here
    31  found by one word alone                 here
    32  one poisoned text among a hundred       actors/test_longterm_embedder_faults.py
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.identity import read_identity
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.longterm_deriving import derived_id
from neverforget.storage.longterm_results import NewDerived
from tests.storage.bytes_left import left_of

STRATEGIES: list[Any] = ["vector", "text", "hybrid"]
CANARY = "quetzalcanary"


def texts(hits: Any) -> list[str]:
    return [hit.memory.text for hit in hits]


def test_22_what_is_forgotten_by_tag_is_exactly_that(nf_store: nf.Store) -> None:
    """10,001 of them in storage/test_longterm_forgetting; here with everything that searches."""
    nf_store.remember_many(
        {"text": f"note {n} about tea", "tags": ("gone",) if n < 301 else ("kept",)}
        for n in range(400)
    )

    def checksum() -> str:
        page = nf_store.memories(tags="kept", limit=1000)
        return hashlib.sha256(repr([(m.id, m.text, m.tags) for m in page]).encode()).hexdigest()

    before = checksum()
    assert nf_store.forget_where(tags="gone", dry_run=True) == 301
    assert nf_store.forget_where(tags="gone", confirm=nf.CONFIRMED) == 301
    assert checksum() == before
    for strategy in STRATEGIES:
        hits = nf_store.recall("note about tea", strategy=strategy, limit=400)
        assert len(hits) == 99
        assert not [hit for hit in hits if "gone" in hit.memory.tags]
    assert len(nf_store.memories(tags="gone")) == 0
    assert nf_store.forget_where(tags="gone", confirm=nf.CONFIRMED) == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_24_a_revised_text_is_found_no_more(nf_store: nf.Store, strategy: Any) -> None:
    told = nf_store.remember("Ana lives in Paris", key="home")
    nf_store.remember("The weather is fine")
    nf_store.revise(told.id, text="Ana lives in Oslo")
    assert "Ana lives in Paris" not in texts(nf_store.recall("Paris", strategy=strategy))
    assert texts(nf_store.recall("Oslo", strategy=strategy))[0] == "Ana lives in Oslo"
    assert [m.text for m in nf_store.history(told.id)] == [
        "Ana lives in Paris",
        "Ana lives in Oslo",
    ]


def test_26_an_erased_canary_is_in_no_byte_of_any_file(tmp_path: Path) -> None:
    with nf.testing.store(tmp_path) as store:
        told = store.remember(
            f"{CANARY} text", key=f"{CANARY}key", tags=f"{CANARY}-tag", source=f"{CANARY}source",
            agent=f"{CANARY}agent", speaker=f"{CANARY}speaker", namespace=f"{CANARY}place",
            metadata={f"{CANARY}field": f"{CANARY}value"}, context=f"{CANARY}context",
            type=f"{CANARY}type",
        )  # fmt: skip
        only = store.remember("made of it")
        both = store.remember("made of it and of another")
        other = store.remember("another", context=f"before: {CANARY} text, and after")
        for memory in (only, both):
            store.relate(memory.id, told.id, "derived-from")
        store.relate(both.id, other.id, "derived-from")
        store.revise(told.id, text=f"{CANARY} later")
        store.forget(told.id, confirm=nf.CONFIRMED, reason=f"it says {CANARY} later")
        store.settle()
        assert left_of(tmp_path, CANARY) != []
        report = store.erase(told.id, confirm=nf.CONFIRMED)
        assert left_of(tmp_path, CANARY, f"{CANARY}context") == []
        assert list(report.flagged) == [both.id]
        assert store.get(only.id, default=None) is None
        assert store.get(other.id).context == "before:  , and after"
        assert [e.operation for e in store.audit(target=told.id)] == ["forget", "erase"]
        assert store.verify().ok
    assert left_of(tmp_path, CANARY, f"{CANARY}context") == []
    with nf.testing.store(tmp_path) as store:
        store.settle()
        assert texts(store.recall(CANARY, strategy="text", limit=100)) == []
    assert left_of(tmp_path, CANARY, f"{CANARY}context") == []


def test_27_any_script_is_found_and_any_query_is_answered(nf_store: nf.Store) -> None:
    said = "私はPythonでADKを使っています"
    nf_store.remember_many([{"text": said}, {"text": "plain words"}])
    for query in ("Python", "ADK", "使って"):
        assert texts(nf_store.recall(query, strategy="text")) == [said]
    for query in ("C ++", '"', "AND", ":*", "🙂🙂", "x " * 5_000, "(a OR", "tags:x", "*"):
        for strategy in STRATEGIES:
            nf_store.recall(query, strategy=strategy)


FILTERS: dict[str, dict[str, Any]] = {
    "namespace": {"namespace": "in"},
    "tags": {"tags": "in"},
    "types": {"types": "in"},
    "agent": {"agent": "in"},
    "where": {"where": {"metadata.place": "in"}},
    "timeframe": {
        "timeframe": (datetime(2025, 1, 1, tzinfo=UTC), datetime(2025, 2, 1, tzinfo=UTC))
    },
    "as_of": {"as_of": datetime(2025, 1, 15, tzinfo=UTC)},
}


@pytest.fixture
def two_places(nf_store: nf.Store) -> nf.Store:
    for place, month in (("in", 1), ("out", 3)):
        when = datetime(2025, month, 10, tzinfo=UTC)
        nf_store.remember_many(
            {
                "text": f"the same words {n}", "namespace": place, "tags": place, "type": place,
                "agent": place, "metadata": {"place": place}, "occurred_at": when,
                "valid_from": when, "valid_to": datetime(2025, month, 20, tzinfo=UTC),
            }
            for n in range(30)
        )  # fmt: skip
    return nf_store


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", FILTERS)
def test_28_no_hit_lies_outside_of_a_filter(two_places: nf.Store, name: str, strategy: Any) -> None:
    hits = two_places.recall("the same words", strategy=strategy, limit=100, **FILTERS[name])
    assert len(hits) == 30
    assert {hit.memory.type for hit in hits} == {"in"}
    view = two_places.scoped(namespace="in")
    assert {h.memory.type for h in view.recall("the same words", strategy=strategy)} == {"in"}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_29_numbers_compare_as_numbers_and_what_is_missing_does_not_match(
    nf_store: nf.Store, strategy: Any
) -> None:
    values: list[Any] = [2, 10, 9.5, "10", None, True]
    nf_store.remember_many({"text": f"tea {v!r}", "metadata": {"n": v}} for v in values)
    nf_store.remember("tea without")

    def found(condition: Any) -> set[str]:
        hits = nf_store.recall("tea", strategy=strategy, where={"metadata.n": condition})
        return set(texts(hits))

    assert found({"$gt": 9}) == {"tea 10", "tea 9.5"}
    assert found(10) == found(10.0) == {"tea 10"}
    assert found({"$lt": 3}) == {"tea 2"}
    assert nf_store.recall("tea", where={"metadata.n.deeper": {"$gt": 1}}) == ()


def test_30_deep_pages_over_chunked_memories_show_every_original_once(tmp_path: Path) -> None:
    with nf.testing.store(tmp_path) as store:
        told = store.remember_many(
            {"text": " ".join(f"apple{n}x{k} pie." for k in range(5))} for n in range(60)
        )
    chunk_all(tmp_path / "longterm" / "0", told)
    with nf.testing.store(tmp_path) as store:
        store.settle()
        for strategy in STRATEGIES:
            seen: list[str] = []
            while page := store.recall("pie", strategy=strategy, limit=7, offset=len(seen)):
                seen += [hit.memory.id for hit in page]
            assert sorted(seen) == sorted(memory.id for memory in told)


def chunk_all(directory: Path, memories: list[nf.Memory]) -> None:
    """Five chunks each, as a chunker would store them."""
    fs = LocalFileSystem()
    region = LongTermRegion.open(fs, directory, store_id=read_identity(fs, directory).store_id)
    for number, memory in enumerate(memories):
        derive(region, memory, number + 1)
    region.write()
    region.sync()
    region.close()


def derive(region: LongTermRegion, memory: nf.Memory, request: int) -> None:
    step = -(-len(memory.text) // 5)
    spans = [(at, min(at + step, len(memory.text))) for at in range(0, len(memory.text), step)]
    parts = [
        NewDerived(
            derived_id(memory.id, 1, "chunk", span, "test"),
            memory.text[span[0] : span[1]],
            "chunk",
            span,
        )
        for span in spans
    ]
    region.derive(memory.id, 1, parts, by="chunker", request=(99, request), splitter="test")


def test_31_what_one_rare_word_finds_is_in_a_hybrid_answer(nf_store: nf.Store) -> None:
    """Also where a crowd that is alike has what the rest of the query says: there it came last, by
    its meaning. Ranks alone cannot tell (``rrf``): many a middling rank in two searches counts for
    more than one first.
    """
    nf_store.remember_many({"text": f"tea and cake number {n}"} for n in range(200))
    rare = "an entirely different matter: zyzzyva"
    nf_store.remember(rare)
    fusions: list[Any] = ["weighted", "rrf"]
    for fusion in fusions:
        assert rare in texts(nf_store.recall("tea zyzzyva", fusion=fusion))
    for query in ("tea and cake zyzzyva", "which number of tea and cake is it, zyzzyva?"):
        hits = nf_store.recall(query, explain=True)
        (hit,) = (hit for hit in hits if hit.memory.text == rare)
        assert hit.sources["text"] == 1 and hits[0].memory.text != rare
        told = hit.arithmetic
        assert told is not None and told["lift"] > 0
        points = sum(share["points"] for share in told["legs"].values())
        assert hit.score == pytest.approx(points + told["boost"] + told["lift"])
        assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)
        pages = [h for at in range(0, 201, 67) for h in nf_store.recall(query, limit=67, offset=at)]
        assert len({h.memory.id for h in pages}) == 201, "every one once"
