"""Stores that older versions of this program wrote, frozen under ``tests/data``: they open, nothing
is lost, and what is derived is made anew where its version is of no use.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.longterm_generations import Generations
from neverforget.storage.longterm_results import MemoryFilter
from neverforget.storage.longterm_unchunked import Unchunked
from neverforget.storage.manifest import read_manifest
from neverforget.storage.table_file import TABLE_VERSION, is_of_older_version, stored_table
from neverforget.storage.working_results import WorkingPlace, WorkingTask
from tests.storage.small_longterm import OPTIONS, STORE_ID

DATA = Path(__file__).parents[1] / "data"
FS = LocalFileSystem()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    shutil.copytree(DATA / "table-1", tmp_path / "lt")
    return tmp_path / "lt"


def open_region(directory: Path) -> LongTermRegion:
    return LongTermRegion.open(
        FS, directory, store_id=STORE_ID, options=OPTIONS, derived=directory / "derived-1"
    )


def test_a_store_that_knew_no_working_memories_has_none_and_gets_some(directory: Path) -> None:
    place = WorkingPlace((), "ana", False)
    region = open_region(directory)
    held = region.by_key(("n",), "k").id
    assert region.working_status(place).max_tokens == 0
    region.work(WorkingTask(place, "add", [held], max_tokens=100), by="t", request=(0, 0))
    region.write()
    region.sync()
    region.close()
    region = open_region(directory)
    assert [item.memory.id for item in region.working_items(place).items] == [held]
    region.close()


def table_of(directory: Path, region: LongTermRegion) -> Path:
    derived = directory / "derived-1"
    return derived / read_manifest(FS, derived, region.state.log_id).of("table")[-1].name


def test_a_table_without_lengths_is_made_anew(directory: Path) -> None:
    region = open_region(directory)
    try:
        assert is_of_older_version(FS, table_of(directory, region))
        assert region.state.replayed_from == 0, "the log told it all"
        texts = [m.text for m in region.memories(MemoryFilter()).memories]
        long = "A sentence of the long text. " * 100
        assert texts == ["short, again", long, "after the generation"]
        held = region.by_key(("n",), "k")
        assert (held.tags, held.agent, held.speaker, held.version) == (("a:b",), "ana", "Bo", 2)
        assert [r.kind for r in region.relations(held.id)] == ["about"]
        assert region.state.table.column("characters").tolist() == [12, len(long), 9, 20]
        queue = Unchunked(region.state, 2_000)
        queue.follow()
        assert [each.text for each in queue.take(9, 10**6)] == [long]
        assert [f for f in region.verify() if f.severity == "error"] == []
        stored = Generations.open(FS, directory / "derived-1", region.state, model=None)
        damaged = [f.file for f in stored.findings if ".nft" in f.file]
        assert damaged == [], "an older version is no damage"
        stored.index.notice()
        stored.index.bring()
        stored.publish()
        stored.close()
        assert not is_of_older_version(FS, table_of(directory, region))
    finally:
        region.close()
    region = open_region(directory)
    try:
        assert region.state.replayed_from > 0
        assert [m.text for m in region.memories(MemoryFilter()).memories] == texts
        assert stored_table(FS, directory / "derived-1", region.state.log_id) is not None
    finally:
        region.close()
    assert TABLE_VERSION == 2, "freeze a store of this version, and say in FORMAT.md what is new"
