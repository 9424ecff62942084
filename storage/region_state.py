"""What a region knows in memory, and how it learns it again from the log.

Everything here is derived: ``load`` builds it from what recovery found, and every write changes it
only after the log took the record. One thread owns it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neverforget.storage import control
from neverforget.storage.audit_index import is_audited
from neverforget.storage.clock import Clock
from neverforget.storage.control import Body, ControlField, F
from neverforget.storage.dedupe import Keys
from neverforget.storage.errors import Corrupt
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.format import HEADER, Kind
from neverforget.storage.log import Log
from neverforget.storage.log_state import LogState, chunks, of_kinds
from neverforget.storage.record import Header
from neverforget.storage.recovery import Recovered
from neverforget.storage.reflection_ledger import REFLECTION, ReflectionLedger
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.results import ForkPoint
from neverforget.storage.salvage_bodies import salvaged_runs
from neverforget.storage.session_index import Session, SessionIndex
from neverforget.storage.session_loading import load_turns

# Control records that neither open a session nor end an erasure.
_APPLIED = (
    *REFLECTION,
    Kind.AGENT_JOINED,
    Kind.HIDDEN,
    Kind.UNHIDDEN,
    Kind.ERASING,
    Kind.REFUSED,
    Kind.SALVAGED,
)

Array = NDArray[Any]


class RegionState(LogState):
    """The sessions of a region, on top of what its log says in general."""

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        partition: int,
        log: Log,
        log_id: int,
        clock: Clock,
        index: SessionIndex,
        options: RegionOptions,
    ) -> None:
        super().__init__(fs, directory, partition, log, log_id, clock)
        self.index = index
        self.keys = Keys()
        self.appended = 0  # turns, since it was opened
        every, after_s = options.reflect_every, options.reflect_after_s
        self.ledger = ReflectionLedger(index, log, clock, every, after_s)

    # ---- reading records -------------------------------------------------------------------------

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

    # ---- dedupe ----------------------------------------------------------------------------------

    def _forget_below(self, position: int) -> None:
        super()._forget_below(position)
        self.keys.forget_below(position)

    # ---- loading ---------------------------------------------------------------------------------

    def load(self, recovered: Recovered) -> None:
        """Build everything from the log's headers and the bodies of its control records."""
        self._begin_loading(recovered)
        for heads, positions, body_ok in chunks(recovered.segments):
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
        self.ledger.loaded()

    def _load_openings(self, heads: Array, positions: Array) -> list[tuple[Session, int]]:
        """Sessions first: a fork's base must stand before its turns are counted from it. Answers
        (session, first seq) of those that did not begin at 0.
        """
        begins = []
        for position, kind in of_kinds(heads, positions, Kind.SESSION_OPENED, Kind.FORK):
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
                self.control_lost(position, kind, error)
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
        for position, kind in of_kinds(heads, positions, *_APPLIED):
            try:
                header, body = self.control(position)
                self.apply(header, position, body)
            except Corrupt as error:
                self.control_lost(position, kind, error)

    def apply(self, header: Header, position: int, body: Body) -> None:
        """What a control record besides those that open a session does to the index."""
        kind = header.kind
        if is_audited(kind, body, part=ControlField.ERASING):  # of one in parts the first
            self.audit.note(position)
        if kind == Kind.SALVAGED:
            self.salvages.note(position)
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
        elif kind == Kind.SALVAGED:
            for run in salvaged_runs(body):
                session.more().note_salvaged(run)
        elif kind in REFLECTION:
            self.ledger.apply(session, header, position, body)
        elif kind == Kind.ERASING:
            if F[ControlField.DIGEST] in body:
                self.index.bury(session)
                self.ledger.drop(session.session_id)
                return
            for first, last in control.runs(body):
                session.more().own("erased").add(first, last)
        if session.skip_to(header.sequence_id):
            self.ledger.recount(session)
        if session.extra is not None:
            session.extra.evidence = max(session.extra.evidence, position)


def bare(header: Header) -> bytes:
    """The header alone of a turn whose body is erased or unreadable."""
    return HEADER.pack(*header._replace(body_length=0, body_crc=0, header_crc=0))
