"""Records that say something about a session's turns: hidden, forked, planned to be reflected,
consolidated, given up, refused.

Each is one staged record (a fork and a failure two), found again under its request id, and in force
in memory as soon as the log took it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from neverforget.storage import control
from neverforget.storage.appending import Appender, check_name
from neverforget.storage.batch import stage_batch
from neverforget.storage.consolidation import is_done_by
from neverforget.storage.errors import Conflict, InvalidArgument, NotFound
from neverforget.storage.format import SEQ_MAX, Kind
from neverforget.storage.record import encode_control, read_header
from neverforget.storage.reflection_ledger import is_same
from neverforget.storage.reflection_results import PlannedRange
from neverforget.storage.region_state import RegionState
from neverforget.storage.repeats import Repeats
from neverforget.storage.results import ForkPoint
from neverforget.storage.session_index import Session

Name = tuple[tuple[str, ...], str]
EXTRACTOR_CHARACTERS_MAX = 1_000
ERROR_CHARACTERS_MAX = 2_000


class Annotator:
    """Stages control records. Every method answers the log position that must be durable."""

    def __init__(self, state: RegionState, repeats: Repeats, appender: Appender) -> None:
        self._state = state
        self._repeats = repeats
        self._appender = appender

    def hide(
        self,
        name: Name,
        runs: Sequence[tuple[int, int]],
        hidden: bool,
        by: str,
        reason: str | None,
        request: tuple[int, int],
    ) -> int:
        """Raises NotFound for a session or seq that is not there, InvalidArgument for a fork's
        inherited turns: they are the parent's to hide.
        """
        session = self._session(name)
        body = control.hidden_body(runs, by, reason)
        kind = Kind.HIDDEN if hidden else Kind.UNHIDDEN
        return self._write(kind, session, body, request, lambda: check_runs(session, runs))

    def mark(
        self, name: Name, first: int, last: int, extractor: str, request: tuple[int, int]
    ) -> int:
        session = self._session(name)
        body = control.mark_body(first, last, extractor)
        return self._write(
            Kind.MARK, session, body, request, lambda: check_range(session, first, last, extractor)
        )

    def plan(
        self, name: Name, planned: PlannedRange, request: tuple[int, int]
    ) -> tuple[PlannedRange, int]:
        """The plan, and the position. One that stands is not made again: its time stays. With a
        time it is about how often the plan of that time was begun; Conflict where that has ended,
        and where this extractor has done some of these turns: a window is done once.
        """
        session = self._session(name)
        first, last, extractor, at, begun = msgspec.structs.astuple(planned)
        held = self._state.ledger.planned.get(session.session_id)
        if self._repeats.request(*request) is None:
            stands = held is not None and is_same(held.range, planned)
            if held is not None and stands and (not at or held.range == planned):
                return held
            if at and not (held is not None and stands and held.range.at == at):
                raise Conflict(f"the plan of turns {first}..{last} does not stand any more")
            if not at and is_done_by(session, extractor, first, last):
                raise Conflict(f"of turns {first}..{last} some are done already")

        def check() -> None:
            check_range(session, first, last, extractor)
            if begun < 0:
                raise InvalidArgument(f"begun {begun} times")

        body = control.planned_body(first, last, extractor, begun if at else None)
        position, end = self._written(Kind.PLANNED, session, [body], request, check)
        at = at or self._state.log.header(position).timestamp
        return PlannedRange(first, last, extractor, at, begun), end

    def fail(
        self,
        name: Name,
        first: int,
        last: int,
        extractor: str,
        tries: int,
        error: str,
        request: tuple[int, int],
    ) -> int:
        """See ``messages.FailReflection``. A long error is cut."""
        session = self._session(name)
        cut = error if len(error) <= ERROR_CHARACTERS_MAX else f"{error[:ERROR_CHARACTERS_MAX]}…"
        bodies = [
            control.not_reflected_body(first, last, extractor, tries),
            control.reflection_error_body(first, last, cut),
        ]

        def check() -> None:
            check_range(session, first, last, extractor)
            if tries < 0:
                raise InvalidArgument(f"{tries} tries")

        return self._written(Kind.NOT_REFLECTED, session, bodies, request, check)[1]

    def refuse(self, operation: str, target: Mapping[str, Any], by: str, reason: str | None) -> int:
        """Put on record that a deletion was refused."""
        now = self._state.clock.now_us()
        body = control.refused_body(operation, target, by, reason)
        record = encode_control(Kind.REFUSED, 0, 0, body, timestamp_us=now)
        position = stage_batch(self._state.log, record, [(0, 0, 0)])
        self._state.audit.note(position)
        return position + len(record)

    def fork(
        self, name: Name, parent: ForkPoint, tokens: int, by: str, request: tuple[int, int]
    ) -> int:
        """Raises Conflict when the session exists, InvalidArgument when it would be its own
        parent. Whether the parent has these turns is its own region's to know.
        """
        state = self._state
        found, session_id = state.index.find(*name)
        held_id = session_id
        now = state.clock.now_us()
        producer, producer_seq = request
        body = control.fork_body(parent, tokens, by)

        def record_of(kind: Kind, what: control.Body, seq: int) -> bytearray:
            return encode_control(
                kind, held_id, seq, what, timestamp_us=now,
                producer=producer, producer_seq=producer_seq,
            )  # fmt: skip

        forked = record_of(Kind.FORK, body, parent.at)
        repeated = self._repeats.control(Kind.FORK, forked, producer, producer_seq)
        if repeated is not None:
            return repeated[1]
        check_name(*name)
        if (parent.namespace, parent.session) == name:
            raise InvalidArgument(f"session {name[1]!r} cannot be a fork of itself")
        if not 0 <= parent.at <= SEQ_MAX or tokens < 0:
            raise InvalidArgument(f"a fork at turn {parent.at} with {tokens} tokens")
        if found is not None or self._appender.next_seq(None, session_id):
            raise Conflict(
                f"session {name[1]!r} exists already; fork into a new name",
                seq=self._appender.next_seq(found, session_id),
            )
        opened = record_of(Kind.SESSION_OPENED, control.opened_body(*name, None), parent.at)
        batch = opened + forked
        places = [(0, session_id, parent.at), (len(opened), session_id, parent.at)]
        position = stage_batch(state.log, batch, places)
        session = state.index.get_or_make(session_id, position)
        state.index.name(session, *name)
        forked_at = position + len(opened)
        state.forked(state.log.header(forked_at), forked_at, parent, tokens)
        if producer:
            state.requests.note(producer, producer_seq, position)
        return position + len(batch)

    def _session(self, name: Name) -> Session:
        found, _ = self._state.index.find(*name)
        if found is None:
            raise NotFound(f"no session {name[1]!r} in namespace {'/'.join(name[0]) or '()'}")
        return found

    def _write(
        self,
        kind: Kind,
        session: Session,
        body: control.Body,
        request: tuple[int, int],
        check: Callable[[], None],
    ) -> int:
        return self._written(kind, session, [body], request, check)[1]

    def _written(
        self,
        kind: Kind,
        session: Session,
        bodies: Sequence[control.Body],
        request: tuple[int, int],
        check: Callable[[], None],
    ) -> tuple[int, int]:
        """Stage one batch of records: (position of the first, end of the batch)."""
        state = self._state
        producer, producer_seq = request
        # Behind all that may be lost: this record is evidence of where the session ends.
        seq = self._appender.next_seq(session, session.session_id)
        now = state.clock.now_us()
        records = [
            encode_control(
                kind, session.session_id, seq, body, timestamp_us=now,
                producer=producer, producer_seq=producer_seq,
            )
            for body in bodies
        ]  # fmt: skip
        repeated = self._repeats.controls(kind, records, producer, producer_seq)
        if repeated is not None:
            return repeated
        check()
        offsets = [0, *accumulate(map(len, records))]
        batch = bytearray().join(records)
        places = [(offset, session.session_id, seq) for offset in offsets[:-1]]
        position = stage_batch(state.log, batch, places)
        for offset, body in zip(offsets, bodies):
            state.apply(read_header(memoryview(batch)[offset:]), position + offset, body)
        if producer:
            state.requests.note(producer, producer_seq, position)
        return position, position + len(batch)


def check_range(session: Session, first: int, last: int, extractor: str) -> None:
    """A range of the session's own turns, and an extractor's name of some characters."""
    check_runs(session, [(first, last)])
    if not 0 < len(extractor) <= EXTRACTOR_CHARACTERS_MAX:
        raise InvalidArgument(
            f"an extractor's name of {len(extractor):,} characters; it has 1 to "
            f"{EXTRACTOR_CHARACTERS_MAX:,}"
        )


def check_runs(session: Session, runs: Sequence[tuple[int, int]]) -> None:
    """Every run must lie within the session's own turns."""
    if not runs:
        raise InvalidArgument("no turns were named")
    for first, last in runs:
        if first > last or first < 0:
            raise InvalidArgument(f"turns {first}..{last} are no range")
        if last >= session.end:
            raise NotFound(f"session {session.name!r} has {session.end} turns, no turn {last}")
        if first < session.base:
            raise InvalidArgument(
                f"turns below {session.base} belong to the session this one was forked from; "
                "do it there"
            )
