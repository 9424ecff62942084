"""Whole sessions as lines of JSON, one a turn, which ``import`` reads back equal.

A line holds what a turn holds (see ``turn_json``), hidden turns included. Of an erased or
unreadable turn only its place and header are left, and its line says so. A fork is written as it
reads, its inherited turns too: each session stands by itself. What reflection has consolidated is a
matter of the store, not of the conversation, and is left out.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import msgspec

from neverforget.runtime.turn_json import turn_line
from neverforget.storage.errors import InvalidArgument

if TYPE_CHECKING:
    from neverforget.runtime.store import Store
    from neverforget.runtime.values import SessionInfo

PAGE_TURNS = 500
PAGE_SESSIONS = 500


class ExportReport(msgspec.Struct, frozen=True):
    """``contentless``: turns among ``turns`` that were erased or are unreadable."""

    sessions: int
    turns: int
    contentless: int
    bytes: int


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
