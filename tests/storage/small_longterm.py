"""A small long-term region, and a client that speaks to it: ids, request ids, the word."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from neverforget.storage.filesystem import FileSystem, LocalFileSystem
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.longterm_deriving import derived_id
from neverforget.storage.longterm_results import (
    Changes,
    Forgotten,
    LongTermErasure,
    MemoryFilter,
    MemoryView,
    NewDerived,
    NewMemory,
    Remembered,
    Status,
)
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.results import AuditView
from tests.storage.small_region import HandClock

STORE_ID = "store"
SPLITTER = "test"
OPTIONS = RegionOptions(segment_bytes=1 << 16, first_segment_bytes=1 << 13)


def memory_id(number: int) -> str:
    """A UUIDv7 that counts."""
    return f"018f{number >> 16:04x}-{number & 0xFFFF:04x}-7000-8000-{number:012x}"


def parts_of(
    original: MemoryView, *cuts: int, summary: str | None = None, context: str | None = None
) -> list[NewDerived]:
    """Chunks cut at these characters, and maybe a summary."""

    def made(text: str, kind: str, span: tuple[int, int] | None) -> NewDerived:
        drawn = derived_id(original.id, original.version, kind, span, SPLITTER)
        return NewDerived(drawn, text, kind, span, context if kind == "chunk" else None)

    edges = [0, *cuts, len(original.text)]
    parts = [made(original.text[a:b], "chunk", (a, b)) for a, b in pairwise(edges)]
    return parts if summary is None else [*parts, made(summary, "summary", None)]


def everything(**fields: Any) -> MemoryFilter:
    return MemoryFilter(**({"status": None, "derived": True} | fields))


class LongTermBench:
    """A directory, opened and reopened, and one client."""

    def __init__(
        self,
        directory: Path,
        *,
        fs: FileSystem | None = None,
        options: RegionOptions = OPTIONS,
        lock: bool = True,
    ) -> None:
        self.directory = directory
        self.fs = fs or LocalFileSystem()
        self.options = options
        self.clock = HandClock()
        self.lock = lock
        self.drawn = 0
        self.producer, self.producer_seq = 77, 0
        LongTermRegion.create(self.fs, directory, store_id=STORE_ID, options=options)
        self.region = self.open()

    def open(self, directory: Path | None = None, **how: Any) -> LongTermRegion:
        return LongTermRegion.open(
            self.fs, directory or self.directory, store_id=STORE_ID, options=self.options,
            clock=self.clock, random_bytes=bytes, lock=self.lock, **how,
        )  # fmt: skip

    def reopen(self, *, seal: bool = False, **how: Any) -> LongTermRegion:
        if seal:
            self.region.seal()
        self.region.close()
        self.region = self.open(**how)
        return self.region

    def commit(self) -> None:
        self.region.write()
        self.region.sync()

    def next_request(self) -> tuple[int, int]:
        self.producer_seq += 1
        return self.producer, self.producer_seq

    def next_id(self) -> str:
        self.drawn += 1
        return memory_id(self.drawn)

    # ---- the calls, durable --------------------------------------------------------------------

    def new(self, text: str, **fields: Any) -> NewMemory:
        given: dict[str, Any] = {"id": self.next_id(), "text": text} | fields
        return NewMemory(**given)

    def remember_many(
        self, *new: NewMemory, request: tuple[int, int] | None = None, **how: Any
    ) -> Remembered:
        request = request or self.next_request()
        answer = self.region.remember(new, by="tester", request=request, **how)
        self.commit()
        assert self.region.durable >= answer.end
        return answer

    def remember(self, text: str, *, on_conflict: str = "raise", **fields: Any) -> MemoryView:
        return self.remember_many(self.new(text, **fields), on_conflict=on_conflict).memories[0]

    def revise(self, memory_id: str, expect: int | None = None, **changes: Any) -> MemoryView:
        answer = self.region.revise(
            memory_id, Changes(**changes), by="tester", request=self.next_request(),
            expect_version=expect,
        )  # fmt: skip
        self.commit()
        return answer.memories[0]

    def revert(self, memory_id: str, version: int) -> MemoryView:
        answer = self.region.revert(memory_id, version, by="tester", request=self.next_request())
        self.commit()
        return answer.memories[0]

    def tag(self, memory_id: str, *tags: str) -> MemoryView:
        view, _ = self.region.tag(memory_id, tags, by="tester", request=self.next_request())
        self.commit()
        return view

    def untag(self, memory_id: str, *tags: str) -> MemoryView:
        view, _ = self.region.untag(memory_id, tags, by="tester", request=self.next_request())
        self.commit()
        return view

    def relate(self, source: str, target: Any, kind: str, weight: float = 1.0) -> None:
        self.region.relate(
            source, target, kind, by="tester", request=self.next_request(), weight=weight
        )
        self.commit()

    def unrelate(self, source: str, target: Any, kind: str) -> None:
        self.region.unrelate(source, target, kind, by="tester", request=self.next_request())
        self.commit()

    def derive(self, original: MemoryView, *cuts: int, summary: str | None = None) -> Remembered:
        """Chunks cut at these characters."""
        parts = parts_of(original, *cuts, summary=summary)
        answer = self.region.derive(
            original.id, original.version, parts, by="chunker", request=self.next_request(),
            splitter=SPLITTER,
        )  # fmt: skip
        self.commit()
        return answer

    def asked(self, **how: Any) -> dict[str, Any]:
        plain: dict[str, Any] = {"confirm": "confirmed", "by": "tester", "reason": None}
        if "request" not in how:
            plain["request"] = self.next_request()
        return plain | how

    def forget(self, memory_id: str, **how: Any) -> Forgotten:
        return self.region.forget(memory_id, **self.asked(**how))

    def archive(self, memory_id: str, **how: Any) -> Forgotten:
        return self.region.archive(memory_id, **self.asked(**how))

    def forget_where(self, dry_run: bool = False, **fields: Any) -> Forgotten:
        return self.region.forget_where(MemoryFilter(**fields), dry_run=dry_run, **self.asked())

    def purge(self, older_than: int | None, **how: Any) -> Forgotten:
        return self.region.purge(older_than, **self.asked(**how))

    def erase(self, *ids: str, **how: Any) -> LongTermErasure:
        return self.region.erase(ids, **self.asked(**how))

    def undo(self, memory_id: str) -> Forgotten:
        answer = self.region.undo_forget(memory_id, by="tester", request=self.next_request())
        self.commit()
        return answer

    def unarchive(self, memory_id: str) -> Forgotten:
        answer = self.region.unarchive(memory_id, by="tester", request=self.next_request())
        self.commit()
        return answer

    # ---- looking -------------------------------------------------------------------------------

    def texts(self, **fields: Any) -> list[str]:
        page = self.region.memories(MemoryFilter(**fields), limit=10_000)
        assert not page.more
        return [memory.text for memory in page.memories]

    def audit(self, **how: Any) -> list[AuditView]:
        return self.region.audit(**({"limit": 1000} | how)).entries

    def chunks(self, memory_id: str) -> list[MemoryView]:
        """Its chunks in the order of the text, then its summary; none while it is not chunked."""
        table = self.region.state.table
        children = table.children(self.region.row(memory_id))
        living = children[table.column("status")[children] < Status.FORGOTTEN]
        views = [self.region.view_or_mark(row) for row in living.tolist()]
        return sorted(views, key=lambda v: (v.span is None, v.span or (0, 0), v.born))

    def findings(self) -> list[str]:
        return [finding.kind for finding in self.region.verify()]

    def all_there_is(self) -> dict[str, Any]:
        """Whatever a reader could see, to be the same after reopening."""
        views = self.region.memories(everything(), limit=10_000).memories
        seen: dict[str, Any] = {"memories": views, "audit": self.audit()}
        for view in views:
            if view.status != "forgotten":
                seen[view.id] = (
                    self.region.history(view.id),
                    self.region.relations(view.id),
                    self.chunks(view.id),
                )
        return seen

    def every_byte(self) -> bytes:
        files = sorted(path for path in self.directory.rglob("*") if path.is_file())
        return b"".join(path.read_bytes() for path in files)


@contextmanager
def longterm(directory: Path, **how: Any) -> Iterator[LongTermBench]:
    opened = LongTermBench(directory, **how)
    try:
        yield opened
    finally:
        opened.region.close()
