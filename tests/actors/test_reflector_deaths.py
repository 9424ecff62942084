"""Extractors that end the process of the reflector: how often one may, and what does not count."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from neverforget.actors import reflector as reflector_module
from neverforget.actors import reflector_pauses
from neverforget.actors.extractor_contract import Fact, Window
from neverforget.actors.message_bases import Request
from neverforget.actors.messages import AnyReply
from neverforget.actors.reflector_messages import Reflect
from neverforget.actors.reflector_room import Room
from neverforget.actors.reflector_window import Refused
from neverforget.storage.errors import Unavailable
from tests.actors.reflecting import Died, Stage, Told, ask, run_through, until
from tests.actors.regions import NAMESPACE
from tests.fakes.extractors import Failing, Hanging


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector_pauses, "PAUSE_S_MIN", 0.001)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    found = Stage(tmp_path)
    yield found
    found.close()


class Deadly(Told):
    """The process is gone from when it is asked about a turn that says so: no call is made then."""

    def __init__(self, owners: Any) -> None:
        super().__init__()
        self._owners, self.dead = owners, False

    def extract(self, window: Window, /) -> list[Fact]:
        self.dead = any("deadly" in turn.text for turn in window.turns if turn.fresh)
        return super().extract(window)

    def call(self, partition: int, request: Request, deadline: float) -> AnyReply:
        if self.dead:
            raise Died
        reply: AnyReply = self._owners.call(partition, request, deadline)
        return reply


def dies(stage: Stage, **how: Any) -> None:
    """One process that ends while its extractor is at work."""
    extractor = Deadly(stage.channel)
    with pytest.raises(Died):
        stage.window(extractor, owners=extractor, **how)
    assert extractor.dead


def begun(stage: Stage) -> int | None:
    left = stage.left("s")
    return None if left is None or left.planned is None else left.planned.begun


def test_a_window_that_ends_the_process_is_given_up_after_five_times(stage: Stage) -> None:
    """It was asked for ever: tries were counted in the process. The rest of the session goes on."""
    stage.append("s", "remember one", "remember two", "deadly", "x", "remember three", "x")
    stage.window(Told(), window_turns=2)
    for death in range(1, 6):
        dies(stage, window_turns=2)
        assert begun(stage) == death
        if death == 3:
            stage.reopen()
    reply = run_through(stage.reflector(lambda: Deadly(stage.channel), window_turns=2), "s")
    assert [(f.first, f.last, f.tries) for f in reply.failed] == [(2, 3, 5)]
    assert reply.failed[0].error == "5 times its process ended while the extractor was at work"
    assert stage.texts() == ["one", "three", "two"]


def test_what_was_given_up_is_tried_again_by_whoever_asks(stage: Stage) -> None:
    stage.append("s", "remember this", "deadly")
    for _ in range(5):
        dies(stage)
    with pytest.raises(Refused) as refused:
        stage.window(Told())
    assert refused.value.deaths == 5 and stage.texts() == []
    reflector = stage.reflector(Told)
    assert run_through(reflector, "s").failures == 1
    assert run_through(reflector, "s").failures == 0
    assert stage.texts() == ["this"]


def test_a_window_that_was_begun_again_is_stored_under_the_same_ids(stage: Stage) -> None:
    """Another reflector may be at work on it still."""
    stage.append("s", "remember this", "deadly")
    left = stage.left("s")
    dies(stage)
    first = stage.left("s")
    dies(stage)
    second = stage.left("s")
    assert left is not None and first is not None and second is not None
    assert first.planned is not None and second.planned is not None
    assert (first.planned.at, second.planned.begun) == (second.planned.at, 2)
    assert stage.window(Told()) is not None
    assert stage.window(Told(), due=first) is not None  # who was late
    assert stage.texts() == ["this"]


def test_what_is_answered_wrongly_or_not_at_all_is_no_death(stage: Stage) -> None:
    class Away(Told):
        def extract(self, window: Window, /) -> list[Fact]:
            raise Unavailable("the endpoint is away", outcome="not_applied")

    stage.append("s", "remember this")
    for extractor in (Failing(), Failing(), Away(), Away()):
        extractor.extractor_id = "told-1"
        with pytest.raises(Refused):
            stage.window(extractor)
        assert begun(stage) == 0
    dies_not = stage.window(Told())
    assert dies_not is not None and stage.texts() == ["this"]


def test_owners_that_are_away_are_no_death(stage: Stage) -> None:
    class NoMemories:
        def call(self, partition: int, request: Request, deadline: float) -> AnyReply:
            if type(request).__name__ == "Remember":
                raise Unavailable("away", outcome="unknown")
            reply: AnyReply = stage.channel.call(partition, request, deadline)
            return reply

    stage.append("s", "remember this")
    for _ in range(7):
        with pytest.raises(Unavailable):
            stage.window(Told(), owners=NoMemories())
    assert begun(stage) == 0


def test_a_reflector_that_is_closed_over_a_window_is_no_death(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program may be ended again and again while a slow endpoint is asked."""
    monkeypatch.setattr(reflector_module, "END_S", 0.05)
    stage.append("s", "remember this")
    slow = [Hanging() for _ in range(3)]
    for extractor in slow:
        reflector = stage.reflector(partial(_same, extractor))
        ask(reflector, Reflect(0, "run", True, NAMESPACE, "s", False))
        until(extractor.asked.is_set)
        assert begun(stage) == 1
        reflector.close()
        assert begun(stage) == 0
    for extractor in slow:
        extractor.released.set()


def _same(extractor: Hanging) -> Hanging:
    return extractor


def test_who_wants_the_room_alone_waits_for_it_and_has_it() -> None:
    room, told = Room(), []
    entered, leave = threading.Event(), threading.Event()

    def suspect() -> None:
        with room(alone=True):
            told.append("alone")
            entered.set()
            leave.wait()
            told.append("leaves")

    def other() -> None:
        with room(alone=False):
            told.append("other")

    threads = [threading.Thread(target=suspect), threading.Thread(target=other)]
    with room(alone=False):
        threads[0].start()
        assert told == []
    entered.wait()
    threads[1].start()
    leave.set()
    for thread in threads:
        thread.join()
    assert told == ["alone", "leaves", "other"]
