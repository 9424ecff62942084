"""Which embedder a store has: chosen at creation, changed by reindex, never mixed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.runtime.embedder_hash import HashEmbedder


class Failing:
    """An embedder that is never there."""

    model_id = "failing"
    dimension = 8

    def embed(self, given: Any) -> Any:
        raise ConnectionError("no line")


def test_reindex_goes_over_to_another_embedder(tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    with nf.testing.store(tmp_path / "s") as store:
        made = store.remember_many([{"text": f"the parcel {n}"} for n in range(20)])
        store.settle()
        assert store.status().longterm.model == "hash-64"
        store.reindex(
            embedder=HashEmbedder(32), progress=lambda done, total: steps.append((done, total))
        )
        assert steps and steps[-1] == (20, 20)
        status = store.status().longterm
        assert (status.model, status.dimension, status.vectors) == ("hash-32", 32, 20)
        assert status.embedder == "object:hash-32" == store.config.as_dict()["embedder"]
        assert store.config.sources["embedder"] == "store"
        hits = store.recall("the parcel 7", strategy="vector", limit=30)
        assert hits.complete and {hit.memory.id for hit in hits} == {each.id for each in made}
        store.reindex(embedder=HashEmbedder(32))  # it has it: nothing to be done
    with pytest.raises(nf.EmbedderMismatch, match="hash-32"):
        nf.testing.store(tmp_path / "s")
    with nf.testing.store(tmp_path / "s", embedder=HashEmbedder(32)) as store:
        assert store.recall("the parcel 7", strategy="vector", limit=1)
        store.reindex(embedder="none")
        assert store.status().longterm.embedder_state == "none"
        assert store.recall("parcel").complete


async def test_reindex_on_an_event_loop(tmp_path: Path) -> None:
    async with await nf.aio.open(
        tmp_path / "s", inline=True, partitions=1, embedder=HashEmbedder()
    ) as store:
        await store.remember("the parcel")
        await store.reindex(embedder=HashEmbedder(32))
        assert (await store.status()).longterm.model == "hash-32"


def test_an_embedder_that_cannot_be_meant_changes_nothing(tmp_path: Path) -> None:
    with nf.testing.store(tmp_path / "s") as store:
        store.remember("the parcel")
        wrong: list[Any] = ["hash", "nothing", 5, object()]
        for embedder in wrong:
            with pytest.raises(nf.InvalidArgument):
                store.reindex(embedder=embedder)
        assert store.status().longterm.embedder == "object:hash-64"
        assert store.recall("parcel").complete
        assert store.status().longterm.model == "hash-64"


def test_status_counts_what_waits_and_says_why(tmp_path: Path) -> None:
    with nf.testing.store(tmp_path / "s", embedder=Failing()) as store:
        store.remember_many([{"text": "the parcel"}, {"text": "the train"}])
        hits = store.recall("parcel", wait=60)
        assert [hit.memory.text for hit in hits] == ["the parcel"] and hits.pending == 2
        with pytest.raises(nf.Unavailable, match="ConnectionError"):
            store.recall("parcel", strategy="vector", wait=60)
        status = store.status()
        assert status.memories == 2 and status.longterm.waiting == 2
        assert status.longterm.embedder_state == "failing"
        assert "ConnectionError" in (status.longterm.embedder_error or "")
        assert store.verify().ok


def test_a_store_of_an_object_that_nobody_passed_finds_by_words(tmp_path: Path) -> None:
    with nf.testing.store(tmp_path / "s") as store:
        made = store.remember("the parcel")
    with nf.open(tmp_path / "s", inline=True) as store:
        hits = store.recall("parcel", wait=60)
        assert [hit.memory.id for hit in hits] == [made.id] and not hits.complete
        assert store.status().longterm.embedder_state == "missing"
        with pytest.raises(nf.Unavailable, match="embedder"):
            store.recall("parcel", strategy="vector", wait=60)
