"""Who uses a store. Frozen; times are aware UTC datetimes."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class AgentInfo(Struct, frozen=True):
    """What one agent has done in a store, or in the part of it that a view sees.

    last_active: its newest turn, as the turn's timestamp has it, memory or recall; None where only
        traces are left, as after its turns were erased.
    turns: it appended, that were not erased, in so many ``sessions``.
    memories: that name it, chunks and summaries not counted, nor what is forgotten.
    recalls: it made through a view that has its name; those of the last minute before a crash are
        lost.
    """

    agent: str
    last_active: datetime | None
    turns: int
    sessions: int
    memories: int
    recalls: int

    @property
    def writes(self) -> int:
        """Turns and memories."""
        return self.turns + self.memories
