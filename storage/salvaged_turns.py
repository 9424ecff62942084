"""Bringing back turns: each gets a new seq and keeps its request id or key, its time and its body.

Turns of one session that follow each other are one batch, of several requests. What an erasure of a
whole session took stays away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from neverforget.storage import control
from neverforget.storage.appending import Appender, Name, Places, Turns
from neverforget.storage.batch import stage_batch
from neverforget.storage.control import ControlField, F
from neverforget.storage.dedupe import id12
from neverforget.storage.errors import Conflict
from neverforget.storage.format import SEQ_MAX, BodyField, Kind, RecordFlag
from neverforget.storage.old_places import OldPlaces
from neverforget.storage.record import Header, body_of, decode_body, encode_control, read_header
from neverforget.storage.region_state import RegionState
from neverforget.storage.repeats import Repeats
from neverforget.storage.results import SalvagedRun
from neverforget.storage.salvage_bodies import Sourced, brought_back_body, salvaged_runs
from neverforget.storage.salvage_reading import OldRecord
from neverforget.storage.salvaging import Salvaging
from neverforget.storage.slices import Slices

_AGENT: Final = int(BodyField.AGENT)
_KEYED, _CALLS = int(RecordFlag.KEYED), int(RecordFlag.CALLS)
_FLAGS_AT, _ID_AT = 6, 40
_BATCH_TURNS: Final = 64  # of several requests in one batch
_BATCH_BYTES: Final = 256 * 1024


class _Turn(NamedTuple):
    """``origin``: the epoch and seq it had first. ``named``: with its request id or key."""

    old: OldRecord
    origin: tuple[int, int]
    named: bool = True


class _Waiting:
    """Turns of one session that are staged together; ``agent``: who appended them."""

    def __init__(self, agent: str | None) -> None:
        self.agent = agent
        self.requests: list[list[_Turn]] = []
        self.count = self.bytes = 0


class SalvagedTurns:
    """Of one reading of ``salvaging``. ``changed``: sessions that turns were brought to."""

    def __init__(
        self,
        salvaging: Salvaging,
        state: RegionState,
        repeats: Repeats,
        appender: Appender,
        places: OldPlaces,
        changed: set[Name],
    ) -> None:
        self._salvaging = salvaging
        self._state = state
        self._repeats = repeats
        self._appender = appender
        self._places = places
        self._changed = changed
        self._waiting: dict[int, _Waiting] = {}

    def rest(self) -> Slices[None]:
        """Stage what waits for more of its session."""
        while self._waiting:
            session_id = next(iter(self._waiting))
            self._append(session_id, self._waiting.pop(session_id))
            yield

    def take(self, batch: Sequence[OldRecord]) -> None:
        """The turns of one request: they wait for others of their session, but not for long."""
        turns = [turn for turn in self._traced(batch) if not self._was_brought(turn)]
        # Two batches pass for one where damage took the end of the first and how the next begins.
        for session_id, own in groupby(turns, key=lambda turn: turn.old.header.session_id):
            self._wait(session_id, batch[0], list(own))

    def _wait(self, session_id: int, first: OldRecord, turns: list[_Turn]) -> None:
        agent = _agent_of(first, turns[0].old)
        waiting = self._waiting.get(session_id)
        size = sum(len(turn.old.record) for turn in turns)
        if waiting is not None and (
            waiting.agent != agent
            or waiting.count + len(turns) > _BATCH_TURNS
            or waiting.bytes + size > _BATCH_BYTES
        ):
            self._append(session_id, self._waiting.pop(session_id))
            waiting = None
        if waiting is None:
            waiting = self._waiting[session_id] = _Waiting(agent)
        waiting.requests.append(turns)
        waiting.count += len(turns)
        waiting.bytes += size

    def note_erased(self, header: Header) -> None:
        """A turn that is gone there: where its client has appended it here as well, that is the one
        that the erasure is about.
        """
        if header.kind != Kind.TURN:
            return
        request = header.producer_id, header.producer_seq
        if header.flags & _KEYED:
            positions = {*self._state.keys.find(*request), *self._state.log.find(id12(*request))}
            found = [self._state.log.header(position) for position in sorted(positions)]
        else:
            repeated = self._repeats.request_ever(*request)
            found = [] if repeated is None else [held for _, held in repeated.records]
        for held in found:
            session, seq = self._state.index.by_id.get(held.session_id), held.sequence_id
            if session is None or self._places.is_taken(session, seq):
                continue
            by_key = header.flags & _KEYED and held.session_id == header.session_id
            if held.kind == Kind.TURN and (by_key or _said(held) == _said(header)):
                self._places.note((header.session_id, header.sequence_id), session, seq)
                return

    def _traced(self, batch: Sequence[OldRecord]) -> Iterator[_Turn]:
        """Turns that had been salvaged before are those that they were at first."""
        runs: list[SalvagedRun] = []
        for each in batch:
            header = each.header
            if header.kind == Kind.SALVAGED:
                runs = list(salvaged_runs(control.read_body(body_of(each.record))))
            if header.kind == Kind.TURN:
                seq = header.sequence_id
                was = (
                    (epoch, old + seq - first)
                    for first, last, epoch, old in runs
                    if first <= seq <= last
                )
                yield _Turn(each, next(was, (header.epoch, seq)))

    def _was_brought(self, turn: _Turn) -> bool:
        place = self._salvaging.place_of(turn.old)
        if place is None:
            return False
        self._came_again(turn, self._state.log.header(place))
        return True

    def _came_again(self, turn: _Turn, header: Header) -> None:
        self._salvaging.report.came_again += 1
        session = self._state.index.by_id.get(header.session_id)
        if session is not None:
            old = turn.old.header
            self._places.note((old.session_id, old.sequence_id), session, header.sequence_id)

    def _unknown(self, turns: Sequence[_Turn]) -> list[_Turn]:
        """Without those that came again under the request id or key of their client. One whose key,
        or id, is held by something else is brought without it.
        """
        new = []
        repeated: dict[int, Header] = {}
        for turn in turns:
            if self._was_brought(turn):
                continue
            old = turn.old.header
            if (old.session_id, old.sequence_id) in self._places.seqs:
                self._salvaging.report.came_again += 1  # its piece is told twice
                continue
            if old.flags & _KEYED:
                turn = self._keyed(turn, repeated)
            else:
                turn = self._asked(turn, repeated)
            header = repeated.get(turn.old.position)
            if header is None:
                new.append(turn)
            else:
                self._came_again(turn, header)
        return new

    def _asked(self, turn: _Turn, repeated: dict[int, Header]) -> _Turn:
        """By its request id. Of a request that came again all turns did."""
        header = turn.old.header
        found = self._repeats.request_ever(header.producer_id, header.producer_seq)
        if found is None:
            return turn
        for _, held in found.records:
            session = self._state.index.by_id.get(held.session_id)
            free = session is None or not self._places.is_taken(session, held.sequence_id)
            if free and _said(held) == _said(header):
                repeated[turn.old.position] = held
                return turn
        why = "its request id was used for something else; it is there without it"
        self._salvaging.conflict(turn.old, why, brought=True)
        return turn._replace(named=False)

    def _keyed(self, turn: _Turn, repeated: dict[int, Header]) -> _Turn:
        old = turn.old
        session = self._places.here(old.header.session_id)
        if session is None:
            return turn
        try:
            held = self._repeats.key(
                session.session_id, session.opened_at, old.header, body_of(old.record)
            )
        except Conflict as error:
            self._salvaging.conflict(
                old,
                f"its key is held by turn {error.seq}; it is there without its key",
                brought=True,
            )
            return turn._replace(named=False)
        if held is not None:
            repeated[old.position] = read_header(held.record)
        return turn

    def _append(self, session_id: int, waiting: _Waiting) -> None:
        """One batch. An unknown name was lost with its record: its id stands for it, here as in any
        log.
        """
        state = self._state
        if session_id in state.index.erased_ids:
            self._salvaging.report.dropped += waiting.count  # all of the session was erased
            return
        # Only now: its client may have repeated a request a moment ago.
        turns = [turn for request in waiting.requests for turn in self._unknown(request)]
        if not turns:
            return
        name = self._places.name_of(session_id)
        if name is None:
            found, new_id = state.index.by_id.get(session_id), session_id
        else:
            found, new_id = state.index.find(*name)
        seq = self._appender.next_seq(found, new_id)
        if seq + len(turns) - 1 > SEQ_MAX:
            for turn in turns:
                self._salvaging.conflict(turn.old, "the session holds all the turns it can")
            return
        opening = bytearray()
        if name is not None:
            opening = self._appender.opening(found, new_id, name, waiting.agent, seq, (0, 0))
        sourced, runs, at = [], _Runs(), len(opening)
        for number, turn in enumerate(turns):
            sourced.append(Sourced(at, turn.old.source))
            runs.add(seq + number, turn.origin)
            at += len(turn.old.record)
        buffer = encode_control(
            Kind.SALVAGED, new_id, seq, brought_back_body(sourced, runs.found),
            timestamp_us=state.clock.now_us(),
        )  # fmt: skip
        front = len(buffer)
        buffer += opening
        places: Places = []
        new: Turns = []
        for number, turn in enumerate(turns):
            places.append((len(buffer), new_id, seq + number))
            record = _as_sent(turn)
            new.append((0, len(record), read_header(record)))
            buffer += record
        opened = [(front, new_id, seq)] if opening else []
        head = [(0, new_id, seq), *opened]
        position = stage_batch(state.log, buffer, [*head, *places], front + len(opening))

        opened_at = position + front if opening else None
        if name is not None:
            self._changed.add(name)
        session = self._appender.enter(
            found, new_id, name, waiting.agent, (0, 0), position, opened_at, places, new
        )
        state.apply(read_header(buffer), position, brought_back_body(sourced, runs.found))
        self._note_requests(position, places, new)
        self._salvaging.note_brought(position + front, sourced)
        for number, turn in enumerate(turns):
            old = turn.old.header
            self._places.note((old.session_id, old.sequence_id), session, seq + number)
        self._salvaging.report.turns += len(turns)

    def _note_requests(self, position: int, places: Places, new: Turns) -> None:
        last = (0, 0)
        for (offset, _, _), (_, _, header) in zip(places, new):
            request = header.producer_id, header.producer_seq
            if header.producer_id and not header.flags & _KEYED and request != last:
                self._state.requests.note(*request, position + offset)
                last = request


class _Runs:
    """Runs of turns whose seqs, new and old, go on one by one."""

    def __init__(self) -> None:
        self.found: list[SalvagedRun] = []

    def add(self, seq: int, origin: tuple[int, int]) -> None:
        if self.found:
            first, last, epoch, old = self.found[-1]
            if (seq, origin) == (last + 1, (epoch, old + seq - first)):
                self.found[-1] = (first, seq, epoch, old)
                return
        self.found.append((seq, seq, *origin))


def _said(header: Header) -> tuple[int, ...]:
    """What a client that repeats its request says again."""
    return header.kind, header.role, header.body_crc, header.body_length


def _agent_of(first: OldRecord, turn: OldRecord) -> str | None:
    """``first``: of the turn's batch; it says who joined."""
    if first.header.kind in (Kind.SESSION_OPENED, Kind.AGENT_JOINED):
        joined = control.read_body(body_of(first.record)).get(F[ControlField.AGENT])
        if isinstance(joined, str):
            return joined
    agent = decode_body(body_of(turn.record)).get(_AGENT)
    return agent if isinstance(agent, str) else None


def _as_sent(turn: _Turn) -> bytearray:
    """The record as its client made it, ready to be stamped."""
    record = bytearray(turn.old.record)
    record[_FLAGS_AT] &= _KEYED | _CALLS
    if not turn.named:
        record[_FLAGS_AT] &= _CALLS
        record[_ID_AT : _ID_AT + 12] = bytes(12)
    return record
