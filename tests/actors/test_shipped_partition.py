"""A partition whose log is shipped to a folder that fails as it is told to: what is held back,
what is acknowledged, and to whom.
"""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from neverforget.actors.messages import AppendedReply, Status, StatusReply
from neverforget.actors.partition import Partition
from neverforget.actors.replica_spec import replica_of
from neverforget.storage import replica as replica_module
from neverforget.storage.clock import SystemClock
from neverforget.storage.errors import Unavailable
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.object_folder import FolderStore
from neverforget.storage.object_store import ObjectStore
from neverforget.storage.region import Region
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.shipping_object import settings_key
from tests.actors.regions import SEGMENT_BYTES, Asked, append, get, spec, texts, wait

REPLICA = 2
PATIENCE_S = 30.0
STORE_ID = str(uuid.UUID(int=7))


class FailingFolder(FolderStore):
    """``failing``: what becomes of a put: "down" (not carried out), "lost" (carried out, its answer
    lost). None: all is well. ``gate``: puts wait for it."""

    failing: str | None = None
    gate = threading.Event()
    tried = 0

    def put_new(self, key: str, data: bytes, *, behind: str | None = None) -> bool:
        self.tried += 1
        self.gate.wait(PATIENCE_S)
        if self.failing == "down":
            raise Unavailable("down", outcome="not_applied")
        done = super().put_new(key, data, behind=behind)
        if self.failing == "lost":
            raise Unavailable("the answer was lost", outcome="unknown")
        return done


class Shipped:
    """One partition over real files, ticked by the test."""

    def __init__(self, directory: Path, **changes: Any) -> None:
        self.woken = threading.Semaphore(0)
        made = spec(directory, store_id=STORE_ID, **changes)
        self.partition = Partition(made, clock=SystemClock(), fs=LocalFileSystem())
        self.partition.bind(self.woken.release)
        self.partition.open()

    def ask(self, *requests: Any) -> list[Asked]:
        asked = [Asked(request, []) for request in requests]
        self.partition.run(asked)
        return asked

    def until(self, true: Callable[[], Any]) -> None:
        """Tick as a transport does."""
        for _ in range(10_000):
            if true():
                return
            due = self.partition.deadline()
            if due is None or due > SystemClock().monotonic():
                self.woken.acquire(timeout=0.01)
            due = self.partition.deadline()
            if due is not None and due <= SystemClock().monotonic():
                self.partition.tick()
        raise AssertionError("in vain")

    def replica(self) -> Any:
        (asked,) = self.ask(Status(99))
        assert isinstance(asked.answer, StatusReply) and asked.answer.region is not None
        return asked.answer.region.replica


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FailingFolder:
    """Where everything is shipped."""
    store = FailingFolder(LocalFileSystem(), tmp_path / "away")
    store.make_root()
    store.gate = threading.Event()
    store.gate.set()
    store.put_new(settings_key(STORE_ID), b"{}")

    def opened(url: str) -> ObjectStore:
        return store

    monkeypatch.setattr(replica_module, "open_object_store", opened)
    return store


@pytest.fixture
def shipped(tmp_path: Path, folder: FailingFolder) -> Iterator[Shipped]:
    found = start(tmp_path / "p0")
    assert found.partition.state == "serving", found.partition.reason
    yield found
    folder.failing = None
    folder.gate.set()
    found.partition.close()


def start(directory: Path, **changes: Any) -> Shipped:
    options = RegionOptions(segment_bytes=SEGMENT_BYTES, first_segment_bytes=SEGMENT_BYTES)
    if not directory.exists():
        Region.create(LocalFileSystem(), directory, store_id=STORE_ID, partition=0, options=options)
    return Shipped(directory, replica="file:///away", **changes)


def test_process_and_disk_are_answered_before_the_put(
    shipped: Shipped, folder: FailingFolder
) -> None:
    folder.gate.clear()
    process, disk, replica = shipped.ask(append(1, sync=0), append(2), append(3, sync=REPLICA))
    assert isinstance(process.answer, AppendedReply) and isinstance(disk.answer, AppendedReply)
    assert replica.replies == []
    folder.gate.set()
    shipped.until(lambda: replica.replies)
    assert isinstance(replica.answer, AppendedReply)


def test_a_put_whose_answer_was_lost_is_acknowledged_once_and_in_order(
    shipped: Shipped, folder: FailingFolder
) -> None:
    folder.failing = "lost"
    first, second = shipped.ask(append(1, "a", sync=REPLICA), append(2, "b", sync=REPLICA))
    shipped.until(lambda: shipped.replica().error)
    assert first.replies == second.replies == []
    folder.failing = None
    shipped.until(lambda: first.replies and second.replies)
    assert texts(shipped.ask(get(9))[0]) == ["a", "b"]
    assert shipped.replica().objects == 2, "the fence and one run"


def test_a_store_that_is_down_holds_nobody_up_who_does_not_want_it(
    shipped: Shipped, folder: FailingFolder
) -> None:
    folder.failing = "down"
    (waits,) = shipped.ask(append(1, "a", sync=REPLICA))
    (disk,) = shipped.ask(append(2, "b"))
    assert isinstance(disk.answer, AppendedReply) and waits.replies == []
    shipped.until(lambda: shipped.replica().error == "down")
    assert shipped.replica().lag_bytes > 0
    folder.failing = None
    shipped.until(lambda: waits.replies)
    assert isinstance(waits.answer, AppendedReply)


def test_beyond_the_lag_bound_appends_wait_in_order_and_reads_do_not(
    tmp_path: Path, folder: FailingFolder
) -> None:
    shipped = start(tmp_path / "p0", replica_lag_bytes=4_000, requests_queued_max=3)
    folder.failing = "down"
    (first,) = shipped.ask(append(1, "x" * 5_000))
    assert isinstance(first.answer, AppendedReply), "it began below the bound"
    second, read, third = shipped.ask(append(2, "b", sync=0), get(3), append(4, "c"))
    assert second.replies == third.replies == [] and texts(read) == ["x" * 5_000]
    (fourth, refused) = shipped.ask(append(5, "d"), append(6, "e"))
    assert fourth.replies == [] and refused.code == "overloaded"
    folder.failing = None
    shipped.until(lambda: fourth.replies)
    assert texts(shipped.ask(get(9))[0])[1:] == ["b", "c", "d"]
    shipped.partition.close()


def test_the_age_of_what_is_not_shipped_is_bounded_too(
    tmp_path: Path, folder: FailingFolder
) -> None:
    shipped = start(tmp_path / "p0", replica_lag_s=0.05)
    folder.failing = "down"
    shipped.ask(append(1, "a"))
    shipped.until(lambda: shipped.replica().lag_us > 50_000)
    (waits,) = shipped.ask(append(2, "b"))
    assert waits.replies == []
    folder.failing = None
    shipped.until(lambda: waits.replies)
    assert isinstance(waits.answer, AppendedReply)
    shipped.partition.close()


def test_a_fenced_owner_answers_nobody_any_more(
    tmp_path: Path, shipped: Shipped, folder: FailingFolder
) -> None:
    """The other owner is one of a copy of the directory, as after a snapshot of the disk."""
    shipped.ask(append(1, "a", sync=REPLICA))
    shipped.until(lambda: shipped.replica().lag_bytes == 0)
    shutil.copytree(tmp_path / "p0", tmp_path / "copy")
    other = Shipped(tmp_path / "copy", replica="file:///away")
    assert other.partition.state == "serving", other.partition.reason
    (waits,) = shipped.ask(append(2, "lost", sync=REPLICA))
    shipped.until(lambda: waits.replies)
    assert waits.code == "owner_fenced" and shipped.partition.state == "quarantined"
    (late, read) = shipped.ask(append(3, "late", sync=0), get(4))
    assert late.code == "owner_fenced" and read.code == "owner_fenced"
    (mine,) = other.ask(append(2, "mine", sync=REPLICA))
    other.until(lambda: mine.replies)
    assert texts(other.ask(get(9))[0]) == ["a", "mine"]
    other.partition.close()


def test_nothing_is_shipped_to_the_empty_folder_where_the_replica_was_mounted(
    tmp_path: Path, shipped: Shipped, folder: FailingFolder
) -> None:
    """It took the puts of the owner that was running, which acknowledged them at "replica"; when
    the file server was mounted again its objects had a hole, and nobody could start from them.
    """
    shipped.ask(append(1, "a", sync=REPLICA))
    shipped.until(lambda: shipped.replica().lag_bytes == 0)
    (tmp_path / "away").rename(tmp_path / "unmounted")
    folder.make_root()
    before = folder.tried
    (waits,) = shipped.ask(append(2, "b", sync=REPLICA))
    shipped.until(lambda: waits.replies or folder.tried > before + 3)
    assert waits.replies == []
    (tmp_path / "away").rmdir()
    (tmp_path / "unmounted").rename(tmp_path / "away")
    shipped.until(lambda: waits.replies)
    assert isinstance(waits.answer, AppendedReply)
    objects = (tmp_path / "away" / STORE_ID / "partition-0").iterdir()
    assert sorted(int(path.name) for path in objects) == [1, 2, 3]


def test_who_waits_when_it_ends_is_told_that_the_outcome_is_unknown(
    shipped: Shipped, folder: FailingFolder
) -> None:
    folder.failing = "down"
    (waits,) = shipped.ask(append(1, "a", sync=REPLICA))
    shipped.until(lambda: shipped.replica().error)
    shipped.partition.close()
    assert waits.code == "unavailable"


def test_the_spec_says_how_it_is_shipped() -> None:
    made = replica_of(
        spec(store_id=STORE_ID, replica="s3://b", replica_lag_s=2.0, replica_writes_alone=True),
        "partition-0",
    )
    assert (made.url, made.log, made.takes_over) == ("s3://b", "partition-0", False)
    assert (made.options.lag_us_max, made.options.write_without_store) == (2_000_000, True)


def test_what_was_set_aside_comes_back_by_itself_and_goes_when_it_is_shipped(
    tmp_path: Path, shipped: Shipped, folder: FailingFolder
) -> None:
    """The disk that is taken over from had acknowledged turns that nobody shipped."""
    shipped.ask(append(1, "shipped", sync=REPLICA))
    shipped.until(lambda: shipped.replica().lag_bytes == 0)
    shutil.copytree(tmp_path / "p0", tmp_path / "copy")
    folder.failing = "down"
    for number in range(2, 200):
        (asked,) = shipped.ask(append(number, f"lost {number}"))
        assert isinstance(asked.answer, AppendedReply)
    shipped.partition.close()
    folder.failing = None
    other = Shipped(tmp_path / "copy", replica="file:///away")
    other.ask(append(7, "lost 7", sync=REPLICA))
    (mine,) = other.ask(append(1000, "since then", sync=REPLICA))
    other.until(lambda: mine.replies)
    other.partition.close()
    back = start(tmp_path / "p0")
    assert back.partition.state == "serving", back.partition.reason
    (waits,) = back.ask(wait(5, 2))
    aside = tmp_path / "p0" / "aside"
    assert list(aside.iterdir())
    folder.failing = "down"
    found = ["shipped", "lost 7", "since then"]
    found += [f"lost {number}" for number in range(2, 200) if number != 7]
    back.until(lambda: len(texts(back.ask(get(9))[0])) == len(found))
    assert waits.replies, "whoever follows the session is told"
    back.until(lambda: back.replica().error)
    for _ in range(20):
        back.partition.tick()
    assert list(aside.iterdir()), "it is not shipped yet"
    folder.failing = None
    back.until(lambda: not list(aside.iterdir()))
    assert texts(back.ask(get(9))[0]) == found
    back.partition.close()
    again = start(tmp_path / "p0")
    assert texts(again.ask(get(9))[0]) == found
    again.partition.close()
