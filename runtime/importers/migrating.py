"""Bringing back what another system replaced by summaries: its containers and chunks into a store.

The whole file is in memory while it is read: chunks may stand anywhere in it. What is remembered
has the record's id as its key, so a second run changes nothing.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from neverforget.runtime.importers.chunked import NotRestorable, Record, records_of, restored
from neverforget.runtime.importers.chunked_memories import memory_from, original_type
from neverforget.runtime.importers.elements import read_elements
from neverforget.runtime.importers.loading import Progress
from neverforget.runtime.importers.memory_loading import MemoryLoader
from neverforget.runtime.importers.report import Problems
from neverforget.runtime.importers.source_turn import Malformed, Outcome, Problem
from neverforget.runtime.importers.sources import open_sources

if TYPE_CHECKING:
    from neverforget.runtime.store import Store

ANSWERS = ("memories", "results")


class MigrationReport(msgspec.Struct, frozen=True):
    """``records`` read = ``restored`` containers + their ``chunks`` + ``flagged`` (containers that
    cannot be restored, as such that are chunks of another or hold such a one, their chunks, chunks
    whose container is not here, and containers without any) + ``plain`` ones, as far as the store
    has them now; + ``refused``, which it has otherwise, or not (each a problem), + ``gone``, which
    were forgotten or erased here, and stay so. The chunks of a container go where that goes.

    Of the memories that came of it ``remembered`` are new, ``revised`` were kept for review and are
    restored now, and ``existing`` were there; ``problems`` holds the first 1,000. With ``dry_run``
    nothing was written.
    """

    path: str
    records: int
    restored: int
    chunks: int
    flagged: int
    plain: int
    refused: int
    gone: int
    remembered: int
    revised: int
    existing: int
    problem_count: int
    problems: tuple[Problem, ...]
    dry_run: bool

    @property
    def ok(self) -> bool:
        """Every original is restored, and nothing in the file is amiss."""
        return self.problem_count == 0


def migrate(
    store: Store | None,
    path: str | os.PathLike[str],
    *,
    namespace: tuple[str, ...] = (),
    dry_run: bool = False,
    progress: Progress | None = None,
) -> MigrationReport:
    """Restore the originals in ``path`` into ``store``; None rehearses. Raises NotFound,
    InvalidArgument, and what ``remember_many`` raises; the same call goes on from there.
    """
    return _Migration(store, os.fspath(path), namespace, dry_run).run(progress)


class _Migration:
    def __init__(
        self, store: Store | None, path: str, namespace: tuple[str, ...], dry_run: bool
    ) -> None:
        self._path = path
        self._problems = Problems()
        self._loader = MemoryLoader(store, path, namespace, dry_run, self._problems.add)
        self._dry_run = dry_run or store is None
        self._records: dict[str, Record] = {}
        self._chunks: defaultdict[str, list[Record]] = defaultdict(list)
        self._read = 0
        self._counts: Counter[str] = Counter()

    def run(self, progress: Progress | None) -> MigrationReport:
        self._read_all(progress)
        for record in self._records.values():
            self._chunks_named_by(record)
        for record in self._records.values():
            self._take(record)
        self._loader.finish()
        return MigrationReport(
            path=self._path,
            records=self._read,
            restored=self._counts["restored"],
            chunks=self._counts["chunks"],
            flagged=self._counts["flagged"],
            plain=self._counts["plain"],
            refused=self._counts["refused"],
            gone=self._counts["gone"],
            remembered=self._loader.remembered,
            revised=self._loader.revised,
            existing=self._loader.existing,
            problem_count=self._problems.count,
            problems=tuple(self._problems.kept),
            dry_run=self._dry_run,
        )

    # ---- reading ---------------------------------------------------------------------------------

    def _read_all(self, progress: Progress | None) -> None:
        read = 0
        with open_sources(self._path) as (sources, total):
            for source in sources:
                before = read
                for element in read_elements(source):
                    if isinstance(element, Problem):
                        self._problems.add(element)
                        continue
                    read = before + element.offset
                    for value in _memories(element.value):
                        try:
                            for record in records_of(value, element.place.line):
                                self._keep(record)
                        except Malformed as error:
                            self._problems.add(element.place.problem(str(error)))
                    if progress is not None:
                        progress(read, total)

    def _keep(self, record: Record) -> None:
        if record.id in self._records:
            self._problems.add(
                Problem(self._path, record.line, f"memory {record.id} is there twice")
            )
            return
        self._read += 1
        self._records[record.id] = record
        if record.parent == record.id:
            record.parent = None
        if record.parent is not None:
            self._chunks[record.parent].append(record)

    def _chunks_named_by(self, container: Record) -> None:
        """Chunks that do not say whose they are; their container does."""
        for name in container.children:
            chunk = self._records.get(name)
            if chunk is not None and chunk.parent is None and chunk is not container:
                chunk.parent = container.id
                self._chunks[container.id].append(chunk)

    # ---- writing ---------------------------------------------------------------------------------

    def _take(self, record: Record) -> None:
        if self._is_container(record):
            self._take_container(record)
        elif record.parent is None:
            self._add(record, record.text, {}, {"plain": 1})
        elif record.parent not in self._records:
            self._flag(record, f"its container {record.parent} is not in this file")

    def _is_container(self, record: Record) -> bool:
        return record.id in self._chunks or bool(record.children) or record.says_it_was_replaced

    def _take_container(self, container: Record) -> None:
        chunks = self._chunks[container.id]
        try:
            self._check_depth(container, chunks)
            text = restored(container, chunks)
        except NotRestorable as error:
            self._flag(container, str(error))
            for chunk in chunks:
                if not self._is_container(chunk):  # else it is flagged as one
                    why = f"part of {container.id}, which cannot be restored"
                    self._flag(chunk, why, quiet=True)
            return
        told = {"restored": True, "summary": container.text, "chunks": len(chunks)}
        counts = {"restored": 1, "chunks": len(chunks)}
        self._add(container, text, told, counts, original_type(container, chunks))

    def _check_depth(self, container: Record, chunks: list[Record]) -> None:
        """The text of a container is a summary, and no part of any original. A cycle is no tree."""
        if container.parent is not None:
            raise NotRestorable(f"it is a container, and a chunk of {container.parent}")
        for chunk in chunks:
            if self._is_container(chunk):
                raise NotRestorable(f"its chunk {chunk.id} is a container itself")

    def _flag(self, record: Record, why: str, *, quiet: bool = False) -> None:
        if not quiet:
            self._problems.add(Problem(self._path, record.line, f"memory {record.id}: {why}"))
        self._add(record, record.text, {"restored": False, "why": why}, {"flagged": 1})

    def _add(
        self,
        record: Record,
        text: str,
        told: Mapping[str, Any],
        counts: Mapping[str, int],
        type_name: str | None = None,
    ) -> None:
        """``counts``: how its records count, once they are in the store."""

        def outcome(became: Outcome) -> None:
            if became == "there":
                self._counts.update(counts)
            else:
                self._counts[became] += sum(counts.values())

        try:
            memory = memory_from(record, text, told, type_name)
        except Malformed as error:
            self._problems.add(Problem(self._path, record.line, f"memory {record.id}: {error}"))
            outcome("refused")
            return
        memory.outcome = outcome
        self._loader.add(memory)


def _memories(value: Any) -> Iterator[Any]:
    """The records that one value of a file holds."""
    if isinstance(value, dict) and "id" not in value:
        for name in ANSWERS:
            if isinstance(value.get(name), list):
                yield from value[name]
                return
    yield value
