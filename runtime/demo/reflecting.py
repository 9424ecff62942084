"""The chapter about reflection: what was said becomes memories, most of it by itself while it is
said, the rest on request; and the owner of the memories is killed in the middle of it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neverforget.runtime.demo.conversations import Conversation
from neverforget.runtime.demo.killing import MemoryKill, kill_the_memories

if TYPE_CHECKING:
    from neverforget.runtime.demo.outcome import Audience
    from neverforget.runtime.memory_values import Memory
    from neverforget.runtime.reflection_values import ReflectionReport
    from neverforget.runtime.store import Store

TURNS_MAX = 500  # a longer file is not reflected as a whole: the demo should end soon
EVERY_TURNS = 20  # a store's default is 100, and most conversations of the demo are shorter
PAGE = 500


@dataclass(slots=True)
class Reflected:
    """What became of what was said. ``everything``: by itself and of all sessions, else on request
    and of one conversation. ``known``: memories from before, where the store is an old one;
    ``by_itself``: those that were made before anybody asked. ``memories``: text by id, once all was
    done, the known ones, too. ``faults`` in words, empty if all is well."""

    everything: bool = True
    known: int = 0
    turns: int = 0  # of the conversations, said for the first time
    by_itself: int = 0
    kill: MemoryKill | None = None
    memories: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def made(self) -> int:
        return len(self.memories) - self.known


def studied(conversations: list[Conversation]) -> tuple[list[Conversation], bool]:
    """Which conversations are reflected, and whether that is all of them. Of a long file: those
    whose names begin alike (``locomo/conv-26/…`` are one talk), as many as the demo has time for.
    """
    if sum(len(each.lines) for each in conversations) <= TURNS_MAX:
        return conversations, True
    talks: dict[Any, list[Conversation]] = defaultdict(list)
    for each in conversations:
        talks[each.namespace, each.name.rpartition("/")[0] or each.name].append(each)
    short = [talk for talk in talks.values() if _turns(talk) <= TURNS_MAX]
    return (max(short, key=_turns) if short else min(talks.values(), key=_turns)), False


def settings(everything: bool) -> dict[str, Any]:
    """Of the store, for ``open``."""
    return {"reflect_every_turns": EVERY_TURNS if everything else 0, "reflect_after_s": 0.0}


def reflect(store: Store, talk: list[Conversation], found: Reflected, audience: Audience) -> None:
    """Have all of ``talk`` reflected, with a kill in the middle of it."""
    before = learned_from_turns(store)
    found.turns, found.by_itself = _turns(talk), len(before) - found.known
    audience.reflects(found)
    reports: list[ReflectionReport] = []

    def told(done: int, all_turns: int) -> None:
        if not found.everything:  # ``all_turns`` are of one session
            done += sum(report.turns for report in reports)
            all_turns = found.turns
        audience.reflecting(done, all_turns)
        if found.kill is None and 2 * done >= all_turns > done:
            found.kill = kill_the_memories(store, done, all_turns)
            audience.killed_memories(found.kill)

    if found.everything:
        reports.append(store.reflect(progress=told))
    else:
        for each in talk:
            chat = store.session(each.name, namespace=each.namespace)
            reports.append(store.reflect(chat, progress=told))
    if found.kill is None:  # it was too quick to be met in the middle
        total = sum(report.turns for report in reports)
        found.kill = kill_the_memories(store, total, total)
        audience.killed_memories(found.kill)
    after = learned_from_turns(store)
    found.kill.owner = store.status().longterm
    found.memories = {memory.id: memory.text for memory in after}
    for report in reports:
        found.faults += [f"not reflected: {failed}" for failed in report.failed]
    lost = [memory for memory in before if memory.id not in found.memories]
    found.faults += [f"the memory {memory.id} is lost: {memory.text}" for memory in lost]
    if found.everything and (waiting := store.status().reflection.turns):
        found.faults.append(f"{waiting:,} turns were not reflected")
    if not after:
        found.faults.append("nothing was worth remembering")


def learned_from_turns(store: Store) -> list[Memory]:
    """What reflection has made of turns, oldest first."""
    found: list[Memory] = []
    after = None
    while True:
        page = store.memories(limit=PAGE, after=after)
        found += [memory for memory in page if memory.source == "reflection"]
        if not page.has_more:
            return found
        after = page.next


def _turns(talk: list[Conversation]) -> int:
    return sum(len(each.lines) for each in talk)
