"""What a region answers: small msgspec structs that go over the socket as they are."""

from __future__ import annotations

from enum import IntFlag
from typing import Any, Literal

from msgspec import Struct

TurnState = Literal["ok", "hidden", "erased", "unreadable"]


class TurnFlag(IntFlag):
    """What is known about a turn besides its record. Zero is the plain, readable turn."""

    CONSOLIDATED = 1
    HIDDEN = 2
    ERASED = 4
    UNREADABLE = 8


# Turns first..last were turns old.. of the same session in a log that was lost, in this epoch.
SalvagedRun = tuple[int, int, int, int]  # first, last, epoch, old


class ForkPoint(Struct, array_like=True, frozen=True):
    """Turns 0..at-1 of a fork are those of the parent session; the fork's own begin at ``at``.

    ``session_id`` is the parent's ``Window.session_id`` when it was forked: where the parent's name
    stands for another id today, that parent was erased. 0: not known.
    """

    namespace: tuple[str, ...]
    session: str
    at: int
    session_id: int = 0


class Window(Struct, array_like=True):
    """A run of one session's turns, oldest first.

    ``records`` holds whole records (header, body, padding) in seq order. An erased or unreadable
    turn is a header alone, its body_length set to 0 and its CRCs to 0. ``flags`` are (first, last,
    TurnFlag) runs within the window. ``first_seq``/``stop_seq`` bound what was looked at: the next
    page goes on from there (turns inside that are missing from ``records`` were filtered out).
    ``more``: turns of this region's own part of the session lie beyond, in the direction asked.
    ``end`` is the seq that the next append gets; ``base`` the first seq this region holds (0, or
    the fork point).
    """

    records: bytes
    flags: list[tuple[int, int, int]]
    first_seq: int
    stop_seq: int
    more: bool
    end: int
    base: int
    parent: ForkPoint | None
    consolidated_through: int  # turns 0..n-1 are consolidated
    tokens: int = 0  # of all turns below stop_seq, the inherited ones too
    session_id: int = 0  # 0: no such session; a name erased and used again has another
    salvaged: list[SalvagedRun] = []  # those that lie in it, uncut


class SessionView(Struct, array_like=True):
    """``exists`` False: never heard of, the rest is zero or None. Times are microseconds UTC."""

    namespace: tuple[str, ...]
    session: str
    exists: bool
    agents: list[str]
    turns: int
    tokens: int
    first_at: int | None
    last_at: int | None
    consolidated_through: int
    base: int
    parent: ForkPoint | None


class Appended(Struct, array_like=True):
    """``first_seq`` is of the first *new* turn; new turns are contiguous. ``existing`` are the
    items that repeated a key or a request: (index in the request, that turn's whole record).
    ``end`` is the log position to be durable.
    """

    first_seq: int
    existing: list[tuple[int, bytes]]
    end: int


class AuditView(Struct, array_like=True):
    """One audited operation. ``target`` is e.g. {"namespace", "session", "seqs"}; ``details`` free,
    JSON-like.
    """

    operation: str
    target: dict[str, Any]
    by: str
    at: int
    reason: str | None
    details: dict[str, Any]
    partition: int
    position: int


class Finding(Struct, array_like=True):
    """One thing verify() or recovery found. ``kind``: corrupt_body, corrupt_header, torn_tail,
    bad_side_file, missing_segment, index_mismatch, unfinished_erasure, bad_manifest,
    bad_derived_file, salvaged, salvage_conflict; of a replica object_missing, object_differs,
    bad_object; of a backup short_copy, unreadable; of a moved part not_salvaged.
    ``severity``: "error" (bytes lost) or "repaired".
    """

    kind: str
    severity: str
    file: str
    offset: int
    bytes: int
    message: str


class ErasureView(Struct, array_like=True):
    turns: int
    bytes: int
    positions: list[int]
    unreachable: list[str]
    at: int


class ReplicaStatus(Struct, array_like=True):
    """How far a log is shipped. ``state``: "everything" (it is shipped as it grows), "unfenced"
    (written without the store, as configured) or "stopped". ``error``: why the store does not
    answer, or why it stopped. ``objects``: number of the last one. ``shipped``: log position.
    """

    place: str
    state: str
    error: str | None
    objects: int
    shipped: int
    lag_bytes: int
    lag_us: int


class RegionStatus(Struct, array_like=True):
    partition: int
    epoch: int
    restarts: int
    sessions: int
    turns: int
    log_bytes: int
    tail: int
    durable: int
    segments: int
    quarantined_bytes: int
    torn_bytes: int
    recovery_us: int
    last_sync_us: int
    syncs: int
    findings: list[Finding]
    replica: ReplicaStatus | None = None
    appended: int = 0  # turns, since the region was opened
