"""Is every acknowledged turn there, once, in its place, as it was said? Is every memory there,
once, with the turns that it is from?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neverforget.runtime.demo.agent import Acknowledged, Notes, Place, content_digest

if TYPE_CHECKING:
    from neverforget.runtime.memory_values import Memory
    from neverforget.runtime.store import Store
    from neverforget.runtime.values import Turn, TurnRef


@dataclass(slots=True)
class Verdict:
    """``faults`` in words, empty if all is well. ``unacknowledged``: turns that are there although
    their acknowledgement never reached the agent; that is allowed, a lost one is not."""

    acknowledged: int = 0
    sessions: int = 0
    turns: int = 0
    unacknowledged: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.faults


def check(notes: Iterable[Notes], read: Callable[[Place], Iterable[Turn]]) -> Verdict:
    """Compare what the agents were promised with what ``read`` finds in each session."""
    verdict = Verdict()
    promised: dict[Place, list[Acknowledged]] = defaultdict(list)
    for each in notes:
        last: dict[Place, int] = {}
        for told in each.acknowledged:
            promised[told.place].append(told)
            verdict.acknowledged += 1
            if told.seq <= last.get(told.place, -1):
                verdict.faults.append(
                    f"{_name(told.place)}: {each.agent} was told seq {told.seq} after "
                    f"{last[told.place]}"
                )
            last[told.place] = told.seq
    for place, of_session in promised.items():
        _check_session(verdict, place, of_session, read(place))
    return verdict


def _check_session(
    verdict: Verdict, place: Place, promised: list[Acknowledged], turns: Iterable[Turn]
) -> None:
    verdict.sessions += 1
    by_seq = {told.seq: told for told in promised}
    if len(by_seq) < len(promised):
        verdict.faults.append(f"{_name(place)}: a seq was acknowledged to two turns")
    keys: dict[str, int] = {}
    expected = 0
    for turn in turns:
        verdict.turns += 1
        if turn.seq != expected:
            verdict.faults.append(f"{_name(place)}: seq {turn.seq} follows {expected - 1}")
        expected = turn.seq + 1
        if turn.key is not None and keys.setdefault(turn.key, turn.seq) != turn.seq:
            verdict.faults.append(
                f"{_name(place)}: the turn at seq {keys[turn.key]} is there again at {turn.seq}"
            )
        told = by_seq.pop(turn.seq, None)
        if told is None:
            verdict.unacknowledged += 1
        elif turn.key != told.key or content_digest(turn.role, turn.content) != told.digest:
            verdict.faults.append(f"{_name(place)}: seq {turn.seq} is not what was acknowledged")
    for seq in by_seq:
        verdict.faults.append(f"{_name(place)}: the acknowledged turn at seq {seq} is lost")


def _name(place: Place) -> str:
    return " / ".join((*place[0], place[1]))


def check_memories(
    store: Store, promised: dict[str, str], memories: Iterable[Memory], first: set[Place]
) -> list[str]:
    """What is wrong with what was learned from turns, in words. ``promised``: text by id, before
    everything was closed. ``first``: where something was said for the first time: what is said
    again is marked as recalled, and nothing may be learned from it.
    """
    faults = []
    seen: dict[tuple[str, TurnRef], str] = {}
    left = dict(promised)
    for memory in memories:
        text = left.pop(memory.id, None)
        if text is not None and text != memory.text:
            faults.append(f"memory {memory.id} is not what was learned")
        refs = store.provenance(memory.id)
        if not refs:
            faults.append(f"memory {memory.id} does not say where it is from")
        for ref in refs:
            place = (tuple(ref.namespace), ref.session)
            if place not in first:
                faults.append(f"memory {memory.id} was learned from what was only repeated")
            chat = store.session(ref.session, namespace=ref.namespace)
            turns = chat[ref.first : ref.last + 1]
            if len(turns) != ref.last + 1 - ref.first or any(t.state != "ok" for t in turns):
                faults.append(f"{_name(place)}: turns behind memory {memory.id} are missing")
            if seen.setdefault((memory.text, ref), memory.id) != memory.id:
                faults.append(f"{_name(place)}: learned twice: {memory.text}")
    return faults + [f"the memory {memory_id} is lost" for memory_id in left]
