"""Whole sessions and the memories as lines of JSON, one each, which ``import`` reads back equal.

A line of a turn holds what a turn holds (see ``turn_json``), hidden turns included. Of an erased or
unreadable turn only its place and header are left, and its line says so. A fork is written as it
reads, its inherited turns too: each session stands by itself. What reflection has consolidated is a
matter of the store, not of the conversation, and is left out.

A line of a memory (see ``memory_json``) holds it with the versions before and the relations that
begin at it. Active and archived ones are written; what was forgotten is not, and chunks and
summaries are made again where the memory goes.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, cast

import msgspec

from neverforget.runtime.memory_json import memory_line
from neverforget.runtime.turn_json import turn_line
from neverforget.storage.errors import InvalidArgument, NotFound

if TYPE_CHECKING:
    from neverforget.runtime.memory_values import Memory
    from neverforget.runtime.store import Store
    from neverforget.runtime.values import SessionInfo

PAGE_TURNS = 500
PAGE_SESSIONS = 500
PAGE_MEMORIES = 500
STATUSES: tuple[Literal["active", "archived"], ...] = ("active", "archived")


class ExportReport(msgspec.Struct, frozen=True):
    """``contentless``: turns among ``turns`` that were erased or are unreadable;
    ``memories_unreadable``: memories that were left out because they are damaged on disk."""

    sessions: int = 0
    turns: int = 0
    contentless: int = 0
    bytes: int = 0
    memories: int = 0
    memories_unreadable: int = 0


def sessions_to_export(
    store: Store, *, namespace: tuple[str, ...] | None = None, prefix: str | None = None
) -> Iterator[SessionInfo]:
    """The sessions at or below ``namespace`` whose name begins with ``prefix``, in order of their
    names."""
    after: str | None = None
    while True:
        page = store.sessions(namespace=namespace, prefix=prefix, after=after, limit=PAGE_SESSIONS)
        yield from page
        if not page.has_more:
            return
        after = page.next


def export_sessions(
    store: Store,
    sessions: Iterator[SessionInfo],
    write: Callable[[bytes], object],
    *,
    progress: Callable[[int], None] | None = None,
) -> ExportReport:
    """Write every turn of ``sessions``; ``progress(turns_so_far)`` is called page by page.

    A session is exported as far as it went when its turn came: what is appended meanwhile may be
    left out.
    """
    count = turns = contentless = size = 0
    for info in sessions:
        count += 1
        chat = store.session(info.session, namespace=info.namespace)
        page = chat.page(limit=PAGE_TURNS, include_hidden=True)
        while True:
            for turn in page:
                line = turn_line(turn)
                write(line)
                size += len(line)
                contentless += turn.state in ("erased", "unreadable")
            turns += len(page)
            if progress is not None:
                progress(turns)
            if not page.has_more:
                break
            page = chat.page(after=page.next, limit=PAGE_TURNS, include_hidden=True)
    return ExportReport(count, turns, contentless, size)


def export_memories(
    store: Store,
    write: Callable[[bytes], object],
    *,
    namespace: tuple[str, ...] | None = None,
    progress: Callable[[int], None] | None = None,
) -> ExportReport:
    """Write every memory at or below ``namespace``, oldest first, archived ones after the active;
    ``progress(memories_so_far)`` is called page by page.
    """
    count = unreadable = size = 0
    for status in STATUSES:
        after: str | None = None
        while True:
            page = store.memories(
                namespace=namespace, status=status, after=after, limit=PAGE_MEMORIES
            )
            for memory in page:
                if memory.status == "unreadable":
                    unreadable += 1
                    continue
                line = _memory_line(store, memory)
                write(line)
                size += len(line)
                count += 1
            if progress is not None:
                progress(count)
            if not page.has_more:
                break
            after = page.next
    return ExportReport(bytes=size, memories=count, memories_unreadable=unreadable)


def _memory_line(store: Store, memory: Memory) -> bytes:
    try:
        versions = store.history(memory.id)[:-1] if memory.version > 1 else []
        relations = store.relations(memory.id, direction="out")
    except NotFound:  # forgotten since the page was read: what was read of it is written
        return memory_line(memory)
    return memory_line(memory, versions=versions, relations=relations)


@contextmanager
def export_file(path: Path) -> Iterator[Callable[[bytes], object]]:
    """A file that appears under its name only when all of it is written and synced. ``….gz`` is
    compressed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be written: {error.strerror}") from error
    try:
        with open(descriptor, "wb") as handle:
            if path.suffix == ".gz":
                with gzip.GzipFile(fileobj=handle, mode="wb", filename=path.stem) as packed:
                    yield cast(IO[bytes], packed).write
            else:
                yield handle.write
            handle.flush()
            os.fsync(descriptor)
        temporary.replace(path)
        _sync_directory(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _sync_directory(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
