"""What a region knows in memory, and how it learns it again from the log.

Everything here is derived: ``load`` builds it from what recovery found, and every write changes it
only after the log took the record. One thread owns it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neverforget.storage import control
from neverforget.storage.audit_index import AUDITED, AuditIndex
from neverforget.storage.clock import Clock
from neverforget.storage.control import Body, ControlField, F, Range
from neverforget.storage.dedupe import Keys, Requests
from neverforget.storage.errors import Corrupt
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.format import HEADER, HEADER_BYTES, Kind
from neverforget.storage.log import Log
from neverforget.storage.lost_ranges import LostRanges
from neverforget.storage.record import Header, body_of, log_seed, read_header
from neverforget.storage.recovery import Recovered, SegmentHeads
from neverforget.storage.results import Finding, ForkPoint
from neverforget.storage.session_index import Session, SessionIndex
from neverforget.storage.session_loading import load_turns

# Headers taken in one pass: bounds what opening a large log needs besides the index itself.
_CHUNK_RECORDS = 1_000_000
FINDINGS_MAX = 1000
# Control records that neither open a session nor end an erasure.
_APPLIED = (
    Kind.AGENT_JOINED,
    Kind.MARK,
    Kind.HIDDEN,
    Kind.UNHIDDEN,
    Kind.ERASING,
    Kind.REFUSED,
)

Array = NDArray[Any]


class RegionState:
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
        index: SessionIndex,
    ) -> None:
        self.log_seed = log_seed(log_id)
        self.fs = fs
        self.directory = directory
        self.partition = partition
        self.log = log
        self.clock = clock
        self.index = index
        self.requests = Requests()
        self.keys = Keys()
        self.audit = AuditIndex()
        self.lost = LostRanges([])
        self.findings: list[Finding] = []
        self.findings_left_out = 0
        self.erased_at: Array = np.empty(0, np.uint64)
        self.unfinished: dict[int, list[Range]] = {}
        self.erasures = 0
        self._indexed_until = 0

    # ---- reading records -------------------------------------------------------------------------

    def control(self, position: int) -> tuple[Header, Body]:
        """One control record, checked. Raises Corrupt."""
        record = self.log.read(position)
        header = read_header(record)
        return header, control.read_body(body_of(record))

    def turn_record(self, position: int, header: Header | None = None) -> tuple[bytes, bool]:
        """A turn's whole record, or its header alone (see ``results.Window``) and False where the
        body is erased or fails its checksum. Raises Corrupt when the header does too.
        """
        if len(self.erased_at) and self.is_erased_at(position):
            # Whatever stands there: zeroing it may not have happened yet on a disk that is full.
            return bare(header or self.log.header(position)), False
        try:
            return bytes(self.log.read(position)), True
        except Corrupt:
            return bare(header or self.log.header(position)), False

    def is_erased_at(self, position: int) -> bool:
        at = int(np.searchsorted(self.erased_at, np.uint64(position)))
        return at < len(self.erased_at) and int(self.erased_at[at]) == position

    def note_erased(self, ranges: Sequence[Range]) -> None:
        """These body ranges are, or are about to be, zero."""
        positions = np.array([p - HEADER_BYTES for p, _ in ranges], np.uint64)
        self.erased_at = np.union1d(self.erased_at, positions)

    # ---- dedupe ----------------------------------------------------------------------------------

    def forget_indexed(self) -> None:
        """Let go of recent ids that side files answer for by now."""
        until = self.log.indexed_until
        if until != self._indexed_until:
            self._indexed_until = until
            self.requests.forget_below(until)
            self.keys.forget_below(until)

    # ---- loading ---------------------------------------------------------------------------------

    def load(self, recovered: Recovered) -> None:
        """Build everything from the log's headers and the bodies of its control records."""
        self.lost = LostRanges(recovered.quarantined)
        self.lost.read(self.fs, self.log.segments())
        self._indexed_until = self.log.indexed_until
        for finding in recovered.findings:
            self.report(finding)
        for segment in recovered.segments:
            self._load_erasures(segment)
        for heads, positions, body_ok in _chunks(recovered.segments):
            readable = body_ok | np.isin(positions, self.erased_at)
            begins = self._load_openings(heads, positions)
            for position, problem in load_turns(self.index, heads, positions):
                self.report(self.finding("index_mismatch", position, 0, problem))
            for session, seq in begins:
                session.skip_to(seq)  # a fork that lost its record behind this one
            for position in positions[~readable & (heads["kind"] == Kind.TURN)].tolist():
                message = "a turn's body fails its checksum; the turn is unreadable"
                self.report(self.finding("corrupt_body", position, 0, message))
            self._load_controls(heads, positions)
            self.requests.load(heads, positions, self._indexed_until)
            self.keys.load(heads, positions, self._indexed_until)

    def _load_erasures(self, segment: SegmentHeads) -> None:
        for position, _ in _of_kinds(segment.heads, segment.positions, Kind.ERASING):
            try:
                _, body = self.control(position)
                ranges = control.unpack_ranges(body.get(F[ControlField.RANGES], b""))
            except Corrupt:
                continue  # reported with the other control records
            self.note_erased([r for r in ranges if not self.lost.holds(r[0])])
            self.unfinished[position] = ranges
        for position, kind in _of_kinds(segment.heads, segment.positions, Kind.ERASED):
            try:
                _, body = self.control(position)
                done = control.number(body, ControlField.ERASING)
            except Corrupt as error:
                self._control_lost(position, kind, error)  # it is only done once more
                continue
            self.unfinished.pop(done, None)

    def _load_openings(self, heads: Array, positions: Array) -> list[tuple[Session, int]]:
        """Sessions first: a fork's base must stand before its turns are counted from it. Answers
        (session, first seq) of those that did not begin at 0.
        """
        begins = []
        for position, kind in _of_kinds(heads, positions, Kind.SESSION_OPENED, Kind.FORK):
            try:
                header, body = self.control(position)
                if header.kind == Kind.FORK:
                    self.forked(header, position, *control.fork(body))
                else:
                    agent = body.get(F[ControlField.AGENT])
                    session = self.opened(header, position, *control.named(body), agent)
                    if header.sequence_id:
                        begins.append((session, header.sequence_id))
            except Corrupt as error:
                self._control_lost(position, kind, error)
        return begins

    def opened(
        self,
        header: Header,
        position: int,
        namespace: tuple[str, ...],
        name: str,
        agent: str | None,
    ) -> Session:
        session = self.index.get_or_make(header.session_id, position)
        if position != session.opened_at:
            session.note_text(position)  # it lost its first one and was opened again
        self.index.name(session, namespace, name)
        if isinstance(agent, str):
            self.index.join(session, agent)
        return session

    def forked(self, header: Header, position: int, parent: ForkPoint, tokens: int) -> None:
        session = self.index.get_or_make(header.session_id, position)
        if session.turn_rows:
            raise Corrupt("a fork record behind turns of its own session")
        session.note_text(position)
        session.rows[1] = tokens
        session.more().base = parent.at
        session.more().parent = parent
        self.audit.note(position)

    def _load_controls(self, heads: Array, positions: Array) -> None:
        for position, kind in _of_kinds(heads, positions, *_APPLIED):
            try:
                header, body = self.control(position)
                self.apply(header, position, body)
            except Corrupt as error:
                self._control_lost(position, kind, error)

    def apply(self, header: Header, position: int, body: Body) -> None:
        """What a control record besides those that open a session does to the index."""
        kind = header.kind
        if kind in AUDITED and not (kind == Kind.ERASING and F[ControlField.ERASING] in body):
            self.audit.note(position)  # of an erasure in parts the first one
        if not header.session_id or header.session_id in self.index.erased_ids:
            return
        session = self.index.get_or_make(header.session_id, position)
        if kind == Kind.AGENT_JOINED:
            self.index.join(session, control.text(body, ControlField.AGENT))
            session.note_text(position)
        elif kind == Kind.HIDDEN:
            for first, last in control.runs(body):
                session.more().own("hidden").add(first, last)
        elif kind == Kind.UNHIDDEN:
            for first, last in control.runs(body):
                session.more().own("hidden").remove(first, last)
        elif kind == Kind.MARK:
            for first, last in control.runs(body):
                session.more().own("marks").add(first, last)
        elif kind == Kind.ERASING:
            if F[ControlField.DIGEST] in body:
                self.index.bury(session)
                return
            for first, last in control.runs(body):
                session.more().own("erased").add(first, last)
        if header.sequence_id > session.end:
            session.skip_to(header.sequence_id)
        if session.extra is not None:
            session.extra.evidence = max(session.extra.evidence, position)

    def _control_lost(self, position: int, kind: int, error: Corrupt) -> None:
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


def bare(header: Header) -> bytes:
    """The header alone of a turn whose body is erased or unreadable."""
    return HEADER.pack(*header._replace(body_length=0, body_crc=0, header_crc=0))


def _of_kinds(heads: Array, positions: Array, *kinds: Kind) -> list[tuple[int, int]]:
    """(position, kind) of the records of these kinds, in log order."""
    rows = np.flatnonzero(np.isin(heads["kind"], [int(kind) for kind in kinds]))
    return list(zip(positions[rows].tolist(), heads["kind"][rows].tolist()))


def _chunks(segments: Sequence[SegmentHeads]) -> Iterator[tuple[Array, Array, Array]]:
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
