"""Bodies of the records that the owner writes on its own account: CBOR maps with these keys.

Small integers, as in a turn's body. What they must not hold is the name of a session: only
SESSION_OPENED, FORK (its parent's) and REFUSED (its target) do, and erasing a session zeroes them.
The time of a record is its header's timestamp, so that a repeated request has an equal body.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from neverforget.storage.digests import session_scope
from neverforget.storage.errors import Corrupt
from neverforget.storage.record import decode_body
from neverforget.storage.results import ForkPoint


class ControlField(IntEnum):
    NAMESPACE = 0
    SESSION = 1
    AGENT = 2
    BY = 3
    REASON = 4
    RUNS = 5  # [[first, last], ...], inclusive seqs
    AT = 6
    TOKENS = 7
    EXTRACTOR = 8
    OPERATION = 9
    TARGET = 10
    RANGES = 11  # packed (position u64, length u32) of the bytes an erasure zeroes
    SALT = 12
    DIGEST = 13  # of a salted session scope: all that is left of an erased name
    ERASING = 14  # position of the ERASING record that an ERASED record completes
    TURNS = 15
    BYTES = 16
    PARENT_ID = 17
    TRIES = 18
    ORIGINS = 19  # of salvaged turns, run by run: [epoch, first seq] as they were
    DETAILS = 30
    SOURCES = 33  # of salvaged records: where each stood before, see salvage_bodies


F = {field: int(field) for field in ControlField}  # plain ints: an IntEnum is slow to encode
_RANGE = struct.Struct("<QI")
_LENGTH_MAX = 2**32 - 1

Body = dict[int, Any]
Range = tuple[int, int]  # position, length


def opened_body(namespace: tuple[str, ...], session: str, agent: str | None) -> Body:
    """``agent``: the first to join, so that opening a session costs one record."""
    body: Body = {F[ControlField.NAMESPACE]: list(namespace), F[ControlField.SESSION]: session}
    if agent is not None:
        body[F[ControlField.AGENT]] = agent
    return body


def joined_body(agent: str) -> Body:
    return {F[ControlField.AGENT]: agent}


def hidden_body(runs: Iterable[tuple[int, int]], by: str, reason: str | None) -> Body:
    body: Body = {F[ControlField.RUNS]: [list(run) for run in runs], F[ControlField.BY]: by}
    return _with_reason(body, reason)


def fork_body(parent: ForkPoint, tokens: int, by: str) -> Body:
    return {
        F[ControlField.NAMESPACE]: list(parent.namespace),
        F[ControlField.SESSION]: parent.session,
        F[ControlField.AT]: parent.at,
        F[ControlField.PARENT_ID]: parent.session_id,
        F[ControlField.TOKENS]: tokens,
        F[ControlField.BY]: by,
    }


def mark_body(first: int, last: int, extractor: str) -> Body:
    return {F[ControlField.RUNS]: [[first, last]], F[ControlField.EXTRACTOR]: extractor}


def planned_body(first: int, last: int, extractor: str, begun: int | None = None) -> Body:
    """``begun``: the plan that stands, which has been begun so often; None: a new one."""
    body = mark_body(first, last, extractor)
    return body if begun is None else {**body, F[ControlField.TRIES]: begun}


def not_reflected_body(first: int, last: int, extractor: str, tries: int) -> Body:
    return {**mark_body(first, last, extractor), F[ControlField.TRIES]: tries}


def reflection_error_body(first: int, last: int, error: str) -> Body:
    """Why, apart from the rest: it may be erased with the turns."""
    return {F[ControlField.RUNS]: [[first, last]], F[ControlField.REASON]: error}


def refused_body(operation: str, target: Mapping[str, Any], by: str, reason: str | None) -> Body:
    body: Body = {
        F[ControlField.OPERATION]: operation,
        F[ControlField.TARGET]: dict(target),
        F[ControlField.BY]: by,
    }
    return _with_reason(body, reason)


def _with_reason(body: Body, reason: str | None) -> Body:
    if reason is not None:
        body[F[ControlField.REASON]] = reason
    return body


def pack_ranges(ranges: Iterable[Range]) -> bytes:
    """Longer ranges than a u32 can say are cut in pieces."""
    packed = bytearray()
    for position, length in ranges:
        while length > 0:
            piece = min(length, _LENGTH_MAX)
            packed += _RANGE.pack(position, piece)
            position, length = position + piece, length - piece
    return bytes(packed)


def unpack_ranges(packed: bytes) -> list[Range]:
    if not isinstance(packed, bytes) or len(packed) % _RANGE.size:
        raise Corrupt("the ranges of an ERASING record are not whole")
    return [(position, length) for position, length in _RANGE.iter_unpack(packed)]


def salted_digest(salt: bytes, namespace: tuple[str, ...], session: str) -> bytes:
    """What an audit keeps of an erased name: whoever knows the name can check it, nobody can read
    it.
    """
    scope = session_scope(namespace, session)
    return hashlib.blake2b(scope, digest_size=16, salt=salt).digest()


# ---- reading -------------------------------------------------------------------------------------
# What passed its checksums may still come from a program with a mistake: every value is looked at.


class Named(NamedTuple):
    namespace: tuple[str, ...]
    session: str


class Fork(NamedTuple):
    parent: ForkPoint
    tokens: int


def read_body(raw: memoryview | bytes) -> Body:
    """The map of a control record. Raises Corrupt."""
    return decode_body(raw) if len(raw) else {}


def named(body: Body) -> Named:
    namespace = body.get(F[ControlField.NAMESPACE])
    if not isinstance(namespace, list) or not all(isinstance(n, str) for n in namespace):
        raise Corrupt("a record that should name a session has no namespace")
    return Named(tuple(namespace), text(body, ControlField.SESSION))


def fork(body: Body) -> Fork:
    namespace, session = named(body)
    at, tokens = number(body, ControlField.AT), number(body, ControlField.TOKENS)
    parent_id = number(body, ControlField.PARENT_ID)
    return Fork(ForkPoint(namespace, session, at, parent_id), tokens)


def text(body: Body, field: ControlField) -> str:
    value = body.get(field)
    if not isinstance(value, str):
        raise Corrupt(f"a control record's {field.name} is a {type(value).__name__}, not text")
    return value


def number(body: Body, field: ControlField) -> int:
    value = body.get(field)
    if type(value) is not int or value < 0:
        raise Corrupt(f"a control record's {field.name} is {value!r}, not a number from 0 up")
    return value


def one_run(body: Body) -> tuple[int, int]:
    found = list(runs(body))
    if len(found) != 1:
        raise Corrupt(f"a control record should hold one run of turns, not {len(found)}")
    return found[0]


def runs(body: Body) -> Iterator[tuple[int, int]]:
    found = body.get(F[ControlField.RUNS])
    for run in found if isinstance(found, list) else [None]:
        whole = isinstance(run, list) and len(run) == 2 and all(type(n) is int for n in run)
        if not isinstance(run, list) or not whole or not 0 <= run[0] <= run[1]:
            raise Corrupt(f"a control record's runs hold {run!r}")
        yield run[0], run[1]
