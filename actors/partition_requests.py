"""How each request of ``messages.py`` is asked of a region, in three tables.

Staged requests answer with the log position that must be written, or durable, before the reply may
go out; what writes by itself is durable when it answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from neverforget.actors import partition_reflection
from neverforget.actors.activity_messages import AGENTS_MAX, Activity, ActivityReply
from neverforget.actors.group_commit import Stage
from neverforget.actors.messages import (
    AnyReply,
    Append,
    AppendedReply,
    Audit,
    AuditReply,
    DoneReply,
    Erase,
    ErasureReply,
    Fork,
    Get,
    Hide,
    Info,
    Namespaces,
    NamespacesReply,
    Page,
    Refuse,
    SessionReply,
    Sessions,
    SessionsReply,
    Settle,
    Tail,
    Wait,
    WindowReply,
)
from neverforget.actors.region_owner import Act
from neverforget.actors.salvage_messages import Salvage
from neverforget.actors.salvage_requests import stage_salvage
from neverforget.storage.region import Region

Read = Callable[[Region, Any], AnyReply]


def _append(region: Region, r: Append) -> tuple[AnyReply, int]:
    result = region.append(
        r.namespace, r.session, r.agent, r.producer, r.producer_seq, r.expect_seq, r.records
    )
    return AppendedReply(r.id, result), result.end


def _hide(region: Region, r: Hide) -> tuple[AnyReply, int]:
    end = region.hide(
        r.namespace, r.session, r.runs, r.hidden, r.by, r.reason, r.producer, r.producer_seq
    )
    return DoneReply(r.id), end


def _fork(region: Region, r: Fork) -> tuple[AnyReply, int]:
    end = region.fork(r.namespace, r.session, r.parent, r.tokens, r.by, r.producer, r.producer_seq)
    return DoneReply(r.id), end


def _refuse(region: Region, r: Refuse) -> tuple[AnyReply, int]:
    return DoneReply(r.id), region.refuse(r.operation, r.target, r.by, r.reason)


def _settle(region: Region, r: Settle) -> tuple[AnyReply, int]:
    return DoneReply(r.id), region.log_end


def _tail(region: Region, r: Tail) -> AnyReply:
    window = region.tail(
        r.namespace, r.session, r.before, r.limit, r.max_tokens, r.roles, r.include_hidden
    )
    return WindowReply(r.id, window)


def _page(region: Region, r: Page) -> AnyReply:
    window = region.page(
        r.namespace, r.session, r.after, r.before, r.newest, r.limit, r.include_hidden
    )
    return WindowReply(r.id, window)


def _get(region: Region, r: Get) -> AnyReply:
    return WindowReply(r.id, region.get(r.namespace, r.session, r.first, r.stop))


def _info(region: Region, r: Info) -> AnyReply:
    return SessionReply(r.id, region.info(r.namespace, r.session, r.before))


def info(region: Region, r: Wait) -> AnyReply:
    return SessionReply(r.id, region.info(r.namespace, r.session))


def _sessions(region: Region, r: Sessions) -> AnyReply:
    found, more = region.sessions(r.namespace, r.prefix, r.after, r.limit)
    return SessionsReply(r.id, found, more)


def _namespaces(region: Region, r: Namespaces) -> AnyReply:
    found, more = region.namespaces(r.prefix, r.max_depth, r.after, r.limit)
    return NamespacesReply(r.id, found, more)


def _audit(region: Region, r: Audit) -> AnyReply:
    entries, more = region.audit(
        r.operation, r.by, r.namespace, r.session, r.start_us, r.stop_us, r.after, r.limit
    )
    return AuditReply(r.id, entries, more)


def _activity(region: Region, r: Activity) -> AnyReply:
    return ActivityReply(r.id, *region.activity(r.namespace, r.after, AGENTS_MAX))


def _erase(region: Region, r: Erase) -> AnyReply:
    """Durable when it returns."""
    result = region.erase(
        r.namespace, r.session, r.runs, r.confirm, r.by, r.reason, r.producer, r.producer_seq
    )
    return ErasureReply(r.id, result)


def news(region: Region, r: Wait) -> AnyReply | None:
    """The answer to a follower, None while its session has no turn after the one it knows."""
    end = region.get(r.namespace, r.session, 0, 0).end
    return info(region, r) if end > r.after + 1 else None


STAGED: dict[type, Stage[Region]] = {
    Append: _append, Hide: _hide, Fork: _fork, Refuse: _refuse, Settle: _settle,
    Salvage: stage_salvage,
    **partition_reflection.STAGED,
}  # fmt: skip
BY_ITSELF: dict[type, Act[Region]] = {Erase: _erase}
READ: dict[type, Read] = {
    Tail: _tail, Page: _page, Get: _get, Info: _info, Sessions: _sessions,
    Namespaces: _namespaces, Audit: _audit, Activity: _activity,
    **partition_reflection.READ,
}  # fmt: skip
