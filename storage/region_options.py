"""What can be set about a region. Every opening may set it anew; nothing of it is in the bytes."""

from __future__ import annotations

from dataclasses import dataclass

from neverforget.storage.log_options import MIB, LogOptions
from neverforget.storage.segment import ReadBy


@dataclass(frozen=True, slots=True)
class RegionOptions:
    """``reply_bytes_max``: of the records in one answer, which always holds one.
    ``scan_records_max``: turns, or sessions, that one read looks at. ``reflect_every`` turns that
    wait make a session due for reflection, or ``reflect_after_s`` without an append while any do;
    0: never. The rest is the log's, see ``LogOptions``.
    """

    segment_bytes: int = 64 * MIB
    first_segment_bytes: int = MIB
    batch_bytes_max: int = 64 * MIB
    read_by: ReadBy = "map"
    reply_bytes_max: int = 4 * MIB
    scan_records_max: int = 10_000
    reflect_every: int = 0
    reflect_after_s: float = 0.0

    @property
    def log(self) -> LogOptions:
        return LogOptions(
            self.segment_bytes, self.first_segment_bytes, self.batch_bytes_max, self.read_by
        )
