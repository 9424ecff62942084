"""Who uses a store, as an operation: every owner tells what it knows, and it is summed up here."""

from __future__ import annotations

from datetime import datetime

from neverforget.actors.activity_messages import Activity, ActivityReply, Agents, AgentsReply
from neverforget.actors.longterm_messages import unpacked
from neverforget.runtime.agent_values import AgentInfo
from neverforget.runtime.operation import LONGTERM, Call, Context, Operation
from neverforget.runtime.times import from_us
from neverforget.runtime.values import Namespace
from neverforget.storage.activity_results import AgentMemories, AgentTurns

_LONG_AGO = -(2**63)


def agents(context: Context, root: Namespace) -> Operation[list[AgentInfo]]:
    """At or below ``root``: who was active last comes first."""
    turns: dict[str, AgentTurns] = {}
    for partition in range(context.partitions):
        for one in (yield from _turns(partition, root)):
            sum_ = turns.setdefault(one.agent, AgentTurns(one.agent, 0, 0, None))
            sum_.turns += one.turns
            sum_.sessions += one.sessions
            sum_.last_at = _later(sum_.last_at, one.last_at)
    memories = {one.agent: one for one in (yield from _memories(root))}
    found = []
    for name in turns.keys() | memories.keys():
        said = turns.get(name) or AgentTurns(name, 0, 0, None)
        knows = memories.get(name) or AgentMemories(name)
        last_at = _later(said.last_at, knows.last_at, knows.recalled_at)
        counts = (said.turns, said.sessions, knows.memories, knows.recalls)
        found.append((last_at, AgentInfo(name, _time(last_at), *counts)))
    found.sort(key=lambda each: (-(_LONG_AGO if each[0] is None else each[0]), each[1].agent))
    return [info for _, info in found]


def _turns(partition: int, root: Namespace) -> Operation[list[AgentTurns]]:
    """Asked as often as the partition has parts of its log to count."""
    found: list[AgentTurns] = []
    more = True
    while more:
        after = found[-1].agent if found else None
        reply: ActivityReply = yield Call(partition, Activity(0, root, after))
        found += reply.agents
        more = reply.counting or reply.more
    return found


def _memories(root: Namespace) -> Operation[list[AgentMemories]]:
    found: list[AgentMemories] = []
    more = True
    while more:
        after = found[-1].agent if found else None
        reply: AgentsReply = yield Call(LONGTERM, Agents(0, root, after))
        found += unpacked(reply.agents, list[AgentMemories])
        more = reply.more
    return found


def _later(*times: int | None) -> int | None:
    return max((at for at in times if at is not None), default=None)


def _time(at: int | None) -> datetime | None:
    return None if at is None else from_us(at)
