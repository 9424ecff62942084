"""Ranges of the log whose records are lost, and how many turns a session may have lost in them.

A lost range of n bytes can have held at most n/72 turns, the smallest being a header and eight
bytes. A session that has no later record must take it that all of them were its own: its next
append leaves that many seqs out, so that no seq that was ever acknowledged is given to another
turn. A session that is not known at all does the same when its id still stands in the lost bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from neverforget.storage.filesystem import FileSystem
from neverforget.storage.format import ALIGNMENT, HEADER_BYTES

TURN_BYTES_MIN = HEADER_BYTES + ALIGNMENT


class _Segment(Protocol):
    @property
    def base(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def path(self) -> Path: ...


class LostRanges:
    """``ranges``: sorted [start, stop) positions."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self.ranges = sorted(ranges)
        self._words: NDArray[Any] = np.empty(0, np.uint64)

    def __bool__(self) -> bool:
        return bool(self.ranges)

    @property
    def bytes(self) -> int:
        return sum(stop - start for start, stop in self.ranges)

    def read(self, fs: FileSystem, segments: Sequence[_Segment]) -> None:
        """Look at what stands in the ranges today. A segment that is gone tells nothing."""
        words = [self._words]
        for start, stop in self.ranges:
            for segment in segments:
                if not segment.base <= start < segment.base + segment.size:
                    continue
                file = fs.open(segment.path, read_only=True)
                try:
                    raw = file.pread(stop - start, start - segment.base)
                finally:
                    file.close()
                words.append(np.frombuffer(raw[: len(raw) & ~7], np.uint64))
        self._words = np.unique(np.concatenate(words))

    def holds(self, position: int) -> bool:
        return any(start <= position < stop for start, stop in self.ranges)

    def between(self, first: int, last: int) -> list[tuple[int, int]]:
        """Those that begin after position ``first`` and before ``last``."""
        return [(start, stop) for start, stop in self.ranges if first < start < last]

    def turns_after(self, position: int) -> int:
        """How many turns may be lost behind the record at ``position``."""
        return sum(-(-(b - a) // TURN_BYTES_MIN) for a, b in self.ranges if a > position)

    def turns_of_unknown(self, session_id: int) -> int:
        """How many turns a session without any record may have lost."""
        at = int(np.searchsorted(self._words, np.uint64(session_id)))
        if at < len(self._words) and int(self._words[at]) == session_id:
            return self.turns_after(-1)
        return 0
