"""The words about who uses a store; frames as in ``messages.py``. Both listings are sorted by the
agents' names and bounded; ``more``: ask again after the last one.
"""

from __future__ import annotations

from neverforget.actors.message_bases import Reply, Request
from neverforget.storage.activity_results import AgentTurns

AGENTS_MAX = 10_000  # of one reply


class Activity(Request, tag=28):
    """Of a partition: who appended to sessions at or below ``namespace``."""

    namespace: tuple[str, ...]
    after: str | None


class Agents(Request, tag=63):
    """Of the long-term owner: whose memories lie at or below ``scope``, and who recalled there."""

    scope: tuple[str, ...]
    after: str | None


class ActivityReply(Reply, tag=117):
    """``counting``: turns are left to be counted first, a part for each request; ask again."""

    agents: list[AgentTurns]
    more: bool
    counting: bool


class AgentsReply(Reply, tag=152):
    """``agents``: packed list[AgentMemories], as nobody has looked at what memories name."""

    agents: bytes
    more: bool


ActivityRequest = Activity | Agents
ActivityAnswer = ActivityReply | AgentsReply
