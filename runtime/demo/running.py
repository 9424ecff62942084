"""The course of the demo: a store and a fleet, a kill in the middle, and a check by a reader who
has seen nothing."""

from __future__ import annotations

import os
import secrets
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from neverforget.runtime.demo.agent import DemoAgent, Notes, Place
from neverforget.runtime.demo.checking import Verdict, check
from neverforget.runtime.demo.conversations import Conversation, read_conversations, share_out
from neverforget.runtime.demo.learning import (
    Fact,
    Learned,
    Question,
    answers,
    check_kept,
    facts_for,
    forget_and_undo,
)
from neverforget.runtime.routing import partition_of
from neverforget.storage.errors import Unavailable
from neverforget.storage.record import session_scope

if TYPE_CHECKING:
    from neverforget.runtime.cluster import ActorGroup
    from neverforget.runtime.status_values import OwnerInfo, VerifyReport
    from neverforget.runtime.store import Store
    from neverforget.runtime.values import Turn

NAMES = ("ada", "bruno", "chioma", "dai", "elif", "farid", "greta", "hoku")
POLL_S = 0.2
PATIENCE_S = 120.0
UNDER_WAY_S = 0.05
TAIL_TURNS = 12


@dataclass(slots=True)
class Kill:
    """A partition's process that was ended in the middle. Times on the machine's monotonic
    clock."""

    partition: int
    pid: int
    turns: int
    at: float
    gone_at: float
    after_s: float
    back_in_s: float | None = None
    owner: OwnerInfo | None = None


@dataclass(slots=True)
class Outcome:
    folder: str
    agents: int = 0
    conversations: int = 0
    lines: int = 0
    cut: bool = False
    talked_s: float = 0.0
    kill: Kill | None = None
    notes: list[Notes] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Verdict)
    verified: VerifyReport | None = None
    tail_of: Place | None = None
    tail: list[Turn] = field(default_factory=list)
    learned: Learned = field(default_factory=Learned)

    @property
    def ok(self) -> bool:
        back = self.kill is not None and self.kill.back_in_s is not None
        whole = self.verified is not None and self.verified.ok
        return self.verdict.ok and back and whole and self.learned.ok


class Audience(Protocol):
    """Who watches. Every method is a remark in passing; none may stop the demo."""

    def begins(self, outcome: Outcome, seconds: float) -> None: ...
    @contextmanager
    def step(self, doing: str, done: str) -> Iterator[None]: ...
    def talking(self, elapsed_s: float, seconds: float, turns: int) -> None: ...
    def killed(self, kill: Kill) -> None: ...
    def came_back(self, kill: Kill) -> None: ...


def run_demo(
    path: str | os.PathLike[str] | None,
    audience: Audience,
    *,
    folder: str | os.PathLike[str] | None,
    agents: int,
    seconds: float,
) -> Outcome:
    """Run it. ``folder`` None: a temporary one, removed at the end. Raises what opening a store
    raises."""
    conversations, cut = read_conversations(path)
    lessons = facts_for(path, conversations)
    with _folder(folder) as place:
        outcome = Outcome(
            folder=str(place),
            agents=agents,
            conversations=len(conversations),
            lines=sum(len(c.lines) for c in conversations),
            cut=cut,
        )
        outcome.learned.from_file = path is not None
        audience.begins(outcome, seconds)
        _with_a_fleet(place, conversations, lessons, audience, outcome, seconds)
        _read_afresh(place, conversations, audience, outcome)
    return outcome


@contextmanager
def _folder(given: str | os.PathLike[str] | None) -> Iterator[Path]:
    if given is not None:
        yield Path(given)
        return
    made = Path(tempfile.mkdtemp(prefix="nf-demo-"))
    try:
        yield made / "store"
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _with_a_fleet(
    place: Path,
    conversations: list[Conversation],
    lessons: tuple[list[Fact], list[Question]],
    audience: Audience,
    outcome: Outcome,
    seconds: float,
) -> None:
    import neverforget as nf
    from neverforget.runtime.cluster import Cluster

    run = secrets.token_hex(4)
    parts = share_out(conversations, outcome.agents)
    with audience.step("starting Ray and the store", "Ray and the store are up"):
        cluster = Cluster.start(run, outcome.agents + 2)
    try:
        with audience.step("opening the store", f"store {place}"):
            store = nf.open(place, deadline_s=PATIENCE_S)
        with store:
            with audience.step("starting the agents", f"{outcome.agents} agents are up"):
                group = cluster.actors(
                    DemoAgent,
                    [
                        (store, NAMES[i % len(NAMES)] + str(i // len(NAMES) or ""), part, run, i)
                        for i, part in enumerate(parts)
                    ],
                )
                group.call("ready", timeout_s=PATIENCE_S)
            try:
                _talk(group, store, audience, outcome, seconds)
                _learn(group, store, lessons, audience, outcome)
            finally:
                group.close()
    finally:
        with audience.step("stopping Ray", "store closed, Ray stopped"):
            cluster.close()


def _talk(
    group: ActorGroup, store: Store, audience: Audience, outcome: Outcome, seconds: float
) -> None:
    began = time.monotonic()
    group.begin("talk")
    while not group.finished(timeout_s=POLL_S):
        elapsed = time.monotonic() - began
        turns = sum(group.call("acknowledged", timeout_s=PATIENCE_S))
        audience.talking(elapsed, seconds, turns)
        if outcome.kill is None and elapsed >= seconds / 2:
            outcome.kill = _kill_an_owner(store, elapsed)
            audience.killed(outcome.kill)
        if elapsed > seconds + PATIENCE_S:
            group.call("stop", timeout_s=PATIENCE_S)
        elif elapsed >= seconds and outcome.kill and _is_back(group, store, outcome.kill):
            group.call("enough", timeout_s=PATIENCE_S)
    outcome.talked_s = time.monotonic() - began
    outcome.notes = group.results(timeout_s=PATIENCE_S)
    if outcome.kill is not None:
        _say_when_it_came_back(outcome.kill, outcome.notes, store)
        audience.came_back(outcome.kill)


def _kill_an_owner(store: Store, elapsed: float) -> Kill:
    """SIGKILL, to the owner of the partition that holds most: no handler, no last word, no
    clean-up."""
    owner = max(store.status().owners, key=lambda each: each.turns)
    process = os.pidfd_open(owner.pid) if hasattr(os, "pidfd_open") else -1
    try:
        at = time.monotonic()
        os.kill(owner.pid, signal.SIGKILL)
        if process >= 0:
            select.select([process], [], [], PATIENCE_S)  # readable when the process has ended
    finally:
        if process >= 0:
            os.close(process)
    return Kill(owner.partition, owner.pid, owner.turns, at, time.monotonic(), elapsed)


def _is_back(group: ActorGroup, store: Store, kill: Kill) -> bool:
    """Whether an agent has heard from the partition again."""
    asked = (kill.partition, len(store.status().owners), kill.gone_at)
    return any(group.call("heard_from", *asked, timeout_s=PATIENCE_S))


def _say_when_it_came_back(kill: Kill, notes: Iterable[Notes], store: Store) -> None:
    partitions = len(store.status().owners)
    later = [
        told.at - kill.at
        for each in notes
        for told in each.acknowledged
        if partition_of(session_scope(*told.place), partitions) == kill.partition
        # An answer that was under way when the process died is the old owner's.
        if told.at - told.took > kill.gone_at or told.at > kill.gone_at + UNDER_WAY_S
    ]
    if not later:
        raise Unavailable(
            f"partition {kill.partition} did not come back after its process {kill.pid} was killed",
            outcome="unknown",
        )
    kill.back_in_s = min(later)
    kill.owner = store.status().owners[kill.partition]


def _learn(
    group: ActorGroup,
    store: Store,
    lessons: tuple[list[Fact], list[Question]],
    audience: Audience,
    outcome: Outcome,
) -> None:
    """The agents remember, each its own; then anybody's questions are answered."""
    facts, questions = lessons
    learned = outcome.learned
    names = [each.agent for each in outcome.notes]
    mine: dict[str, list[Fact]] = {name: [] for name in names}
    for number, fact in enumerate(facts):
        mine[names[number % len(names)]].append(fact)
    learned.facts, learned.agents = len(facts), len([name for name in names if mine[name]])
    with audience.step(
        f"the agents remember {len(facts):,} things", f"{len(facts):,} memories, on the disk"
    ):
        for each in group.call("learn", mine, timeout_s=PATIENCE_S):
            learned.kept |= {memory_id: text for memory_id, text, _ in each.remembered}
            learned.remembered += [took for _, _, took in each.remembered]
            learned.faults += [f for f in each.failures if f.startswith("remember")]
    with audience.step("working out what they mean", "what they mean is worked out"):
        store.settle(timeout=PATIENCE_S)
    with audience.step("recalling, forgetting, undoing", "recalled, forgotten, undone"):
        learned.answers = list(answers(store, questions))
        forget_and_undo(store, learned)


def _read_afresh(
    place: Path, conversations: list[Conversation], audience: Audience, outcome: Outcome
) -> None:
    """From the disk, by an owner that has just recovered it: nothing is left of those who wrote."""
    import neverforget as nf

    with nf.open(place, inline=True) as store:
        with audience.step("reading everything again from the disk", "read again from the disk"):
            outcome.verdict = check(outcome.notes, lambda of: store.session(of[1], namespace=of[0]))
            check_kept(store, outcome.learned)
        with audience.step("verifying every checksum", "every checksum verified"):
            outcome.verified = store.verify()
        longest = max(conversations, key=lambda c: len(c.lines))
        outcome.tail_of = (longest.namespace, longest.name)
        chat = store.session(longest.name, namespace=longest.namespace)
        outcome.tail = chat.tail(TAIL_TURNS)
