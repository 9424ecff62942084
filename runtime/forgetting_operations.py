"""Forgetting, archiving, purging and erasing, as operations. What deletes needs confirmation, by
identity, before anything else is asked; a refusal is put on the record, then raised.
"""

from __future__ import annotations

import math
from typing import Any

from neverforget.actors.longterm_messages import (
    EraseMemories,
    EraseMemoriesWhere,
    Forget,
    ForgetWhere,
    ForgottenReply,
    MemoriesErasedReply,
    Purge,
    packed,
    unpacked,
)
from neverforget.actors.messages import Erase, Refuse
from neverforget.runtime import store_operations
from neverforget.runtime.memory_arguments import before_us, checked_id, memory_filter, narrows
from neverforget.runtime.memory_codec import audit_entry
from neverforget.runtime.operation import LONGTERM, Call, Context, Operation
from neverforget.runtime.scope import NamespaceLike, Scope, doer
from neverforget.runtime.session_writing import checked_reason
from neverforget.runtime.times import from_us
from neverforget.runtime.values import CONFIRMED, AuditEntry, ErasureReport, Namespace
from neverforget.storage.errors import (
    ConfirmationRequired,
    InvalidArgument,
    NeverforgetError,
    NotFound,
)
from neverforget.storage.longterm_content import plain_filter
from neverforget.storage.longterm_results import LongTermErasure, MemoryFilter
from neverforget.storage.results import AuditView

_SESSIONS_PAGE = 200


# ---- confirmation --------------------------------------------------------------------------------


def require(
    scope: Scope,
    operation: str,
    target: dict[str, Any],
    confirm: object,
    by: str,
    reason: str | None,
) -> Operation[None]:
    """Go on if ``confirm`` is CONFIRMED itself; else record the refusal and raise it."""
    if confirm is CONFIRMED:
        return
    given = "confirm is missing" if confirm is None else f"confirm is {confirm!r}"
    refusal = ConfirmationRequired(
        f"{given}: {operation} takes memories away; pass confirm=neverforget.CONFIRMED if it is "
        "meant"
    )
    try:
        yield Call(LONGTERM, Refuse(0, operation, target, by, reason))
    except NeverforgetError as error:
        refusal.add_note(f"the refusal could not be put on the record: {error}")
    raise refusal


# ---- one memory ----------------------------------------------------------------------------------


def forget(
    context: Context,
    scope: Scope,
    operation: str,
    memory_id: str,
    confirm: object,
    reason: str | None,
    by: str | None,
) -> Operation[AuditEntry | None]:
    """``operation``: "forget" or "archive". None: it was archived already."""
    wanted = checked_id(memory_id)
    who, why = doer(by, scope.agent), checked_reason(reason)
    yield from require(scope, operation, {"id": wanted}, confirm, who, why)
    request = Forget(
        0, scope.root, who, *context.ids.next(), operation, wanted, CONFIRMED.value, why
    )
    return _entry((yield from _forgotten(context, request)))


def restore(context: Context, scope: Scope, operation: str, memory_id: str) -> Operation[None]:
    """``operation``: "undo-forget" or "unarchive"."""
    who = doer(None, scope.agent)
    wanted = checked_id(memory_id)
    request = Forget(0, scope.root, who, *context.ids.next(), operation, wanted, None, None)
    yield from _forgotten(context, request)


def _forgotten(
    context: Context, request: Forget | ForgetWhere | Purge, patience_s: float | None = None
) -> Operation[ForgottenReply]:
    reply: ForgottenReply = yield Call(LONGTERM, request, patience_s)
    context.longterm.note(reply.end)
    return reply


def _entry(reply: ForgottenReply) -> AuditEntry | None:
    view: AuditView | None = unpacked(reply.entry, AuditView | None)  # type: ignore[arg-type]
    return None if view is None else audit_entry(view)


# ---- many ----------------------------------------------------------------------------------------


def forget_where(
    context: Context,
    scope: Scope,
    operation: str,
    filters: dict[str, Any],
    dry_run: bool,
    confirm: object,
    reason: str | None,
    by: str | None,
) -> Operation[int]:
    """``operation``: "forget" or "archive". ``filters``: those that ``memory_filter`` takes."""
    who, why = doer(by, scope.agent), checked_reason(reason)
    wanted = memory_filter(scope, context.clock, **filters)
    if not narrows(scope, wanted):
        raise InvalidArgument(
            f"{operation}_where without a filter would {operation} everything; name at least one "
            f"of {', '.join(filters)}"
        )
    if not _checked_dry_run(dry_run):
        target = {"filter": plain_filter(wanted)}
        yield from require(scope, operation, target, confirm, who, why)
    request = ForgetWhere(
        0,
        scope.root,
        who,
        *context.ids.next(),
        operation,
        packed(wanted),
        dry_run,
        None if dry_run else CONFIRMED.value,
        why,
    )
    return (yield from _forgotten(context, request, math.inf)).count


def purge(
    context: Context,
    scope: Scope,
    older_than: Any,
    dry_run: bool,
    confirm: object,
    reason: str | None,
    by: str | None,
) -> Operation[int]:
    """Take for good what was forgotten before ``older_than``."""
    who, why = doer(by, scope.agent), checked_reason(reason)
    before = before_us(older_than, context.clock)
    if not _checked_dry_run(dry_run):
        said = plain_filter(MemoryFilter(namespace=tuple(scope.root), older_than=before))
        yield from require(scope, "purge", {"filter": said}, confirm, who, why)
    confirmed = None if dry_run else CONFIRMED.value
    request = Purge(0, scope.root, who, *context.ids.next(), before, dry_run, confirmed, why)
    return (yield from _forgotten(context, request, math.inf)).count


def _checked_dry_run(dry_run: Any) -> bool:
    """Whether it is only to be counted. Nothing else than True may stand for that, or for not."""
    if not isinstance(dry_run, bool):
        raise InvalidArgument(f"dry_run is {dry_run!r}; pass True or False")
    return dry_run


# ---- erasing -------------------------------------------------------------------------------------


def erase(
    context: Context,
    scope: Scope,
    memory_id: str,
    confirm: object,
    reason: str | None,
    by: str | None,
) -> Operation[ErasureReport]:
    """Zero what was said, of one memory and of what was made from it."""
    wanted = checked_id(memory_id)
    who, why = doer(by, scope.agent), checked_reason(reason)
    yield from require(scope, "erase", {"id": wanted}, confirm, who, why)
    request = EraseMemories(0, scope.root, who, *context.ids.next(), [wanted], CONFIRMED.value, why)
    # Every file that holds a copy is written anew before it is answered.
    reply: MemoriesErasedReply = yield Call(LONGTERM, request, math.inf)
    return _report(reply.result)


def erase_where(
    context: Context,
    scope: Scope,
    namespace: NamespaceLike | None,
    dry_run: bool,
    confirm: object,
    reason: str | None,
    by: str | None,
) -> Operation[ErasureReport]:
    """All sessions and memories at or below ``namespace``. Repeating it after a failure goes on
    with what is left.
    """
    who, why = doer(by, scope.agent), checked_reason(reason)
    root = scope.filter(namespace)
    if not root:
        raise InvalidArgument(
            "erase_where without a namespace would erase the whole store; name one, or delete the "
            "store's directory"
        )
    if not _checked_dry_run(dry_run):
        target = {"filter": {"namespace": list(root)}}
        yield from require(scope, "erase", target, confirm, who, why)
    sessions, turns, n_bytes, beyond = yield from _erase_sessions(context, root, dry_run, who, why)
    request = EraseMemoriesWhere(
        0,
        scope.root,
        who,
        *context.ids.next(),
        root,
        dry_run,
        None if dry_run else CONFIRMED.value,
        why,
    )
    reply: MemoriesErasedReply = yield Call(LONGTERM, request, math.inf)
    return _report(reply.result, sessions, turns, n_bytes, beyond)


def _erase_sessions(
    context: Context, root: Namespace, dry_run: bool, by: str, reason: str | None
) -> Operation[tuple[int, int, int, list[str]]]:
    """Sessions, turns and bytes that went (or would), and what is beyond reach."""
    sessions = turns = n_bytes = 0
    beyond: list[str] = []
    after: str | None = None
    while True:
        page = yield from store_operations.sessions(context, root, None, after, _SESSIONS_PAGE)
        for info in page:
            sessions += 1
            if dry_run:
                turns += info.turns
                continue
            place = context.place(info.namespace, info.session)
            request = Erase(
                0,
                place.namespace,
                place.name,
                None,
                CONFIRMED.value,
                by,
                reason,
                *context.ids.next(),
            )
            try:
                erased = (yield Call(place.partition, request, math.inf)).result
            except NotFound:  # somebody else has erased it since it was listed
                sessions -= 1
                continue
            turns, n_bytes = turns + erased.turns, n_bytes + erased.bytes
            beyond += erased.unreachable
        if not page.has_more:
            return sessions, turns, n_bytes, beyond
        after = page.next


def _report(
    found: LongTermErasure,
    sessions: int = 0,
    turns: int = 0,
    n_bytes: int = 0,
    beyond: list[str] | None = None,
) -> ErasureReport:
    return ErasureReport(
        turns=turns,
        bytes=n_bytes + found.bytes,
        unreachable=tuple(dict.fromkeys([*(beyond or []), *found.unreachable])),
        at=from_us(found.at),
        sessions=sessions,
        memories=found.memories,
        flagged=tuple(found.flagged),
        revised=tuple(found.revised),
    )
