"""Where the bytes of an import come from: a file, compressed or not, a folder of a data export, or
a pipe."""

from __future__ import annotations

import gzip
import io
import os
import stat
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from neverforget.storage.errors import InvalidArgument, NotFound

GZIP_MAGIC = b"\x1f\x8b"
ZIP_MAGIC = b"PK\x03\x04"
STDIN = "-"


@dataclass(frozen=True)
class Source:
    """One stream of JSON. ``stem`` names the session of messages that name none."""

    name: str
    stem: str
    stream: io.BufferedReader
    lines: bool  # the name says that every line is a value of its own


@contextmanager
def open_sources(path: str | os.PathLike[str]) -> Iterator[tuple[list[Source], int | None]]:
    """The streams behind ``path``, and how many bytes they hold in all (None: nobody knows).

    A zip archive or a folder stands for the ``conversations*.json`` in it, which is what ChatGPT
    sends.
    """
    with ExitStack() as stack:
        if os.fspath(path) == STDIN:
            stream = cast(io.BufferedReader, sys.stdin.buffer)
            yield [Source("standard input", "stdin", stream, lines=False)], None
            return
        place = Path(path)
        if not place.exists():
            raise NotFound(f"there is no file {place}; check the path")
        files = _in_folder(place) if place.is_dir() else [place]
        sources: list[Source] = []
        total: int | None = 0
        for file in files:
            try:
                handle = stack.enter_context(open(file, "rb"))
            except OSError as error:
                raise InvalidArgument(f"{file} cannot be read: {error.strerror}") from error
            found, size = _open(file, handle, stack)
            sources += found
            total = None if total is None or size is None else total + size
        yield sources, total


def _open(file: Path, handle: BinaryIO, stack: ExitStack) -> tuple[list[Source], int | None]:
    stream = cast(io.BufferedReader, handle)
    status = os.fstat(handle.fileno())
    if not stat.S_ISREG(status.st_mode):
        return [_source(file.name, str(file), stream)], None
    magic = stream.peek(4)[:4]
    if magic == ZIP_MAGIC:
        archive = stack.enter_context(zipfile.ZipFile(handle))
        members = [m for m in archive.infolist() if _is_conversations(Path(m.filename).name)]
        if not members:
            raise InvalidArgument(
                f"{file} holds no conversations.json; unpack it and name the file"
            )
        opened = [
            Source(
                f"{file}:{member.filename}",
                file.stem,
                io.BufferedReader(cast(io.RawIOBase, stack.enter_context(archive.open(member)))),
                lines=False,
            )
            for member in members
        ]
        return opened, sum(member.file_size for member in members)
    if magic[:2] == GZIP_MAGIC:
        unpacked = stack.enter_context(gzip.GzipFile(fileobj=handle))
        return [_source(file.stem, str(file), cast(io.BufferedReader, unpacked))], None
    return [_source(file.name, str(file), stream)], status.st_size


def _source(name: str, shown: str, stream: io.BufferedReader) -> Source:
    path = Path(name)
    return Source(
        shown, path.stem or "import", stream, path.suffix.lower() in (".jsonl", ".ndjson")
    )


def _in_folder(folder: Path) -> list[Path]:
    found = sorted(p for p in folder.iterdir() if p.is_file() and _is_conversations(p.name))
    if not found:
        raise InvalidArgument(f"{folder} is a folder without conversations.json; name a file")
    return found


def _is_conversations(name: str) -> bool:
    return name.startswith("conversations") and name.endswith(".json")
