"""Partitions over a file system in memory, and requests to ask of them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neverforget.actors.messages import (
    SYNC_DISK,
    SYNC_PROCESS,
    AnyReply,
    AnyRequest,
    Append,
    Failure,
    Get,
    Wait,
    WindowReply,
)
from neverforget.actors.partition import Partition, PartitionSpec
from neverforget.storage.record import decode_records, encode_turn, session_scope
from neverforget.storage.region import Region
from neverforget.storage.region_options import RegionOptions
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem

STORE_ID = "store"
NAMESPACE = ("team",)
PATIENCE_S = 60.0
SEGMENT_BYTES = 64 * 1024

__all__ = ["SYNC_DISK", "SYNC_PROCESS"]


@dataclass
class ManualClock:
    """Time stands still until it is told to pass."""

    now: float = 1000.0

    def now_us(self) -> int:
        return int(self.now * 1e6)

    def monotonic(self) -> float:
        return self.now


@dataclass(eq=False)
class Asked:
    """A request and the answers to it. ``order`` collects who was answered when."""

    request: AnyRequest
    order: list[Any] = field(default_factory=list)
    alive: bool = True
    replies: list[AnyReply] = field(default_factory=list)
    answered: threading.Event = field(default_factory=threading.Event)

    def reply(self, message: AnyReply) -> None:
        if not self.replies:
            self.replies.append(message)
            self.order.append(self.request.id)
            self.answered.set()

    @property
    def answer(self) -> AnyReply:
        (reply,) = self.replies
        return reply

    @property
    def code(self) -> str | None:
        return self.answer.code if isinstance(self.answer, Failure) else None


@dataclass
class Owned:
    """A partition, and the disk and clock below it."""

    partition: Partition
    fs: CrashFileSystem
    clock: ManualClock
    woken: threading.Semaphore

    def ask(self, *requests: AnyRequest) -> list[Asked]:
        """All of them in one turn."""
        order: list[Any] = []
        asked = [Asked(request, order) for request in requests]
        self.partition.run(asked)
        return asked

    def pass_time(self, seconds: float) -> None:
        """Let time go by, calling ``tick`` as a transport would."""
        until = self.clock.now + seconds
        while (due := self.partition.deadline()) is not None and due <= until:
            self.clock.now = max(self.clock.now, due)
            self.partition.tick()
        self.clock.now = until

    def until(self, state: str) -> None:
        """Tick when woken, until the partition is in that state."""
        while self.partition.state != state:
            assert self.woken.acquire(timeout=PATIENCE_S), self.partition.reason
            self.partition.tick()


def disk(seed: int = 0) -> CrashFileSystem:
    """A file system with an empty region in it."""
    fs = CrashFileSystem(seed)
    options = RegionOptions(segment_bytes=SEGMENT_BYTES, first_segment_bytes=SEGMENT_BYTES)
    Region.create(fs, ROOT / "p0", store_id=STORE_ID, partition=0, options=options)
    return fs


def spec(directory: Path = ROOT / "p0", **changes: Any) -> PartitionSpec:
    settings: dict[str, Any] = {
        "directory": str(directory), "store_id": STORE_ID, "partition": 0, "role": "application",
        "segment_bytes": SEGMENT_BYTES,
    }  # fmt: skip
    return PartitionSpec(**(settings | changes))


def own(fs: CrashFileSystem, *, opened: bool = True, **changes: Any) -> Owned:
    clock = ManualClock()
    partition = Partition(spec(**changes), fs=fs, clock=clock, lock=False)
    woken = threading.Semaphore(0)
    partition.bind(woken.release)
    if opened:
        partition.open()
    return Owned(partition, fs, clock, woken)


def append(
    id: int,
    text: str = "hello",
    *,
    session: str = "s",
    sync: int = SYNC_DISK,
    producer: int = 7,
    seq: int | None = None,
    expect: int | None = None,
    agent: str | None = None,
) -> Append:
    """A turn, under the request id (``producer``, ``seq`` or the message's id)."""
    number = id if seq is None else seq
    record = encode_turn(
        role="user", content=text, timestamp_us=number, token_count=1, producer=producer,
        producer_seq=number, key_scope=session_scope(NAMESPACE, session), agent=agent,
    )  # fmt: skip
    return Append(id, NAMESPACE, session, agent, producer, number, sync, expect, record)


def get(id: int, session: str = "s", first: int = 0, stop: int = 1000) -> Get:
    return Get(id, NAMESPACE, session, first, stop)


def wait(id: int, after: int, timeout_ms: int = 10_000, session: str = "s") -> Wait:
    return Wait(id, NAMESPACE, session, after, timeout_ms)


def syncs(fs: CrashFileSystem) -> int:
    return sum(call.op == "fdatasync" for call in fs.calls)


def writes(fs: CrashFileSystem) -> int:
    return sum(call.op == "pwrite" and call.path.suffix == ".seg" for call in fs.calls)


def nothing() -> None:
    pass


def texts(asked: Asked) -> list[Any]:
    assert isinstance(asked.answer, WindowReply), asked.answer
    return [
        None if body is None else body[0] for _, body in decode_records(asked.answer.window.records)
    ]


def all_texts(owned: Owned, session: str = "s") -> list[Any]:
    return texts(owned.ask(get(99, session))[0])
