"""kill -9 of the long-term owner at every call by which it changes a file while long memories are
chunked.

On reopening each memory has all of its chunks or none, and no chunk stands alone. Whoever opens the
store next ends with the same chunks as if nothing had happened, each chunking on record once.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from neverforget.actors import longterm_messages as m
from neverforget.actors.longterm_messages import unpacked
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.results import AuditView
from tests.actors.longterm_owners import STORE_ID, OwnedLongTerm, views
from tests.faults.chunking_owner import furnish, owner
from tests.faults.forked import Forked
from tests.faults.shim import Action, Shim

CALLS = ("pwrite", "write", "fdatasync", "fsync", "rename")
QUICK_DEATHS = 12  # --long: all
Chunks = dict[str, list[str]]


@pytest.fixture
def chunking(shim: Shim) -> Iterator[Forked]:
    one = Forked("tests.faults.chunking_owner", shim)
    yield one
    one.close()


def chunked(owned: OwnedLongTerm, ids: list[str]) -> Chunks:
    asked = [m.Chunks(owned.next_id(), (), each, None) for each in ids]
    replies = [owned.ask(request, m.MemoriesReply) for request in asked]
    return {id: [view.id for view in views(reply)] for id, reply in zip(ids, replies)}


def on_record(owned: OwnedLongTerm) -> int:
    request = m.AuditMemories(owned.next_id(), (), "chunk", None, None, None, None, None, 100)
    reply = owned.ask(request, m.LongTermAuditReply)
    return len(unpacked(reply.entries, list[AuditView]))


def as_it_was_left(store: Path, ids: list[str]) -> Chunks:
    """Chunks by memory, looked at before anybody goes on; nothing stands alone."""
    region = LongTermRegion.open(LocalFileSystem(), store, store_id=STORE_ID, lock=False)
    try:
        assert [f for f in region.verify() if f.severity == "error"] == []
        return {id: [region.view(row).id for row in region.chunk_rows(id)] for id in ids}
    finally:
        region.close()


@pytest.mark.timeout(1200)
def test_a_killed_owner_leaves_all_chunks_of_a_memory_or_none(
    chunking: Forked, shim: Shim, tmp_path: Path, long_run: bool
) -> None:
    template = tmp_path / "template"
    ids = furnish(template)

    def copied(name: str) -> Path:
        shutil.copytree(template, tmp_path / name)
        return tmp_path / name

    chunking.ready(str(copied("counted")))
    rules = {call: shim.arm(call, Action.COUNT, path=str(tmp_path)) for call in CALLS}
    assert chunking.go() == 0
    points = [
        (call, nth, action)
        for call, rule in rules.items()
        for nth in range(1, rule.seen + 1)
        for action in (Action.KILL_BEFORE, Action.KILL_AFTER)
    ]
    whole = owner(tmp_path / "counted")
    expected = chunked(whole, ids)
    whole.owner.close()
    assert all(len(each) > 2 for each in expected.values()) and len(points) > QUICK_DEATHS
    if not long_run:
        points = points[:: -(-len(points) // QUICK_DEATHS)]
    died = 0
    for at, (call, nth, action) in enumerate(points):
        shim.disarm_all()
        store = copied(f"store{at}")
        chunking.ready(str(store))
        shim.arm(call, action, path=str(store), first=nth)
        code = chunking.go()
        assert code in (-signal.SIGKILL, 0), (call, nth, action)  # threads: calls may be fewer
        died += code != 0
        left = as_it_was_left(store, ids)
        assert all(left[id] in ([], expected[id]) for id in ids), (call, nth, action, left)
        again = owner(store)
        again.settle()
        assert chunked(again, ids) == expected
        assert on_record(again) == len(ids)
        again.owner.close()
        shutil.rmtree(store)
    assert died > len(points) // 2
