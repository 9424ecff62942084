"""Recognising what was asked before: a request by its id, a turn by its key.

Every mutation may arrive more than once. A repeat gets the original answer, also after a restart
and while its first is still staged; the same id or key with something else in it is a Conflict.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from neverforget.storage.batch import batch_from, end_of
from neverforget.storage.dedupe import id12
from neverforget.storage.errors import Conflict
from neverforget.storage.format import HEADER_BYTES, BodyField, Kind, RecordFlag
from neverforget.storage.log_state import LogState
from neverforget.storage.record import Buffer, Header, body_of, decode_body, read_header
from neverforget.storage.region_state import RegionState
from neverforget.storage.same_content import same_content

_KEYED = int(RecordFlag.KEYED)
_KEY = int(BodyField.KEY)
# What was said. Agent and metadata describe the delivery: a repeat may differ in them.
_SAID = tuple(int(f) for f in (BodyField.CONTENT, BodyField.NAME, BodyField.CALL_ID))
_ROLE = int(BodyField.ROLE)


class Stored(NamedTuple):
    """A turn that the log holds already. ``record`` is a header alone where there is no body to
    read. ``end``: the log position that must be durable for it.
    """

    record: bytes
    end: int


class Repeated(NamedTuple):
    """A request that was answered before: its records that carry its id, and its batch's end."""

    records: list[tuple[int, Header]]
    end: int


def find_request(
    state: LogState, producer: int, producer_seq: int, *, ever: bool = False
) -> Repeated | None:
    """What the log holds of this request id. A producer of 0 has no ids. ``ever``: also that of a
    producer that is remembered no more, which takes longer.
    """
    if not producer:
        return None
    known = state.requests.may_be_known(producer, producer_seq)
    if not known and not (ever and state.requests.evicted):
        return None
    start = state.requests.find(producer, producer_seq)
    if start is None:
        positions = state.log.find(id12(producer, producer_seq))
        found = [(position, state.log.header(position)) for position in positions]
    else:
        found = list(batch_from(state.log, start))
    if not found:
        return None
    end = end_of(*found[-1])
    wanted = (producer, producer_seq)
    own = [
        (position, header)
        for position, header in found
        if (header.producer_id, header.producer_seq) == wanted and not header.flags & _KEYED
    ]
    return Repeated(own, end) if own else None


class Repeats:
    """Looks things up; changes nothing."""

    def __init__(self, state: RegionState) -> None:
        self._state = state

    def request(self, producer: int, producer_seq: int) -> Repeated | None:
        """What the log holds of this request id. A producer of 0 has no ids."""
        return find_request(self._state, producer, producer_seq)

    def request_ever(self, producer: int, producer_seq: int) -> Repeated | None:
        """As ``request``, however long ago."""
        return find_request(self._state, producer, producer_seq, ever=True)

    def control(
        self, kind: Kind, control_record: Buffer, producer: int, producer_seq: int
    ) -> tuple[int, int] | None:
        """(position, batch end) of the same control record under the same request id."""
        return self.controls(kind, [control_record], producer, producer_seq)

    def controls(
        self, kind: Kind, control_records: Sequence[Buffer], producer: int, producer_seq: int
    ) -> tuple[int, int] | None:
        """(position of the first, batch end) of the same control records, all of this kind, under
        the same request id.
        """
        repeated = self.request(producer, producer_seq)
        if repeated is None:
            return None
        held = [found for found in repeated.records if found[1].kind == kind]
        if len(held) == len(control_records) and all(
            _same_body(header, asked) for (_, header), asked in zip(held, control_records)
        ):
            return held[0][0], repeated.end
        raise other_use(producer, producer_seq)

    def key(
        self, session_id: int, opened_at: int, header: Header, body: memoryview
    ) -> Stored | None:
        """The turn of this session that holds the key of the turn (header, body), if any.

        A key stays taken for ever, by an erased or unreadable turn as well. What is left of such a
        turn answers for the very same turn: a late repeat must not bring back what was erased.
        Raises Conflict when what was said differs.
        """
        state = self._state
        lost: tuple[int, Header] | None = None
        digest = (header.producer_id, header.producer_seq)
        positions = state.keys.find(*digest)
        if opened_at < state.log.indexed_until:
            positions = (*state.log.find(id12(*digest), opened_at), *positions)
        for position in positions:
            held = state.log.header(position)
            if held.session_id != session_id or not held.flags & _KEYED or held.kind != Kind.TURN:
                continue
            stored = self.stored(position, held)
            if len(stored.record) > HEADER_BYTES:
                if same_turn(held, body_of(stored.record), header, body):
                    return stored
            elif _checksums(held) == _checksums(header):
                return stored
            else:
                lost = position, held
        if lost is not None:
            position, held = lost
            what = (
                f"the turn with this key, {held.sequence_id}, was erased"
                if state.is_erased_at(position)
                else f"the turn with this key, {held.sequence_id}, is unreadable"
            )
            raise Conflict(
                f"{what}, and it was not this one; use another key", seq=held.sequence_id
            )
        return None

    def stored(self, position: int, header: Header) -> Stored:
        record, _ = self._state.turn_record(position, header)
        return Stored(record, end_of(position, header))


def same_turn(held: Header, held_body: memoryview, header: Header, body: memoryview) -> bool:
    """Do two keyed turns with one digest share their key? Raises Conflict when what they say
    differs; False when only their digests are equal.
    """
    if held.role == header.role and held_body == body:
        return True
    ours, theirs = decode_body(held_body), decode_body(body)
    if ours.get(_KEY) != theirs.get(_KEY):
        return False
    same_role = (held.role, ours.get(_ROLE)) == (header.role, theirs.get(_ROLE))
    if same_role and all(same_content(ours.get(f), theirs.get(f)) for f in _SAID):
        return True
    raise Conflict(
        f"the key {ours.get(_KEY)!r} is held by turn {held.sequence_id}, which says something "
        "else; use another key, or repeat with the same content",
        seq=held.sequence_id,
    )


def check_same_turns(
    repeated: Repeated, asked: list[Header], producer: int, producer_seq: int
) -> list[tuple[int, Header]]:
    """The unkeyed turns of a repeated append, one for each of ``asked``. Conflict otherwise."""
    kinds = {header.kind for _, header in repeated.records}
    turns = [found for found in repeated.records if found[1].kind == Kind.TURN]
    same = len(turns) == len(asked) and all(
        _checksums(held) == _checksums(new) for (_, held), new in zip(turns, asked)
    )
    if not same or not kinds <= {Kind.TURN, Kind.SESSION_OPENED, Kind.AGENT_JOINED}:
        raise other_use(producer, producer_seq)
    return turns


def _checksums(header: Header) -> tuple[int, int, int]:
    """What is left of a body that cannot be read: enough to know it again."""
    return header.body_crc, header.body_length, header.role


def _same_body(header: Header, control_record: Buffer) -> bool:
    asked = read_header(control_record)
    return (header.body_crc, header.body_length, header.session_id) == (
        asked.body_crc,
        asked.body_length,
        asked.session_id,
    )


def other_use(producer: int, producer_seq: int) -> Conflict:
    return Conflict(
        f"request {producer:016x}/{producer_seq} was used for something else before; a client "
        "must draw a new request id for each call"
    )
