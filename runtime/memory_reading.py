"""What reads memories without searching them, as operations: get, listings, history, relations.

Replies are bounded, so each operation goes on asking until it has what was wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from neverforget.actors.longterm_messages import (
    GetByKey,
    GetMemories,
    History,
    Memories,
    MemoriesReply,
    MemoryPageReply,
    Relations,
    RelationsReply,
    packed,
    unpacked,
)
from neverforget.runtime import cursors
from neverforget.runtime.memory_arguments import checked_id, checked_kind, checked_label
from neverforget.runtime.memory_codec import memory_of, relation_of
from neverforget.runtime.memory_values import Memory, Relation
from neverforget.runtime.operation import LONGTERM, Call, Operation
from neverforget.runtime.scope import NamespaceLike, Scope
from neverforget.runtime.values import Page, TurnRef
from neverforget.storage.errors import Corrupt, InvalidArgument, NotFound
from neverforget.storage.longterm_results import MemoryFilter, MemoryView
from neverforget.storage.type_names import a_type

IDS_MAX = 1_000  # asked for at a time
PAGE_MAX = 10_000  # an owner lists no more at a time
RELATIONS_MAX = 1_000  # alike
Direction = Literal["out", "in", "both"]
DIRECTIONS = ("out", "in", "both")


# ---- by id and key -------------------------------------------------------------------------------


def get(
    scope: Scope,
    memory_id: Any,
    key: Any,
    namespace: NamespaceLike,
    include_forgotten: bool,
) -> Operation[Memory]:
    """By id, or by key in a namespace. Raises NotFound, Corrupt."""
    if (memory_id is None) == (key is None):
        raise InvalidArgument("pass an id, or key= with the namespace in which it is unique")
    if key is not None:
        if include_forgotten:
            raise InvalidArgument(
                "include_forgotten is for ids: a forgotten memory has given its key away"
            )
        return (yield from _by_key(scope, key, namespace))
    wanted = checked_id(memory_id)
    if scope.place(namespace) != scope.root:
        raise InvalidArgument("namespace is for key=; an id needs none")
    found = yield from _some(scope, [wanted], include_forgotten)
    if found[0] is None:
        raise NotFound(f"no memory {wanted}")
    return _readable(found[0])


def _by_key(scope: Scope, key: Any, namespace: NamespaceLike) -> Operation[Memory]:
    request = GetByKey(0, scope.place(namespace), packed(checked_label(key, "key")))
    reply: MemoriesReply = yield Call(LONGTERM, request)
    return _readable(memory_of(unpacked(reply.memories, list[MemoryView])[0]))


def _readable(memory: Memory) -> Memory:
    if memory.status == "unreadable":
        raise Corrupt(
            f"memory {memory.id} fails its checksum or is lost; verify() says where, a backup "
            "may hold it"
        )
    return memory


def get_many(
    scope: Scope, ids: Any, include_forgotten: bool = False
) -> Operation[list[Memory | None]]:
    """In the order asked; None for those that are not there."""
    if isinstance(ids, str):
        ids = (ids,)
    if isinstance(ids, (bytes, Mapping)) or not isinstance(ids, Iterable):
        raise InvalidArgument(f"ids is {a_type(ids)}; pass a list of ids")
    given = list(ids)
    found: list[Memory | None] = [None] * len(given)
    asked: list[tuple[int, str]] = []
    for index, each in enumerate(given):
        try:
            asked.append((index, checked_id(each, f"ids[{index}]")))
        except NotFound:
            pass  # no memory has it, as of an id that was never drawn
    while asked:
        part = yield from _some(scope, [wanted for _, wanted in asked[:IDS_MAX]], include_forgotten)
        for (index, _), memory in zip(asked, part):
            found[index] = memory
        asked = asked[len(part) :]
    return found


def _some(scope: Scope, ids: list[str], include_forgotten: bool) -> Operation[list[Memory | None]]:
    """Of the first of ``ids``, at least one."""
    request = GetMemories(0, scope.root, ids, bool(include_forgotten))
    reply: MemoriesReply = yield Call(LONGTERM, request)
    views = unpacked(reply.memories, list[MemoryView | None])
    return [None if view is None else memory_of(view) for view in views]


# ---- listings ------------------------------------------------------------------------------------


def memories(
    wanted: MemoryFilter, timeframe: Any, after: str | None, limit: int
) -> Operation[Page[Memory]]:
    """Oldest first. ``timeframe`` as the caller said it: what "today" means moves between pages,
    what was asked does not.
    """
    bound = cursors.binding(
        packed([msgspec.structs.replace(wanted, timeframe=None)]) + repr(timeframe).encode()
    )
    start: int | None = None
    if after is not None:
        start = cursors.read(after, cursors.MEMORIES, bound, int | None)
    found: list[Memory] = []
    asked, more = packed(wanted), True
    while more and len(found) < limit:
        request = Memories(0, asked, start, None, False, min(limit - len(found), PAGE_MAX))
        reply: MemoryPageReply = yield Call(LONGTERM, request)
        found += [memory_of(view) for view in unpacked(reply.memories, list[MemoryView])]
        start = start if reply.next is None else reply.next
        more = reply.more
    return Page(tuple(found), cursors.make(cursors.MEMORIES, bound, start), None, more)


def history(scope: Scope, memory_id: str) -> Operation[list[Memory]]:
    """Every version, oldest first."""
    wanted = checked_id(memory_id)
    found: list[MemoryView] = []
    while True:
        before = found[-1].position if found else 0
        reply: MemoriesReply = yield Call(LONGTERM, History(0, scope.root, wanted, False, before))
        found += unpacked(reply.memories, list[MemoryView])
        if not reply.more:
            return [memory_of(view) for view in reversed(found)]


# ---- relations -----------------------------------------------------------------------------------


def relations(
    scope: Scope, memory_id: str, kind: str | None, direction: str
) -> Operation[list[Relation]]:
    """Those that begin at it, end at it, or both, in the order they were made."""
    if direction not in DIRECTIONS:
        raise InvalidArgument(f'direction is {direction!r}; pass "out", "in" or "both"')
    wanted, of_kind = checked_id(memory_id), None if kind is None else checked_kind(kind)
    found: list[Relation] = []
    start, epoch = 0, None
    while True:
        request = Relations(0, scope.root, wanted, of_kind, direction, RELATIONS_MAX, start)
        reply: RelationsReply = yield Call(LONGTERM, request)
        if start and reply.epoch != epoch:  # another owner counts anew
            found, start = [], 0
            continue
        found += [relation_of(view) for view in reply.relations]
        if reply.next is None:
            return found
        start, epoch = reply.next, reply.epoch


def provenance(scope: Scope, memory_id: str) -> Operation[list[TurnRef]]:
    """The turns that it was made from."""
    found = yield from relations(scope, memory_id, None, "out")
    return [each.target for each in found if isinstance(each.target, TurnRef)]
