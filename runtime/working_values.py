"""What working memories return: what is in them, who shares them, and contexts ready for a prompt.
Frozen; times are aware UTC datetimes.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from neverforget.runtime.memory_values import Memory, shortened
from neverforget.runtime.values import Turn, TurnRef

ContextStrategy = Literal["recent", "important", "balanced"]


class WorkingItem(Struct, frozen=True):
    """A memory in a working memory.

    tokens: what it takes of the budget. pinned: it is never evicted. added_at; used_at: when it was
    last added or recalled; accesses: how often it was recalled into it. provenance: the first of
    the turns that it was made from.
    """

    memory: Memory
    tokens: int
    pinned: bool
    added_at: datetime
    used_at: datetime
    accesses: int
    provenance: tuple[TurnRef, ...] = ()

    def __hash__(self) -> int:
        return hash(self.memory)

    def __repr__(self) -> str:
        pinned = ", pinned" if self.pinned else ""
        return f"WorkingItem({shortened(self.memory.text)!r}, {self.tokens:,} tokens{pinned})"


class WorkingMember(Struct, frozen=True):
    """An agent that has joined a working memory. One of them, the first that shows itself, is
    ``active``; the others stand by. seen_at: when it last asked something of it, None: not since
    its owner was started.
    """

    agent: str
    joined_at: datetime
    seen_at: datetime | None
    active: bool


class ContextItem(Struct, frozen=True):
    """A memory in a context.

    text: how it stands in the prompt, with its date and where it is from. score: by which it was
    chosen, 0 to 1. tokens: of ``text``. provenance: as of WorkingItem.
    """

    memory: Memory
    pinned: bool
    score: float
    text: str
    tokens: int
    provenance: tuple[TurnRef, ...] = ()

    def __hash__(self) -> int:
        return hash(self.memory)

    def __repr__(self) -> str:
        pinned = ", pinned" if self.pinned else ""
        return f"ContextItem({self.score:.3f}, {shortened(self.memory.text)!r}{pinned})"


class LeftOut(Struct, frozen=True):
    """What the budget of a context had no room for. turns: of the conversation, those before the
    shown ones, hidden and erased ones included.
    """

    memories: int = 0
    turns: int = 0


class Context(Struct, frozen=True):
    """What an agent knows now, ready for a prompt: as text by ``str``, or as ``messages()``.

    items: memories, the pinned ones first, then the best by the strategy. turns: the newest of the
    conversation, oldest first. summary: of its turns before those, None where there is none.
    tokens: of ``str(context)`` by the store's tokenizer; never more than ``max_tokens``, nor are
    those of ``messages()``. timezone: whose days its dates are.
    """

    items: tuple[ContextItem, ...]
    turns: tuple[Turn, ...]
    summary: str | None
    tokens: int
    max_tokens: int
    left_out: LeftOut
    timezone: str = "UTC"

    def __str__(self) -> str:
        from neverforget.runtime.context_text import whole_text

        return whole_text(self)

    def messages(self) -> list[dict[str, Any]]:
        """As a chat API takes them: a system message with the memories and the summary, then the
        turns, tool calls with their results. Of turns that such an API knows no role for, the words
        are kept.
        """
        from neverforget.runtime.context_messages import messages_of

        return messages_of(self)

    def __hash__(self) -> int:
        return hash((self.items, self.turns, self.summary))

    def __repr__(self) -> str:
        said = [counted(len(self.items), "memory"), counted(len(self.turns), "turn")]
        if self.summary is not None:
            said.append("a summary")
        return f"<Context: {', '.join(said)}; {self.tokens:,} of {self.max_tokens:,} tokens>"


def counted(number: int, noun: str) -> str:
    """``1 memory``, ``2 memories``."""
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else many}"
