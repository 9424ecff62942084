"""Records to turns and back: what ``append`` sends, what reads give.

A turn that was just appended is built from its arguments, with content and metadata taken from the
record where they are structured, so that it never shares a list or dict with its caller.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from neverforget.runtime.scope import NAME_CHARACTERS_MAX
from neverforget.runtime.times import from_us
from neverforget.runtime.values import Turn
from neverforget.storage.errors import Corrupt, InvalidArgument
from neverforget.storage.format import BodyField
from neverforget.storage.record import Header, body_of, decode_body, decode_records, encode_turn
from neverforget.storage.results import SalvagedRun, TurnFlag, TurnState, Window
from neverforget.storage.turn_states import flags_by_seq, lost_state, role_of, state_of
from neverforget.storage.type_names import a_type

CONTENT, NAME, AGENT, CALL_ID, KEY, METADATA, _ = map(int, BodyField)
_CONSOLIDATED = int(TurnFlag.CONSOLIDATED)


_PLAIN = frozenset({str, bytes, type(None)})


class Draft(NamedTuple):
    """A turn on its way: its record, and what the turn will hold once it has a seq."""

    record: bytes
    role: str
    content: Any
    name: str | None
    call_id: str | None
    key: str | None
    metadata: dict[str, Any]
    timestamp_us: int
    token_count: int

    def turn(self, namespace: tuple[str, ...], session: str, agent: str | None, seq: int) -> Turn:
        """The turn, now that the owner gave it its seq."""
        return Turn(
            namespace,
            session,
            seq,
            self.role,
            self.content,
            self.name,
            agent,
            self.call_id,
            self.key,
            self.metadata,
            from_us(self.timestamp_us),
            self.token_count,
            False,
            "ok",
        )


def draft(
    role: str,
    content: Any,
    name: str | None,
    agent: str | None,
    call_id: str | None,
    key: str | None,
    metadata: Mapping[str, Any] | None,
    timestamp_us: int,
    token_count: int,
    producer: int,
    producer_seq: int,
    key_scope: bytes,
) -> Draft:
    """Encode one turn. Raises InvalidArgument for what would not come back equal."""
    if type(role) is not str or not role:
        role = checked_role(role)
    if not (name is None and call_id is None and key is None):
        check_label(name, "name")
        check_label(call_id, "call_id")
        check_label(key, "key")
    record = encode_turn(
        role=role,
        content=content,
        name=name,
        agent=agent,
        call_id=call_id,
        key=key,
        metadata=metadata,
        timestamp_us=timestamp_us,
        token_count=token_count,
        producer=producer,
        producer_seq=producer_seq,
        key_scope=key_scope,
    )
    if (
        type(content) in _PLAIN
        and not metadata
        and {type(name), type(call_id), type(key)} <= _PLAIN
    ):
        kept: dict[str, Any] = {}
    else:
        body = decode_body(body_of(record))
        content, kept = body.get(CONTENT), body.get(METADATA, {})
        name, call_id, key = body.get(NAME), body.get(CALL_ID), body.get(KEY)
    return Draft(record, role, content, name, call_id, key, kept, timestamp_us, token_count)


def check_label(label: object, what: str) -> None:
    """None, or text of 1 to 4,096 characters, half surrogate pairs included."""
    if label is None:
        return
    if not isinstance(label, str):
        raise InvalidArgument(f"{what} is {a_type(label)}; pass text")
    if not label:
        raise InvalidArgument(f"{what} is empty; leave it out where there is none")
    if len(label) > NAME_CHARACTERS_MAX:
        raise InvalidArgument(
            f"{what} has {len(label):,} characters, above the limit of {NAME_CHARACTERS_MAX:,}"
        )


def checked_role(role: object) -> str:
    """Any text but the empty one is a role."""
    if not isinstance(role, str):
        raise InvalidArgument(f"role is {a_type(role)}; pass text or a neverforget.Role")
    if not role:
        raise InvalidArgument("role is empty; say who speaks, e.g. neverforget.Role.USER")
    return str.__str__(role)


def turn_of(
    header: Header,
    body: dict[int, Any] | None,
    namespace: tuple[str, ...],
    session: str,
    consolidated: bool,
    state: TurnState,
    salvaged_from: tuple[int, int] | None = None,
) -> Turn:
    """The turn of a decoded record."""
    if body is None:
        body, state = {}, lost_state(header, state)
    return Turn(
        namespace,
        session,
        header.sequence_id,
        role_of(header, body),
        body.get(CONTENT),
        body.get(NAME),
        body.get(AGENT),
        body.get(CALL_ID),
        body.get(KEY),
        body.get(METADATA) or {},
        from_us(header.timestamp),
        header.token_count,
        consolidated,
        state,
        salvaged_from,
    )


def turns_of(window: Window, namespace: tuple[str, ...], session: str) -> list[Turn]:
    """The turns of a window, in order, under the name by which they were asked for."""
    flagged = flags_by_seq(window.flags)
    through = window.consolidated_through
    turns = []
    for header, body in decode_records(window.records):
        seq = header.sequence_id
        flags = flagged.get(seq, 0) if flagged else 0
        state: TurnState = "ok"
        if flags:
            state = state_of(flags)
        consolidated = seq < through or bool(flags & _CONSOLIDATED)
        origin = _origin(window.salvaged, seq) if window.salvaged else None
        turns.append(turn_of(header, body, namespace, session, consolidated, state, origin))
    return turns


def _origin(salvaged: Sequence[SalvagedRun], seq: int) -> tuple[int, int] | None:
    at = bisect_left(salvaged, seq, key=lambda run: run[1])
    if at == len(salvaged) or seq < salvaged[at][0]:
        return None
    first, _, epoch, old = salvaged[at]
    return epoch, old + seq - first


def turn_of_record(record: bytes, namespace: tuple[str, ...], session: str) -> Turn:
    """The turn of a single record, as an append that repeats a key gets it."""
    for header, body in decode_records(record):
        return turn_of(header, body, namespace, session, False, "ok")
    raise Corrupt("the owner answered with an empty record")


def erased_turn(namespace: tuple[str, ...], session: str, seq: int) -> Turn:
    """A turn whose very record is gone with the session it was inherited from."""
    return Turn(
        namespace,
        session,
        seq,
        "",
        None,
        None,
        None,
        None,
        None,
        {},
        from_us(0),
        0,
        False,
        "erased",
    )
