"""The words of the long-term owner and of the embedders; frames as in ``messages.py``.

What may hold any text or number that Python has (lone surrogates, integers beyond 64 bits) travels
*packed*: CBOR in a bytes field, which ``packed`` makes of a struct and ``unpacked`` reads.
``scope`` is the namespace of the view that asks: a memory outside it is NotFound. Times are
microseconds UTC, ids canonical UUID text.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from neverforget.actors.longterm_replies import (
    ChunkingStatus,
    DeletionReportReply,
    EmbeddedReply,
    EmbedderReply,
    EndReply,
    ForgottenReply,
    FoundChunk,
    FoundMemory,
    IndexStatus,
    LongTermAuditReply,
    LongTermReply,
    LongTermStatusReply,
    MemoriesErasedReply,
    MemoriesReply,
    MemoryPageReply,
    RecallReply,
    ReindexReply,
    RelationsReply,
)
from neverforget.actors.message_bases import Producer, ProducerSeq, Request
from neverforget.storage.content import decode_body, encode_body
from neverforget.storage.errors import Corrupt, InvalidArgument
from neverforget.storage.longterm_results import (
    Namespace,
    Superseding,
    TurnPoint,
)

__all__ = [  # that others take from here
    "ChunkingStatus", "DeletionReportReply", "EmbeddedReply", "EmbedderReply", "EndReply",
    "ForgottenReply",
    "FoundChunk", "FoundMemory", "IndexStatus", "LongTermAuditReply", "LongTermReply",
    "LongTermStatusReply", "MemoriesErasedReply", "MemoriesReply", "MemoryPageReply",
    "RecallReply", "ReindexReply", "RelationsReply",
]  # fmt: skip

T = TypeVar("T")
_KEPT = (bytes,)  # the only type besides JSON's that a memory may hold


def packed(value: Any) -> bytes:
    """CBOR of a struct, or of a list of structs."""
    return encode_body({0: msgspec.to_builtins(value, builtin_types=_KEPT)})


def unpacked(data: bytes, kind: type[T]) -> T:
    """What ``packed`` made; ``kind`` may be ``list[X]``. InvalidArgument for anything else."""
    try:
        return msgspec.convert(decode_body(data)[0], kind, builtin_types=_KEPT)
    except (Corrupt, KeyError, msgspec.ValidationError) as error:
        raise InvalidArgument(f"this is no {kind}: {error}") from error


# ---- what changes memories -----------------------------------------------------------------------


class Mutation(Request):
    """``by`` goes on record; (producer, producer_seq) is the request id."""

    scope: Namespace
    by: str
    producer: Producer
    producer_seq: ProducerSeq


class Remember(Mutation, tag=30):
    """``memories``: packed list[NewMemory], namespaces absolute; all, or none. ``on_conflict``:
    "raise" or "revise". ``superseding``: what they take the place of, in the same batch.
    """

    memories: bytes
    on_conflict: str
    sync: int
    superseding: tuple[Superseding, ...] = ()


class Revise(Mutation, tag=31):
    """``changes``: packed Changes."""

    memory: str
    changes: bytes
    expect_version: int | None
    sync: int


class Revert(Mutation, tag=32):
    memory: str
    version: int
    expect_version: int | None


class Tag(Mutation, tag=33):
    """``add`` False: take these away."""

    memory: str
    tags: list[str]
    add: bool


class Relate(Mutation, tag=34):
    """``weight`` None: take the relation away."""

    source: str
    target: str | TurnPoint
    kind: str
    weight: float | None


class Forget(Mutation, tag=35):
    """``operation``: "forget" or "archive", with ``confirm`` the word "confirmed"; "undo-forget" or
    "unarchive", without.
    """

    operation: str
    memory: str
    confirm: str | None
    reason: str | None


class ForgetWhere(Mutation, tag=36):
    """``operation``: "forget" or "archive". ``wanted``: packed MemoryFilter."""

    operation: str
    wanted: bytes
    dry_run: bool
    confirm: str | None
    reason: str | None


class Purge(Mutation, tag=37):
    """What was forgotten before ``older_than``, within the scope."""

    older_than: int
    dry_run: bool
    confirm: str | None
    reason: str | None


class EraseMemories(Mutation, tag=38):
    """``bare``: memories that stay and lose their context, in every version."""

    ids: list[str]
    confirm: str | None
    reason: str | None
    bare: tuple[str, ...] = ()


class EraseMemoriesWhere(Mutation, tag=39):
    """At or below ``namespace``, which lies within the scope."""

    namespace: Namespace
    dry_run: bool
    confirm: str | None
    reason: str | None


class Reindex(Request, tag=40):
    """Begin to embed everything by the embedder of this name, or see how far that is."""

    embedder: str
    begin: bool


# ---- what reads ----------------------------------------------------------------------------------


class GetMemories(Request, tag=50):
    """In the order asked; the reply may be short, never empty: go on with the ids left."""

    scope: Namespace
    ids: list[str]
    include_forgotten: bool


class GetByKey(Request, tag=51):
    """``key``: packed str."""

    namespace: Namespace
    key: bytes


class Memories(Request, tag=52):
    """``wanted``: packed MemoryFilter. A page may be short, even empty, while ``more``."""

    wanted: bytes
    after: int | None
    before: int | None
    newest: bool
    limit: int


class History(Request, tag=53):
    """Versions before the one whose record is at ``before`` (0: all), newest first."""

    scope: Namespace
    memory: str
    include_forgotten: bool
    before: int


class Relations(Request, tag=54):
    """``direction``: "out", "in" or "both". ``start``: ``next`` of the reply before."""

    scope: Namespace
    memory: str
    kind: str | None
    direction: str
    limit: int
    start: int = 0


class Recall(Request, tag=55):
    """``query``: packed str. ``wanted``: packed MemoryFilter, its timeframe resolved. ``after``:
    the log position up to which everything is to be found (0: whatever there is). ``wait_ms``: how
    long to wait for that and for the embedder. ``by``: the agent that asks, "": none, nor to be
    counted. ``now``: what is valid then is preferred; None: by the owner's clock.
    """

    query: bytes
    wanted: bytes
    strategy: str
    fusion: str
    limit: int
    offset: int
    explain: bool
    after: int
    wait_ms: int
    by: str = ""
    now: int | None = None


class AuditMemories(Request, tag=56):
    """As ``messages.Audit``; ``memory``: only what was done to this one."""

    scope: Namespace
    operation: str | None
    by: str | None
    memory: str | None
    start_us: int | None
    stop_us: int | None
    after: int | None
    limit: int


class DeletionReport(Request, tag=57):
    scope: Namespace
    start_us: int | None
    stop_us: int | None


class MemoryNamespaces(Request, tag=58):
    """As ``messages.Namespaces``, of the namespaces that hold memories."""

    prefix: Namespace
    max_depth: int | None
    after: Namespace | None
    limit: int


class Chunks(Request, tag=59):
    """Chunks of a memory, in the order of its text, behind the chunk ``after``; the reply may be
    short.
    """

    scope: Namespace
    memory: str
    after: str | None


class Original(Request, tag=60):
    """What a chunk or summary was made from."""

    scope: Namespace
    memory: str


class DerivedFrom(Request, tag=61):
    """Of every memory that comes from any of a session's turns ``first``..``last``: all relations
    that say what it comes from, turns and memories. ``start``: ``next`` of the reply before.
    """

    scope: Namespace
    namespace: Namespace
    session: str
    first: int
    last: int
    start: int = 0


# ---- embedders -----------------------------------------------------------------------------------


class Embed(Request, tag=70):
    """``texts``: packed list[str]. ``urgent``: a query, somebody waits. ``deadline_ms``: after that
    nobody wants the answer.
    """

    embedder: str
    texts: bytes
    urgent: bool
    deadline_ms: int


class DescribeEmbedder(Request, tag=71):
    embedder: str


LongTermRequest = (
    Remember | Revise | Revert | Tag | Relate | Forget | ForgetWhere | Purge | EraseMemories
    | EraseMemoriesWhere | Reindex | GetMemories | GetByKey | Memories | History | Relations
    | Recall | AuditMemories | DeletionReport | MemoryNamespaces | Chunks | Original | Embed
    | DescribeEmbedder | DerivedFrom
)  # fmt: skip
