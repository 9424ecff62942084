"""The reflector with its threads: whose turn it is, runs, owners that go."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from neverforget.actors import reflector_pauses, reflector_schedule
from neverforget.actors.extractor_contract import Fact, Window
from neverforget.actors.messages import DoneReply, Get, Settle
from neverforget.actors.reflection_messages import Plan
from neverforget.actors.reflector import Reflector
from neverforget.actors.reflector_messages import (
    Reflect,
    ReflectReply,
    WakeReflector,
)
from neverforget.storage.errors import InvalidArgument, Unavailable
from tests.actors.reflecting import Dying, Stage, Told, ask, run_through, settle, status, until
from tests.actors.regions import NAMESPACE


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector_pauses, "PAUSE_S_MIN", 0.001)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    found = Stage(tmp_path, partitions=2)
    yield found
    found.close()


# ---- what is due ---------------------------------------------------------------------------------


def test_what_becomes_due_is_reflected_by_itself(tmp_path: Path) -> None:
    stage = Stage(tmp_path, partitions=2, reflect_every=3)
    try:
        reflector = stage.reflector(Told)
        stage.append("a", "remember one", "remember two")
        settle(reflector)
        assert stage.texts() == []
        stage.append("a", "remember three")
        stage.append("b", *(f"remember {n}" for n in range(7)))
        until(lambda: len(stage.memories()) == 10)
        settle(reflector)
        found = status(reflector)
        assert (found.turns, found.facts, found.queue, found.error) == (10, 10, 0, None)
        assert found.extractor == "told-1"
        reply = ask(reflector, Settle(0, at_once=True))
        assert isinstance(reply, DoneReply)
    finally:
        stage.close()


def test_what_was_due_is_found_after_a_death(tmp_path: Path) -> None:
    stage = Stage(tmp_path, reflect_every=3)
    try:
        stage.append("a", *(f"remember {n}" for n in range(5)))
        stage.reopen()
        settle(stage.reflector(Told))
        assert len(stage.memories()) == 5
    finally:
        stage.close()


def test_one_that_is_not_automatic_does_what_it_is_asked_for(tmp_path: Path) -> None:
    stage = Stage(tmp_path, reflect_every=2)
    try:
        stage.append("a", "remember one", "remember two")
        stage.append("b", "remember three", "remember four")
        reflector = stage.reflector(Told, automatic=False)
        ask(reflector, WakeReflector(0))
        assert run_through(reflector, "b").turns_done == 2
        assert stage.texts() == ["four", "three"]
    finally:
        stage.close()


# ---- runs ----------------------------------------------------------------------------------------


def test_a_run_does_all_that_waits_and_says_how_far_it_is(stage: Stage) -> None:
    for number in range(5):
        stage.append(f"s{number}", *(f"remember {number}-{n}" for n in range(10)))
    reflector = stage.reflector(Told, window_turns=4)
    reply = run_through(reflector)
    assert (reply.sessions, reply.turns_done, reply.turns_all) == (5, 50, 50)
    assert (reply.windows, reply.facts, reply.failures) == (15, 50, 0)
    assert reply.extractor == "told-1" and len(stage.memories()) == 50
    again = run_through(reflector)
    assert (again.state, again.sessions, again.turns_all, again.facts) == ("done", 0, 0, 0)


def test_a_run_is_begun_once_and_unknown_to_another_reflector(stage: Stage) -> None:
    stage.append("s", "remember one")
    reflector = stage.reflector(Told)
    request = Reflect(0, "run", True, NAMESPACE, "s", False)
    for _ in range(3):
        ask(reflector, request)
    until(lambda: ask(reflector, request).state == "done")  # type: ignore[union-attr]
    reply = ask(reflector, request)
    assert isinstance(reply, ReflectReply) and reply.turns_done == 1
    other = ask(stage.reflector(Told), Reflect(0, "run", False, NAMESPACE, "s", False))
    assert isinstance(other, ReflectReply) and other.state == "unknown"


def test_a_run_keeps_within_its_namespace_and_its_session(stage: Stage) -> None:
    for session in "abc":
        stage.append(session, f"remember {session}")
    stage.append("a", "remember elsewhere", namespace=("other",))
    reflector = stage.reflector(Told)
    assert run_through(reflector, "b").facts == 1 and stage.texts() == ["b"]
    assert run_through(reflector, "nobody").sessions == 0
    assert run_through(reflector, namespace=("other",)).facts == 1
    assert run_through(reflector, namespace=()).facts == 2
    assert stage.texts() == ["a", "b", "c", "elsewhere"]


def test_runs_at_the_same_time_share_the_work(stage: Stage) -> None:
    stage.append("s", *(f"remember {n}" for n in range(40)))
    reflector = stage.reflector(Told, threads=2, window_turns=3)
    replies: list[ReflectReply] = []
    threads = [
        threading.Thread(target=lambda: replies.append(run_through(reflector, "s")))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [reply.turns_done - reply.turns_all for reply in replies] == [0, 0, 0]
    assert len(stage.memories()) == 40 and stage.consolidated("s") == (40, 40)


def test_the_same_range_ten_times(stage: Stage) -> None:
    """Scenario 33, by runs: what is done is done."""
    stage.append("s", "remember one", "home = Oslo")
    found = None
    for _ in range(10):
        run_through(stage.reflector(Told))
        found = found or stage.memories()
        assert stage.memories() == found
    assert len(stage.memories()) == 2


# ---- owners that go ------------------------------------------------------------------------------


class Refusing:
    """Owners that will not have a plan."""

    def __init__(self, owners: Any) -> None:
        self._owners = owners

    def call(self, partition: int, request: Any, deadline: float) -> Any:
        if isinstance(request, Plan) and request.session == "s":
            raise InvalidArgument("no such range")
        return self._owners.call(partition, request, deadline)


def test_a_run_goes_on_without_a_session_that_owners_refuse(stage: Stage) -> None:
    """It would have waited for it for ever."""
    stage.append("s", "remember one")
    stage.append("t", "remember two")
    reply = run_through(stage.reflector(Told, owners=Refusing(stage.channel)))
    assert (reply.failures, reply.error, stage.texts()) == (1, "no such range", ["two"])
    assert [(failed.session, failed.first, failed.last) for failed in reply.failed] == [("s", 0, 0)]


class Flaky:
    """Some calls to an owner find nobody, and of some the answer is lost."""

    def __init__(self, owners: Any, rng: random.Random) -> None:
        self._owners, self._rng = owners, rng

    def call(self, partition: int, request: Any, deadline: float) -> Any:
        chance = self._rng.random()
        if chance < 0.1:
            raise Unavailable("nobody there", outcome="not_applied")
        reply = self._owners.call(partition, request, deadline)
        if chance < 0.2:
            raise Unavailable("the answer is lost", outcome="unknown")
        return reply


def test_owners_that_go_and_come_cost_nothing(
    stage: Stage, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window makes ten calls, of which one in five fails: some need twenty tries, and pauses that
    double each time were above a minute in one run of three.
    """
    monkeypatch.setattr(reflector_schedule, "pause_after", lambda times, most=0.0: 0.001)
    for number in range(4):
        stage.append(f"s{number}", *(f"remember {number}-{n}" for n in range(6)))
    owners = Flaky(stage.channel, rng)
    reflector = stage.reflector(Told, owners=owners, threads=2, window_turns=2)
    reply = run_through(reflector)
    assert reply.failures == 0 and len(stage.memories()) == 24
    assert all(stage.consolidated(f"s{n}") == (6, 6) for n in range(4))


def is_over(reflector: Reflector) -> bool:
    reply = ask(reflector, Settle(0, at_once=True))
    return reflector.state == "quarantined" or isinstance(reply, DoneReply)


def test_a_reflector_that_dies_is_followed_by_another(tmp_path: Path) -> None:
    """Threads and all, at any number of calls."""
    stage = Stage(tmp_path, reflect_every=4)
    try:
        for number in range(6):
            stage.append(f"s{number}", *(f"remember {number}-{n}" for n in range(4)))
        for alive in range(2, 40, 3):
            owners = Dying(stage.channel, alive, after=bool(alive % 2))
            dying = stage.reflector(Told, owners=owners, window_turns=2, end=lambda: None)
            until(partial(is_over, dying))
            dying.close()
        settle(stage.reflector(Told))
        assert len(stage.memories()) == 24 == len(stage.texts())
        assert all(stage.consolidated(f"s{n}") == (4, 4) for n in range(6))
    finally:
        stage.close()


# ---- fairness ------------------------------------------------------------------------------------


def test_a_giant_session_does_not_keep_the_small_ones_waiting(stage: Stage) -> None:
    """20,000 turns beside 50 small sessions: each of those is done after a few windows of it."""
    for start in range(0, 20_000, 10_000):
        stage.append("giant", *(f"turn {n}" for n in range(start, start + 10_000)))
    for number in range(50):
        stage.append(f"s{number}", "remember this", f"remember {number}")
    done: list[str] = []

    class Noting(Told):
        def extract(self, window: Window, /) -> list[Fact]:
            done.append(window.session)
            return super().extract(window)

    reflector = stage.reflector(Noting, window_turns=500, window_tokens=100_000)
    reply = run_through(reflector)
    assert reply.turns_done == reply.turns_all == 20_100 and len(stage.memories()) == 100
    last_small = max(place for place, session in enumerate(done) if session != "giant")
    assert len(done) == 90 and done[: last_small + 1].count("giant") <= 3
    assert stage.consolidated("giant") == (20_000, 20_000)


def test_evidence_is_the_same_before_and_after(stage: Stage) -> None:
    """Scenario 35: every turn that a fact came from is still there, word for word."""
    stage.append("s", *(f"remember {n}" for n in range(30)))
    before = stage.call(stage.partition_of("s"), Get(0, NAMESPACE, "s", 0, 30)).window.records
    run_through(stage.reflector(Told, window_turns=7))
    after = stage.call(stage.partition_of("s"), Get(0, NAMESPACE, "s", 0, 30)).window.records
    assert before == after
    evidence = {seq for one in stage.memories() for seq, _ in stage.provenance(one)}
    assert evidence == set(range(30))
