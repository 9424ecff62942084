"""What can be set about a log. Changing it between two openings is fine: segments say their own
size."""

from __future__ import annotations

from dataclasses import dataclass

from neverforget.storage.segment import ReadBy, whole_pages

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogOptions:
    """``read_by="pread"``: a media error is Corrupt instead of SIGBUS; slower.

    Segments double from the first size to ``segment_bytes``, both in whole pages of 4 KiB.
    """

    segment_bytes: int = 64 * MIB
    first_segment_bytes: int = MIB
    batch_bytes_max: int = 64 * MIB
    read_by: ReadBy = "map"

    def size_after(self, size: int) -> int:
        """Of the segment that follows one of ``size`` bytes (0: of the first)."""
        return whole_pages(min(max(2 * size, self.first_segment_bytes), self.segment_bytes))
