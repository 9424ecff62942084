"""Long-term owners over real files, real indexes and an embedder of choice, and what is asked of
them.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from neverforget.actors import longterm_messages as m
from neverforget.actors.chunker_pool import Member
from neverforget.actors.embedder_checked import CheckedEmbedder
from neverforget.actors.embedding import LocalEmbedding
from neverforget.actors.longterm import LongTerm
from neverforget.actors.longterm_messages import FoundMemory, packed, unpacked
from neverforget.actors.longterm_spec import LongTermSpec
from neverforget.actors.messages import (
    SYNC_DISK,
    AnyReply,
    AnyRequest,
    Failure,
    Settle,
    Status,
)
from neverforget.runtime.embedder_hash import HashEmbedder
from neverforget.storage.errors import InvalidArgument
from neverforget.storage.filesystem import FileSystem, LocalFileSystem
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.longterm_results import (
    Changes,
    MemoryFilter,
    MemoryView,
    Namespace,
    NewMemory,
)
from neverforget.storage.region_options import RegionOptions
from tests.actors.regions import Asked, ManualClock
from tests.storage.small_longterm import memory_id

STORE_ID = "store"
PATIENCE_S = 90.0
SEGMENT_BYTES = 1 << 16
PRODUCER = 7
_numbers = itertools.count(1)  # of ids and requests: no two owners of a store give the same
R = TypeVar("R", bound=AnyReply)


def create(directory: Path, fs: FileSystem | None = None) -> Path:
    """An empty long-term region."""
    options = RegionOptions(segment_bytes=SEGMENT_BYTES, first_segment_bytes=SEGMENT_BYTES)
    LongTermRegion.create(fs or LocalFileSystem(), directory, store_id=STORE_ID, options=options)
    return directory


def spec(directory: Path, **changes: Any) -> LongTermSpec:
    settings: dict[str, Any] = {
        "directory": str(directory), "store_id": STORE_ID, "role": "application",
        "segment_bytes": SEGMENT_BYTES, "embedder": "test",
    }  # fmt: skip
    return LongTermSpec(**(settings | changes))


def embedding_of(embedder: Any, *, deadline_s: float = 60.0) -> LocalEmbedding:
    """``embedder``: one for every name, or a dict of them by name."""

    def make(name: str) -> CheckedEmbedder:
        if not isinstance(embedder, dict):
            return CheckedEmbedder(embedder, deadline_s=deadline_s)
        if name not in embedder:
            raise InvalidArgument(f"there is no embedder {name!r}")
        return CheckedEmbedder(embedder[name], deadline_s=deadline_s)

    return LocalEmbedding(make)


@dataclass(eq=False)
class OwnedLongTerm:
    """An owner, driven as a transport would. Time stands still until it is told to pass."""

    owner: LongTerm
    clock: ManualClock
    woken: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.owner.bind(self.woken.set)

    @property
    def directory(self) -> Path:
        return Path(self.owner.spec.directory)

    # ---- driving ---------------------------------------------------------------------------------

    def start(self, *requests: AnyRequest) -> list[Asked]:
        """Ask all of them in one turn, and go on."""
        order: list[Any] = []
        asked = [Asked(request, order) for request in requests]
        self.owner.run(asked)
        return asked

    def ask(self, request: AnyRequest, kind: type[R]) -> R:
        (asked,) = self.start(request)
        self.until(lambda: bool(asked.replies))
        assert isinstance(asked.answer, kind), asked.answer
        return asked.answer

    def refused(self, request: AnyRequest) -> str:
        """The code of the error that it is answered with."""
        return self.ask(request, Failure).code

    def tick(self) -> None:
        due = self.owner.deadline()
        if due is not None and due <= self.clock.now:
            self.owner.tick()

    def until(self, condition: Callable[[], bool]) -> None:
        patience = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < patience, self.status()
            self.woken.clear()
            self.tick()
            if not condition():
                self.woken.wait(0.01)

    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds
        indexing = self.owner.indexing
        if indexing is not None:
            indexing.look()
        self.owner.chunking.look()
        self.tick()

    # ---- asking ----------------------------------------------------------------------------------

    def next_id(self) -> int:
        return next(_numbers)

    def remember_request(
        self, *texts: str, sync: int = SYNC_DISK, scope: Namespace = (), **fields: Any
    ) -> m.Remember:
        number = self.next_id()
        new = [NewMemory(id=memory_id(self.next_id()), text=t, **fields) for t in texts]
        return m.Remember(number, scope, "tester", PRODUCER, number, packed(new), "raise", sync)

    def remember(self, *texts: str, **fields: Any) -> list[str]:
        """Their ids."""
        reply = self.ask(self.remember_request(*texts, **fields), m.MemoriesReply)
        return [view.id for view in views(reply)]

    def revise(self, memory: str, scope: Namespace = (), **changes: Any) -> m.Revise:
        number = self.next_id()
        return m.Revise(
            number, scope, "tester", PRODUCER, number, memory, packed(Changes(**changes)), None,
            SYNC_DISK,
        )  # fmt: skip

    def forget(
        self, memory: str, operation: str = "forget", scope: Namespace = (), **how: Any
    ) -> m.Forget:
        number = self.next_id()
        confirm = how.get("confirm", "confirmed")
        return m.Forget(number, scope, "tester", PRODUCER, number, operation, memory, confirm, None)

    def erase(self, *ids: str, scope: Namespace = ()) -> m.EraseMemories:
        number = self.next_id()
        return m.EraseMemories(
            number, scope, "tester", PRODUCER, number, list(ids), "confirmed", None
        )

    def recall_request(
        self,
        query: str,
        *,
        strategy: str = "hybrid",
        limit: int = 10,
        offset: int = 0,
        after: int | None = None,
        wait_ms: int = 10_000,
        explain: bool = False,
        **wanted: Any,
    ) -> m.Recall:
        region = self.owner._life.region
        end = after if after is not None else 0 if region is None else region.written
        return m.Recall(
            self.next_id(), packed(query), packed(MemoryFilter(**wanted)), strategy, "weighted",
            limit, offset, explain, end, wait_ms,
        )  # fmt: skip

    def recall(self, query: str, **how: Any) -> m.RecallReply:
        return self.ask(self.recall_request(query, **how), m.RecallReply)

    def found(self, query: str, **how: Any) -> list[str]:
        """Texts, best first."""
        return [hit.memory.text for hit in hits(self.recall(query, **how))]

    def get(self, *ids: str, scope: Namespace = (), forgotten: bool = False) -> list[str | None]:
        reply = self.ask(
            m.GetMemories(self.next_id(), scope, list(ids), forgotten), m.MemoriesReply
        )
        return [None if view is None else view.text for view in views(reply)]

    def status(self) -> m.LongTermStatusReply:
        asked = Asked(Status(self.next_id()), [])
        self.owner.run([asked])
        assert isinstance(asked.answer, m.LongTermStatusReply)
        return asked.answer

    def index(self) -> m.IndexStatus:
        self.until(lambda: self.status().index is not None)
        found = self.status().index
        assert found is not None
        return found

    def settle(self) -> None:
        (asked,) = self.start(Settle(self.next_id()))
        self.until(lambda: bool(asked.replies))
        assert asked.code is None, asked.answer


def own(
    directory: Path,
    embedder: Any = None,
    *,
    fs: FileSystem | None = None,
    opened: bool = True,
    deadline_s: float = 60.0,
    clock: ManualClock | None = None,
    chunkers: Callable[[], Member] | None = None,
    **changes: Any,
) -> OwnedLongTerm:
    """``embedder``: an object; None: one that hashes words; "none": there is none. ``chunkers``:
    None: nothing is chunked.
    """
    clock = clock or ManualClock()
    if embedder == "none":
        embedding, changes = None, changes | {"embedder": "none"}
    else:
        embedding = embedding_of(embedder or HashEmbedder(32), deadline_s=deadline_s)
    owner = LongTerm(
        spec(directory, **changes), embedding, chunkers=chunkers, fs=fs, clock=clock, lock=False
    )
    owned = OwnedLongTerm(owner, clock)
    if opened:
        owner.open()
        owned.until(lambda: owned.status().index is not None)
    return owned


def views(reply: m.MemoriesReply) -> list[Any]:
    return unpacked(reply.memories, list[MemoryView | None])


def hits(reply: m.RecallReply) -> list[FoundMemory]:
    return unpacked(reply.hits, list[FoundMemory])
