"""Calls to owners in this process: what a caller learns when time is up, and the ticker's life."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import neverforget as nf
from neverforget.actors.messages import AppendedReply, WindowReply
from neverforget.actors.partition import Partition
from neverforget.runtime.async_inline_channel import AsyncInlineChannel
from neverforget.runtime.inline_channel import InlineChannel
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.record import decode_records
from neverforget.storage.region import Region
from tests.actors.regions import PATIENCE_S, STORE_ID, SYNC_PROCESS, append, get, spec
from tests.fakes.held_sync import HeldSyncFileSystem

SOON = 0.15  # a deadline that is meant to pass


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """An empty region."""
    Region.create(LocalFileSystem(), tmp_path / "p0", store_id=STORE_ID, partition=0)
    return tmp_path / "p0"


def within(seconds: float) -> float:
    return time.monotonic() + seconds


@pytest.fixture
def recovering(directory: Path) -> Iterator[tuple[InlineChannel, HeldSyncFileSystem]]:
    """An owner whose recovery waits for the disk."""
    fs = HeldSyncFileSystem()
    fs.hold()
    partition = Partition(spec(directory), fs=fs)
    channel = InlineChannel([partition], threading.RLock())
    partition.start()
    yield channel, fs
    fs.let_go()
    channel.close()
    partition.close()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_what_an_owner_has_taken_may_have_been_applied(
    recovering: tuple[InlineChannel, HeldSyncFileSystem], kind: str
) -> None:
    """After the deadline the caller was told that nothing was done; the owner, busy recovering,
    had the request in hand and appended the turn a moment later."""
    channel, fs = recovering
    with pytest.raises(nf.Unavailable, match="same key") as caught:
        if kind == "sync":
            channel.call(0, append(1), within(SOON))
        else:
            asyncio.run(AsyncInlineChannel(channel).call(0, append(1), within(SOON)))
    assert caught.value.outcome == "unknown"
    with pytest.raises(nf.Unavailable) as caught:
        channel.call(0, get(2), within(SOON))
    assert caught.value.outcome == "not_applied", "it was a read"
    fs.let_go()
    again = channel.call(0, append(3, seq=1), within(PATIENCE_S))
    assert isinstance(again, AppendedReply)
    read = channel.call(0, get(4), within(PATIENCE_S))
    assert isinstance(read, WindowReply)
    assert len(list(decode_records(read.window.records))) == 1


class Stumbling(Partition):
    """Fails once at what time makes due."""

    stumbled = False

    def __init__(self, directory: Path) -> None:
        super().__init__(spec(directory, sync_interval_ms=1))
        self.ticked = threading.Event()

    def tick(self, send: Callable[[], None] = lambda: None) -> None:
        if not self.stumbled:
            self.stumbled = True
            raise MemoryError("once")
        super().tick(send)
        self.ticked.set()


def test_one_failure_does_not_end_the_ticker(directory: Path) -> None:
    """It did, silently: nothing was synced or recovered any more, and later appends hung."""
    partition = Stumbling(directory)
    partition.open()
    channel = InlineChannel([partition], threading.RLock())
    try:
        channel.call(0, append(1, sync=SYNC_PROCESS), within(PATIENCE_S))
        assert partition.ticked.wait(PATIENCE_S)
        assert partition.stumbled
        channel.call(0, append(2), within(PATIENCE_S))
    finally:
        channel.close()
        partition.close()
