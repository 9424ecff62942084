"""What a SALVAGED record says: which records of a lost log its batch brings back, or what was to be
said about a salvage. It stands in front of those records. Bytes: ``FORMAT.md``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from neverforget.storage.control import Body, ControlField, F
from neverforget.storage.errors import Corrupt
from neverforget.storage.results import SalvagedRun

_SOURCE = struct.Struct("<IQI")
Source = tuple[int, int]  # position and header CRC of a record in the log it was lost with


class Sourced(NamedTuple):
    """``behind``: how far behind the SALVAGED record it stands; below 0: it is that one."""

    behind: int
    source: Source


def brought_back_body(sourced: Iterable[Sourced], runs: Iterable[SalvagedRun] = ()) -> Body:
    """``runs``: of turns, all of one session."""
    body: Body = {F[ControlField.SOURCES]: _packed(sourced)}
    runs = list(runs)
    if runs:
        body[F[ControlField.RUNS]] = [[first, last] for first, last, _, _ in runs]
        body[F[ControlField.ORIGINS]] = [[epoch, old] for _, _, epoch, old in runs]
    return body


def on_record_body(
    operation: str,
    details: Mapping[str, Any],
    *,
    by: str,
    reason: str | None = None,
    source: Source | None = None,
) -> Body:
    """``operation``: what it was that could not be carried out; "salvage": a whole salvage. Nothing
    in ``details`` quotes anybody, or names a session: erasing would not reach it.
    """
    body: Body = {
        F[ControlField.OPERATION]: operation,
        F[ControlField.DETAILS]: dict(details),
        F[ControlField.BY]: by,
    }
    if reason is not None:
        body[F[ControlField.REASON]] = reason
    if source is not None:
        body[F[ControlField.SOURCES]] = _packed([Sourced(-1, source)])
    return body


def _packed(sourced: Iterable[Sourced]) -> bytes:
    return b"".join(_SOURCE.pack(behind + 1, *source) for behind, source in sourced)


def sources_in(body: Body) -> Iterator[Sourced]:
    """Raises Corrupt."""
    packed = body.get(F[ControlField.SOURCES], b"")
    if not isinstance(packed, bytes) or len(packed) % _SOURCE.size:
        raise Corrupt("the sources of a SALVAGED record are not whole")
    for behind, position, crc in _SOURCE.iter_unpack(packed):
        yield Sourced(behind - 1, (position, crc))


def salvaged_runs(body: Body) -> Iterator[SalvagedRun]:
    """Raises Corrupt."""
    runs, origins = body.get(F[ControlField.RUNS], []), body.get(F[ControlField.ORIGINS], [])
    try:
        for (first, last), (epoch, old) in zip(runs, origins, strict=True):
            yield int(first), int(last), int(epoch), int(old)
    except (TypeError, ValueError) as error:
        raise Corrupt(f"a SALVAGED record does not say which turns: {error}") from error


def salvage_details(body: Body) -> dict[str, Any]:
    """Of an entry in the audit: what could not be carried out, or what a salvage did in all."""
    details, operation = body.get(F[ControlField.DETAILS]), body.get(F[ControlField.OPERATION])
    found = dict(details) if isinstance(details, dict) else {}
    return found | ({"operation": operation} if isinstance(operation, str) else {})
