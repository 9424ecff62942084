"""The record of what was hidden, forgotten and erased, merged over all owners, as operations.

Every owner keeps its own; a cursor remembers how far into each of them the reader has come.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from neverforget.actors.longterm_messages import (
    AuditMemories,
    DeletionReportReply,
    LongTermAuditReply,
    unpacked,
)
from neverforget.actors.longterm_messages import DeletionReport as AskReport
from neverforget.actors.messages import Audit, AuditReply
from neverforget.runtime import cursors
from neverforget.runtime.memory_codec import audit_entry
from neverforget.runtime.memory_values import DeletionReport
from neverforget.runtime.operation import LONGTERM, Call, Context, Operation, SessionPlace
from neverforget.runtime.timeframe_argument import RangeUs
from neverforget.runtime.times import from_us
from neverforget.runtime.values import AuditEntry, Namespace, Page
from neverforget.storage.longterm_results import DeletionReportData
from neverforget.storage.results import AuditView

_PAGE = 1_000
_REFUSED = "forget-refused"


class Record(NamedTuple):
    """Which entries are meant. ``target``: of this session, or of the memory with this id."""

    root: Namespace
    operation: str | None
    by: str | None
    target: SessionPlace | str | None
    span: RangeUs

    def owners(self, context: Context) -> Sequence[int]:
        """Who may have such entries."""
        if isinstance(self.target, SessionPlace):
            return (self.target.partition,)
        if isinstance(self.target, str):
            return (LONGTERM,)
        return (*range(context.partitions), LONGTERM)


Found = tuple[list[AuditView], bool]


def audit(
    context: Context, asked: Record, timeframe: Any, after: str | None, limit: int
) -> Operation[Page[AuditEntry]]:
    """By time; each owner's in its own order. ``timeframe`` as the caller said it: what "today"
    means moves between pages, what was asked does not.
    """
    target = asked.target.scope if isinstance(asked.target, SessionPlace) else asked.target
    bound = cursors.binding(
        msgspec.msgpack.encode((asked.root, asked.operation, asked.by, repr(timeframe), target))
    )
    reached: dict[int, int] = {}
    if after is not None:
        reached = cursors.read(after, cursors.AUDIT, bound, dict[int, int])
    found: list[list[tuple[int, AuditView]]] = []
    more = False
    for owner in asked.owners(context):
        views, its_more = yield from _ask(owner, asked, reached.get(owner), limit)
        found.append([(owner, view) for view in views])
        more = more or its_more
    # heapq.merge keeps each owner's own order even where its clock stepped back.
    merged = list(heapq.merge(*found, key=lambda each: each[1].at))
    for owner, view in merged[:limit]:
        reached[owner] = view.position
    return Page(
        tuple(audit_entry(view) for _, view in merged[:limit]),
        cursors.make(cursors.AUDIT, bound, reached),
        None,
        more or len(merged) > limit,
    )


def _ask(owner: int, asked: Record, after: int | None, limit: int) -> Operation[Found]:
    start, stop = asked.span
    if owner == LONGTERM:
        memory = asked.target if isinstance(asked.target, str) else None
        while True:
            request = AuditMemories(
                0, asked.root, asked.operation, asked.by, memory, start, stop, after, limit
            )
            longterm: LongTermAuditReply = yield Call(owner, request)
            views = unpacked(longterm.entries, list[AuditView])
            if views or not longterm.more:
                return views, longterm.more
            after = longterm.next  # it has looked at many that were not meant
    namespace, name = asked.root, None
    if isinstance(asked.target, SessionPlace):
        namespace, name = asked.target.namespace, asked.target.name
    reply: AuditReply = yield Call(
        owner, Audit(0, asked.operation, asked.by, namespace, name, start, stop, after, limit)
    )
    return reply.entries, reply.more


# ---- the deletion report -------------------------------------------------------------------------


def deletion_report(context: Context, root: Namespace, span: RangeUs) -> Operation[DeletionReport]:
    """What was deleted, and undone: of memories as their owner counts it, of turns by the entries
    of the partitions.
    """
    start, stop = span
    reply: DeletionReportReply = yield Call(LONGTERM, AskReport(0, root, start, stop))
    counted = unpacked(reply.report, DeletionReportData)
    by, refused, turns = dict(counted.by), counted.refused, 0
    listed: list[list[AuditView]] = []
    for owner in (*range(context.partitions), LONGTERM):
        operations = (None,) if owner == LONGTERM else ("erase", _REFUSED)
        for operation in operations:
            views = yield from _all(owner, Record(root, operation, None, None, span))
            listed.append(views)
            if owner == LONGTERM:
                continue
            for view in views:
                number = 1 if operation == _REFUSED else _turns(view)
                refused += number if operation == _REFUSED else 0
                turns += 0 if operation == _REFUSED else number
                by[view.by] = by.get(view.by, 0) + number
    entries = heapq.merge(*listed, key=lambda view: view.at)
    return DeletionReport(
        start=None if start is None else from_us(start),
        stop=None if stop is None else from_us(stop),
        forgotten=counted.forgotten,
        restored=counted.restored,
        archived=counted.archived,
        unarchived=counted.unarchived,
        purged=counted.purged,
        erased=counted.erased,
        turns=turns,
        refused=refused,
        by=by,
        entries=tuple(audit_entry(view) for view in entries),
    )


def _turns(view: AuditView) -> int:
    turns = view.details.get("turns", 0)
    return turns if isinstance(turns, int) else 0


def _all(owner: int, asked: Record) -> Operation[list[AuditView]]:
    found: list[AuditView] = []
    while True:
        after = found[-1].position if found else None
        views, more = yield from _ask(owner, asked, after, _PAGE)
        found += views
        if not more or not views:
            return found
