"""Owners that cannot write, or cannot open for a moment: what they serve, that they come back."""

from __future__ import annotations

import errno
import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from neverforget.actors import region_life
from neverforget.actors.messages import AppendedReply, Erase, Status, StatusReply
from neverforget.actors.partition import Partition
from neverforget.storage import free_memory
from neverforget.storage.directory_lock import DirectoryLock
from neverforget.storage.errors import StoreLocked
from neverforget.storage.filesystem import LocalFile
from neverforget.storage.region import Region
from tests.actors.regions import (
    NAMESPACE,
    PATIENCE_S,
    STORE_ID,
    SYNC_PROCESS,
    Asked,
    ManualClock,
    Owned,
    all_texts,
    append,
    disk,
    get,
    own,
    spec,
    texts,
)
from tests.fakes.crash_filesystem import CrashFileSystem, Fault
from tests.fakes.held_sync import HeldSyncFileSystem


def test_a_mutation_that_waits_for_recovery_is_done_though_its_client_has_gone(
    owned: Owned,
) -> None:
    owned.fs.inject(Fault("fdatasync", path=".seg", error=errno.EIO))
    owned.ask(append(1, "lost"))
    turn, erasure, read = owned.ask(
        append(2, "after"), Erase(3, NAMESPACE, "t", None, None, "me", None, 7, 3), get(4)
    )
    for asked in (turn, erasure, read):
        asked.alive = False
    owned.until("serving")
    assert isinstance(turn.answer, AppendedReply)
    assert erasure.code == "confirmation_required", "refused, and that is on record"
    assert read.replies == []
    assert "after" in all_texts(owned)


def test_what_waited_for_recovery_is_sent_before_the_sync(owned: Owned) -> None:
    owned.fs.inject(Fault("fdatasync", path=".seg", error=errno.EIO))
    owned.ask(append(1))
    asked = owned.ask(append(2, sync=SYNC_PROCESS), append(3))
    sent: list[list[int]] = []
    assert owned.woken.acquire(timeout=PATIENCE_S)
    owned.partition.tick(lambda: sent.append([len(a.replies) for a in asked]))
    assert sent == [[1, 0], [1, 1]]


def test_the_collector_leaves_a_worker_alone_and_an_application_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(region_life, "hide_from_collector", free_memory.hide_from_collector)
    gc.unfreeze()  # what other tests' libraries left frozen
    try:
        own(disk()).partition.close()
        assert gc.get_freeze_count() == 0, "what is frozen there is somebody else's"
        own(disk(), role="worker").partition.close()
        assert gc.get_freeze_count() > 0
    finally:
        gc.freeze()  # as it was: else each test behind this one pays for all that is loaded


class SickFileSystem(HeldSyncFileSystem):
    """While ``sick`` says so, no file can be opened for writing, or there is no memory for it."""

    sick: Exception | None = None

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> LocalFile:
        if self.sick is not None and not read_only:
            raise self.sick
        return super().open(path, create=create, read_only=read_only)


@pytest.fixture
def sick(tmp_path: Path) -> Iterator[tuple[Owned, SickFileSystem]]:
    """An owner on a real disk, opened while that was sick."""
    fs = SickFileSystem()
    Region.create(fs, tmp_path / "p0", store_id=STORE_ID, partition=0)
    writer = Partition(spec(tmp_path / "p0"), fs=fs)
    writer.open()
    asked = Asked(append(1, "durable"))
    writer.run([asked])
    assert isinstance(asked.answer, AppendedReply)
    writer.close()
    fs.sick = OSError(errno.EROFS, "read-only file system")
    clock = ManualClock()
    partition = Partition(spec(tmp_path / "p0"), fs=fs, clock=clock)
    woken = threading.Semaphore(0)
    partition.bind(woken.release)
    partition.open()
    yield Owned(partition, CrashFileSystem(), clock, woken), fs
    fs.let_go()
    partition.close()


def test_a_read_only_region_is_read_until_the_next_one_stands(
    sick: tuple[Owned, SickFileSystem], tmp_path: Path
) -> None:
    """Each try to open it for writing took the readable one away, for a whole rescan."""
    owned, fs = sick
    assert owned.partition.state == "readonly"
    fs.sick = None
    fs.hold()
    owned.clock.now += 1
    owned.partition.tick()
    assert fs.reached.wait(PATIENCE_S), "the next one is on its way"
    read, refused, status = owned.ask(get(2), append(3, "too early"), Status(4))
    assert texts(read) == ["durable"]
    assert refused.code == "poisoned"
    assert isinstance(status.answer, StatusReply) and status.answer.state == "readonly"
    with pytest.raises(StoreLocked):
        DirectoryLock.acquire(tmp_path / "p0", role="application")
    fs.let_go()
    owned.until("serving")
    with pytest.raises(StoreLocked):
        DirectoryLock.acquire(tmp_path / "p0", role="application")
    assert isinstance(owned.ask(append(5, "after"))[0].answer, AppendedReply)
    assert all_texts(owned) == ["durable", "after"]
    owned.partition.close()
    DirectoryLock.acquire(tmp_path / "p0", role="application").release()


def test_a_region_that_may_be_read_and_not_written_says_whose_rights_are_missing(
    sick: tuple[Owned, SickFileSystem],
) -> None:
    owned, fs = sick
    owned.partition.close()
    fs.sick = PermissionError(errno.EACCES, "Permission denied")
    owned.partition.open()
    assert owned.partition.state == "readonly"
    read, refused = owned.ask(get(2), append(3))
    assert texts(read) == ["durable"]
    assert refused.code == "unavailable"
    fs.sick = None
    owned.clock.now += 1
    owned.partition.tick()
    owned.until("serving")


def test_a_read_only_region_outlives_tries_that_fail(sick: tuple[Owned, SickFileSystem]) -> None:
    owned, fs = sick
    for error in (OSError(errno.EIO, "still"), MemoryError("for a moment")):
        fs.sick = error
        owned.clock.now += 60
        owned.partition.tick()
        assert owned.woken.acquire(timeout=PATIENCE_S)
        owned.partition.tick()
        assert owned.partition.state == "readonly"
        assert str(error) in str(owned.partition.reason)
        assert texts(owned.ask(get(2))[0]) == ["durable"]


def test_what_is_short_for_a_moment_quarantines_nothing(
    sick: tuple[Owned, SickFileSystem], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One MemoryError, or no thread to recover in, and only a person could end the quarantine."""
    owned, fs = sick
    owned.partition.close()
    fs.sick = MemoryError("for a moment")
    owned.partition.open()
    assert owned.partition.state == "recovering"
    assert owned.ask(append(2))[0].code == "unavailable"
    fs.sick = None
    start = threading.Thread.start

    def no_thread(thread: threading.Thread) -> None:
        monkeypatch.setattr(threading.Thread, "start", start)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    owned.clock.now += 1
    owned.partition.tick()
    owned.partition.tick()
    assert owned.partition.state == "recovering"
    assert "new thread" in str(owned.partition.reason)
    owned.clock.now += 1
    owned.partition.tick()
    owned.until("serving")
    assert all_texts(owned) == ["durable"]
