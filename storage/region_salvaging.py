"""Bringing back conversations: turns get new seqs, and what was said about turns follows them."""

from __future__ import annotations

from collections.abc import Sequence

from neverforget.storage import control
from neverforget.storage.appending import Appender, Name
from neverforget.storage.batch import stage_batch
from neverforget.storage.control import Body, ControlField, F
from neverforget.storage.erasure import CONFIRMED, Eraser
from neverforget.storage.format import Kind
from neverforget.storage.old_places import OldPlaces
from neverforget.storage.record import Header, body_of, encode_control, read_header
from neverforget.storage.region_state import RegionState
from neverforget.storage.repeats import Repeats
from neverforget.storage.results import ForkPoint
from neverforget.storage.salvage_bodies import Sourced, brought_back_body
from neverforget.storage.salvage_reading import OldRecord
from neverforget.storage.salvage_readings import Brought
from neverforget.storage.salvaged_turns import SalvagedTurns
from neverforget.storage.salvaging import BY, CannotBeSalvaged, Salvaging
from neverforget.storage.session_index import Session
from neverforget.storage.slices import Slices, in_one_go

_FLAGS_AT = 6


class RegionSalvaging(Salvaging):
    """``changed``: sessions that turns were brought to are added."""

    def __init__(
        self,
        state: RegionState,
        brought: Brought,
        repeats: Repeats,
        appender: Appender,
        eraser: Eraser,
        changed: set[Name],
    ) -> None:
        super().__init__(state, brought)
        self._state = state
        self._repeats = repeats
        self._appender = appender
        self._eraser = eraser
        self._changed = changed
        self._forget()

    def _forget(self) -> None:
        state = self._state
        self._places = OldPlaces(state, self.parting)
        self._turns = SalvagedTurns(
            self, state, self._repeats, self._appender, self._places, self._changed
        )

    def _rest(self) -> Slices[None]:
        return self._turns.rest()

    # ---- a batch ---------------------------------------------------------------------------------

    def _carry_out(self, batch: Sequence[OldRecord]) -> None:
        for each in batch:
            if each.header.kind == Kind.SESSION_OPENED:
                body = control.read_body(body_of(each.record))
                self._places.names[each.header.session_id] = control.named(body)
        kinds = {each.header.kind for each in batch}
        if Kind.TURN in kinds:
            self._turns.take(batch)
            return
        in_one_go(self._rest())  # what follows may be about any of them
        for each in batch:
            kind = each.header.kind
            if kind in (Kind.SESSION_OPENED, Kind.AGENT_JOINED):
                continue
            if kind == Kind.SALVAGED and not self._is_said(each):
                continue
            if self.place_of(each) is not None:
                self.report.came_again += 1
            elif kind in (Kind.HIDDEN, Kind.UNHIDDEN):
                self._hide(each)
            elif kind == Kind.FORK:
                self._fork(each)
            elif kind == Kind.ERASING:
                self._erase(each)
            else:  # a refusal, or what an earlier salvage had to say
                self._as_it_is(each)

    def _is_said(self, record: OldRecord) -> bool:
        body = control.read_body(body_of(record.record))
        return bool(body.get(F[ControlField.OPERATION], BY) != BY)

    # ---- what is about turns ---------------------------------------------------------------------

    def _hide(self, old: OldRecord) -> None:
        header = old.header
        if self._repeats.request_ever(header.producer_id, header.producer_seq) is not None:
            self.report.came_again += 1
            return
        body = control.read_body(body_of(old.record))
        moved = self._places.moved(header.session_id, list(control.runs(body)))
        if not moved:
            self.report.dropped += 1  # the turns are not there
        for session_id, runs in moved.items():
            session = self._state.index.by_id[session_id]
            self._stage_control(
                old, session, {**body, F[ControlField.RUNS]: [list(run) for run in runs]}
            )

    def _stage_control(self, old: OldRecord, session: Session, body: Body) -> None:
        seq = self._appender.next_seq(session, session.session_id)
        header = old.header
        record = encode_control(
            Kind(header.kind), session.session_id, seq, body, timestamp_us=header.timestamp,
            producer=header.producer_id, producer_seq=header.producer_seq,
        )  # fmt: skip
        position = self._stage_behind(old, [(record, session.session_id, seq)])
        self._state.apply(read_header(record), position, body)

    def _stage_behind(
        self, old: OldRecord, records: Sequence[tuple[bytearray, int, int]], of: int = 0
    ) -> int:
        """(record, session_id, seq) each, behind a SALVAGED record whose source ``old`` is, for the
        record ``of``; the position of the first.
        """
        state, behind = self._state, sum(len(record) for record, _, _ in records[:of])
        sourced = [Sourced(behind, old.source)]
        _, session_id, seq = records[0]
        now = state.clock.now_us()
        buffer = encode_control(
            Kind.SALVAGED, session_id, seq, brought_back_body(sourced), timestamp_us=now
        )
        front = len(buffer)
        places = [(0, session_id, seq)]
        for record, session, at in records:
            places.append((len(buffer), session, at))
            buffer += record
        position = stage_batch(state.log, buffer, places, front)
        state.salvages.note(position)
        self.note_brought(position + front, sourced)
        header = old.header
        if header.producer_id:
            request = header.producer_id, header.producer_seq
            state.requests.note(*request, position + front)
        return position + front

    def _fork(self, old: OldRecord) -> None:
        header, state = old.header, self._state
        name = self._places.names.get(header.session_id)
        if name is None:
            raise CannotBeSalvaged("a session was forked whose name is lost")
        if self._repeats.request_ever(header.producer_id, header.producer_seq) is not None:
            self.report.came_again += 1
            return
        body = control.read_body(body_of(old.record))
        parent, tokens = control.fork(body)
        found, session_id = state.index.find(*name)
        if found is not None:
            raise CannotBeSalvaged("the session that was forked is there already, as another")
        parent, tokens = self._parent_of(parent, tokens)
        body |= {F[ControlField.AT]: parent.at, F[ControlField.TOKENS]: tokens}

        def record_of(kind: Kind, what: Body) -> bytearray:
            return encode_control(
                kind, session_id, parent.at, what, timestamp_us=header.timestamp,
                producer=header.producer_id, producer_seq=header.producer_seq,
            )  # fmt: skip

        opened = record_of(Kind.SESSION_OPENED, control.opened_body(*name, None))
        records = [(opened, session_id, parent.at)]
        records.append((record_of(Kind.FORK, body), session_id, parent.at))
        position = self._stage_behind(old, records, of=1)
        session = state.index.get_or_make(session_id, position)
        state.index.name(session, *name)
        forked_at = position + len(opened)
        state.forked(state.log.header(forked_at), forked_at, parent, tokens)

    def _parent_of(self, parent: ForkPoint, tokens: int) -> tuple[ForkPoint, int]:
        """Behind the newest of its turns that is here. Of a parent in another region nothing is
        known here: it stays as it was.
        """
        found, _ = self._state.index.find(parent.namespace, parent.session)
        session = self._state.index.by_id.get(parent.session_id)
        end = self._places.front_end(session)
        if parent.at <= end or (found is None and session is None):
            return parent, tokens
        held = [self._places.seqs.get((parent.session_id, seq)) for seq in range(end, parent.at)]
        there = [each for each in held if each is not None]
        if not there:
            if session is None:
                return parent, tokens
            there = [(session, end - 1)]
        holder, last = there[-1]
        moved = ForkPoint(parent.namespace, parent.session, last + 1, holder.session_id)
        return moved, holder.tokens_before(last + 1)

    def _as_it_is(self, old: OldRecord) -> None:
        """A record of no session, or about the id of one."""
        record = bytearray(old.record)
        record[_FLAGS_AT] = 0
        header = old.header
        place = (record, header.session_id, header.sequence_id)
        position = self._stage_behind(old, [place])
        if header.kind == Kind.SALVAGED:
            self._state.salvages.note(position)
        self._state.audit.note(position)

    # ---- erasing ---------------------------------------------------------------------------------

    def _erase(self, old: OldRecord) -> None:
        """What was behind where the logs part was left out; what is in front is the same here."""
        header = old.header
        body = control.read_body(body_of(old.record))
        request = header.producer_id, header.producer_seq
        if F[ControlField.ERASING] in body:
            request = (0, 0)  # the rest of a large one
        elif self._repeats.request_ever(*request) is not None:
            self.report.came_again += 1
            return
        moved = self._places.moved(header.session_id, self._erased_there(header, body))
        by, reason = body.get(F[ControlField.BY], BY), body.get(F[ControlField.REASON])
        for session_id, runs in moved.items():
            session = self._state.index.by_id[session_id]
            if session.name is None:
                continue
            whole = F[ControlField.DIGEST] in body and len(runs) == session.end - session.base
            self._eraser.erase(
                (session.namespace, session.name), None if whole else list(runs), CONFIRMED, by,
                reason, request,
            )  # fmt: skip
            request = (0, 0)
        if not moved:
            self.report.dropped += 1
            self.say(old, {"erased": "what was never shipped; it stays erased"}, "erase")

    def _erased_there(self, header: Header, body: Body) -> list[tuple[int, int]]:
        """Turns by their old seqs; of a whole session all that are known. What it has got here
        since stays.
        """
        if F[ControlField.DIGEST] not in body:
            return list(control.runs(body))
        session_id = header.session_id
        session = self._state.index.by_id.get(session_id)
        end = self._places.front_end(session)
        front = [(session.base, end - 1)] if session is not None and end > session.base else []
        return front + [(seq, seq) for of, seq in self._places.seqs if of == session_id]

    def _note_erased(self, header: Header) -> None:
        self._turns.note_erased(header)

    def _about(self, record: OldRecord) -> tuple[int, int]:
        session = self._places.here(record.header.session_id)
        if session is None:
            return 0, 0
        return session.session_id, self._appender.next_seq(session, session.session_id)
