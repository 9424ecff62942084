"""How each request that may delete many memories is asked of a long-term region: in slices, durable
when the last one is done. See ``longterm_requests`` for ``scope``.
"""

from __future__ import annotations

from neverforget.actors import longterm_messages as m
from neverforget.actors.longterm_deleting import Deletion
from neverforget.actors.longterm_messages import unpacked
from neverforget.actors.longterm_requests import asked, forgotten, require_inside, require_place
from neverforget.actors.messages import AnyReply, AnyRequest
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.longterm_results import MemoryFilter
from neverforget.storage.slices import Slices


def _forget_where(region: LongTermRegion, r: m.ForgetWhere) -> Slices[AnyReply]:
    wanted = unpacked(r.wanted, MemoryFilter)
    require_place(wanted.namespace, r.scope)
    forget = region.archiving_where if r.operation == "archive" else region.forgetting_where
    result = yield from forget(wanted, dry_run=r.dry_run, **asked(r))
    return forgotten(region, r, result)


def _purge(region: LongTermRegion, r: m.Purge) -> Slices[AnyReply]:
    result = yield from region.purging(r.older_than, dry_run=r.dry_run, scope=r.scope, **asked(r))
    return forgotten(region, r, result)


def _erase(region: LongTermRegion, r: m.EraseMemories) -> Slices[AnyReply]:
    for each in (*r.ids, *r.bare):
        require_inside(region, each, r.scope)
    result = yield from region.erasing(r.ids, bare=r.bare, **asked(r))
    return m.MemoriesErasedReply(r.id, region.erasure_as_seen(result, r.scope))


def _erase_where(region: LongTermRegion, r: m.EraseMemoriesWhere) -> Slices[AnyReply]:
    require_place(r.namespace, r.scope)
    result = yield from region.erasing_where(r.namespace, dry_run=r.dry_run, **asked(r))
    return m.MemoriesErasedReply(r.id, region.erasure_as_seen(result, r.scope))


IN_SLICES: dict[type, Deletion] = {
    m.ForgetWhere: _forget_where, m.Purge: _purge, m.EraseMemories: _erase,
    m.EraseMemoriesWhere: _erase_where,
}  # fmt: skip


def takes_bytes_away(request: AnyRequest) -> bool:
    """Whether its words must leave every derived file before it is answered."""
    return isinstance(request, m.Purge | m.EraseMemories | m.EraseMemoriesWhere) and (
        isinstance(request, m.EraseMemories) or not request.dry_run
    )
