"""What asks the whole store: listings, audit, status, verify, settle and backup, as operations.

Every partition answers for its own sessions; the answers are merged here, and a cursor remembers
how far into each of them the reader has come.
"""

from __future__ import annotations

import heapq
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from neverforget.actors.messages import (
    Audit,
    AuditReply,
    Backup,
    HostReply,
    HostStatus,
    Namespaces,
    NamespacesReply,
    OwnerView,
    Sessions,
    SessionsReply,
    Settle,
    Status,
    StatusReply,
    Verify,
)
from neverforget.runtime import cursors
from neverforget.runtime.operation import HOST, Call, Context, Operation, SessionPlace
from neverforget.runtime.session_reading import info_of, with_past
from neverforget.runtime.status_values import Finding, HostInfo, OwnerInfo, VerifyReport, finding
from neverforget.runtime.status_values import Status as StoreStatus
from neverforget.runtime.times import from_us, to_us
from neverforget.runtime.values import AuditEntry, Namespace, Page, SessionInfo
from neverforget.storage.errors import Corrupt, InvalidArgument
from neverforget.storage.results import AuditView, SessionView

Progress = Callable[[int, int], None]
SessionCursor = tuple[tuple[str, ...], str]


def sessions(
    context: Context, root: Namespace, prefix: str | None, after: str | None, limit: int
) -> Operation[Page[SessionInfo]]:
    """Sessions at or below ``root``, in the order of (namespace, name)."""
    bound = _binding("sessions", root, prefix)
    start: SessionCursor | None = None
    if after is not None:
        start = cursors.read(after, cursors.SESSIONS, bound, SessionCursor | None)
    found: list[list[SessionView]] = []
    lasts: list[SessionCursor] = []
    for partition in range(context.partitions):
        reply: SessionsReply = yield Call(partition, Sessions(0, root, prefix, start, limit))
        found.append(reply.sessions)
        if reply.more:
            lasts.append(_session_cursor(reply.sessions[-1]))
    # What lies beyond the last of a shortened answer might have to be sorted in between.
    horizon = min(lasts, default=None)
    merged = [
        view
        for view in heapq.merge(*found, key=_session_cursor)
        if horizon is None or _session_cursor(view) <= horizon
    ]
    shown = merged[:limit]
    if shown:
        start = _session_cursor(shown[-1])
    infos = []
    for view in shown:
        infos.append(info_of((yield from with_past(context, view))))
    return Page(
        tuple(infos),
        cursors.make(cursors.SESSIONS, bound, start),
        None,
        horizon is not None or len(merged) > limit,
    )


def _session_cursor(view: SessionView) -> SessionCursor:
    return view.namespace, view.session


def namespaces(
    context: Context,
    root: Namespace,
    max_depth: int | None,
    after: str | None,
    limit: int,
) -> Operation[Page[tuple[str, ...]]]:
    """Namespaces that hold sessions, at or below ``root``, sorted."""
    bound = _binding("namespaces", root, max_depth)
    start: tuple[str, ...] | None = None
    if after is not None:
        start = cursors.read(after, cursors.NAMESPACES, bound, tuple[str, ...] | None)
    found: set[tuple[str, ...]] = set()
    lasts: list[tuple[str, ...]] = []
    for partition in range(context.partitions):
        reply: NamespacesReply = yield Call(partition, Namespaces(0, root, max_depth, start, limit))
        found.update(reply.namespaces)
        if reply.more:
            lasts.append(reply.namespaces[-1])
    horizon = min(lasts, default=None)
    merged = sorted(n for n in found if horizon is None or n <= horizon)
    shown = merged[:limit]
    if shown:
        start = shown[-1]
    return Page(
        tuple(Namespace(namespace) for namespace in shown),
        cursors.make(cursors.NAMESPACES, bound, start),
        None,
        horizon is not None or len(merged) > limit,
    )


def audit(
    context: Context,
    root: Namespace,
    target: SessionPlace | None,
    operation: str | None,
    by: str | None,
    timeframe: Any,
    after: str | None,
    limit: int,
) -> Operation[Page[AuditEntry]]:
    """What is on the record at or below ``root``, by time; each partition's in its own order."""
    start_us, stop_us = timeframe_us(timeframe)
    scope = b"" if target is None else target.scope
    bound = _binding("audit", root, operation, by, start_us, stop_us, scope)
    reached: dict[int, int] = {}
    if after is not None:
        reached = cursors.read(after, cursors.AUDIT, bound, dict[int, int])
    asked = range(context.partitions) if target is None else [target.partition]
    namespace = root if target is None else target.namespace
    name = None if target is None else target.name
    found: list[list[AuditView]] = []
    more = False
    for partition in asked:
        request = Audit(
            0,
            operation,
            by,
            namespace,
            name,
            start_us,
            stop_us,
            reached.get(partition),
            limit,
        )
        reply: AuditReply = yield Call(partition, request)
        found.append(reply.entries)
        more = more or reply.more
    # heapq.merge keeps each partition's own order even where its clock stepped back.
    merged = list(heapq.merge(*found, key=lambda view: view.at))
    for view in merged[:limit]:
        reached[view.partition] = view.position
    return Page(
        tuple(_audit_entry(view) for view in merged[:limit]),
        cursors.make(cursors.AUDIT, bound, reached),
        None,
        more or len(merged) > limit,
    )


def _audit_entry(view: AuditView) -> AuditEntry:
    key = view.target.get("key")
    return AuditEntry(
        view.operation,
        view.target,
        key if isinstance(key, str) else None,
        view.by,
        from_us(view.at),
        view.reason,
        view.details,
    )


def timeframe_us(timeframe: Any) -> tuple[int | None, int | None]:
    """A pair of aware datetimes, half-open, None for an open side; None for all time."""
    if timeframe is None:
        return None, None
    if not isinstance(timeframe, Sequence) or isinstance(timeframe, str) or len(timeframe) != 2:
        raise InvalidArgument(
            f"timeframe is {timeframe!r}; pass a pair (start, stop) of aware datetimes, None for "
            "an open side"
        )
    start, stop = timeframe
    start_us = None if start is None else to_us(start, "the start of timeframe")
    stop_us = None if stop is None else to_us(stop, "the end of timeframe")
    if start_us is not None and stop_us is not None and start_us > stop_us:
        raise InvalidArgument("timeframe ends before it starts; give the earlier time first")
    return start_us, stop_us


def _binding(*what: Any) -> bytes:
    return cursors.binding(msgspec.msgpack.encode(what))


# ---- the store as a whole ------------------------------------------------------------------------


def status(context: Context, store_id: str, path: str, hosted: bool) -> Operation[StoreStatus]:
    """How host and owners stand."""
    host: HostReply | None = None
    if hosted:
        host = yield Call(HOST, HostStatus(0))
    owners = []
    for partition in range(context.partitions):
        reply: StatusReply = yield Call(partition, Status(0))
        view = None
        if host is not None and partition < len(host.owners):
            view = host.owners[partition]
        owners.append(_owner(partition, reply, view))
    return StoreStatus(store_id, path, None if host is None else _host(host), tuple(owners))


def _host(reply: HostReply) -> HostInfo:
    return HostInfo(
        reply.pid,
        reply.role,
        from_us(reply.started_at),
        reply.clients,
        reply.linger_s,
        reply.ray_address,
    )


def _owner(partition: int, reply: StatusReply, view: OwnerView | None) -> OwnerInfo:
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
        findings=()
        if region is None
        else tuple(finding(partition, found) for found in region.findings),
    )


def verify(context: Context) -> Operation[VerifyReport]:
    """Have every owner read and check everything it has."""
    findings: list[Finding] = []
    records = read = 0
    for partition in range(context.partitions):
        try:
            reply = yield Call(partition, Verify(0), math.inf)
        except Corrupt as error:
            # It is quarantined. That is what was to be found out, and the others are checked too.
            findings.append(_quarantined(partition, error))
            continue
        findings += [finding(partition, found) for found in reply.findings]
        records += reply.records
        read += reply.bytes
    lost = any(found.severity == "error" for found in findings)
    return VerifyReport(not lost, tuple(findings), records, read)


def _quarantined(partition: int, error: Corrupt) -> Finding:
    return Finding(
        "quarantined",
        "error",
        partition,
        error.file or "",
        error.offset or 0,
        error.bytes or 0,
        error.message,
    )


def settle(context: Context, timeout_s: float | None, progress: Progress | None) -> Operation[None]:
    """Return when all that was acknowledged is durable and nothing is queued."""
    for partition in range(context.partitions):
        yield Call(partition, Settle(0), math.inf if timeout_s is None else timeout_s)
        if progress is not None:
            progress(partition + 1, context.partitions)


def backup(context: Context, regions: Path, progress: Progress | None) -> Operation[None]:
    """Have every owner copy its region into the folder ``regions``."""
    for partition in range(context.partitions):
        yield Call(partition, Backup(0, str(regions / f"p{partition}")), math.inf)
        if progress is not None:
            progress(partition + 1, context.partitions)
