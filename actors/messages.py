"""The words that clients and owners exchange, msgpack frames on a socket (or bytes in a Ray call).

Every frame is one struct, array-like and tagged by a small integer. ``id`` pairs a reply with its
request on its connection; it is not the request id of a mutation, which is (producer,
producer_seq). Namespaces are absolute. ``by`` says who did it, for the audit.
"""

from __future__ import annotations

from typing import Any

import msgspec

from neverforget.actors.activity_messages import ActivityAnswer, ActivityRequest
from neverforget.actors.backup_messages import BackupAnswer, BackupRequest
from neverforget.actors.host_messages import HostReply, HostStatus
from neverforget.actors.longterm_messages import LongTermReply, LongTermRequest
from neverforget.actors.message_bases import (
    SYNC_DISK,
    SYNC_PROCESS,
    Measured,
    Producer,
    ProducerSeq,
    Reply,
    Request,
    Tokens,
)
from neverforget.actors.reflection_messages import ReflectionReply, ReflectionRequest
from neverforget.actors.reflector_messages import ReflectorReply, ReflectorRequest
from neverforget.actors.salvage_messages import Salvage, SalvageReply
from neverforget.actors.working_messages import WorkingAnswer, WorkingRequest
from neverforget.storage.reflection_results import ReflectionLag
from neverforget.storage.results import (
    Appended,
    AuditView,
    ErasureView,
    Finding,
    ForkPoint,
    RegionStatus,
    SessionView,
    Window,
)

PROTOCOL_VERSION = 1
FRAME_BYTES_MAX = 72 * 1024 * 1024

__all__ = ["SYNC_DISK", "SYNC_PROCESS", "Reply", "Request"]  # those of others, that are ours too


class Hello(Request, tag=1):
    """First frame of every connection. The owner closes it when store or version do not fit, after
    a Failure.
    """

    store_id: str
    version: int = PROTOCOL_VERSION


class Append(Request, tag=2):
    """``records``: whole records as ``record.encode_turn`` makes them, laid end to end; the owner
    stamps session, seq, epoch, durable_back and header CRC. All of them, or none, are appended.
    """

    namespace: tuple[str, ...]
    session: str
    agent: str | None
    producer: Producer
    producer_seq: ProducerSeq
    sync: int
    expect_seq: int | None
    records: bytes


class Tail(Request, tag=3):
    """The newest turns before ``before`` (None: the end). Never parts a result from its call."""

    namespace: tuple[str, ...]
    session: str
    before: int | None
    limit: int
    max_tokens: int | None
    roles: list[str] | None
    include_hidden: bool


class Page(Request, tag=4):
    """``after`` None and ``before`` None: from the start, or from the end if ``newest``. With
    ``after``: turns with seq > after; with ``before``: the ``limit`` turns just before it.
    """

    namespace: tuple[str, ...]
    session: str
    after: int | None
    before: int | None
    newest: bool
    limit: int
    include_hidden: bool


class Get(Request, tag=5):
    """Turns first..stop-1, hidden ones too, as far as the reply's bound allows."""

    namespace: tuple[str, ...]
    session: str
    first: int
    stop: int


class Info(Request, tag=6):
    """``before``: agents and times of the turns below it only, as a fork there inherits them."""

    namespace: tuple[str, ...]
    session: str
    before: int | None = None


class Sessions(Request, tag=7):
    """In (namespace, session) order, strictly after ``after``."""

    namespace: tuple[str, ...]
    prefix: str | None
    after: tuple[tuple[str, ...], str] | None
    limit: int


class Namespaces(Request, tag=8):
    """Distinct namespaces at or below ``prefix``, cut to ``max_depth`` elements in all, sorted,
    after ``after``.
    """

    prefix: tuple[str, ...]
    max_depth: int | None
    after: tuple[str, ...] | None
    limit: int


class Wait(Request, tag=9):
    """Answered with Info's reply when the session has a turn with seq > after, or after
    ``timeout_ms``.
    """

    namespace: tuple[str, ...]
    session: str
    after: int
    timeout_ms: int


class Hide(Request, tag=10):
    """``runs``: (first, last) seqs, inclusive. ``hidden`` False: unhide."""

    namespace: tuple[str, ...]
    session: str
    runs: list[tuple[int, int]]
    hidden: bool
    by: str
    reason: str | None
    producer: Producer
    producer_seq: ProducerSeq


class Fork(Request, tag=11):
    """Create ``session`` with ``parent``'s past. ``tokens``: the parent's sum over 0..at-1."""

    namespace: tuple[str, ...]
    session: str
    parent: ForkPoint
    tokens: Tokens
    by: str
    producer: Producer
    producer_seq: ProducerSeq


class Erase(Request, tag=12):
    """``runs`` None: the whole session, its name too. ``confirm`` must be the word "confirmed",
    else refused and audited.
    """

    namespace: tuple[str, ...]
    session: str
    runs: list[tuple[int, int]] | None
    confirm: str | None
    by: str
    reason: str | None
    producer: Producer
    producer_seq: ProducerSeq


class Refuse(Request, tag=14):
    """Audit a deletion that was refused for want of confirmation."""

    operation: str
    target: dict[str, Any]
    by: str
    reason: str | None


class Audit(Request, tag=15):
    """Newest last; strictly after log position ``after``; each filter may be None."""

    operation: str | None
    by: str | None
    namespace: tuple[str, ...] | None
    session: str | None
    start_us: int | None
    stop_us: int | None
    after: int | None
    limit: int


class Status(Request, tag=16):
    pass


class Verify(Request, tag=17):
    pass


class Backup(Request, tag=18):
    """Copy this region, as durable now, into ``directory`` (absolute, on the owner's node)."""

    directory: str


class Settle(Request, tag=19):
    """Answered when everything acknowledged so far is durable and nothing is queued. ``at_once``:
    now, with Unavailable where something is.
    """

    at_once: bool = False


class Welcome(Reply, tag=101):
    """``state``: recovering, serving, readonly, quarantined. ``reason``: why it is not serving.
    ``due``: sessions of a partition that are to be reflected.
    """

    store_id: str
    partition: int  # -1: the host
    epoch: int
    version: int
    state: str
    reason: str | None
    pid: int
    due: int = 0


class AppendedReply(Reply, tag=102):
    result: Appended


class WindowReply(Reply, tag=103):
    window: Window


class SessionReply(Reply, tag=104):
    session: SessionView


class SessionsReply(Reply, tag=105):
    sessions: list[SessionView]
    more: bool


class NamespacesReply(Reply, tag=106):
    namespaces: list[tuple[str, ...]]
    more: bool


class DoneReply(Reply, tag=107):
    pass


class ErasureReply(Reply, tag=108):
    result: ErasureView


class AuditReply(Reply, tag=109):
    entries: list[AuditView]
    more: bool


class StatusReply(Reply, tag=110):
    """``queue``: requests waiting; ``clients``: open connections; ``state`` as in Welcome."""

    region: RegionStatus | None
    state: str
    reason: str | None
    pid: int
    queue: int
    clients: int
    reflection: ReflectionLag | None = None
    measured: Measured = Measured()


class VerifyReply(Reply, tag=111):
    findings: list[Finding]
    records: int
    bytes: int


class BackupReply(Reply, tag=112):
    bytes: int
    durable: int


class Failure(Reply, tag=199):
    """The error of ``storage.errors`` with this code; ``fields`` are its attributes. See
    ``from_wire``.
    """

    code: str
    message: str
    fields: dict[str, Any]


AnyRequest = (
    Hello | Append | Tail | Page | Get | Info | Sessions | Namespaces | Wait | Hide | Fork | Erase
    | Refuse | Audit | Status | Verify | Backup | Settle | HostStatus | LongTermRequest
    | ReflectionRequest | ReflectorRequest | WorkingRequest | ActivityRequest | Salvage
    | BackupRequest
)  # fmt: skip
AnyReply = (
    Welcome | AppendedReply | WindowReply | SessionReply | SessionsReply | NamespacesReply
    | DoneReply | ErasureReply | AuditReply | StatusReply | VerifyReply | BackupReply | HostReply
    | Failure | LongTermReply | ReflectionReply | ReflectorReply
    | WorkingAnswer | ActivityAnswer | SalvageReply | BackupAnswer
)  # fmt: skip

encoder = msgspec.msgpack.Encoder()
request_decoder: msgspec.msgpack.Decoder[AnyRequest] = msgspec.msgpack.Decoder(AnyRequest)
reply_decoder: msgspec.msgpack.Decoder[AnyReply] = msgspec.msgpack.Decoder(AnyReply)
