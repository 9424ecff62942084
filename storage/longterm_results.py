"""What goes into a long-term region and comes out of it: msgspec structs that cross a socket as
they are. Times are microseconds UTC; ids are canonical UUID text.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeAlias

from msgspec import UNSET, Struct, UnsetType, field

from neverforget.storage.results import AuditView, Finding, ReplicaStatus

Namespace: TypeAlias = tuple[str, ...]
Span: TypeAlias = tuple[int, int]
IDS_MAX = 1_000  # of memories, in an answer


class Status(IntEnum):
    ACTIVE = 1
    ARCHIVED = 2
    FORGOTTEN = 3
    GONE = 4  # purged or erased: only the id is left


STATUS_NAMES = {Status.ACTIVE: "active", Status.ARCHIVED: "archived", Status.FORGOTTEN: "forgotten"}
STATUS_CODES = {name: status for status, name in STATUS_NAMES.items()}


class TurnPoint(Struct, array_like=True, frozen=True):
    """Turns ``first``..``last`` (inclusive) of a session, as the end of a relation."""

    namespace: Namespace
    session: str
    first: int
    last: int


class NewRelation(Struct, array_like=True, frozen=True):
    """From the memory it comes with to ``target``: a memory's id, or turns."""

    target: str | TurnPoint
    kind: str = "related-to"
    weight: float = 1.0


class NewMemory(Struct, array_like=True, frozen=True):
    """One memory to remember; ``id`` is drawn by the caller, a UUIDv7."""

    id: str
    text: str
    key: str | None = None
    type: str = "fact"
    tags: tuple[str, ...] = ()
    importance: float = 1.0
    confidence: float = 1.0
    source: str | None = None
    agent: str | None = None
    speaker: str | None = None
    namespace: Namespace = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    related_to: tuple[NewRelation, ...] = ()
    occurred_at: int | None = None
    context: str | None = None
    valid_from: int | None = None
    valid_to: int | None = None


class Superseding(Struct, array_like=True, frozen=True):
    """The memory ``new`` takes the place of ``old`` from ``at`` on. What is forgotten or gone by
    then is left out.
    """

    new: str
    old: str
    at: int


class Changes(Struct, frozen=True):
    """What a revision changes; what is UNSET stays as it is."""

    text: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    importance: float | UnsetType = UNSET
    confidence: float | UnsetType = UNSET
    source: str | UnsetType | None = UNSET
    agent: str | UnsetType | None = UNSET
    speaker: str | UnsetType | None = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    occurred_at: int | UnsetType | None = UNSET
    context: str | UnsetType | None = UNSET
    valid_from: int | UnsetType | None = UNSET
    valid_to: int | UnsetType | None = UNSET


class NewDerived(Struct, array_like=True, frozen=True):
    """A chunk or summary to store with others of the same original; ``id`` is a UUIDv8.

    ``kind`` "chunk" or "summary"; ``span``: characters of the original that a chunk covers.
    ``context``: where it stands in the original, as its title and headings.
    """

    id: str
    text: str
    kind: str = "chunk"
    span: Span | None = None
    context: str | None = None


class MemoryView(Struct, array_like=True, frozen=True):
    """A memory as one of its records has it, with today's tags and status where it is the current
    version. ``position``: of that record; ``born``: of its first one, a stable number for life.
    """

    id: str
    text: str
    key: str | None
    type: str
    tags: tuple[str, ...]
    importance: float
    confidence: float
    source: str | None
    agent: str | None
    speaker: str | None
    namespace: Namespace
    metadata: dict[str, Any]
    created_at: int
    occurred_at: int | None
    context: str | None
    valid_from: int | None
    valid_to: int | None
    version: int
    status: str
    original: str | None = None  # of a chunk or summary
    span: Span | None = None
    revised_at: int = 0  # when this version was written
    by: str | None = None
    position: int = 0
    born: int = 0


class Remembered(Struct, array_like=True):
    """``new``: False where a key or a repeat found it already. ``end`` must be durable."""

    memories: list[MemoryView]
    new: list[bool]
    end: int


class RelationView(Struct, array_like=True, frozen=True):
    source: str
    target: str | TurnPoint
    kind: str
    weight: float


class MemoryFilter(Struct, frozen=True):
    """Everything given must hold. ``namespace``: it and all below, element by element. ``tags``:
    each of them, or a tag below it. ``where``: {"metadata.path": value | {"$gt": …}}.
    ``timeframe``: [start, stop) on occurred_at, else created_at. ``older_than``: created before.
    ``as_of``: valid at that time. ``status`` None: whatever is not gone. ``derived``: chunks and
    summaries too.
    """

    namespace: Namespace = ()
    types: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    agent: str | None = None
    where: dict[str, Any] | None = None
    timeframe: tuple[int | None, int | None] | None = None
    older_than: int | None = None
    as_of: int | None = None
    status: str | None = "active"
    derived: bool = False


class MemoryPage(Struct, array_like=True):
    """Oldest first; ``next``/``previous`` are cursors (``born`` of the last and first one)."""

    memories: list[MemoryView]
    next: int | None
    previous: int | None
    more: bool


class Forgotten(Struct, array_like=True):
    """``entry``: the audit entry. ``ids``: all that changed with it, chunks and summaries too; none
    where they are more than ``IDS_MAX``. ``count``: without chunks and summaries.
    """

    entry: AuditView | None
    count: int
    ids: list[str]
    end: int


class LongTermErasure(Struct, array_like=True):
    """``ids`` as in ``Forgotten``. ``flagged``: memories derived from what was erased, but not
    only. ``revised``: memories whose copy of an erased text (``context``) was taken out.
    """

    memories: int
    bytes: int
    ids: list[str]
    flagged: list[str]
    revised: list[str]
    unreachable: list[str]
    at: int


class DeletionReportData(Struct, array_like=True):
    """Counts of memories, not of calls; ``entries`` are all that happened, oldest first."""

    start: int | None
    stop: int | None
    forgotten: int
    restored: int
    archived: int
    unarchived: int
    purged: int
    erased: int
    refused: int
    by: dict[str, int]
    entries: list[AuditView]


class LongTermStatus(Struct, array_like=True):
    epoch: int
    memories: int  # active, chunks and summaries not counted
    derived: int
    archived: int
    forgotten: int
    relations: int
    log_bytes: int
    tail: int
    durable: int
    segments: int
    quarantined_bytes: int
    torn_bytes: int
    recovery_us: int
    syncs: int
    findings: list[Finding]
    replica: ReplicaStatus | None = None
