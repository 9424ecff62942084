"""Listings of sessions and namespaces, as operations.

Every owner answers for what it has; the answers are merged here.
"""

from __future__ import annotations

import heapq
from typing import Any

import msgspec

from neverforget.actors.longterm_messages import MemoryNamespaces
from neverforget.actors.messages import Namespaces, NamespacesReply, Sessions, SessionsReply
from neverforget.runtime import cursors
from neverforget.runtime.operation import LONGTERM, Call, Context, Operation
from neverforget.runtime.session_reading import info_of, with_past
from neverforget.runtime.values import Namespace, Page, SessionInfo
from neverforget.storage.results import SessionView

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
    """Namespaces that hold sessions or memories, at or below ``root``, sorted."""
    bound = _binding("namespaces", root, max_depth)
    start: tuple[str, ...] | None = None
    if after is not None:
        start = cursors.read(after, cursors.NAMESPACES, bound, tuple[str, ...] | None)
    found: set[tuple[str, ...]] = set()
    lasts: list[tuple[str, ...]] = []
    for owner in context.owners:
        asked = MemoryNamespaces if owner == LONGTERM else Namespaces
        reply: NamespacesReply = yield Call(owner, asked(0, root, max_depth, start, limit))
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


def _binding(*what: Any) -> bytes:
    return cursors.binding(msgspec.msgpack.encode(what))
