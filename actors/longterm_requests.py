"""How each request of ``longterm_messages.py`` is asked of a long-term region, in three tables:
what is staged with others, what writes by itself, what only reads. What may concern many memories:
``longterm_deletion_requests``.

Whoever asks sees its ``scope`` and nothing else: what lies outside is NotFound, as if it were not
there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from neverforget.actors import longterm_messages as m
from neverforget.actors.activity_messages import AGENTS_MAX, Agents, AgentsReply
from neverforget.actors.group_commit import Stage
from neverforget.actors.longterm_messages import packed, unpacked
from neverforget.actors.messages import (
    AnyReply,
    DoneReply,
    NamespacesReply,
    Refuse,
    Settle,
)
from neverforget.actors.region_owner import Act
from neverforget.storage.errors import InvalidArgument, NotFound
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.longterm_filters import within
from neverforget.storage.longterm_results import (
    Changes,
    Forgotten,
    MemoryFilter,
    MemoryView,
    Namespace,
    NewMemory,
    RelationView,
    Remembered,
    TurnPoint,
)

VERSIONS_MAX = 1_000  # in one reply: 30 ms
RELATIONS_MAX = 2_000  # looked at for one reply: 10 ms
Read = Callable[[LongTermRegion, Any], AnyReply]


# ---- scope ---------------------------------------------------------------------------------------


def require_inside(region: LongTermRegion, memory_id: str, scope: Namespace) -> None:
    """Raises NotFound for a memory outside ``scope``. One that is nowhere is for the caller."""
    if scope and not is_inside(region, memory_id, scope):
        raise NotFound(f"no memory {memory_id!r}")


def is_inside(region: LongTermRegion, memory_id: str, scope: Namespace) -> bool:
    namespace = region.namespace_of(memory_id)
    return namespace is None or within(namespace, scope)


def require_place(namespace: Namespace, scope: Namespace) -> None:
    if not within(namespace, scope):
        raise NotFound(f"namespace {'/'.join(namespace)!r} lies outside of this view")


def _require_target(region: LongTermRegion, target: str | TurnPoint, scope: Namespace) -> None:
    if isinstance(target, str):
        require_inside(region, target, scope)
    else:
        require_place(tuple(target.namespace), scope)


# ---- staged --------------------------------------------------------------------------------------


def _remembered(r: m.Mutation, result: Remembered) -> tuple[AnyReply, int]:
    reply = m.MemoriesReply(r.id, packed(result.memories), result.new, result.end)
    return reply, result.end


def _one(r: m.Mutation, memory: MemoryView, end: int) -> tuple[AnyReply, int]:
    return m.MemoriesReply(r.id, packed([memory]), [True], end), end


def forgotten(region: LongTermRegion, r: m.Mutation, result: Forgotten) -> m.ForgottenReply:
    entry = region.entry_as_seen(result.entry, r.scope)
    return m.ForgottenReply(r.id, packed(entry), result.count, result.end)


def _remember(region: LongTermRegion, r: m.Remember) -> tuple[AnyReply, int]:
    new = unpacked(r.memories, list[NewMemory])
    for each in new:
        require_place(tuple(each.namespace), r.scope)
        for relation in each.related_to:
            _require_target(region, relation.target, r.scope)
    for one in r.superseding:
        require_inside(region, one.new, r.scope)
        require_inside(region, one.old, r.scope)
    result = region.remember(
        new,
        by=r.by,
        request=(r.producer, r.producer_seq),
        on_conflict=r.on_conflict,
        superseding=r.superseding,
    )
    return _remembered(r, result)


def _revise(region: LongTermRegion, r: m.Revise) -> tuple[AnyReply, int]:
    require_inside(region, r.memory, r.scope)
    result = region.revise(
        r.memory,
        unpacked(r.changes, Changes),
        by=r.by,
        request=(r.producer, r.producer_seq),
        expect_version=r.expect_version,
    )
    return _remembered(r, result)


def _revert(region: LongTermRegion, r: m.Revert) -> tuple[AnyReply, int]:
    require_inside(region, r.memory, r.scope)
    result = region.revert(
        r.memory,
        r.version,
        by=r.by,
        request=(r.producer, r.producer_seq),
        expect_version=r.expect_version,
    )
    return _remembered(r, result)


def _tag(region: LongTermRegion, r: m.Tag) -> tuple[AnyReply, int]:
    require_inside(region, r.memory, r.scope)
    change = region.tag if r.add else region.untag
    return _one(r, *change(r.memory, r.tags, by=r.by, request=(r.producer, r.producer_seq)))


def _relate(region: LongTermRegion, r: m.Relate) -> tuple[AnyReply, int]:
    require_inside(region, r.source, r.scope)
    _require_target(region, r.target, r.scope)
    request = (r.producer, r.producer_seq)
    if r.weight is None:
        end = region.unrelate(r.source, r.target, r.kind, by=r.by, request=request)
    else:
        end = region.relate(r.source, r.target, r.kind, by=r.by, request=request, weight=r.weight)
    return m.EndReply(r.id, end), end


def _refuse(region: LongTermRegion, r: Refuse) -> tuple[AnyReply, int]:
    return DoneReply(r.id), region.refuse(r.operation, r.target, r.by, r.reason)


STAGED: dict[type, Stage[LongTermRegion]] = {
    m.Remember: _remember, m.Revise: _revise, m.Revert: _revert, m.Tag: _tag, m.Relate: _relate,
    Refuse: _refuse,
}  # fmt: skip


# ---- what writes by itself: durable when it returns ----------------------------------------------


def _forget(region: LongTermRegion, r: m.Forget) -> AnyReply:
    require_inside(region, r.memory, r.scope)
    match r.operation:
        case "forget" | "archive":
            forget = region.forget if r.operation == "forget" else region.archive
            return forgotten(region, r, forget(r.memory, **asked(r)))
        case "undo-forget" | "unarchive":
            restore = region.undo_forget if r.operation == "undo-forget" else region.unarchive
            result = restore(r.memory, by=r.by, request=(r.producer, r.producer_seq))
            _make_durable(region)
            return forgotten(region, r, result)
    raise InvalidArgument(f"there is no operation {r.operation!r} on a memory")


def _settle(region: LongTermRegion, r: Settle) -> AnyReply:
    _make_durable(region)
    return DoneReply(r.id)


def _make_durable(region: LongTermRegion) -> None:
    region.write()
    region.sync()


Deleting = m.Forget | m.ForgetWhere | m.Purge | m.EraseMemories | m.EraseMemoriesWhere


def asked(r: Deleting) -> dict[str, Any]:
    return {
        "confirm": r.confirm,
        "by": r.by,
        "reason": r.reason,
        "request": (r.producer, r.producer_seq),
    }


BY_ITSELF: dict[type, Act[LongTermRegion]] = {m.Forget: _forget, Settle: _settle}


# ---- what reads ----------------------------------------------------------------------------------


def _get(region: LongTermRegion, r: m.GetMemories) -> AnyReply:
    found: list[MemoryView | None] = []
    n_bytes = 0
    for each in r.ids:
        view: MemoryView | None = None
        if not r.scope or is_inside(region, each, r.scope):
            try:
                row = region.row(each, include_forgotten=r.include_forgotten)
                view = region.view_or_mark(row)
            except NotFound:
                view = None
        n_bytes += 0 if view is None else bytes_of(view)
        if found and n_bytes > region.reply_bytes_max:
            break
        found.append(view)
    return m.MemoriesReply(r.id, packed(found), [False] * len(found), 0)


def _get_by_key(region: LongTermRegion, r: m.GetByKey) -> AnyReply:
    view = region.by_key(r.namespace, unpacked(r.key, str))
    return m.MemoriesReply(r.id, packed([view]), [False], 0)


def _memories(region: LongTermRegion, r: m.Memories) -> AnyReply:
    page = region.memories(
        unpacked(r.wanted, MemoryFilter),
        after=r.after,
        before=r.before,
        newest=r.newest,
        limit=r.limit,
    )
    return m.MemoryPageReply(r.id, packed(page.memories), page.next, page.previous, page.more)


def _history(region: LongTermRegion, r: m.History) -> AnyReply:
    require_inside(region, r.memory, r.scope)
    found: list[MemoryView] = []
    n_bytes, more = 0, False
    for view in region.history_back(
        r.memory, include_forgotten=r.include_forgotten, before=r.before or None
    ):
        n_bytes += bytes_of(view)
        more = bool(found) and (n_bytes > region.reply_bytes_max or len(found) == VERSIONS_MAX)
        if more:
            break
        found.append(view)
    return m.MemoriesReply(r.id, packed(found), [False] * len(found), 0, more)


def _relations(region: LongTermRegion, r: m.Relations) -> AnyReply:
    require_inside(region, r.memory, r.scope)
    found: list[RelationView] = []
    relations = region.relations_from(r.memory, kind=r.kind, direction=r.direction, start=r.start)
    for looked, (number, one) in enumerate(relations):
        if len(found) == r.limit or looked == RELATIONS_MAX:
            return m.RelationsReply(r.id, found, number, region.epoch)
        if not r.scope or _ends_inside(region, one.source, one.target, r.scope):
            found.append(one)
    return m.RelationsReply(r.id, found, None, region.epoch)


def _derived_from(region: LongTermRegion, r: m.DerivedFrom) -> AnyReply:
    require_place(tuple(r.namespace), r.scope)
    found, following = region.derived_from(
        tuple(r.namespace), r.session, r.first, r.last, start=r.start
    )
    if r.scope:
        found = [one for one in found if is_inside(region, one.source, r.scope)]
    return m.RelationsReply(r.id, found, following, region.epoch)


def _ends_inside(
    region: LongTermRegion, source: str, target: str | TurnPoint, scope: Namespace
) -> bool:
    if not is_inside(region, source, scope):
        return False
    if isinstance(target, str):
        return is_inside(region, target, scope)
    return within(tuple(target.namespace), scope)


def _chunks(region: LongTermRegion, r: m.Chunks) -> AnyReply:
    require_inside(region, r.memory, r.scope)
    after = -1 if r.after is None else region.row(r.after)
    found: list[MemoryView] = []
    n_bytes = 0
    for row in region.chunk_rows(r.memory):
        if row <= after:
            continue
        view = region.view_or_mark(row)
        n_bytes += bytes_of(view)
        if found and n_bytes > region.reply_bytes_max:
            return m.MemoriesReply(r.id, packed(found), [False] * len(found), 0, True)
        found.append(view)
    return m.MemoriesReply(r.id, packed(found), [False] * len(found), 0)


def _original(region: LongTermRegion, r: m.Original) -> AnyReply:
    require_inside(region, r.memory, r.scope)
    return m.MemoriesReply(r.id, packed([region.original(r.memory)]), [False], 0)


def _audit(region: LongTermRegion, r: m.AuditMemories) -> AnyReply:
    part = region.audit(
        operation=r.operation,
        by=r.by,
        target=r.memory,
        start=r.start_us,
        stop=r.stop_us,
        after=r.after,
        limit=r.limit,
        scope=r.scope,
    )
    return m.LongTermAuditReply(r.id, packed(part.entries), part.more, part.upto)


def _deletion_report(region: LongTermRegion, r: m.DeletionReport) -> AnyReply:
    """Counts only: the entries may be many, and are read page by page."""
    report = region.deletion_report(r.start_us, r.stop_us, scope=r.scope)
    return m.DeletionReportReply(r.id, packed(msgspec.structs.replace(report, entries=[])))


def _namespaces(region: LongTermRegion, r: m.MemoryNamespaces) -> AnyReply:
    found, more = region.namespaces(r.prefix, r.max_depth, r.after, r.limit)
    return NamespacesReply(r.id, found, more)


def _agents(region: LongTermRegion, r: Agents) -> AnyReply:
    found, more = region.agents(r.scope, r.after, AGENTS_MAX)
    return AgentsReply(r.id, packed(found), more)


READ: Mapping[type, Read] = {
    m.GetMemories: _get, m.GetByKey: _get_by_key, m.Memories: _memories, m.History: _history,
    m.Relations: _relations, m.AuditMemories: _audit, m.DeletionReport: _deletion_report,
    m.MemoryNamespaces: _namespaces, m.Chunks: _chunks, m.Original: _original,
    Agents: _agents,
    m.DerivedFrom: _derived_from,
}  # fmt: skip


def bytes_of(view: MemoryView) -> int:
    """What a memory may take in a reply, roughly and rather too much."""
    texts = 4 * (len(view.text) + len(view.context or ""))
    return 400 + texts + (len(packed(view.metadata)) if view.metadata else 0)
