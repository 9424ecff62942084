"""What goes into a working memory and comes out of it: structs that cross a socket as they are.
Times are microseconds UTC; ids are canonical UUID text.
"""

from __future__ import annotations

from msgspec import Struct

from neverforget.storage.longterm_results import MemoryView, Namespace, TurnPoint


class WorkingPlace(Struct, array_like=True, frozen=True):
    """Which working memory: that of the agent, or ``group``, ``name`` in this namespace."""

    namespace: Namespace
    name: str
    group: bool


class WorkingItem(Struct, array_like=True, frozen=True):
    """A memory in a working memory. ``used_at``: when it was last added or recalled into it.
    ``accesses``: how often it was recalled. ``provenance``: the first turns that it comes from.
    """

    memory: MemoryView
    tokens: int
    pinned: bool
    added_at: int
    used_at: int
    accesses: int
    provenance: list[TurnPoint]


class WorkingTask(Struct, array_like=True, frozen=True):
    """What is to be done to a working memory.

    "add": all of ``ids``, or none. "recall": those that fit, in this order; an access of each.
    "remove": what is there of them. "pin", "unpin". "join", "leave": the ``agent``.
    ``pinned``: what is added is never evicted. ``max_tokens``: the budget from now on, of "add",
    "recall", and "join" where there is none yet; 0: as it is.
    """

    place: WorkingPlace
    operation: str
    ids: list[str] = []
    pinned: bool = False
    max_tokens: int = 0
    agent: str | None = None


class Worked(Struct, array_like=True):
    """What is there now; who was ``evicted``, in this order. ``end`` must be durable."""

    count: int
    tokens: int
    max_tokens: int
    evicted: list[str]
    end: int


class WorkingPage(Struct, array_like=True):
    """``next``: the items behind it come next, None: there are no more."""

    items: list[WorkingItem]
    next: int | None
    count: int
    tokens: int
    max_tokens: int
