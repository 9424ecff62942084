"""What the long-term owner and the embedders answer; see ``longterm_messages``."""

from __future__ import annotations

from typing import Any

import msgspec

from neverforget.actors.message_bases import Measured, Reply
from neverforget.storage.longterm_results import (
    LongTermErasure,
    LongTermStatus,
    MemoryView,
    RelationView,
    Span,
)
from neverforget.storage.results import Finding


class MemoriesReply(Reply, tag=130):
    """``memories``: packed list[MemoryView | None]. ``new``: for each, whether this request made
    it. ``end``: the log position up to which this client's write is to be found. ``more``: of a
    listing that was cut.
    """

    memories: bytes
    new: list[bool]
    end: int
    more: bool = False


class EndReply(Reply, tag=131):
    end: int


class ForgottenReply(Reply, tag=132):
    """``entry``: packed AuditView | None."""

    entry: bytes
    count: int
    end: int


class MemoriesErasedReply(Reply, tag=133):
    result: LongTermErasure


class MemoryPageReply(Reply, tag=134):
    """``memories``: packed list[MemoryView]; the rest as in ``MemoryPage``."""

    memories: bytes
    next: int | None
    previous: int | None
    more: bool


class RelationsReply(Reply, tag=135):
    """``next``: where to go on, as long as ``epoch`` is the same; None: that was all."""

    relations: list[RelationView]
    next: int | None
    epoch: int


class FoundChunk(msgspec.Struct, array_like=True):
    id: str
    span: Span | None
    text: str


class FoundMemory(msgspec.Struct, array_like=True):
    """``sources``: leg -> 1-based rank. ``arithmetic``: how the score came about, when asked.
    ``duplicates``: ids of others in its namespace that say the same.
    """

    memory: MemoryView
    score: float
    sources: dict[str, int]
    chunk: FoundChunk | None
    arithmetic: dict[str, Any] | None
    duplicates: list[str] = []


class RecallReply(Reply, tag=136):
    """``hits``: packed list[FoundMemory], maybe fewer than there are: then ``more``. ``complete``:
    everything asked for by ``after`` was searched, by every leg of the strategy. ``pending``:
    memories that wait to be embedded. ``reason``: why it is not complete.
    """

    hits: bytes
    more: bool
    complete: bool
    pending: int
    reason: str | None


class LongTermAuditReply(Reply, tag=137):
    """``entries``: packed list[AuditView], oldest first; maybe few, even none, while there are more
    after ``next``.
    """

    entries: bytes
    more: bool
    next: int | None


class DeletionReportReply(Reply, tag=138):
    """``report``: packed DeletionReportData."""

    report: bytes


class IndexStatus(msgspec.Struct, array_like=True):
    """How far what is derived has come. ``embedder``: its name; ``embedder_state``: "ok", "none",
    "missing" (a store of an embedder object that nobody passed), or "failing"; ``waiting``:
    memories without vectors; ``failed``: that cannot be embedded; ``lag``: changed memories whose
    words are not in; ``generation``: number of the newest one, ``published_us`` its time, 0: none;
    ``findings``: of derived files, and of memories that cannot be embedded.
    """

    embedder: str
    embedder_state: str
    embedder_error: str | None
    model: str | None
    dimension: int
    vectors: int
    waiting: int
    failed: int
    lag: int
    generation: int
    published_us: int
    derived_bytes: int
    findings: list[Finding] = []


class ChunkingStatus(msgspec.Struct, array_like=True):
    """Long memories that are to be cut into chunks. ``running``: a chunker has them, or the owner
    is about to store their chunks; ``failed``: that cannot be cut. ``chunkers``: how many there
    are now. ``summaries_failed``: cut without a summary, since the owner began. ``error``: the
    last thing that went wrong.
    """

    waiting: int
    running: int
    failed: int
    chunkers: int
    summaries_failed: int
    error: str | None


class LongTermStatusReply(Reply, tag=139):
    """``state`` as in Welcome; ``region``, ``index``, ``chunking``: None while it is not open."""

    region: LongTermStatus | None
    index: IndexStatus | None
    state: str
    reason: str | None
    pid: int
    queue: int
    clients: int
    chunking: ChunkingStatus | None = None
    measured: Measured = Measured()


class ReindexReply(Reply, tag=140):
    """``state``: "running", "done", "failed" (``reason`` says why) or "idle"."""

    state: str
    done: int
    total: int
    reason: str | None


class EmbeddedReply(Reply, tag=150):
    """``vectors``: float32 rows; row k belongs to text ``owners[k]``. ``failed``, ``waiting``:
    reasons by the index of a text; the former cannot be embedded, the latter could not now.
    """

    dimension: int
    vectors: bytes
    owners: list[int]
    failed: dict[int, str]
    waiting: dict[int, str]


class EmbedderReply(Reply, tag=151):
    model: str
    dimension: int


LongTermReply = (
    MemoriesReply | EndReply | ForgottenReply | MemoriesErasedReply | MemoryPageReply
    | RelationsReply | RecallReply | LongTermAuditReply | DeletionReportReply
    | LongTermStatusReply | ReindexReply | EmbeddedReply | EmbedderReply
)  # fmt: skip
