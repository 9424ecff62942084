"""Is every acknowledged turn there, once, in its place, as it was said? Pure: notes and turns in,
verdict out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neverforget.runtime.demo.agent import Acknowledged, Notes, Place, content_digest

if TYPE_CHECKING:
    from neverforget.runtime.values import Turn


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
