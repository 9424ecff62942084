"""What the owner of a log knows about it, whatever its records are about: requests answered,
audited records, erasures, lost ranges, findings.

Everything here is derived from the log, and changes only after the log took a record. One thread
owns it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from neverforget.storage import control
from neverforget.storage.audit_index import AUDITED, AuditIndex
from neverforget.storage.clock import Clock
from neverforget.storage.control import Body, ControlField, F, Range
from neverforget.storage.dedupe import Requests
from neverforget.storage.errors import Corrupt
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.format import HEADER_BYTES, Kind
from neverforget.storage.log import Log
from neverforget.storage.lost_ranges import LostRanges
from neverforget.storage.record import Header, body_of, log_seed, read_header
from neverforget.storage.recovery import Recovered, SegmentHeads
from neverforget.storage.results import Finding

if TYPE_CHECKING:
    from neverforget.storage.shipper import Shipper

# Headers taken in one pass: bounds what opening a large log needs besides the index itself.
_CHUNK_RECORDS = 1_000_000
FINDINGS_MAX = 1000

Array = NDArray[Any]
Ranges = Sequence[Range] | Array  # (position, length) in rows


class LogState:
    """``erased_at``: sorted positions of records whose bodies an erasure zeroed. ``unfinished``:
    positions of ERASING records without an ERASED one.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        partition: int,
        log: Log,
        log_id: int,
        clock: Clock,
    ) -> None:
        self.log_id, self.log_seed = log_id, log_seed(log_id)
        self.fs = fs
        self.directory = directory
        self.partition = partition
        self.log = log
        self.clock = clock
        self.requests = Requests()
        self.audit = AuditIndex()
        self.salvages = AuditIndex()  # the SALVAGED records
        self.lost = LostRanges([])
        self.findings: list[Finding] = []
        self.findings_left_out = 0
        self.erased_at: Array = np.empty(0, np.uint64)
        self.unfinished: dict[int, Ranges] = {}
        self.erasures = 0
        self._indexed_until = 0
        self.shipper: Shipper | None = None

    # ---- reading records -------------------------------------------------------------------------

    def control(self, position: int) -> tuple[Header, Body]:
        """One control record, checked. Raises Corrupt."""
        record = self.log.read(position)
        header = read_header(record)
        return header, control.read_body(body_of(record))

    def is_erased_at(self, position: int) -> bool:
        erased_at = self.erased_at  # another one, when something is erased
        if not len(erased_at):
            return False
        at = int(erased_at.searchsorted(np.uint64(position)))
        return at < len(erased_at) and int(erased_at[at]) == position

    def are_erased_at(self, positions: Array) -> Array:
        """One truth value each."""
        at = self.erased_at.searchsorted(positions)
        found: Array = np.append(self.erased_at, np.uint64(0))[at] == positions
        return found

    def note_erased(self, ranges: Ranges) -> None:
        """These body ranges are, or are about to be, zero. Of what was lost nobody knows whether it
        was a body.
        """
        starts = np.asarray(ranges, np.int64).reshape(-1, 2)[:, 0]
        for start, stop in self.lost.ranges:
            starts = starts[(starts < start) | (starts >= stop)]
        found = np.concatenate([self.erased_at, (starts - HEADER_BYTES).astype(np.uint64)])
        found.sort()  # twice the same does no harm
        self.erased_at = found

    # ---- dedupe ----------------------------------------------------------------------------------

    def forget_indexed(self) -> None:
        """Let go of recent ids that side files answer for by now."""
        until = self.log.indexed_until
        if until != self._indexed_until:
            self._indexed_until = until
            self._forget_below(until)

    def _forget_below(self, position: int) -> None:
        self.requests.forget_below(position)

    # ---- loading ---------------------------------------------------------------------------------

    def _begin_loading(self, recovered: Recovered) -> None:
        """What must be known before any record counts: what is lost, and what was erased."""
        self.lost = LostRanges(recovered.quarantined)
        self.lost.read(self.fs, self.log.segments())
        self._indexed_until = self.log.indexed_until
        for finding in recovered.findings:
            self.report(finding)
        for segment in recovered.segments:
            self._load_erasures(segment)

    def _load_erasures(self, segment: SegmentHeads) -> None:
        for position, _ in of_kinds(segment.heads, segment.positions, Kind.ERASING):
            try:
                _, body = self.control(position)
                ranges = control.unpack_ranges(body.get(F[ControlField.RANGES], b""))
            except Corrupt:
                continue  # reported with the other control records
            self.note_erased(ranges)
            self.unfinished[position] = ranges
        for position, kind in of_kinds(segment.heads, segment.positions, Kind.ERASED):
            try:
                _, body = self.control(position)
                done = control.number(body, ControlField.ERASING)
            except Corrupt as error:
                self.control_lost(position, kind, error)  # it is only done once more
                continue
            self.unfinished.pop(done, None)

    def control_lost(self, position: int, kind: int, error: Corrupt) -> None:
        """That it happened is known from its header, what it said is not."""
        if kind in AUDITED:
            self.audit.note(position)
        if not self.is_erased_at(position):
            self.report(self.finding("corrupt_body", position, 0, str(error)))

    # ---- findings --------------------------------------------------------------------------------

    def finding(self, kind: str, position: int, n_bytes: int, message: str) -> Finding:
        for segment in reversed(self.log.segments()):
            if segment.base <= position:
                offset = position - segment.base
                return Finding(kind, "error", segment.path.name, offset, n_bytes, message)
        return Finding(kind, "error", "", position, n_bytes, message)

    def report(self, finding: Finding) -> None:
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(finding)
        else:
            self.findings_left_out += 1


def of_kinds(heads: Array, positions: Array, *kinds: Kind) -> list[tuple[int, int]]:
    """(position, kind) of the records of these kinds, in log order."""
    rows = np.flatnonzero(np.isin(heads["kind"], [int(kind) for kind in kinds]))
    return list(zip(positions[rows].tolist(), heads["kind"][rows].tolist()))


def heads_crc(parts: Iterable[tuple[Array, Array]], stop: int) -> int:
    """CRC of the header CRCs of all records below ``stop``, of which ``parts`` are (headers,
    positions) in log order. Erasing changes no header; whatever else happens to a log shows here.
    """
    crc = 0
    for heads, positions in parts:
        count = int(np.searchsorted(positions, np.uint64(stop)))
        column = np.ascontiguousarray(heads["header_crc"][:count])
        crc = int(crc32c(column.view(np.uint8).data, crc))
    return crc


def chunks(segments: Sequence[SegmentHeads]) -> Iterator[tuple[Array, Array, Array]]:
    """(heads, positions, body_ok) of several segments at a time, in log order."""
    group: list[SegmentHeads] = []
    count = 0
    for segment in segments:
        if group and count + len(segment.heads) > _CHUNK_RECORDS:
            yield _joined(group)
            group, count = [], 0
        group.append(segment)
        count += len(segment.heads)
    if group:
        yield _joined(group)


def _joined(group: Sequence[SegmentHeads]) -> tuple[Array, Array, Array]:
    if len(group) == 1:
        return group[0].heads, group[0].positions, group[0].body_ok
    return (
        np.concatenate([s.heads for s in group]),
        np.concatenate([s.positions for s in group]),
        np.concatenate([s.body_ok for s in group]),
    )
