"""Reading runs from a log that is being written: whole batches of one segment, straight from its
file, on whatever thread. What lies below the durable mark does not change but for erasure.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from neverforget.storage.errors import Corrupt
from neverforget.storage.filesystem import File, FileSystem
from neverforget.storage.format import ALIGNMENT, HEADER_BYTES, RecordFlag, stride
from neverforget.storage.record import log_seed
from neverforget.storage.segment import SEGMENT_HEADER_BYTES, SegmentHeader, decode_segment_header
from neverforget.storage.segments import SegmentInfo, check_header
from neverforget.storage.shipping_object import Run, heads_crc_of

_LENGTH = 7  # of body_length among a header's fields
_FLAGS = 3


def read_run(
    fs: FileSystem,
    log_id: int,
    segments: Sequence[SegmentInfo],
    start: int,
    limit: int,
    bytes_max: int,
) -> Run | None:
    """The next run from ``start`` on and below ``limit``, a durable mark: as many whole batches as
    fit into ``bytes_max``, or one. None: no record stands there. Ranges that are lost are passed
    over. Raises Corrupt, OSError.
    """
    for info in segments:
        if info.base + info.size <= start or info.base >= limit:
            continue
        with closing(fs.open(info.path, read_only=True)) as file:
            header = decode_segment_header(file.pread(SEGMENT_HEADER_BYTES, 0), info.path)
            if header is None:
                header = SegmentHeader(log_id, info.base, info.size, 0)
            reader = _Reader(file, info, log_seed(log_id), min(limit, info.base + info.size))
            found = reader.run(max(start, info.base + SEGMENT_HEADER_BYTES), bytes_max)
        if found is not None:
            first, payload = found
            crc = heads_crc_of(payload)
            stop = first + len(payload)
            return Run(info.base, info.size, header.epoch, first, stop, crc, payload)
    return None


class _Reader:
    """Of one segment, up to ``stop``; positions are the log's."""

    def __init__(self, file: File, info: SegmentInfo, seed: int, stop: int) -> None:
        self._file = file
        self._base = info.base
        self._seed = seed
        self._stop = stop

    def run(self, start: int, bytes_max: int) -> tuple[int, bytes] | None:
        first = self._next_record(start)
        if first is None:
            return None
        taken = at = first
        while at < self._stop:
            length, flags = self._header(at) or (None, 0)
            if length is None:
                break  # the data ends here, or a range is lost
            at += stride(length)
            if flags & RecordFlag.BATCH_MORE:
                continue
            if taken > first and at - first > bytes_max:
                break
            taken = at
        if taken == first:
            # The rest of its batch is lost: what is left of it goes alone.
            taken = at
        if taken > self._stop:
            raise Corrupt(
                f"a record of {self._file.path} reaches beyond what is durable at {self._stop}",
                file=str(self._file.path),
                offset=first - self._base,
                bytes=taken - first,
            )
        return first, self._file.pread(taken - first, first - self._base)

    def _header(self, position: int) -> tuple[int, int] | None:
        """(body length, flags) of the sound record at ``position``."""
        raw = memoryview(self._file.pread(HEADER_BYTES, position - self._base))
        fields = check_header(raw, 0, position, self._seed)
        return None if fields is None else (fields[_LENGTH], fields[_FLAGS])

    def _next_record(self, start: int) -> int | None:
        """The first sound header at or behind ``start``."""
        if start >= self._stop or self._header(start) is not None:
            return start if start < self._stop else None
        rest = memoryview(self._file.pread(self._stop - start, start - self._base))
        for at in range(ALIGNMENT, len(rest) - HEADER_BYTES + 1, ALIGNMENT):
            if check_header(rest, at, start + at, self._seed) is not None:
                return start + at
        return None
