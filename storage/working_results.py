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
