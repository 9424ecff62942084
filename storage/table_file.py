"""The memory table as a file of a generation: opening replays only what the log holds behind it.

Columns as they are in memory, and the names that stand in them as codes. A sealed file, checked
whole before any of it is believed; and it belongs to one log, by its id and the digest of every
header below ``upto``. Where it is damaged, or the log another, the table is built from the log.
"""

from __future__ import annotations

import struct
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import numpy as np
from crc32c import crc32c

from neverforget.storage.content import decode_body, encode_body
from neverforget.storage.errors import Corrupt, NeverforgetError, UnsupportedFormat
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.longterm_results import TurnPoint
from neverforget.storage.longterm_snapshot import Snapshot
from neverforget.storage.manifest import read_manifest
from neverforget.storage.memory_table import COLUMNS, Array
from neverforget.storage.relation_table import RELATION_COLUMNS
from neverforget.storage.sealed_file import Seal, Sink, check_open_file, write_sealed

TABLE_MAGIC: Final = 0x4254464E  # "NFTB" in the file
TABLE_VERSION: Final = 2

# magic, version, log_id, upto, CRC of the headers, rows, relations, bytes of the names, 20 zeros
_HEADER: Final = struct.Struct("<IIQQIIIQ20x")
_PIECE_BYTES: Final = 1 << 22
_TYPES, _NAMESPACES, _AGENTS, _SPEAKERS, _TAGS, _KINDS, _TURNS = range(7)


def write_table(fs: FileSystem, path: Path, log_id: int, snapshot: Snapshot) -> Seal:
    """It survives power loss when this returns; OutOfSpace, OSError."""
    rows, relations = len(snapshot.memories["high"]), len(snapshot.relations["source"])
    names = encode_body(
        {
            _TYPES: snapshot.types,
            _NAMESPACES: [list(each) for each in snapshot.namespaces],
            _AGENTS: snapshot.agents,
            _SPEAKERS: snapshot.speakers,
            _TAGS: [list(each) for each in snapshot.tags],
            _KINDS: snapshot.kinds,
            _TURNS: [[list(t.namespace), t.session, t.first, t.last] for t in snapshot.turns],
        }
    )
    header = _HEADER.pack(
        TABLE_MAGIC, TABLE_VERSION, log_id, snapshot.upto, snapshot.heads_crc, rows, relations,
        len(names),
    )  # fmt: skip

    def produce(sink: Sink) -> None:
        for piece in (header, names):
            sink.write(piece + bytes(-len(piece) % 8))
        for kinds, columns in (
            (COLUMNS, snapshot.memories),
            (RELATION_COLUMNS, snapshot.relations),
        ):
            for name, kind in kinds.items():
                data = np.ascontiguousarray(columns[name], np.dtype(kind).newbyteorder("<"))
                sink.write(data.view(np.uint8).data)
                sink.write(bytes(-data.nbytes % 8))

    return write_sealed(fs, path, produce)


def read_table(fs: FileSystem, path: Path, seal: Seal, log_id: int) -> Snapshot:
    """Corrupt when it is not the sealed file, or another log's; UnsupportedFormat."""
    data = _read_whole(fs, path, seal)
    try:
        magic, version, of_log, upto, heads_crc, rows, relations, length = _HEADER.unpack_from(data)
        if magic == TABLE_MAGIC and version > TABLE_VERSION:
            raise UnsupportedFormat(
                f"{path} has version {version}, this program knows {TABLE_VERSION}"
            )
        if (magic, version, of_log) != (TABLE_MAGIC, TABLE_VERSION, log_id):
            raise Corrupt(f"{path} is no table of this log; it is made anew", file=str(path))
        names = decode_body(bytes(memoryview(data)[_HEADER.size : _HEADER.size + length]))
        at = _HEADER.size + length + -length % 8
        memories, at = _columns(data, at, COLUMNS, rows)
        related, at = _columns(data, at, RELATION_COLUMNS, relations)
        return Snapshot(
            upto,
            heads_crc,
            memories,
            names[_TYPES],
            [tuple(each) for each in names[_NAMESPACES]],
            names[_AGENTS],
            names[_SPEAKERS],
            [tuple(each) for each in names[_TAGS]],
            related,
            names[_KINDS],
            [TurnPoint(tuple(n), session, a, b) for n, session, a, b in names[_TURNS]],
        )
    except (struct.error, KeyError, ValueError, TypeError) as error:
        raise Corrupt(f"{path} is no table: {error!r}; it is made anew", file=str(path)) from error


def is_of_older_version(fs: FileSystem, path: Path) -> bool:
    """Of one that is known to be a table. Such a one is of no use. OSError."""
    with closing(fs.open(path, read_only=True)) as file:
        version: int = struct.unpack_from("<I", file.pread(8, 0), 4)[0]
    return version < TABLE_VERSION


def stored_table(fs: FileSystem, derived: Path, log_id: int) -> Snapshot | None:
    """The table of the generation in ``derived``. None where there is none that can be used: that
    is reported when the generation itself is opened.
    """
    try:
        parts = read_manifest(fs, derived, log_id).of("table")
        if parts and parts[-1].seal is not None:
            return read_table(fs, derived / parts[-1].name, parts[-1].seal, log_id)
    except (NeverforgetError, OSError):
        return None
    return None


def _read_whole(fs: FileSystem, path: Path, seal: Seal) -> bytearray:
    try:
        file = fs.open(path, read_only=True)
    except FileNotFoundError as error:
        raise Corrupt(f"{path} is missing; it is made anew", file=str(path)) from error
    with closing(file):
        check_open_file(file, seal, "size")
        data = bytearray(seal.size)
        at = crc = 0
        while at < seal.size:
            piece = file.pread(_PIECE_BYTES, at)
            if not piece:
                break
            data[at : at + len(piece)] = piece
            crc, at = crc32c(piece, crc), at + len(piece)
    if at != seal.size or crc != seal.crc32c:
        raise Corrupt(
            f"{path} is not what was written: its digest differs; it is made anew",
            file=str(path),
            offset=0,
            bytes=seal.size,
        )
    return data


def _columns(
    data: bytearray, at: int, kinds: dict[str, type[np.generic]], count: int
) -> tuple[dict[str, Array], int]:
    columns: dict[str, Any] = {}
    for name, kind in kinds.items():
        column = np.frombuffer(data, np.dtype(kind).newbyteorder("<"), count, at)
        columns[name] = column
        at += column.nbytes + -column.nbytes % 8
    return columns, at
