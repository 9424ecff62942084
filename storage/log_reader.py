"""The reading half of a log: by position, by id, and everything for ``verify``.

Every read checks both CRCs; nothing that fails one is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from pathlib import Path

from neverforget.storage.check import verify_segment
from neverforget.storage.errors import Corrupt
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.record import Header, log_seed
from neverforget.storage.results import Finding
from neverforget.storage.segment import SEGMENT_HEADER_BYTES, Segment
from neverforget.storage.segments import SegmentInfo, Segments
from neverforget.storage.side_file import SideFile
from neverforget.storage.side_files import SideFiles
from neverforget.storage.staged import StagedBatches


class LogReader:
    """``durable <= written <= tail``, all positions where a record ends or a segment's data
    begin."""

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        log_id: int,
        segments: list[Segment],
        sides: SideFiles,
        tail: int,
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._log_id = log_id
        self._seed = log_seed(log_id)
        self._segments = Segments(directory, self._seed, segments)
        self._active = self._segments.active
        self._sides = sides
        self._staged = StagedBatches()
        self.tail = self.written = self.durable = tail

    def read(self, position: int) -> memoryview:
        """The whole record at ``position``, header to padding, both CRCs checked; staged ones too.

        The view stays good after ``close``; copy what must not change under an erasure. Raises
        Corrupt.
        """
        staged = self._staged  # once: the owner of the log may write them meanwhile
        if staged.holds(position):
            return staged.read(position, self._seed)[0]
        return self._segments.read(position)

    def header(self, position: int) -> Header:
        """The header at ``position``, its CRC checked; its body may be erased or unreadable. Where
        the segment's is damaged, the one that its side file has.

        Raises Corrupt.
        """
        staged = self._staged
        if staged.holds(position):
            return Header._make(staged.read(position, self._seed)[1])
        try:
            return Header._make(self._segments.header(position))
        except Corrupt:
            kept = self._kept_header(position)
            if kept is None:
                raise
            return kept

    def _kept_header(self, position: int) -> Header | None:
        for segment, side in self.segments_with_side_files():
            if side is not None and segment.base <= position < side.stop:
                at = int(side.positions.searchsorted(position))
                if at < len(side.positions) and int(side.positions[at]) == position:
                    return Header._make(side.heads[at].item())
        return None

    def find(self, id12: bytes, since: int = 0) -> list[int]:
        """Positions >= ``since``, ascending, of records whose header bytes 40..52 are ``id12``: the
        producer's id and seq, or a key's digest. Of segments that have a side file, so surely of
        all below ``indexed_until``."""
        return self._sides.find(id12, since)

    @property
    def indexed_until(self) -> int:
        return self._sides.covered(self._segments.bases)

    def segments(self) -> list[SegmentInfo]:
        """In log order; the last one is the active one."""
        return self._segments.describe()

    def segments_with_side_files(self) -> Iterator[tuple[Segment, SideFile | None]]:
        """In log order, for whoever reads all headers; a side file may end before its segment."""
        for segment in list(self._segments.all):
            yield segment, self._sides.loaded(segment.base)

    @property
    def bytes_on_disk(self) -> int:
        return sum(segment.size for segment in self._segments.all)

    def verify(
        self, erased: Container[int] = (), before_each: Callable[[], None] = lambda: None
    ) -> Iterator[Finding]:
        """Read everything that is durable now, past the map, and yield what is wrong. May run on
        another thread, beside appends.

        ``erased``: positions of records whose body was erased; it must be zero then.
        ``before_each`` segment is called, and may end it all by raising.
        """
        durable, active = self.durable, self._active
        segments = list(self._segments.all)
        expected = 0
        for segment in segments:
            before_each()
            if segment.base != expected:
                name, lost = f"{expected:016x}.seg", segment.base - expected
                message = "one or more segments are gone"
                yield Finding("missing_segment", "error", name, 0, lost, message)
            expected = segment.end
            yield from verify_segment(
                self._fs,
                segment.path,
                base=segment.base,
                size=segment.size,
                stop=max(durable, segment.base + SEGMENT_HEADER_BYTES)
                if segment is active
                else None,
                log_id=self._log_id,
                erased=erased,
            )
