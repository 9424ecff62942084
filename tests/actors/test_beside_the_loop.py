"""What an owner does on other threads: checks, copies, spares, side files; answers too late."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from neverforget.actors.actor_shell import RemotePending
from neverforget.actors.messages import AppendedReply, Backup, DoneReply, Verify
from neverforget.actors.partition import Partition
from neverforget.storage.filesystem import LocalFile, LocalFileSystem
from neverforget.storage.region import Region
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.side_file import SIDE_SUFFIX
from tests.actors.regions import PATIENCE_S, SEGMENT_BYTES, STORE_ID, Asked, append, get, spec


class HeldFileSystem(LocalFileSystem):
    """While ``gate`` is closed, opening a segment for reading waits, and so does putting a side
    file in its place; ``reached``: one does."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.reached = threading.Event()

    def _wait(self) -> None:
        self.reached.set()
        self.gate.wait()

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> LocalFile:
        if read_only and path.suffix == ".seg":
            self._wait()
        return super().open(path, create=create, read_only=read_only)

    def rename(self, source: Path, target: Path) -> None:
        if target.suffix == SIDE_SUFFIX:
            self._wait()
        super().rename(source, target)


@pytest.fixture
def fs() -> Iterator[HeldFileSystem]:
    held = HeldFileSystem()
    yield held
    held.gate.set()


@pytest.fixture
def partition(tmp_path: Path, fs: HeldFileSystem) -> Partition:
    """An owner on a real disk. The test closes it."""
    fs.gate.set()
    options = RegionOptions(segment_bytes=SEGMENT_BYTES, first_segment_bytes=SEGMENT_BYTES)
    Region.create(fs, tmp_path / "p0", store_id=STORE_ID, partition=0, options=options)
    opened = Partition(spec(tmp_path / "p0"), fs=fs)
    opened.open()
    assert opened.state == "serving"
    fs.gate.clear()
    fs.reached.clear()
    return opened


def ask(partition: Partition, *requests: object) -> list[Asked]:
    asked = [Asked(request) for request in requests]  # type: ignore[arg-type]
    partition.run(asked)
    return asked


def test_an_owner_that_ends_gives_checks_and_copies_up(
    partition: Partition, fs: HeldFileSystem, tmp_path: Path
) -> None:
    """An orderly stop waited for every check that was queued, a minute each for a large store."""
    ask(partition, append(1))
    asked = ask(partition, Verify(2), Verify(3), Backup(4, str(tmp_path / "copy")))
    assert fs.reached.wait(PATIENCE_S), "the first is under way"
    closing = threading.Thread(target=partition.close)
    closing.start()
    for waiting in asked[1:]:
        assert waiting.answered.wait(PATIENCE_S)
        assert waiting.code == "unavailable"
    assert not asked[0].answered.is_set()
    fs.gate.set()
    closing.join()
    assert asked[0].code == "unavailable", "it went no further than its segment"


def test_a_roll_does_not_wait_for_a_side_file(partition: Partition, fs: HeldFileSystem) -> None:
    """One worker made side files and spares in turn, and the loop stood still at the next roll."""
    for id in range(40):
        (asked,) = ask(partition, append(id + 1, "x" * 10_000))
        assert isinstance(asked.answer, AppendedReply)
    assert fs.reached.wait(PATIENCE_S), "the first side file is in the making"
    assert not fs.gate.is_set()
    region = partition._life.region
    assert region is not None and region.status().segments > 3
    fs.gate.set()
    (read,) = ask(partition, get(99))
    assert read.code is None
    partition.close()


def test_an_answer_for_a_loop_that_has_ended_hurts_nobody() -> None:
    """A call from another node, whose actor was ending: the reply raised into the owner's loop."""

    async def call() -> RemotePending:
        return RemotePending(get(1))

    pending = asyncio.run(call())
    pending.reply(DoneReply(1))


def test_only_the_first_answer_to_a_call_counts() -> None:
    async def call() -> bytes:
        pending = RemotePending(get(1))
        pending.reply(DoneReply(1))
        pending.reply(DoneReply(2))
        return await pending.answer()

    assert asyncio.run(call()) == b"\x92\x6b\x01"
