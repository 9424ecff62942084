"""Bringing back what another system replaced by summaries: its containers and chunks into a store.

The whole file is in memory while it is read: chunks may stand anywhere in it. What is remembered
has the record's id as its key, so a second run changes nothing.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from neverforget.runtime.importers.chunked import (
    CHILDREN,
    NotRestorable,
    Record,
    records_of,
    restored,
)
from neverforget.runtime.importers.elements import read_elements
from neverforget.runtime.importers.loading import Progress
from neverforget.runtime.importers.memories import memory_of
from neverforget.runtime.importers.memory_loading import MemoryLoader
from neverforget.runtime.importers.report import PROBLEMS_MAX
from neverforget.runtime.importers.source_turn import Malformed, Problem, SourceMemory
from neverforget.runtime.importers.sources import open_sources

if TYPE_CHECKING:
    from neverforget.runtime.store import Store

REVIEW = "needs-review"  # the tag of what could not be restored
MIGRATION = "migration"  # in the metadata: what became of it
ORIGIN = "chunked"
ANSWERS = ("memories", "results")
# Endings that are reserved here, or say only that something is a container.
_RENAMED = {"-chunk": "-part", "-summary": "-digest"}
_CONTAINERS = ("container", "chunked", "summary", "summarized")


class MigrationReport(msgspec.Struct, frozen=True):
    """``records`` read = ``restored`` containers + their ``chunks`` + ``flagged`` (containers that
    cannot be restored, as such that are chunks of another or hold such a one, their chunks, and
    chunks whose container is not here) + ``plain`` ones.
    Of the memories that came of it ``remembered`` are new and ``existing`` were there;
    ``problems`` holds the first 1,000. With ``dry_run`` nothing was written.
    """

    path: str
    records: int
    restored: int
    chunks: int
    flagged: int
    plain: int
    remembered: int
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
        self._problems: list[Problem] = []
        self._problem_count = 0
        self._loader = MemoryLoader(store, path, namespace, dry_run, self._problem)
        self._dry_run = dry_run or store is None
        self._records: dict[str, Record] = {}
        self._chunks: defaultdict[str, list[Record]] = defaultdict(list)
        self._read = self._restored = self._used = self._flagged = self._plain = 0

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
            restored=self._restored,
            chunks=self._used,
            flagged=self._flagged,
            plain=self._plain,
            remembered=self._loader.remembered + self._loader.revised,
            existing=self._loader.existing,
            problem_count=self._problem_count,
            problems=tuple(self._problems),
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
                        self._problem(element)
                        continue
                    read = before + element.offset
                    for value in _memories(element.value):
                        try:
                            for record in records_of(value, element.place.line):
                                self._keep(record)
                        except Malformed as error:
                            self._problem(element.place.problem(str(error)))
                    if progress is not None:
                        progress(read, total)

    def _keep(self, record: Record) -> None:
        if record.id in self._records:
            self._problem(Problem(self._path, record.line, f"memory {record.id} is there twice"))
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
            self._plain += 1
            self._add(record, record.text, {})
        elif record.parent not in self._records:
            self._flag(record, f"its container {record.parent} is not in this file")

    def _is_container(self, record: Record) -> bool:
        return record.id in self._chunks or bool(record.children)

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
        self._restored += 1
        self._used += len(chunks)
        told = {"restored": True, "summary": container.text, "chunks": len(chunks)}
        self._add(container, text, told, original_type(container, chunks))

    def _check_depth(self, container: Record, chunks: list[Record]) -> None:
        """The text of a container is a summary, and no part of any original. A cycle is no tree."""
        if container.parent is not None:
            raise NotRestorable(f"it is a container, and a chunk of {container.parent}")
        for chunk in chunks:
            if self._is_container(chunk):
                raise NotRestorable(f"its chunk {chunk.id} is a container itself")

    def _flag(self, record: Record, why: str, *, quiet: bool = False) -> None:
        self._flagged += 1
        if not quiet:
            self._problem(Problem(self._path, record.line, f"memory {record.id}: {why}"))
        self._add(record, record.text, {"restored": False, "why": why})

    def _add(
        self, record: Record, text: str, told: Mapping[str, Any], type_name: str | None = None
    ) -> None:
        try:
            self._loader.add(memory_from(record, text, told, type_name))
        except Malformed as error:
            self._problem(Problem(self._path, record.line, f"memory {record.id}: {error}"))

    def _problem(self, problem: Problem) -> None:
        self._problem_count += 1
        if len(self._problems) < PROBLEMS_MAX:
            self._problems.append(problem)


def memory_from(
    record: Record, text: str, told: Mapping[str, Any], type_name: str | None = None
) -> SourceMemory:
    """What is remembered of a record, with all else that it says in the metadata. Malformed."""
    line = {n: v for n, v in record.fields.items() if n not in ("id", "content", "memory")}
    for name in CHILDREN:
        if any(isinstance(child, dict) for child in line.get(name) or ()):
            del line[name]
    line |= {"text": text, "key": record.id}
    agent, user = line.pop("agent_id", None), line.get("user_id")
    if agent is not None:
        line.setdefault("agent", agent)
    if user is not None:
        line.setdefault("namespace", ["user", str(user)])
    given = type_name if type_name is not None else line.get("type")
    if isinstance(given, str):
        line["type"] = _allowed(given)
    if told:
        line["metadata"] = {**(line.get("metadata") or {}), MIGRATION: dict(told)}
        if not told["restored"]:
            line["tags"] = [*(line.get("tags") or []), REVIEW]
    # What an export of ours means by these is not meant here.
    for name in ("kind", "status", "version", "versions", "relations"):
        if name in line:
            line["metadata"] = {**(line.get("metadata") or {}), name: line.pop(name)}
    made = memory_of(line, record.line)
    made.origin = ORIGIN
    return made


def original_type(container: Record, chunks: list[Record]) -> str | None:
    """What the original was, as far as the types of what is left of it say; None: nothing."""
    name = str(container.fields.get("type") or "")
    for word in _CONTAINERS:
        name = "" if name == word else name.removesuffix(f"-{word}").removesuffix(f"_{word}")
    if name:
        return name
    said = {str(chunk.fields.get("type") or "").removesuffix("-chunk") for chunk in chunks}
    said -= {"", "chunk"}
    return said.pop() if len(said) == 1 else None


def _allowed(name: str) -> str:
    for ending, instead in _RENAMED.items():
        if name.endswith(ending):
            return name.removesuffix(ending) + instead
    return name


def _memories(value: Any) -> Iterator[Any]:
    """The records that one value of a file holds."""
    if isinstance(value, dict) and "id" not in value:
        for name in ANSWERS:
            if isinstance(value.get(name), list):
                yield from value[name]
                return
    yield value
