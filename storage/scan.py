"""Walking the records of one segment, checking everything. Pure: bytes in, places out.

What is not a valid record is a *gap*; behind it the walk resynchronises on the next valid header on
an 8-byte boundary. The seed of the header CRC makes that safe: a body that holds the bytes of a
record is not a record where it stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

import numpy as np
from crc32c import crc32c

from neverforget.storage.errors import UnsupportedFormat
from neverforget.storage.format import (
    ALIGNMENT,
    BODY_BYTES_MAX,
    DURABLE_UNKNOWN,
    HEADER,
    HEADER_BYTES,
    HEADER_VERSION,
    MAGIC,
    stride,
)
from neverforget.storage.head_array import HEAD_DTYPE

_U64 = Struct("<Q")
_PADDING = [bytes(n) for n in range(8)]
_CHUNK_BYTES = 1 << 20
_PAUSE_RECORDS = 256


@dataclass(slots=True)
class Scan:
    """Places are offsets in the segment. ``data_end``: end of the last valid record (or where the
    scan began).

    ``garbage_end``: end of the last byte that is not zero, at least data_end; between the two lies
    no valid record."""

    offsets: list[int] = field(default_factory=list)
    bad_bodies: list[int] = field(default_factory=list)
    bad_padding: list[int] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    data_end: int = 0
    garbage_end: int = 0


def scan(
    view: memoryview,
    *,
    base: int,
    start: int,
    size: int,
    seed: int,
    pause: Callable[[], object] | None = None,
) -> Scan:
    """Walk ``view`` (a segment from its first byte) from offset ``start``. ``size``: what the
    segment should hold, of which a damaged file may show less. ``pause`` is called now and then,
    for a walk beside a busy thread.

    Raises UnsupportedFormat for a sound record of a newer version.
    """
    found = Scan(data_end=start, garbage_end=start)
    candidates: _Candidates | None = None
    at = start
    while True:
        at = _run(view, base, at, size, seed, found, pause)
        found.data_end = max(found.data_end, at)
        if candidates is None:
            found.garbage_end = _end_of_bytes(view, at)
            if found.garbage_end <= at:
                break
            candidates = _Candidates(view, at)
        following = candidates.next_header(at + ALIGNMENT, base, size, seed)
        if following is None:
            break
        found.gaps.append((at, following))
        at = following
    found.garbage_end = max(found.garbage_end, found.data_end)
    if found.gaps and found.gaps[-1][1] > found.data_end:
        raise AssertionError("a gap ends at a record")
    return found


def _run(
    view: memoryview,
    base: int,
    at: int,
    size: int,
    seed: int,
    found: Scan,
    pause: Callable[[], object] | None,
) -> int:
    """Valid records from ``at`` on, one after the other; the offset behind the last."""
    unpack, pack, crc = HEADER.unpack_from, _U64.pack, crc32c
    add, last = found.offsets.append, len(view) - HEADER_BYTES
    until_pause = _PAUSE_RECORDS if pause else -1
    while at <= last:
        header = unpack(view, at)
        if header[0] != MAGIC or crc(view[at : at + 60], crc(pack(base + at), seed)) != header[15]:
            break
        if header[4] != HEADER_VERSION:
            raise newer_record(base + at, header[4])
        length: int = header[7]
        body_at = at + HEADER_BYTES
        end = body_at + ((length + 7) & ~7)
        if length > BODY_BYTES_MAX or end > size:  # as _fits says, without the call
            break
        if crc(view[body_at : body_at + length]) != header[13] or body_at + length > len(view):
            found.bad_bodies.append(at)
        elif length & 7 and view[body_at + length : end] != _PADDING[-length & 7]:
            found.bad_padding.append(at)
        add(at)
        at = end
        until_pause -= 1
        if until_pause == 0 and pause is not None:
            pause()
            until_pause = _PAUSE_RECORDS
    return at


def newer_record(position: int, version: int) -> UnsupportedFormat:
    return UnsupportedFormat(
        f"the record at position {position} is of version {version}; this neverforget reads "
        f"{HEADER_VERSION}: install a newer one"
    )


def _fits(at: int, body_length: int, size: int) -> bool:
    return body_length <= BODY_BYTES_MAX and at + stride(body_length) <= size


class _Candidates:
    """Where the magic stands on an 8-byte boundary: the places to look at when resynchronising."""

    def __init__(self, view: memoryview, start: int) -> None:
        self._view = view
        words = np.frombuffer(view[start : start + ((len(view) - start) & ~7)], dtype="<u4")[::2]
        self._offsets = np.flatnonzero(words == MAGIC) * ALIGNMENT + start

    def next_header(self, at: int, base: int, size: int, seed: int) -> int | None:
        view = self._view
        first = int(np.searchsorted(self._offsets, at))
        for index in range(first, len(self._offsets)):
            candidate = int(self._offsets[index])
            if candidate + HEADER_BYTES > len(view):
                return None
            header = HEADER.unpack_from(view, candidate)
            crc = crc32c(
                view[candidate : candidate + 60], crc32c(_U64.pack(base + candidate), seed)
            )
            if crc == header[15] and _fits(candidate, header[7], size):
                return candidate
        return None


def _end_of_bytes(view: memoryview, start: int) -> int:
    """Where the last byte that is not zero ends, or ``start``."""
    stop = len(view)
    while stop > start:
        begin = max(start, stop - _CHUNK_BYTES)
        chunk = np.frombuffer(view[begin:stop], dtype=np.uint8)
        if chunk.any():
            return begin + int(np.flatnonzero(chunk)[-1]) + 1
        stop = begin
    return start


def gather_heads(view: memoryview, offsets: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """The headers at ``offsets`` (multiples of 8) as one structured array, copied."""
    if len(offsets) == 0:
        return np.empty(0, dtype=HEAD_DTYPE)
    words = np.frombuffer(view[: len(view) & ~7], dtype="<u8")
    rows = np.asarray(offsets, dtype=np.int64)[:, None] // 8 + np.arange(8)
    heads: np.ndarray[Any, np.dtype[Any]] = words[rows].reshape(-1).view(HEAD_DTYPE)
    return heads


def claims(
    heads: np.ndarray[Any, np.dtype[Any]], positions: Any
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """How far each record says that the log was durable when it was written; 0 where it does not
    know."""
    back = heads["durable_back"].astype(np.int64)
    made: np.ndarray[Any, np.dtype[np.int64]] = positions.astype(np.int64) - back * ALIGNMENT
    made[back == DURABLE_UNKNOWN] = 0
    return made
