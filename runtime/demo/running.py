"""The course of the demo: a store and a fleet, a kill in the middle of the talk and one in the
middle of the reflection, and then, weeks later, a reader who has seen nothing."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from neverforget.runtime.demo.agent import DemoAgent
from neverforget.runtime.demo.checking import check, check_memories
from neverforget.runtime.demo.conversations import Conversation, read_conversations, share_out
from neverforget.runtime.demo.killing import (
    PATIENCE_S,
    is_back,
    kill_a_partition,
    say_when_it_came_back,
)
from neverforget.runtime.demo.learning import (
    SAMPLE_NOW,
    SAMPLE_QUESTIONS,
    Asked,
    Question,
    answers,
    asked_in,
    changed,
    forget_and_undo,
    questions_about,
    weeks_after,
)
from neverforget.runtime.demo.outcome import Audience, Outcome
from neverforget.runtime.demo.reflecting import learned_from_turns, reflect, settings, studied
from neverforget.runtime.demo.thinking import choose, keep_in_mind, think

if TYPE_CHECKING:
    from neverforget.runtime.cluster import ActorGroup
    from neverforget.runtime.store import Store

NAMES = ("ada", "bruno", "chioma", "dai", "elif", "farid", "greta", "hoku")
POLL_S = 0.2


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
    talk, everything = studied(conversations)
    asked = None if path is None else asked_in(talk)
    with _folder(folder) as place:
        outcome = Outcome(
            folder=str(place),
            agents=agents,
            conversations=len(conversations),
            lines=sum(len(c.lines) for c in conversations),
            cut=cut,
        )
        outcome.reflected.everything = everything
        outcome.learned.now = SAMPLE_NOW if path is None else weeks_after(talk)
        audience.begins(outcome, seconds)
        _with_a_fleet(place, conversations, talk, asked, audience, outcome, seconds)
        questions = SAMPLE_QUESTIONS if asked is None else questions_about(talk, asked)
        _weeks_later(place, talk, questions, audience, outcome)
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
    talk: list[Conversation],
    asked: Asked | None,
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
            store = nf.open(place, deadline_s=PATIENCE_S, **settings(outcome.reflected.everything))
        with store:
            outcome.reflected.known = len(learned_from_turns(store))
            with audience.step("starting the agents", f"{outcome.agents} agents are up"):
                group = cluster.actors(
                    DemoAgent,
                    [
                        (store, _name(i), part, run, i, i >= len(conversations))
                        for i, part in enumerate(parts)
                    ],
                )
                group.call("ready", timeout_s=PATIENCE_S)
            try:
                _talk(group, store, audience, outcome, seconds)
            finally:
                group.close()
            choose(outcome.mind, talk, outcome.notes, asked)
            _remember(store, talk, audience, outcome)
    finally:
        with audience.step("stopping Ray", "store closed, Ray stopped"):
            cluster.close()


def _name(number: int) -> str:
    return NAMES[number % len(NAMES)] + str(number // len(NAMES) or "")


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
            outcome.kill = kill_a_partition(store, elapsed)
            audience.killed(outcome.kill)
        if elapsed > seconds + PATIENCE_S:
            group.call("stop", timeout_s=PATIENCE_S)
        elif elapsed >= seconds and outcome.kill and is_back(group, store, outcome.kill):
            group.call("enough", timeout_s=PATIENCE_S)
    outcome.talked_s = time.monotonic() - began
    outcome.notes = group.results(timeout_s=PATIENCE_S)
    if outcome.kill is not None:
        say_when_it_came_back(outcome.kill, outcome.notes, store)
        audience.came_back(outcome.kill)


def _remember(store: Store, talk: list[Conversation], audience: Audience, outcome: Outcome) -> None:
    """What was said becomes memories, and an agent is given a rule."""
    reflect(store, talk, outcome.reflected, audience)
    audience.reflected(outcome.reflected)
    with audience.step("working out what they mean", "what they mean is worked out"):
        keep_in_mind(store, outcome.mind)
        store.settle(timeout=PATIENCE_S)


def _weeks_later(
    place: Path,
    talk: list[Conversation],
    questions: list[Question],
    audience: Audience,
    outcome: Outcome,
) -> None:
    """From the disk, by an owner that has just recovered it: nothing is left of those who wrote."""
    import neverforget as nf

    learned, reflected = outcome.learned, outcome.reflected
    with nf.open(place, inline=True, **settings(reflected.everything)) as store:
        with audience.step("reading everything again from the disk", "read again from the disk"):
            outcome.verdict = check(outcome.notes, lambda of: store.session(of[1], namespace=of[0]))
            memories = learned_from_turns(store)
            learned.kept = len(memories)
            said = {(each.namespace, each.name) for each in talk}
            learned.faults += check_memories(store, reflected.memories, memories, said)
        with audience.step("verifying every checksum", "every checksum verified"):
            outcome.verified = store.verify()
        with audience.step("asking, thinking, forgetting", "asked, thought, forgotten, undone"):
            store.recall(questions[0].query, limit=1)  # loads the embedder, which takes a second
            learned.answers = list(answers(store, questions, learned.now))
            changed(store, memories, learned)
            think(store, outcome.mind, learned.now)
            forget_and_undo(store, learned)
            outcome.who = store.agents()
