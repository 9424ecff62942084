"""Parts of which windows of turns are made. Pure, but for what they are given."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from neverforget.storage.errors import InvalidArgument
from neverforget.storage.format import (
    HEADER,
    HEADER_BYTES,
    HEADER_VERSION,
    MAGIC,
    ROLE_CODES,
    BodyField,
    Kind,
    RoleCode,
)
from neverforget.storage.record import Header, body_of, decode_body, read_header
from neverforget.storage.results import SalvagedRun, TurnFlag
from neverforget.storage.runs import Runs, combined
from neverforget.storage.session_index import Session

LIMIT_MAX = 2**31 - 1

_ROLE = int(BodyField.ROLE)
_ROLE_AT = 5
_CONSOLIDATED, _HIDDEN = int(TurnFlag.CONSOLIDATED), int(TurnFlag.HIDDEN)
_ERASED, _UNREADABLE = int(TurnFlag.ERASED), int(TurnFlag.UNREADABLE)


@dataclass(slots=True)
class Gathered:
    """``first``..``stop``-1 were looked at. ``closed``: what was asked for is all there; False
    where a bound of the reply came first.
    """

    seqs: list[int]
    records: list[bytes]
    first: int
    stop: int
    closed: bool = True


class RoleFilter:
    """Role names as codes; names of a caller's own stand in the body."""

    def __init__(self, roles: Sequence[str]) -> None:
        self._codes = {int(ROLE_CODES[role]) for role in roles if role in ROLE_CODES}
        self._names = {role for role in roles if role not in ROLE_CODES}

    def admits(self, record: bytes) -> bool:
        role = record[_ROLE_AT]
        if role != RoleCode.OTHER:
            return role in self._codes
        return bool(self._names) and _own_role(read_header(record), record) in self._names


def _own_role(header: Header, record: bytes) -> str | None:
    return decode_body(body_of(record)).get(_ROLE) if header.body_length else None


def visible(
    session: Session, start: int, stop: int, backward: bool, include_hidden: bool
) -> Iterator[int]:
    """Seqs of start..stop-1, hidden runs jumped over."""
    hidden = session.extra.hidden if session.extra is not None else None
    if include_hidden or not hidden:
        yield from reversed(range(start, stop)) if backward else range(start, stop)
        return
    seq = stop - 1 if backward else start
    while start <= seq < stop:
        run = hidden.run_of(seq)
        if run is not None:
            seq = run[0] - 1 if backward else run[1] + 1
            continue
        yield seq
        seq += -1 if backward else 1


def flags_of(session: Session, gathered: Gathered) -> list[tuple[int, int, int]]:
    """The window's flag runs. A header alone that nobody erased is an unreadable turn."""
    unreadable, extra = Runs(), session.extra
    for seq, record in zip(gathered.seqs, gathered.records):
        if len(record) == HEADER_BYTES and (extra is None or seq not in extra.erased):
            unreadable.add(seq, seq)
    layers = [(unreadable, _UNREADABLE)] if unreadable else []
    if marks := session.marks:
        layers.append((marks, _CONSOLIDATED))
    if extra is not None:
        layers += [(extra.hidden, _HIDDEN), (extra.erased, _ERASED)]
    return combined(gathered.first, gathered.stop, layers) if layers else []


def salvaged_in(session: Session, first: int, stop: int) -> list[SalvagedRun]:
    """The runs of salvaged turns that have any of first..stop-1."""
    extra = session.extra
    if extra is None or not extra.salvaged:
        return []
    runs = extra.salvaged
    low = bisect_left(runs, first, key=lambda run: run[1])
    high = bisect_left(runs, stop, key=lambda run: run[0])
    return list(runs[low:high])


def lost_turn(session: Session, seq: int) -> bytes:
    """The header that stands for a turn whose record is lost: role 0, no time, no tokens."""
    return HEADER.pack(
        MAGIC, Kind.TURN, 0, 0, HEADER_VERSION, session.session_id, seq, 0, 0, 0, 0, 0, 0, 0, 0, 0
    )


def check_limit(limit: int) -> None:
    if not 1 <= limit <= LIMIT_MAX:
        raise InvalidArgument(f"a limit of {limit}; pass 1 to {LIMIT_MAX}")


def check_cursor(after: int | None, before: int | None, end: int) -> None:
    """A cursor is a seq of this session, or its edge: -1 in front, ``end`` behind."""
    if after is not None and not -1 <= after < max(end, 0):
        raise InvalidArgument(f"after={after} is no turn of this session, which has {end}")
    if before is not None and not 0 <= before <= end:
        raise InvalidArgument(f"before={before} is no turn of this session, which has {end}")
