"""What concerns the store as a whole, as operations: status, verify, settle and backup."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from neverforget.actors.actor_options import REFLECTOR_OWNER
from neverforget.actors.host_messages import HostReply, HostStatus, OwnerView
from neverforget.actors.longterm_messages import (
    ChunkingStatus,
    IndexStatus,
    LongTermStatusReply,
    Reindex,
    ReindexReply,
)
from neverforget.actors.message_bases import Measured
from neverforget.actors.messages import (
    Backup,
    BackupReply,
    Settle,
    Status,
    StatusReply,
    Verify,
    VerifyReply,
)
from neverforget.runtime import reflecting
from neverforget.runtime.gathering import Copied
from neverforget.runtime.operation import HOST, LONGTERM, Call, Context, Operation
from neverforget.runtime.status_values import (
    Finding,
    HostInfo,
    LongTermInfo,
    OwnerInfo,
    ReplicaInfo,
    VerifyReport,
    finding,
)
from neverforget.runtime.status_values import Status as StoreStatus
from neverforget.runtime.times import from_us
from neverforget.storage.errors import Corrupt, OwnerFenced, Unavailable
from neverforget.storage.longterm_results import LongTermStatus
from neverforget.storage.results import ReplicaStatus

Progress = Callable[[int, int], None]
IDLE = "idle"
LOOK_S = 5.0  # for an answer that is not to wait for anything
REINDEX_PAUSE_S = 0.1  # between two looks at how far it is


class Asked(NamedTuple):
    """Whose status is wanted. ``embedder``, ``extractor``: their names. ``root``: of the view.
    ``reflects``: the reflector runs, where the owners are objects of this process. ``through``: how
    calls to an owner go.
    """

    store_id: str
    path: str
    embedder: str
    extractor: str
    root: tuple[str, ...]
    hosted: bool
    reflects: bool
    through: Callable[[int], str]


def status(context: Context, asked: Asked) -> Operation[StoreStatus]:
    """How host and owners stand."""
    host: HostReply | None = None
    reflects = asked.reflects
    if asked.hosted:
        told: HostReply = yield Call(HOST, HostStatus(0))
        reflects = any(view.name.endswith(f"-{REFLECTOR_OWNER}") for view in told.owners)
        host = told
    owners, lags = [], []
    for partition in range(context.partitions):
        view = None
        if host is not None and partition < len(host.owners):
            view = host.owners[partition]
        reply = yield from _partition_status(partition, view, asked.through(partition))
        owners.append(_owner(partition, reply, view, asked.through(partition)))
        lags.append(reply.reflection)
    longterm = yield from _longterm_status(asked.embedder, host, asked.through(LONGTERM))
    reflection = yield from reflecting.info(asked.extractor, lags, asked.root, reflects)
    return StoreStatus(
        asked.store_id,
        asked.path,
        None if host is None else _host(host),
        tuple(owners),
        longterm,
        reflection,
    )


def _partition_status(
    partition: int, view: OwnerView | None, through: str
) -> Operation[StatusReply]:
    """One that is away with its node, or does not answer in time, is shown; the others are asked
    all the same.
    """
    if view is not None and view.state == "away":
        why = "no node of the cluster has its disk"
        return StatusReply(0, None, "away", why, 0, 0, 0)
    reply: StatusReply
    if through == "inline":
        reply = yield Call(partition, Status(0))
        return reply
    try:
        reply = yield Call(partition, Status(0), LOOK_S if through == "ray" else None)
    except Unavailable as error:
        reply = StatusReply(0, None, "away", error.message, 0, 0, 0)
    return reply


def _host(reply: HostReply) -> HostInfo:
    return HostInfo(
        reply.pid,
        reply.role,
        from_us(reply.started_at),
        reply.clients,
        reply.linger_s,
        reply.ray_address,
        reply.metrics_port or None,
        tuple(finding(None, found) for found in reply.findings),
    )


def _owner(partition: int, reply: StatusReply, view: OwnerView | None, through: str) -> OwnerInfo:
    region = reply.region
    return OwnerInfo(
        name=f"p{partition}" if view is None else view.name,
        partition=partition,
        pid=reply.pid,
        node=os.uname().nodename if view is None else view.node,
        state=reply.state,
        reason=reply.reason,
        epoch=0 if region is None else region.epoch,
        queue=reply.queue,
        clients=reply.clients,
        restarts=0 if region is None else region.restarts,
        sessions=0 if region is None else region.sessions,
        turns=0 if region is None else region.turns,
        log_bytes=0 if region is None else region.log_bytes,
        durable_bytes=0 if region is None else region.durable,
        segments=0 if region is None else region.segments,
        quarantined_bytes=0 if region is None else region.quarantined_bytes,
        torn_bytes=0 if region is None else region.torn_bytes,
        recovery_s=0.0 if region is None else region.recovery_us / 1e6,
        last_sync_s=0.0 if region is None else region.last_sync_us / 1e6,
        syncs=0 if region is None else region.syncs,
        through=through,
        findings=()
        if region is None
        else tuple(finding(partition, found) for found in region.findings),
        replica=None if region is None else _replica(region.replica),
        **_measured(reply.measured),
    )


def _measured(told: Measured) -> dict[str, Any]:
    """Of a partition or the long-term owner."""
    return {
        "sync_p50_s": told.sync_p50_us / 1e6,
        "sync_p99_s": told.sync_p99_us / 1e6,
        "last_error": told.error,
        "last_error_at": from_us(told.error_at) if told.error_at else None,
    }


def _longterm_status(
    embedder: str, host: HostReply | None, through: str
) -> Operation[LongTermInfo]:
    """Conversations go on without it, so what is wrong with it is shown instead of raised."""
    reply: LongTermStatusReply
    try:
        reply = yield Call(LONGTERM, Status(0), LOOK_S if through == "ray" else None)
    except (Corrupt, OwnerFenced, Unavailable) as error:
        state = "unavailable" if isinstance(error, Unavailable) else "quarantined"
        reply = LongTermStatusReply(0, None, None, state, error.message, 0, 0, 0)
    return _longterm(reply, embedder, _node_of_longterm(host), through)


def _node_of_longterm(host: HostReply | None) -> str:
    if host is None:
        return os.uname().nodename
    return next((view.node for view in host.owners if view.name.endswith("-lt0")), "")


def _longterm(reply: LongTermStatusReply, embedder: str, node: str, through: str) -> LongTermInfo:
    region = reply.region or _NO_REGION
    index = reply.index or _NO_INDEX
    chunking = reply.chunking or _NO_CHUNKING
    return LongTermInfo(
        state=reply.state,
        reason=reply.reason,
        pid=reply.pid,
        epoch=region.epoch,
        queue=reply.queue,
        clients=reply.clients,
        memories=region.memories,
        derived=region.derived,
        archived=region.archived,
        forgotten=region.forgotten,
        relations=region.relations,
        embedder=index.embedder or embedder,
        embedder_state=index.embedder_state,
        embedder_error=index.embedder_error,
        model=index.model,
        dimension=index.dimension,
        vectors=index.vectors,
        waiting=index.waiting,
        failed=index.failed,
        lag=index.lag,
        chunks_waiting=chunking.waiting,
        chunks_running=chunking.running,
        chunks_failed=chunking.failed,
        chunkers=chunking.chunkers,
        summaries_failed=chunking.summaries_failed,
        chunk_error=chunking.error,
        generation=index.generation,
        published_at=from_us(index.published_us) if index.published_us else None,
        log_bytes=region.log_bytes,
        durable_bytes=region.durable,
        derived_bytes=index.derived_bytes,
        segments=region.segments,
        quarantined_bytes=region.quarantined_bytes,
        torn_bytes=region.torn_bytes,
        recovery_s=region.recovery_us / 1e6,
        syncs=region.syncs,
        findings=tuple(finding(None, found) for found in [*region.findings, *index.findings]),
        replica=_replica(region.replica),
        node=node,
        through=through,
        **_measured(reply.measured),
    )


def _replica(told: ReplicaStatus | None) -> ReplicaInfo | None:
    if told is None:
        return None
    return ReplicaInfo(
        place=told.place,
        state=told.state,
        error=told.error,
        objects=told.objects,
        shipped_bytes=told.shipped,
        lag_bytes=told.lag_bytes,
        lag_s=told.lag_us / 1e6,
    )


# What stands for each while it is not open: figures of nothing.
_NO_REGION = LongTermStatus(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, [])
_NO_INDEX = IndexStatus("", "opening", None, None, 0, 0, 0, 0, 0, 0, 0, 0)
_NO_CHUNKING = ChunkingStatus(0, 0, 0, 0, 0, None)


def verify(context: Context) -> Operation[VerifyReport]:
    """Have every owner read and check everything it has."""
    findings: list[Finding] = []
    records = read = 0
    for owner in context.owners:
        partition = None if owner == LONGTERM else owner
        try:
            reply: VerifyReply = yield Call(owner, Verify(0), math.inf)
        except (Corrupt, OwnerFenced) as error:
            # It is quarantined. That is what was to be found out, and the others are checked too.
            findings.append(_quarantined(partition, error))
            continue
        except Unavailable as error:
            if partition is not None:
                raise
            findings.append(Finding("unavailable", "error", None, "", 0, 0, error.message))
            continue
        findings += [finding(partition, found) for found in reply.findings]
        records += reply.records
        read += reply.bytes
    lost = any(found.severity == "error" for found in findings)
    return VerifyReport(not lost, tuple(findings), records, read)


def _quarantined(partition: int | None, error: Corrupt | OwnerFenced) -> Finding:
    return Finding(
        "quarantined",
        "error",
        partition,
        getattr(error, "file", None) or "",
        getattr(error, "offset", None) or 0,
        getattr(error, "bytes", None) or 0,
        error.message,
    )


def settle(context: Context, timeout_s: float | None, progress: Progress | None) -> Operation[None]:
    """Return when all that was acknowledged is durable and nothing is queued. ``timeout_s`` 0: each
    owner only looks, and raises Unavailable where something is.
    """
    owners, patience_s = context.owners, math.inf if timeout_s is None else timeout_s or LOOK_S
    for done, owner in enumerate(owners, 1):
        yield Call(owner, Settle(0, timeout_s == 0), patience_s)
        if progress is not None:
            progress(done, len(owners))


def backup(
    context: Context, regions: Path, longterm: Path, progress: Progress | None
) -> Operation[list[Copied]]:
    """Have every partition copy its region into the folder ``regions``, and the long-term owner its
    own to ``longterm``. In this order.
    """
    owners = context.owners
    found: list[Copied] = []
    for done, owner in enumerate(owners, 1):
        target = longterm if owner == LONGTERM else regions / f"p{owner}"
        reply: BackupReply = yield Call(owner, Backup(0, str(target)), math.inf)
        found.append(Copied(reply.bytes, reply.durable))
        if progress is not None:
            progress(done, len(owners))
    return found


def reindex(embedder: str, begin: bool) -> Operation[ReindexReply]:
    """Begin to embed everything by another embedder, or see how far that is."""
    reply: ReindexReply = yield Call(LONGTERM, Reindex(0, embedder, begin))
    return reply


def is_running(reply: ReindexReply, progress: Progress | None) -> bool:
    """Whether to ask again. Raises what has stopped it."""
    if progress is not None:
        progress(reply.done, reply.total)
    if reply.state == "failed":
        raise Unavailable(
            f"reindexing has failed: {reply.reason}; the store goes on with the embedder it had, "
            "call it again when that is repaired",
            outcome="not_applied",
        )
    return reply.state in ("running", IDLE)
