"""What is asked of a working memory, as operations on the long-term owner, which keeps it."""

from __future__ import annotations

from typing import NamedTuple

from neverforget.actors.longterm_messages import unpacked
from neverforget.actors.working_messages import (
    Work,
    WorkingItems,
    WorkingItemsReply,
    WorkingMembers,
    WorkingMembersReply,
    WorkingReply,
    WorkingStatus,
    WorkingStatusReply,
)
from neverforget.runtime.arguments import sync_code
from neverforget.runtime.memory_arguments import checked_id
from neverforget.runtime.memory_codec import memory_of, turn_ref
from neverforget.runtime.memory_values import Hits, Memory
from neverforget.runtime.operation import LONGTERM, Call, Context, Operation
from neverforget.runtime.scope import Scope, doer
from neverforget.runtime.times import from_us
from neverforget.runtime.working_values import WorkingItem, WorkingMember
from neverforget.storage.errors import InvalidArgument, NotFound
from neverforget.storage.working_results import WorkingItem as ItemView
from neverforget.storage.working_results import WorkingPlace


class Asker(NamedTuple):
    """Who asks which working memory. ``agent`` None: nobody in particular. ``max_tokens``: what it
    may hold from the next change on that has to do with room.
    """

    context: Context
    scope: Scope
    place: WorkingPlace
    agent: str | None
    max_tokens: int


class Filling(NamedTuple):
    """memories: how many are in it; the others are tokens. ``max_tokens`` 0: nobody has used it
    yet.
    """

    memories: int
    tokens: int
    max_tokens: int


# ---- changes -------------------------------------------------------------------------------------


def add(asker: Asker, memory: Memory | str, pinned: bool) -> Operation[tuple[str, ...]]:
    """Add a memory. The ids of those that were evicted for it, in the order they left."""
    reply = yield from _work(asker, "add", [id_of(memory)], bool(pinned))
    return tuple(reply.evicted)


def take(asker: Asker, hits: Hits) -> Operation[None]:
    """Add what a recall found, the best first, as far as it fits."""
    if hits:
        yield from _work(asker, "recall", [hit.memory.id for hit in hits])


def change(asker: Asker, operation: str, memory: Memory | str) -> Operation[None]:
    """ "remove", "pin" or "unpin"."""
    yield from _work(asker, operation, [id_of(memory)])


def attend(asker: Asker, operation: str) -> Operation[None]:
    """ "join" or "leave"."""
    if asker.agent is None:
        raise InvalidArgument(
            f"nobody is named who could {operation} {asker.place.name!r}; say which agent, e.g. "
            f"store.working_memory(agent=…, group={asker.place.name!r})"
        )
    yield from _work(asker, operation, [])


def _work(
    asker: Asker, operation: str, ids: list[str], pinned: bool = False
) -> Operation[WorkingReply]:
    scope = asker.scope
    request = Work(
        0,
        scope.root,
        doer(None, asker.agent or scope.agent),
        *asker.context.ids.next(),
        asker.place,
        operation,
        asker.agent,
        ids,
        pinned,
        asker.max_tokens,
        sync_code(None, scope.sync),
    )
    reply: WorkingReply = yield Call(LONGTERM, request)
    asker.context.longterm.note(reply.end)
    return reply


def id_of(memory: Memory | str) -> str:
    """The id of a memory, given itself or by its id."""
    return memory.id if isinstance(memory, Memory) else checked_id(memory)


# ---- reading -------------------------------------------------------------------------------------


def some(asker: Asker, after: int) -> Operation[tuple[list[WorkingItem], int | None]]:
    """Items behind ``after`` (0: the first), and from where to go on; None: those were all."""
    request = WorkingItems(0, asker.scope.root, asker.place, asker.agent, after)
    reply: WorkingItemsReply = yield Call(LONGTERM, request)
    return [_item(view) for view in unpacked(reply.items, list[ItemView])], reply.next


def every(asker: Asker) -> Operation[list[WorkingItem]]:
    """All items, in the order they were added. What is taken out and added again meanwhile, and so
    is met twice, counts where it was added last.
    """
    found: dict[str, WorkingItem] = {}
    after: int | None = 0
    while after is not None:
        items, after = yield from some(asker, after)
        for item in items:
            found.pop(item.memory.id, None)
            found[item.memory.id] = item
    return list(found.values())


def has(asker: Asker, memory: Memory | str) -> Operation[bool]:
    """Is this one, or the original of this chunk, there? What is no id is not."""
    try:
        wanted = id_of(memory)
    except NotFound:
        return False
    return (yield from _status(asker, wanted)).holds


def filling(asker: Asker) -> Operation[Filling]:
    reply = yield from _status(asker, None)
    return Filling(reply.count, reply.tokens, reply.max_tokens)


def _status(asker: Asker, about: str | None) -> Operation[WorkingStatusReply]:
    request = WorkingStatus(0, asker.scope.root, asker.place, asker.agent, about)
    reply: WorkingStatusReply = yield Call(LONGTERM, request)
    return reply


def utilization(asker: Asker) -> Operation[float]:
    """How much of the budget is used, 0 to 1."""
    found = yield from filling(asker)
    return found.tokens / found.max_tokens if found.max_tokens else 0.0


def members(asker: Asker) -> Operation[list[WorkingMember]]:
    """Who has joined, in that order."""
    request = WorkingMembers(0, asker.scope.root, asker.place, asker.agent)
    reply: WorkingMembersReply = yield Call(LONGTERM, request)
    return [
        WorkingMember(
            each.agent,
            from_us(each.joined_at),
            None if each.seen_at is None else from_us(each.seen_at),
            each.active,
        )
        for each in reply.members
    ]


def _item(view: ItemView) -> WorkingItem:
    return WorkingItem(
        memory_of(view.memory),
        view.tokens,
        view.pinned,
        from_us(view.added_at),
        from_us(view.used_at),
        view.accesses,
        tuple(turn_ref(point) for point in view.provenance),
    )
