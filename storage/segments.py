"""The open segments of one log, in order: finding the one that holds a position, and reading from
it.

Every read checks both CRCs of the record; nothing that fails one is ever returned.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from neverforget.storage.errors import Corrupt
from neverforget.storage.format import HEADER, HEADER_BYTES, MAGIC
from neverforget.storage.record import header_seed
from neverforget.storage.segment import PAGE_BYTES, Segment

_PADDING = [bytes(n) for n in range(8)]

HeaderFields = tuple[int, ...]


def check_header(view: memoryview, offset: int, position: int, seed: int) -> HeaderFields | None:
    """The fields of the header at ``offset`` of ``view``, which is the record at ``position``; None
    if it is not."""
    if offset + HEADER_BYTES > len(view):
        return None
    header = HEADER.unpack_from(view, offset)
    crc = crc32c(view[offset : offset + 60], header_seed(seed, position))
    return header if header[0] == MAGIC and crc == header[15] else None


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """``sealed``: nothing is appended to it any more."""

    base: int
    size: int
    path: Path
    sealed: bool


class Segments:
    """``all`` in log order; the last one is the active one."""

    def __init__(self, directory: Path, seed: int, segments: list[Segment]) -> None:
        self._directory = directory
        self._seed = seed
        self.all = segments
        self.bases = [s.base for s in segments]

    @property
    def active(self) -> Segment:
        return self.all[-1]

    def add(self, segment: Segment) -> None:
        assert segment.base == self.active.end, "segments follow one another without a gap"
        self.all.append(segment)
        self.bases.append(segment.base)

    def holding(self, position: int) -> Segment:
        at = bisect_right(self.bases, position) - 1
        if at < 0 or position >= self.all[at].end:
            raise Corrupt(
                f"position {position} is in no segment of {self._directory}", offset=position
            )
        return self.all[at]

    def read(self, position: int) -> memoryview:
        """The whole record at ``position``, both CRCs checked. Raises Corrupt."""
        segment = self.holding(position)
        offset = position - segment.base
        if segment.view is not None:
            view, at = segment.view, offset
        else:
            # To the end of the page, most likely all of it; a bad page behind it is not asked for.
            to_page_end = PAGE_BYTES - offset % PAGE_BYTES
            view, at = segment.slice(offset, max(HEADER_BYTES, to_page_end)), 0
        header = check_header(view, at, position, self._seed)
        if header is None:
            raise self._corrupt(segment, offset, HEADER_BYTES, "header")
        length: int = header[7]
        size = HEADER_BYTES + ((length + 7) & ~7)
        record = view[at : at + size]
        if len(record) < size:
            record = segment.slice(offset, size)
        if len(record) < size or crc32c(record[HEADER_BYTES : HEADER_BYTES + length]) != header[13]:
            raise self._corrupt(segment, offset, size, "body")
        if length & 7 and record[HEADER_BYTES + length :] != _PADDING[-length & 7]:
            # No CRC covers the padding: rot in it costs nothing, and is not handed on.
            return memoryview(bytes(record[: HEADER_BYTES + length]) + _PADDING[-length & 7])
        return record

    def header(self, position: int) -> HeaderFields:
        """The fields of the header at ``position``, its CRC checked. Raises Corrupt."""
        segment = self.holding(position)
        offset = position - segment.base
        view = segment.slice(offset, HEADER_BYTES)
        header = check_header(view, 0, position, self._seed)
        if header is None:
            raise self._corrupt(segment, offset, HEADER_BYTES, "header")
        return header

    def _corrupt(self, segment: Segment, offset: int, n_bytes: int, what: str) -> Corrupt:
        return Corrupt(
            f"the {what} of the record at byte {offset} fails its CRC in {segment.path}; "
            "what else is there stays readable: run verify, and restore the file from a copy",
            file=str(segment.path),
            offset=offset,
            bytes=n_bytes,
        )

    def describe(self) -> list[SegmentInfo]:
        segments = list(self.all)
        return [SegmentInfo(s.base, s.size, s.path, s is not segments[-1]) for s in segments]

    def close(self) -> None:
        for segment in self.all:
            segment.close()
