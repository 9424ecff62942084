"""The local log while an owner starts: compared with the objects, cut where it went another way,
and given what it lacks. Nobody has the log open meanwhile.

    recover the log, close it        everything in it is durable then
    compare, set aside, apply        in the order in which ``Shipping`` asks
    open the log                     it holds what the objects hold, and perhaps more behind

Every step may be the last one before a crash: the next start recovers, compares and goes on. A cut
goes from the end to the front, so that what is left is always the front of a log; what is cut is
durable in ``aside/`` before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from crc32c import crc32c

from neverforget.storage import control
from neverforget.storage.atomic_file import write_atomic
from neverforget.storage.control import ControlField, F, Range
from neverforget.storage.errors import Corrupt
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.format import HEADER_BYTES, Kind, stride
from neverforget.storage.record import body_of, log_seed, read_header
from neverforget.storage.segment import (
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    base_of,
    create_segment,
    segment_path,
    whole_pages,
    write_zeros,
)
from neverforget.storage.segments import check_header
from neverforget.storage.set_aside import ASIDE_DIRECTORY
from neverforget.storage.shipping_object import ObjectHeader, records_of
from neverforget.storage.side_file import side_path

ASIDE_SUFFIX = ".aside"


class LocalCopy:
    """``directory`` is the region's; its log is recovered and closed. ``tail``: where it ends; 0:
    no record. ``epoch``: this owner's, for the names of what is set aside.
    """

    def __init__(
        self, fs: FileSystem, directory: Path, *, log_id: int, tail: int, epoch: int
    ) -> None:
        self.tail = tail
        self.epoch = epoch
        self._fs = fs
        self._log = directory / "log"
        self._aside = directory / ASIDE_DIRECTORY
        self._log_id = log_id
        self._seed = log_seed(log_id)
        # base -> size of every segment, and the bases in order
        names = fs.list_directory(self._log)
        self._bases = sorted(base for name in names if (base := base_of(name)) is not None)
        self._sizes = {base: self._file_size(base) for base in self._bases}

    # ---- comparing -------------------------------------------------------------------------------

    def holds(self, header: ObjectHeader, position: int) -> bool:
        """See ``Compare``. An object in which something was erased is read as a whole instead."""
        if header.erasures or self.tail < header.stop:
            return False
        if self._sizes.get(header.base) != header.size or self.has_between(position, header.start):
            return False
        crc, at = 0, header.start
        raw = self.read(header.base, header.start, header.stop)
        for first, end in self._sound(raw, header.start):
            body = body_of(raw, first)
            if first != at - header.start or crc32c(body) != read_header(raw, first).body_crc:
                return False
            crc, at = crc32c(raw[first + 60 : first + 64], crc), header.start + end
        return at == header.stop and crc == header.heads_crc

    def same_until(self, header: ObjectHeader, payload: bytes, position: int) -> tuple[int, bool]:
        """(same_until, other), see ``Fetched``."""
        if self.has_between(position, header.start):
            return position, True
        size = self._sizes.get(header.base)
        if size != header.size:
            # Of another shape, or not there; an empty one gives way.
            return max(position, header.start), size is not None and self.tail > header.start
        raw = self.read(header.base, header.start, header.stop)
        for first, end in records_of(payload):
            if raw[first:end] == payload[first:end] and end <= len(raw):
                continue
            here = header.start + first
            mine = check_header(memoryview(raw), first, here, self._seed)
            theirs = payload[first : first + HEADER_BYTES]
            return here, mine is not None and raw[first : first + HEADER_BYTES] != theirs
        return header.stop, False

    def has_between(self, position: int, start: int) -> bool:
        """Does a sound record stand in [position, start), where the objects hold none?"""
        for base, size in self._segments_from(position):
            if base >= start:
                break
            first = max(position, base + SEGMENT_HEADER_BYTES)
            last = min(start, base + size, self.tail)
            if first < last:
                raw = memoryview(self.read(base, first, min(last + HEADER_BYTES, base + size)))
                for at in range(0, last - first, 8):
                    if check_header(raw, at, first + at, self._seed) is not None:
                        return True
        return False

    # ---- changing --------------------------------------------------------------------------------

    def set_aside(self, position: int) -> None:
        """See ``SetAside``: a copy of each segment's part, then the cut."""
        self._fs.make_directory(self._aside)
        self._fs.sync_directory(self._aside.parent)
        behind = self._segments_from(position)
        for base, size in behind:
            first = max(position, base + SEGMENT_HEADER_BYTES)
            last = min(base + size, self.tail)
            if first < last:
                name = f"{first:016x}-{last:016x}-{self.epoch:08x}{ASIDE_SUFFIX}"
                write_atomic(self._fs, self._aside / name, self.read(base, first, last))
        for base, size in reversed(behind):
            self._forget_side_file(base)
            if base and position <= base + SEGMENT_HEADER_BYTES:
                self._unlink(base)
                continue
            with closing(self._fs.open(segment_path(self._log, base))) as file:
                write_zeros(file, max(position - base, SEGMENT_HEADER_BYTES), size)
        self.tail = position

    def apply(self, header: ObjectHeader, payload: bytes, position: int) -> None:
        """See ``Apply``. Durable when it returns."""
        assert header.start <= position < header.stop, "within the run"
        self._make_segment(header)
        self._forget_side_file(header.base)
        with closing(self._fs.open(segment_path(self._log, header.base))) as file:
            file.pwrite([payload[position - header.start :]], position - header.base)
            file.fdatasync()
        self.tail = max(self.tail, header.stop)
        for first, _ in records_of(payload):
            if payload[4 + first] == Kind.ERASING:
                self._erase(payload, first)

    def _make_segment(self, header: ObjectHeader) -> None:
        """The segment that a run stands in; an empty one of another size gives way."""
        if self._sizes.get(header.base) == header.size:
            return
        for base, _ in reversed(self._segments_from(header.base)):
            if self.tail > base + SEGMENT_HEADER_BYTES:
                raise Corrupt(
                    f"object {header.number} is of a segment of {header.size:,} bytes at "
                    f"{header.base}, where {self._log} has records in one at {base}"
                )
            self._forget_side_file(base)
            if base == header.base:  # the new one takes its name: a log is never without its first
                del self._bases[-1], self._sizes[base]
            else:
                self._unlink(base)
        end = self._bases[-1] + self._sizes[self._bases[-1]] if self._bases else 0
        if end != header.base:
            raise Corrupt(
                f"object {header.number} is of a segment at {header.base}, the log in {self._log} "
                f"ends at {end}; an object between the two is missing"
            )
        made = SegmentHeader(self._log_id, header.base, header.size, header.segment_epoch)
        create_segment(self._fs, self._log, made, "pread", replace_spare=True).close()
        self._bases.append(header.base)
        self._sizes[header.base] = header.size

    def _unlink(self, base: int) -> None:
        """The last segment goes, durably."""
        assert base == self._bases[-1], "from the end to the front"
        self._fs.unlink(segment_path(self._log, base))
        self._fs.sync_directory(self._log)
        del self._bases[-1], self._sizes[base]

    def _erase(self, payload: bytes, first: int) -> None:
        """What an ERASING record names is erased here too."""
        body = control.read_body(body_of(payload, first))
        self.zero(control.unpack_ranges(body.get(F[ControlField.RANGES], b"")))

    def zero(self, ranges: list[Range]) -> None:
        """Durable when it returns."""
        for base, size in self._segments_from(min(p for p, _ in ranges) if ranges else self.tail):
            mine = [(p, n) for p, n in ranges if base <= p < base + size]
            if mine:
                self._forget_side_file(base)
                with closing(self._fs.open(segment_path(self._log, base))) as file:
                    for place, length in mine:
                        file.pwrite([bytes(min(length, base + size - place))], place - base)
                    file.fdatasync()

    def place_for(self, n_bytes: int) -> int:
        """Where a batch of so many bytes is to stand, in a segment that is made if it must be."""
        last = self._bases[-1]
        size = self._sizes[last]
        start = max(self.tail, last + SEGMENT_HEADER_BYTES)
        if start + n_bytes <= last + size:
            return start
        base, wanted = last + size, whole_pages(max(size, SEGMENT_HEADER_BYTES + n_bytes))
        made = SegmentHeader(self._log_id, base, wanted, self.epoch)
        create_segment(self._fs, self._log, made, "pread").close()
        self._bases.append(base)
        self._sizes[base] = wanted
        return base + SEGMENT_HEADER_BYTES

    def append(self, batch: bytes | bytearray, position: int) -> None:
        """A stamped batch, at the place that was told for it. Durable when it returns."""
        base = self._bases[-1]
        self._forget_side_file(base)
        with closing(self._fs.open(segment_path(self._log, base))) as file:
            file.pwrite([batch], position - base)
            file.fdatasync()
        self.tail = position + len(batch)

    def _forget_side_file(self, base: int) -> None:
        """It describes what stands there no longer, and would be believed."""
        path = side_path(self._log, base)
        if self._fs.exists(path):
            self._fs.unlink(path)
            self._fs.sync_directory(self._log)

    # ---- reading ---------------------------------------------------------------------------------

    def _segments_from(self, position: int) -> list[tuple[int, int]]:
        """(base, size) of those that end behind ``position``, in log order."""
        at = max(0, bisect_right(self._bases, position) - 1)
        found = [(base, self._sizes[base]) for base in self._bases[at:]]
        return [(base, size) for base, size in found if base + size > position]

    def size_of(self, base: int) -> int | None:
        """Of the segment there; None: there is none."""
        return self._sizes.get(base)

    def _file_size(self, base: int) -> int:
        with closing(self._fs.open(segment_path(self._log, base), read_only=True)) as file:
            return file.size()

    def read(self, base: int, first: int, last: int) -> bytes:
        with closing(self._fs.open(segment_path(self._log, base), read_only=True)) as file:
            return file.pread(last - first, first - base)

    def _sound(self, raw: bytes, position: int) -> Iterator[tuple[int, int]]:
        """(start, end) of records laid end to end in ``raw`` whose headers are sound."""
        view, at = memoryview(raw), 0
        while (fields := check_header(view, at, position + at, self._seed)) is not None:
            end = at + stride(fields[7])
            if end > len(raw):
                return
            yield at, end
            at = end
