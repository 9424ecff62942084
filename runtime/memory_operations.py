"""Remembering, and what is said of memories later, as operations on the long-term owner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import UNSET
from msgspec.structs import replace

from neverforget.actors.longterm_messages import (
    EndReply,
    MemoriesReply,
    Relate,
    Remember,
    Revert,
    Revise,
    Tag,
    packed,
    unpacked,
)
from neverforget.actors.messages import Info
from neverforget.runtime.arguments import sync_code, whole
from neverforget.runtime.memory_arguments import (
    checked_id,
    checked_kind,
    checked_label,
    checked_tags,
    checked_type,
    checked_weight,
    relation_end,
)
from neverforget.runtime.memory_codec import memory_of
from neverforget.runtime.memory_values import Memory
from neverforget.runtime.new_memories import (
    Batch,
    batch_of,
    checked_on_conflict,
    new_memory,
    time_us,
)
from neverforget.runtime.operation import LONGTERM, Call, Context, Operation
from neverforget.runtime.scope import Scope, checked_name, doer
from neverforget.runtime.values import TurnRef
from neverforget.storage.errors import InvalidArgument, NotFound
from neverforget.storage.longterm_checks import plain_metadata
from neverforget.storage.longterm_content import check_changes
from neverforget.storage.longterm_results import Changes, MemoryView, TurnPoint
from neverforget.storage.results import SessionView

VERSION_MAX = 2**31
OnConflict = Literal["raise", "revise"]
RelationEnd = str | TurnRef
RelatedTo = (
    RelationEnd | Iterable[RelationEnd | tuple[RelationEnd, str] | tuple[RelationEnd, str, float]]
)


# ---- remembering ---------------------------------------------------------------------------------


def remember(context: Context, scope: Scope, item: Mapping[str, Any]) -> Operation[Memory]:
    """Remember one memory; ``item`` has ``remember``'s arguments."""
    batch = Batch(
        [new_memory(context, scope, item)],
        checked_on_conflict(item["on_conflict"]),
        sync_code(item["sync"], scope.sync),
    )
    return (yield from _remember(context, scope, batch))[0]


def remember_many(
    context: Context,
    scope: Scope,
    items: Iterable[Mapping[str, Any]],
    ids: Sequence[str] | None = None,
) -> Operation[list[Memory]]:
    """Remember memories in one batch: all of them, or none. ``ids``: theirs, where they had some
    elsewhere, as in an import; Conflict where one is taken.
    """
    batch = batch_of(context, scope, items)
    if ids is not None:
        memories = [replace(new, id=checked_id(i)) for new, i in zip(batch.memories, ids)]
        batch = batch._replace(memories=memories)
    if not batch.memories:
        return []
    return (yield from _remember(context, scope, batch))


def _remember(context: Context, scope: Scope, batch: Batch) -> Operation[list[Memory]]:
    memories = packed(batch.memories)
    if len(memories) > context.batch_bytes_max:
        raise InvalidArgument(
            f"a batch of {len(memories):,} bytes is above the limit of "
            f"{context.batch_bytes_max:,}; remember it in parts"
        )
    request = Remember(
        0,
        scope.root,
        doer(None, scope.agent),
        *context.ids.next(),
        memories,
        batch.on_conflict,
        batch.sync,
    )
    return (yield from _written(context, request))


def _written(
    context: Context, request: Remember | Revise | Revert | Tag
) -> Operation[list[Memory]]:
    reply: MemoriesReply = yield Call(LONGTERM, request)
    context.longterm.note(reply.end)
    return [memory_of(view) for view in unpacked(reply.memories, list[MemoryView])]


# ---- later versions ------------------------------------------------------------------------------


def revise(
    context: Context,
    scope: Scope,
    memory_id: str,
    changes: Mapping[str, Any],
    expect_version: int | None,
) -> Operation[Memory]:
    """A new version; ``changes`` whose value is UNSET stay as they are."""
    request = Revise(
        0,
        scope.root,
        doer(None, scope.agent),
        *context.ids.next(),
        checked_id(memory_id),
        packed(_checked_changes(changes)),
        None if expect_version is None else _version(expect_version, "expect_version"),
        sync_code(None, scope.sync),
    )
    return (yield from _written(context, request))[0]


def _checked_changes(changes: Mapping[str, Any]) -> Changes:
    checked = Changes(**{n: _changed(n, v) for n, v in changes.items() if v is not UNSET})
    check_changes(checked)
    return checked


def _changed(name: str, value: Any) -> Any:
    if name == "text":
        return str.__str__(value) if isinstance(value, str) else value
    if name == "type":
        return checked_type(value)
    if name == "tags":
        return checked_tags(value)
    if name == "metadata":
        return plain_metadata(value)
    if name == "agent":
        return None if value is None else checked_name(value, name)
    if name in ("source", "speaker"):
        return checked_label(value, name)
    if name in ("occurred_at", "valid_from", "valid_to"):
        return time_us(value, name)
    if name == "context":
        return str.__str__(value) if isinstance(value, str) else value
    return value


def revert(context: Context, scope: Scope, memory_id: str, version: int) -> Operation[Memory]:
    """A new version that says what ``version`` said."""
    request = Revert(
        0,
        scope.root,
        doer(None, scope.agent),
        *context.ids.next(),
        checked_id(memory_id),
        _version(version, "version"),
        None,
    )
    return (yield from _written(context, request))[0]


def _version(version: Any, what: str) -> int:
    return whole(version, what, 1, VERSION_MAX)


# ---- tags and relations --------------------------------------------------------------------------


def tag(
    context: Context, scope: Scope, memory_id: str, tags: Sequence[str], add: bool
) -> Operation[None]:
    """Give tags, or take them away."""
    found = checked_tags(tags)
    if not found:
        raise InvalidArgument("no tag was named")
    request = Tag(
        0,
        scope.root,
        doer(None, scope.agent),
        *context.ids.next(),
        checked_id(memory_id),
        list(found),
        add,
    )
    yield from _written(context, request)


def relate(
    context: Context,
    scope: Scope,
    source: str,
    target: Any,
    kind: str,
    weight: float | None,
    *,
    there: bool = True,
) -> Operation[None]:
    """Relate a memory to another one, or to turns, which must be ``there``. ``weight`` None: take
    the relation away.
    """
    request = Relate(
        0,
        scope.root,
        doer(None, scope.agent),
        *context.ids.next(),
        checked_id(source, "source"),
        relation_end(scope, target),
        checked_kind(kind),
        None if weight is None else checked_weight(weight),
    )
    if there and weight is not None and isinstance(request.target, TurnPoint):
        yield from _require_turns(context, request.target)
    reply: EndReply = yield Call(LONGTERM, request)
    context.longterm.note(reply.end)


def _require_turns(context: Context, turns: TurnPoint) -> Operation[None]:
    """The long-term owner does not know what was said: the partition does."""
    place = context.place(turns.namespace, turns.session)
    said: SessionView = (yield Call(place.partition, Info(0, place.namespace, place.name))).session
    if turns.last >= said.turns:
        where = f" in {'/'.join(place.namespace)}" if place.namespace else ""
        raise NotFound(
            f"session {place.name!r}{where} has no turn {turns.last}: it has {said.turns:,} turns"
        )
