"""The side file of a segment, ``{base:016x}.heads``: its headers and ids, so that opening reads no
bodies.

Derived from the segment and rebuilt from it whenever it is missing or bad. Written after everything
below ``stop`` was synced: its existence proves that. Records behind ``stop`` (of a log closed in
mid-segment) are scanned. Beside the headers it keeps what a scan found wrong, so that a later
opening still knows: gaps, and records whose body fails its CRC."""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np
from crc32c import crc32c

from neverforget.storage.atomic_file import write_atomic
from neverforget.storage.errors import Corrupt
from neverforget.storage.filesystem import File, FileSystem
from neverforget.storage.format import HEADER_VERSION
from neverforget.storage.head_array import HEAD_DTYPE
from neverforget.storage.scan import newer_record

Array = np.ndarray[Any, np.dtype[Any]]

SIDE_MAGIC = 0x4448464E  # "NFHD" in the file
SIDE_VERSION = 1
SIDE_SUFFIX = ".heads"
SIDE_HEADER_BYTES = 64
ID_BYTES = 12

# magic version | log_id | base | size | stop | numbers of heads, ids, gaps | CRC32C of what follows
# the header | 4 zero bytes | CRC32C of the first 60
_HEADER = Struct("<IIQQQQIIII4xI")
assert _HEADER.size == SIDE_HEADER_BYTES

_GAP_DTYPE = np.dtype([("start", "<u8"), ("stop", "<u8")])
_ID = Struct("<QI")
_NOTHING: Array = np.empty(0)


def side_path(directory: Path, base: int) -> Path:
    return directory / f"{base:016x}{SIDE_SUFFIX}"


class SideFile:
    """A loaded side file: columns that are views of its memory map, good until ``close``."""

    def __init__(self, file: File, view: memoryview, log_id: int) -> None:
        path = self.path = file.path
        if len(view) < SIDE_HEADER_BYTES or _crc(view[:60]) != bytes(view[60:64]):
            raise Corrupt(f"the header of {path} fails its CRC", file=str(path))
        magic, version, its_log, base, size, stop, count, id_count, gap_count, crc, _ = (
            _HEADER.unpack_from(view)
        )
        if magic != SIDE_MAGIC or version != SIDE_VERSION or its_log != log_id:
            raise Corrupt(f"{path} is no side file of this log and version", file=str(path))
        if crc32c(view[SIDE_HEADER_BYTES:]) != crc:
            raise Corrupt(f"{path} fails its CRC", file=str(path))
        self.base: int = base
        self.size: int = size
        self.stop: int = stop
        columns = _Columns(view)
        self.heads: Array = columns.take(HEAD_DTYPE, count)
        self.positions: Array = columns.take(np.dtype("<u8"), count)
        self._ids: Array = columns.take(np.dtype("<u8"), id_count)
        self._seqs: Array = columns.take(np.dtype("<u4"), id_count)
        self._rows: Array = columns.take(np.dtype("<u4"), id_count)
        self.body_ok: Array = columns.take(np.dtype("?"), count)
        newer = np.flatnonzero(self.heads["version"] > HEADER_VERSION)
        if newer.size:  # the log would be written to, and nobody reads the records themselves
            raise newer_record(int(self.positions[newer[0]]), int(self.heads["version"][newer[0]]))
        gaps: Array = columns.take(_GAP_DTYPE, gap_count)
        self.gaps: list[tuple[int, int]] = [(int(g["start"]), int(g["stop"])) for g in gaps]

    def find(self, id12: bytes) -> list[int]:
        """Positions, ascending, of the records whose header bytes 40..52 are ``id12``. O(log n)."""
        producer_id, producer_seq = _ID.unpack(id12)
        wanted = np.uint64(producer_id)
        first = int(np.searchsorted(self._ids, wanted, "left"))
        if first == len(self._ids) or self._ids[first] != wanted:
            return []
        last = int(np.searchsorted(self._ids, wanted, "right"))
        seqs = self._seqs[first:last]
        seq = np.uint32(producer_seq)
        low = first + int(np.searchsorted(seqs, seq, "left"))
        high = first + int(np.searchsorted(seqs, seq, "right"))
        return sorted(int(self.positions[row]) for row in self._rows[low:high])

    def close(self) -> None:
        """Let go of the map; it goes with the last column that somebody still holds."""
        self.heads = self.positions = self._ids = self._seqs = self._rows = self.body_ok = _NOTHING


class _Columns:
    """Takes one column after the other; each begins on an 8-byte boundary."""

    def __init__(self, view: memoryview) -> None:
        self._view, self._at = view, SIDE_HEADER_BYTES

    def take(self, dtype: np.dtype[Any], count: int) -> Array:
        end = self._at + dtype.itemsize * count
        if end > len(self._view):
            raise Corrupt("a side file is shorter than its header says")
        column: Array = np.frombuffer(self._view, dtype=dtype, count=count, offset=self._at)
        self._at = (end + 7) & ~7
        return column


def encode_side_file(
    *,
    log_id: int,
    base: int,
    size: int,
    stop: int,
    heads: Array,
    positions: Array,
    body_ok: Array,
    gaps: list[tuple[int, int]],
) -> bytes:
    """The bytes of a side file over [base, stop)."""
    ids, seqs = heads["producer_id"], heads["producer_seq"]
    rows = np.flatnonzero(ids).astype("<u4")
    rows = rows[np.lexsort((rows, seqs[rows], ids[rows]))]
    columns: list[Array] = [
        heads,
        positions.astype("<u8"),
        ids[rows],
        seqs[rows],
        rows,
        body_ok.astype("?"),
        np.array(gaps, dtype=_GAP_DTYPE),
    ]
    payload = b"".join(c.tobytes() + bytes(-c.nbytes & 7) for c in columns)
    header = _HEADER.pack(
        SIDE_MAGIC,
        SIDE_VERSION,
        log_id,
        base,
        size,
        stop,
        len(heads),
        len(rows),
        len(gaps),
        crc32c(payload),
        0,
    )
    return header[:60] + _crc(header[:60]) + payload


def _crc(data: bytes | memoryview) -> bytes:
    return crc32c(data).to_bytes(4, "little")


def write_side_file(fs: FileSystem, path: Path, data: bytes) -> None:
    """Replace the side file by these bytes; it survives power loss when this returns."""
    write_atomic(fs, path, data)


def load_side_file(fs: FileSystem, path: Path, log_id: int) -> SideFile:
    """Open, map and check. Raises Corrupt (rebuild it), UnsupportedFormat (it describes records of
    a newer version) or OSError."""
    file = fs.open(path, read_only=True)
    try:
        if file.size() < SIDE_HEADER_BYTES:
            raise Corrupt(f"{path} is cut short", file=str(path))
        return SideFile(file, file.map(), log_id)
    finally:
        # The columns keep the map, which needs no descriptor of the file's own.
        file.close()
