"""``STATE`` of a text index: what its directory must hold, so that damage is noticed on opening.

tantivy's own files carry a CRC32 each, but nothing says which files there must be, nor that
``meta.json``, which names them, is whole. STATE does: engine and analysis version, the log position
up to which documents are in, and size and CRC32C of every file. Between commits nothing in the
directory changes. Around a commit STATE says "committing": whoever finds that starts at the
watermark before it (adding a document again replaces it), and trusts the CRCs in the files.
"""

from __future__ import annotations

import struct
import zlib
from contextlib import closing
from pathlib import Path
from typing import Final, Literal

import msgspec
from crc32c import crc32c

from neverforget.storage.atomic_file import (
    TEMPORARY_SUFFIX,
    read_whole,
    write_checked,
)
from neverforget.storage.directory_lock import LOCK_FILE
from neverforget.storage.errors import Corrupt, NotFound
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.text_document import CorpusSize
from neverforget.storage.versioned_file import read_versioned

STATE_FILE: Final = "STATE"
STATE_VERSION: Final = 1
META_FILE: Final = "meta.json"
TANTIVY_TEMPORARY: Final = ".tmp"  # how the names begin that a killed commit leaves behind

_PIECE_BYTES = 1 << 20
_SEGMENT_PARTS = ("fast", "fieldnorm", "idx", "pos", "store", "term")
_FOOTER_MAGIC = 1337
_FOOTER_END = struct.Struct("<II")  # length of the footer's JSON, magic


class FileSum(msgspec.Struct, frozen=True, array_like=True):
    size: int
    crc32c: int


class TextState(msgspec.Struct, frozen=True):
    """``incarnation`` tells this directory from every other, also from one built anew."""

    engine: str
    analysis: int
    incarnation: str
    watermark: int
    phase: Literal["committed", "committing"]
    size: CorpusSize
    files: dict[str, FileSum]
    version: int = STATE_VERSION


def write_state(fs: FileSystem, directory: Path, state: TextState) -> None:
    """Durable when it returns; raises OutOfSpace, OSError."""
    write_checked(fs, directory / STATE_FILE, msgspec.json.encode(state) + b"\n")


def read_state(fs: FileSystem, directory: Path) -> TextState:
    """NotFound, Corrupt, or UnsupportedFormat of a newer version."""
    path = directory / STATE_FILE
    return read_versioned(fs, path, TextState, STATE_VERSION, "is no state of a text index")


def sum_files(fs: FileSystem, directory: Path, known: dict[str, FileSum]) -> dict[str, FileSum]:
    """Size and CRC of every file of the index. tantivy never changes a segment's file, so those in
    ``known`` are not read again.
    """
    sums = {}
    for name in _index_files(fs, directory):
        changes = name.endswith(".json")
        sums[name] = known[name] if name in known and not changes else _sum(fs, directory / name)
    return sums


def check_names(fs: FileSystem, directory: Path, state: TextState) -> list[str]:
    """Of the files of the index. Corrupt unless they are all there."""
    expected = _named_by_meta(fs, directory) if state.phase == "committing" else state.files
    there = set(_index_files(fs, directory))
    for name in expected:
        if name not in there:
            path = directory / name
            raise Corrupt(f"{path} is missing; the index is rebuilt", file=str(path))
    return list(expected)


def check_files(fs: FileSystem, directory: Path, state: TextState) -> None:
    """Corrupt unless every byte of the index is as a commit left it."""
    expected_names = check_names(fs, directory, state)
    if state.phase == "committing":
        for name in expected_names:
            _check_footer(fs, directory / name)
        return
    for name, expected in state.files.items():
        path = directory / name
        if _sum(fs, path) != expected:
            raise Corrupt(
                f"{path} is not what was written; the index is rebuilt",
                file=str(path),
                offset=0,
                bytes=expected.size,
            )


def _index_files(fs: FileSystem, directory: Path) -> list[str]:
    return [
        name
        for name in fs.list_directory(directory)
        if name not in (STATE_FILE, LOCK_FILE)
        and not name.startswith(TANTIVY_TEMPORARY)
        and not name.endswith((".lock", TEMPORARY_SUFFIX))
    ]


def _named_by_meta(fs: FileSystem, directory: Path) -> list[str]:
    """The files of the segments that tantivy's last commit names. A killed commit may have left
    others, half written, which it will collect.
    """
    path = directory / META_FILE
    try:
        meta = msgspec.json.decode(read_whole(fs, path), type=_Meta)
    except (NotFound, msgspec.MsgspecError) as error:
        raise Corrupt(f"{path} cannot be read; the index is rebuilt", file=str(path)) from error
    names = []
    for segment in meta.segments:
        stem = segment.segment_id.replace("-", "")
        names += [f"{stem}.{part}" for part in _SEGMENT_PARTS]
        if segment.deletes is not None:
            names.append(f"{stem}.{segment.deletes.opstamp}.del")
    return names


def _sum(fs: FileSystem, path: Path) -> FileSum:
    with closing(fs.open(path, read_only=True)) as file:
        crc, at = 0, 0
        while piece := file.pread(_PIECE_BYTES, at):
            crc, at = crc32c(piece, crc), at + len(piece)
    return FileSum(at, crc)


def _check_footer(fs: FileSystem, path: Path) -> None:
    """tantivy's own: payload, JSON with the payload's CRC32, length of the JSON, magic."""
    with closing(fs.open(path, read_only=True)) as file:
        data = file.pread(file.size(), 0)
    try:
        length, magic = _FOOTER_END.unpack_from(data, len(data) - _FOOTER_END.size)
        stop = len(data) - _FOOTER_END.size - length
        footer = msgspec.json.decode(data[stop : stop + length], type=_Footer)
    except (struct.error, msgspec.MsgspecError) as error:
        raise Corrupt(f"{path} is cut short; the index is rebuilt", file=str(path)) from error
    if magic != _FOOTER_MAGIC or zlib.crc32(memoryview(data)[:stop]) != footer.crc:
        raise Corrupt(f"{path} fails its CRC; the index is rebuilt", file=str(path))


class _Footer(msgspec.Struct):
    crc: int


class _Deletes(msgspec.Struct):
    opstamp: int


class _Segment(msgspec.Struct):
    segment_id: str
    deletes: _Deletes | None


class _Meta(msgspec.Struct):
    segments: list[_Segment]
