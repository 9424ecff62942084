"""Appending turns to a session: request ids, keys and expected seqs, then one staged batch.

Order of checks: request id, key, expect_seq. Nothing in memory changes before the log has taken
the batch; the log writes it with the rest of its group.
"""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

from neverforget.storage import control
from neverforget.storage.batch import stage_batch
from neverforget.storage.errors import Conflict, InvalidArgument
from neverforget.storage.format import HEADER_BYTES, SEQ_MAX, Kind, RecordFlag
from neverforget.storage.record import Header, check_incoming, encode_control
from neverforget.storage.region_state import RegionState
from neverforget.storage.repeats import Repeated, Repeats, check_same_turns, same_turn
from neverforget.storage.results import Appended
from neverforget.storage.session_index import Session

NAME_BYTES_MAX = 64 * 1024

_KEYED, _CALLS = int(RecordFlag.KEYED), int(RecordFlag.CALLS)

Name = tuple[tuple[str, ...], str]
Turns = list[tuple[int, int, Header]]  # (offset in the request, stride, header)
Places = list[tuple[int, int, int]]  # (offset in the batch, session_id, seq)


class Sorted(NamedTuple):
    """A request's turns: ``new`` ones to append; ``existing`` (index, record) that hold their keys
    already; ``twins``: (index, place in ``new``) of a key that stands twice in one request.
    """

    new: Turns
    existing: list[tuple[int, bytes]]
    twins: list[tuple[int, int]]
    end: int


class Appender:
    """Stages appends. Owned by the region's thread."""

    def __init__(self, state: RegionState, repeats: Repeats) -> None:
        self._state = state
        self._repeats = repeats

    def append(
        self,
        namespace: tuple[str, ...],
        session: str,
        agent: str | None,
        producer: int,
        producer_seq: int,
        expect_seq: int | None,
        records: bytes,
    ) -> Appended:
        """Stage the turns in ``records``; see ``messages.Append``. Not durable before the region's
        ``sync``, not even in the file before its ``write``.

        Raises InvalidArgument, Conflict (with ``seq``), OutOfSpace, Poisoned, Corrupt; then
        nothing was staged.
        """
        turns: Turns = check_incoming(records)
        if not turns:
            raise InvalidArgument("an append without turns; pass at least one")
        found, session_id = self._state.index.find(namespace, session)
        repeated = self._repeats.request(producer, producer_seq)
        if repeated is not None:
            return self._answer_again(
                found, session_id, records, turns, repeated, producer, producer_seq
            )
        if any(header.flags & _KEYED for _, _, header in turns):
            split = self._sort_keyed(found, records, turns)
        else:
            split = Sorted(turns, [], [], 0)
        seq = self.next_seq(found, session_id)
        if not split.new:
            return Appended(seq, split.existing, split.end)
        if expect_seq is not None and expect_seq != seq:
            raise Conflict(
                f"the next turn of {session!r} is {seq}, not {expect_seq}; read what came between "
                "and append again",
                seq=seq,
            )
        if seq + len(split.new) - 1 > SEQ_MAX:
            raise InvalidArgument(f"session {session!r} holds all the {SEQ_MAX + 1:,} turns it can")
        opening = self.opening(
            found, session_id, (namespace, session), agent, seq, (producer, producer_seq)
        )
        whole = len(split.new) == len(turns)
        position, places, batch = self._stage(session_id, seq, opening, records, split, whole)

        opened_at = position if places[0][0] else None
        name, request = (namespace, session), (producer, producer_seq)
        self.enter(found, session_id, name, agent, request, position, opened_at, places, split.new)
        for index, place in split.twins:
            offset, size = places[place][0], split.new[place][1]
            split.existing.append((index, bytes(batch[offset : offset + size])))
        end = position + len(batch)
        return Appended(seq, sorted(split.existing, key=itemgetter(0)), end)

    def next_seq(self, found: Session | None, session_id: int) -> int:
        """The seq of the session's next turn, behind all that may have been lost."""
        lost = self._state.lost
        if found is None:
            return lost.turns_of_unknown(session_id) if lost else 0
        return found.end + (lost.turns_after(found.last_position) if lost else 0)

    # ---- keys and repeats ------------------------------------------------------------------------

    def _sort_keyed(self, found: Session | None, records: bytes, turns: Turns) -> Sorted:
        split = Sorted([], [], [], 0)
        view = memoryview(records)
        end = 0
        seen: dict[tuple[int, int], list[tuple[int, memoryview, Header]]] = {}
        for index, (offset, size, header) in enumerate(turns):
            if header.flags & _KEYED:
                start = offset + HEADER_BYTES
                body = view[start : start + header.body_length]
                if found is not None:
                    stored = self._repeats.key(found.session_id, found.opened_at, header, body)
                    if stored is not None:
                        split.existing.append((index, stored.record))
                        end = max(end, stored.end)
                        continue
                twins = seen.setdefault((header.producer_id, header.producer_seq), [])
                twin = next((t for t in twins if same_turn(t[2], t[1], header, body)), None)
                if twin is not None:
                    split.twins.append((index, twin[0]))
                    continue
                twins.append((len(split.new), body, header))
            split.new.append((offset, size, header))
        return split._replace(end=end)

    def _answer_again(
        self,
        found: Session | None,
        session_id: int,
        records: bytes,
        turns: Turns,
        repeated: Repeated,
        producer: int,
        producer_seq: int,
    ) -> Appended:
        """The original answer to a repeated request: every one of its turns, as it is stored."""
        unkeyed = [header for _, _, header in turns if not header.flags & _KEYED]
        held = check_same_turns(repeated, unkeyed, producer, producer_seq)
        held_id = repeated.records[0][1].session_id
        if held_id != session_id and held_id not in self._state.index.erased_ids:
            raise Conflict(
                f"request {producer:016x}/{producer_seq} was an append to another session"
            )
        stored_turns = iter(held)
        existing: list[tuple[int, bytes]] = []
        end = repeated.end
        for index, (offset, _, header) in enumerate(turns):
            if header.flags & _KEYED:
                start = offset + HEADER_BYTES
                body = memoryview(records)[start : start + header.body_length]
                own = found is not None and found.session_id == held_id
                opened_at = found.opened_at if found is not None and own else 0
                stored = self._repeats.key(held_id, opened_at, header, body)
                if stored is None:
                    raise Conflict(f"request {producer:016x}/{producer_seq} had other keys before")
            else:
                stored = self._repeats.stored(*next(stored_turns))
            existing.append((index, stored.record))
            end = max(end, stored.end)
        first = held[0][1].sequence_id if held else self.next_seq(found, session_id)
        return Appended(first, existing, end)

    # ---- staging ---------------------------------------------------------------------------------

    def opening(
        self,
        found: Session | None,
        session_id: int,
        name: Name,
        agent: str | None,
        seq: int,
        request: tuple[int, int],
    ) -> bytearray:
        """The record that goes in front of the turns: a session's name or an agent's, or none."""
        if found is None or found.name is None:
            check_name(*name)
            kind, body = Kind.SESSION_OPENED, control.opened_body(*name, agent)
        elif agent is not None and agent not in found.agents:
            kind, body = Kind.AGENT_JOINED, control.joined_body(agent)
        else:
            return bytearray()
        if agent is not None and len(agent) > NAME_BYTES_MAX:
            raise InvalidArgument(f"an agent's name of {len(agent):,} characters; shorten it")
        now = self._state.clock.now_us()
        producer, producer_seq = request
        return encode_control(
            kind, session_id, seq, body, timestamp_us=now,
            producer=producer, producer_seq=producer_seq,
        )  # fmt: skip

    def _stage(
        self,
        session_id: int,
        first_seq: int,
        opening: bytearray,
        records: bytes,
        split: Sorted,
        whole: bool,
    ) -> tuple[int, Places, bytearray]:
        """Stage opening and new turns as one batch: (position of the batch, places of the turns,
        the batch, which is the log's from then on).
        """
        buffer = opening
        start = len(buffer)
        places: Places = []
        if whole:
            buffer += records
            for seq, (offset, _, _) in enumerate(split.new, first_seq):
                places.append((start + offset, session_id, seq))
        else:
            for seq, (offset, size, _) in enumerate(split.new, first_seq):
                places.append((len(buffer), session_id, seq))
                buffer += records[offset : offset + size]
        opened = [(0, session_id, first_seq)] if start else []
        position = stage_batch(self._state.log, buffer, opened + places)
        return position, places, buffer

    def enter(
        self,
        found: Session | None,
        session_id: int,
        name: Name | None,
        agent: str | None,
        request: tuple[int, int],
        position: int,
        opened_at: int | None,
        places: Places,
        new: Turns,
    ) -> Session:
        """Let what is staged count: the log has it, from here on nothing may fail. ``name`` None:
        it is not known, and no record opened the session. ``position``: of the batch;
        ``opened_at``: of the record in it that names session or agent; ``places``: of ``new``.
        """
        index, seq = self._state.index, places[0][2]
        nameless = found is not None and found.name is None
        begins = position + places[0][0] if opened_at is None else opened_at
        entered = found or index.get_or_make(session_id, begins)
        if opened_at is not None:
            if entered.opened_at != opened_at:
                entered.note_text(opened_at)
            if entered.name is None and name is not None:
                index.name(entered, *name)
            if agent is not None:
                index.join(entered, agent)
        self._state.appended += len(new)
        skipped = entered.skip_to(seq)
        named = self._enter_turns(entered, position, places, new)
        if skipped or nameless:
            self._state.ledger.recount(entered)
        else:
            self._state.ledger.appended(entered, len(new))
        if request[0] and (named or opened_at is not None):
            self._state.requests.note(*request, begins)
        return entered

    def _enter_turns(self, session: Session, position: int, places: Places, new: Turns) -> bool:
        """Enter staged turns into the index. Answers whether one of them carries a request id."""
        state = self._state
        rows: list[int] = []
        tokens = session.rows[-1]
        named = False
        for (offset, _, seq), (_, _, header) in zip(places, new):
            tokens += header.token_count
            rows += (position + offset, tokens)
            if header.flags:
                if header.flags & _KEYED:
                    state.keys.note(header.producer_id, header.producer_seq, position + offset)
                if header.flags & _CALLS and session.first_call is None:
                    session.first_call = seq
            if not header.flags & _KEYED:
                named = True
        session.rows.extend(rows)
        state.index.turns += len(new)
        return named


def check_name(namespace: tuple[str, ...], name: str) -> None:
    """InvalidArgument for what cannot be a session's name; any text within bounds can."""
    size = sum(len(n.encode("utf-8", "surrogatepass")) for n in (*namespace, name))
    if not name or not all(namespace):
        raise InvalidArgument("a session's name, and each element of its namespace, is some text")
    if size > NAME_BYTES_MAX:
        raise InvalidArgument(f"{size:,} bytes of namespace and name; {NAME_BYTES_MAX:,} at most")
