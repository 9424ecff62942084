"""What owners answer about who uses a store: msgspec structs that go over the socket as they are.

Times are microseconds UTC.
"""

from __future__ import annotations

from msgspec import Struct


class AgentTurns(Struct, array_like=True):
    """What an agent has appended to one region: ``turns`` that can be read, the newest said at
    ``last_at`` (None: none is left), in ``sessions``.
    """

    agent: str
    turns: int
    sessions: int
    last_at: int | None


class AgentMemories(Struct, array_like=True):
    """``memories`` that name the agent, archived ones too, chunks and summaries not; the newest
    remembered at ``last_at``. ``recalls``: how often it recalled, at last at ``recalled_at``.
    """

    agent: str
    memories: int = 0
    last_at: int | None = None
    recalls: int = 0
    recalled_at: int | None = None
