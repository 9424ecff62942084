"""The batches that are staged and not yet written: the next gathered write. They can be read
already."""

from __future__ import annotations

from bisect import bisect_right

from neverforget.storage.errors import Corrupt
from neverforget.storage.filesystem import Buffer
from neverforget.storage.format import stride
from neverforget.storage.segments import HeaderFields, check_header


class StagedBatches:
    """Buffers laid end to end from ``start`` on. ``claim``: how far they say that the log is
    durable."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self._starts: list[int] = []
        self.claim = 0

    def add(self, buffer: Buffer, position: int, claim: int) -> None:
        self.buffers.append(buffer)
        self._starts.append(position)
        self.claim = claim

    @property
    def start(self) -> int:
        return self._starts[0]

    def holds(self, position: int) -> bool:
        return bool(self._starts) and position >= self._starts[0]

    def read(self, position: int, seed: int) -> tuple[memoryview, HeaderFields]:
        at = bisect_right(self._starts, position) - 1
        view, offset = memoryview(self.buffers[at]), position - self._starts[at]
        header = check_header(view, offset, position, seed)
        if header is None:
            raise Corrupt(f"no record begins at position {position}", offset=position)
        return view[offset : offset + stride(header[7])], header
