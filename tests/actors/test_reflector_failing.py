"""Extractors that raise, hang, are away, cannot be made, or answer what is none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from neverforget.actors import reflector as reflectors
from neverforget.actors import reflector_pauses
from neverforget.actors.extractor_contract import Fact, NotExtracted, Window
from neverforget.actors.messages import Failure, Get, Settle, Tail
from neverforget.actors.reflector_messages import (
    Reflect,
)
from neverforget.storage.errors import Unavailable
from tests.actors.reflecting import Stage, Told, ask, run_through, settle, status, until
from tests.actors.regions import NAMESPACE


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector_pauses, "PAUSE_S_MIN", 0.001)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    found = Stage(tmp_path, partitions=2)
    yield found
    found.close()


class Raising(Told):
    def extract(self, window: Window, /) -> list[Fact]:
        if any("bad" in turn.text for turn in window.turns if turn.fresh):
            raise NotExtracted("no facts today")
        return super().extract(window)


def test_an_extractor_that_always_raises_loses_nothing(stage: Stage) -> None:
    """Scenario 34: nothing is lost, and the range is reported as failed, not as done."""
    stage.append("s", *(f"bad {n}" for n in range(10)))
    reflector = stage.reflector(Raising)
    reply = run_through(reflector)
    assert (reply.failures, reply.turns_done, reply.turns_all) == (1, 10, 10)
    (failed,) = reply.failed
    assert (failed.session, failed.first, failed.last, failed.tries) == ("s", 0, 9, 3)
    assert failed.error == "no facts today" == reply.error
    assert stage.consolidated("s") == (0, 10) and stage.memories() == []
    tail = stage.call(stage.partition_of("s"), Tail(0, NAMESPACE, "s", None, 10, 5, None, False))
    assert tail.window.tokens == 10 and tail.window.end - tail.window.first_seq <= 5
    whole = stage.call(stage.partition_of("s"), Get(0, NAMESPACE, "s", 0, 10)).window
    assert not whole.flags and whole.stop_seq == 10
    left = stage.left("s")
    assert left is not None and left.turns == 10
    reply = run_through(stage.reflector(Told))  # it can be run again
    assert reply.failures == 0 and stage.consolidated("s") == (10, 10)


def test_a_bad_range_does_not_keep_the_others(stage: Stage) -> None:
    stage.append("s", "remember one", "bad", "remember two", "remember three")
    stage.append("t", "remember four")
    reply = run_through(stage.reflector(Raising, window_turns=1))
    assert stage.texts() == ["four", "one", "three", "two"]
    assert [(f.session, f.first, f.last) for f in reply.failed] == [("s", 1, 1)]
    assert (reply.turns_done, reply.turns_all, reply.windows) == (5, 5, 4)
    left = stage.left("s")
    assert left is not None and (left.first, left.turns) == (1, 1)


class Trap(list[Fact]):
    """A list that raises what ends a thread when it is looked at."""

    def __iter__(self) -> Iterator[Fact]:
        raise SystemExit


class Unlookable(Told):
    def extract(self, window: Window, /) -> list[Fact]:
        return Trap([Fact("a trap", 0, 0)])


def test_an_answer_that_cannot_be_looked_at_fails_as_one_that_raises(stage: Stage) -> None:
    """Looking at an answer raised past the extractor's bounds: the range was never set aside, or
    the reflector's thread ended and nothing more was reflected.
    """
    stage.append("s", "remember one")
    reply = run_through(stage.reflector(Unlookable))
    assert [failed.error for failed in reply.failed] == ["the extractor raised SystemExit"]
    assert stage.consolidated("s") == (0, 1) and reply.turns_done == 1


def test_an_extractor_may_be_named_as_a_setting_is(stage: Stage) -> None:
    """An endpoint with a long address could be set, and its extractor never be made."""

    class Long(Told):
        extractor_id = "m" * 514

    stage.append("s", "remember one")
    run_through(stage.reflector(Long))
    assert stage.texts() == ["one"]


def test_what_fails_by_itself_is_tried_and_set_aside(tmp_path: Path) -> None:
    stage = Stage(tmp_path, reflect_every=2)
    try:
        stage.append("s", "bad", "bad too")
        reflector = stage.reflector(Raising)
        settle(reflector)
        found = status(reflector)
        assert found.error == "no facts today" and found.error_at is not None and found.turns == 0
        stage.append("s", "remember one", "remember two")
        until(lambda: stage.texts() == ["one", "two"])
        settle(reflector)
        assert stage.consolidated("s") == (0, 4)
    finally:
        stage.close()


def test_it_fails_for_a_while(stage: Stage) -> None:
    class Moody(Told):
        def extract(self, window: Window, /) -> list[Fact]:
            super().extract(window)
            if len(self.seen) < 3:
                raise ValueError
            return super().extract(window)

    stage.append("s", "remember one")
    moody = Moody()
    reply = run_through(stage.reflector(lambda: moody))
    assert reply.failures == 0 and stage.texts() == ["one"]


class Away(Told):
    here = False

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def extract(self, window: Window, /) -> list[Fact]:
        if not self.here:
            raise self.error
        return super().extract(window)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Unavailable("the endpoint is down", outcome="not_applied"), "the endpoint is down"),
        (
            ConnectionRefusedError("a secret"),
            "the extractor does not reach what it asks (ConnectionRefusedError)",
        ),
    ],
)
def test_an_endpoint_that_is_down_makes_no_dead_letters(
    tmp_path: Path, error: Exception, told: str
) -> None:
    """Somebody's own extractor says so as an embedder does, too: its ConnectionError was counted
    against the window.
    """
    stage = Stage(tmp_path, reflect_every=2)
    try:
        away = Away(error)
        stage.append("s", "remember one", "remember two")
        reflector = stage.reflector(lambda: away)
        until(lambda: status(reflector).error == told)
        assert isinstance(ask(reflector, Settle(0, at_once=True)), Failure)
        stage.append("t", "remember three")
        reply = run_through(reflector, "t")  # somebody waits for it: it is told
        assert (reply.failures, reply.failed[0].session) == (1, "t")
        assert reply.error == told and reply.failed[0].tries >= 3
        away.here = True
        settle(reflector)  # what was planned for the run is finished, too
        assert stage.texts() == ["one", "three", "two"]
        assert run_through(reflector, "t").sessions == 0
    finally:
        stage.close()


MADE_NOT = "the extractor cannot be made (ImportError); look at its settings"


def test_an_extractor_that_cannot_be_made(stage: Stage) -> None:
    def make() -> Told:
        if not there:
            raise ImportError("no such module: secret")
        return Told()

    there: list[int] = []
    stage.append("s", "remember one")
    reflector = stage.reflector(make)
    reply = run_through(reflector)
    assert reply.failures == 1 and reply.error == MADE_NOT
    there.append(1)
    assert run_through(reflector).facts == 1


def test_no_extractor_does_nothing(stage: Stage) -> None:
    stage.append("s", "remember one")
    reply = run_through(stage.reflector(lambda: None))
    assert (reply.state, reply.turns_done) == ("done", 0) and stage.consolidated("s") == (0, 1)


class Hanging(Told):
    """Hangs wherever it is told to, until the test is over."""

    let_go: threading.Event

    def extract(self, window: Window, /) -> list[Fact]:
        if any("hang" in turn.text for turn in window.turns if turn.fresh):
            self.let_go.wait()
        return super().extract(window)


@pytest.fixture
def hanging() -> Iterator[type[Hanging]]:
    class OfThisTest(Hanging):
        let_go = threading.Event()

    yield OfThisTest
    OfThisTest.let_go.set()


def test_an_extractor_that_hangs_is_left_behind(stage: Stage, hanging: type[Hanging]) -> None:
    stage.append("s", "hang", "remember one")
    stage.append("t", "remember two")
    reflector = stage.reflector(hanging, window_turns=1, deadline_s=0.5)
    reply = run_through(reflector)
    assert stage.texts() == ["one", "two"] and reply.failed[0].error == "no answer within 0.5 s"
    assert status(reflector).stuck == 3 and reflector.state == "serving"
    hanging.let_go.set()
    until(lambda: status(reflector).stuck == 0)


def test_too_many_that_hang_end_it(stage: Stage, hanging: type[Hanging]) -> None:
    """Inline it begins nothing more and says why; a process of its own is ended."""
    for session in "stu":
        stage.append(session, "hang")
    ended = threading.Event()
    reflector = stage.reflector(hanging, deadline_s=0.02, end=ended.set)
    reply = run_through(reflector)
    assert ended.wait(60)
    assert reflector.state == "quarantined" and "extractions hang" in (reflector.reason or "")
    assert reply.failures and "extractions hang" in (reply.error or "")
    again = run_through(reflector)
    assert again.failures == 1 and "extractions hang" in (again.error or "")
    hanging.let_go.set()
    assert run_through(stage.reflector(Told)).failures == 0  # what it gave up can be run again
    assert all(stage.left(session) is None for session in "stu")


def test_closing_does_not_wait_for_one_that_hangs(
    stage: Stage, hanging: type[Hanging], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflectors, "END_S", 0.1)
    stage.append("s", "hang")
    reflector = stage.reflector(hanging)
    ask(reflector, Reflect(0, "run", True, NAMESPACE, None, False))
    until(lambda: bool(status(reflector).running))
    (window,) = status(reflector).running
    assert (window.session, window.first, window.last) == ("s", 0, 0)
    reflector.close()
    assert not hanging.let_go.is_set()
    hanging.let_go.set()


@pytest.mark.parametrize("fault", [None, RuntimeError])
def test_an_extractor_that_can_be_closed_is_closed(
    stage: Stage, fault: type[Exception] | None
) -> None:
    """The connections of one to an endpoint stayed open after the store was closed."""
    closed = threading.Event()

    class Closing(Told):
        def close(self) -> None:
            closed.set()
            if fault is not None:
                raise fault

    stage.append("s", "remember one")
    reflector = stage.reflector(Closing)
    assert run_through(reflector).facts == 1 and not closed.is_set()
    reflector.close()
    assert closed.wait(60)
