"""What ``reflect``, ``settle`` and ``status`` ask of partitions and of the reflector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import neverforget as nf
from neverforget.actors.longterm_messages import LongTermStatusReply
from neverforget.actors.messages import AnyReply, DoneReply, Request, StatusReply
from neverforget.actors.places import REFLECTOR
from neverforget.actors.reflector_messages import (
    Reflect,
    ReflectorStatusReply,
    ReflectReply,
    RunningWindow,
    WakeReflector,
)
from neverforget.actors.tokenizers import TokenCounter
from neverforget.runtime import reflecting
from neverforget.runtime.longterm_client import LongTermClient
from neverforget.runtime.operation import LONGTERM, Context, Operation, RequestIds
from neverforget.storage.clock import SystemClock
from neverforget.storage.longterm_results import LongTermStatus
from neverforget.storage.reflection_results import FailedRange, ReflectionLag

Answer = Callable[[int, Request], AnyReply | Exception]


def context() -> Context:
    return Context(
        2, TokenCounter("estimate"), RequestIds(), SystemClock(), 1 << 20, LongTermClient()
    )


def driven(operation: Operation[Any], answer: Answer) -> Any:
    try:
        call = operation.send(None)
        while True:
            reply = answer(call.partition, call.request)
            if isinstance(reply, Exception):
                call = operation.throw(reply)
            else:
                call = operation.send(reply)
    except StopIteration as stop:
        return stop.value


def told(state: str, done: int = 0, of: int = 0, *, failed: list[FailedRange] | None = None) -> Any:
    ranges = failed or []
    return ReflectReply(0, state, 1, done, of, 1, 2, len(ranges), ranges, "rules-1", None)


def failed_at(second: int, *namespace: str) -> FailedRange:
    return FailedRange(namespace, "s", 0, 9, "rules-1", 3, "ValueError", second * 1_000_000)


MEMORIES = LongTermStatusReply(
    0,
    LongTermStatus(1, 0, 0, 0, 0, 0, 0, 4096, 0, 1, 0, 0, 0, 0, []),
    None,
    "serving",
    None,
    1,
    0,
    0,
)


def test_a_run_goes_on_under_another_name_when_its_reflector_was_started_again() -> None:
    asked: list[Reflect] = []
    says: list[AnyReply] = [
        told("running", 60, 200),
        told("unknown"),
        told("running", 20, 140, failed=[failed_at(1)]),
        told("done", 140, 140, failed=[failed_at(1)]),
    ]

    def answer(place: int, request: Request) -> AnyReply:
        if place == LONGTERM:
            return MEMORIES
        assert place == REFLECTOR and isinstance(request, Reflect)
        asked.append(request)
        return says[len(asked) - 1]

    seen: list[tuple[int, int]] = []
    here = context()
    run = reflecting.Reflection(
        here, "rules", ("a",), "s", True, lambda done, of: seen.append((done, of))
    )
    looks = 0
    while driven(run.look(), answer):
        looks += 1
    assert looks == 3 and [each.begin for each in asked] == [True, False, True, False]
    assert asked[0].run == asked[1].run != asked[2].run == asked[3].run
    assert {(each.namespace, each.session, each.again) for each in asked} == {(("a",), "s", True)}
    assert seen == [(60, 200), (80, 200), (200, 200)]
    report = run.report()
    assert (report.sessions, report.turns, report.windows, report.facts) == (2, 200, 2, 4)
    assert [each.error for each in report.failed] == ["ValueError"]
    assert here.longterm.end == 4096  # a recall waits for what was stored


def test_a_run_that_could_not_even_look_is_an_error() -> None:
    failed = ReflectReply(0, "done", 0, 0, 0, 0, 0, 1, [], "", "the extractor cannot be made")
    run = reflecting.Reflection(context(), "rules", (), None, False, None)
    with pytest.raises(nf.Unavailable, match="the extractor cannot be made"):
        driven(run.look(), lambda place, request: failed)


def test_a_store_that_extracts_nothing_says_so() -> None:
    with pytest.raises(nf.InvalidArgument, match=r"store\.toml"):
        reflecting.Reflection(context(), "none", (), None, False, None)


def lag(due: int, *failed: FailedRange, turns: int = 0, oldest: int | None = None) -> Any:
    return ReflectionLag(turns, due, oldest, due, len(failed), list(failed))


def status(lag: ReflectionLag | None) -> StatusReply:
    return StatusReply(0, None, "serving", None, 1, 0, 0, lag)


def test_waiting_ends_when_nothing_is_due() -> None:
    dues, woken = [1, 0, 0, 1, 0, 0], []

    def answer(place: int, request: Request) -> AnyReply | Exception:
        if isinstance(request, WakeReflector):
            woken.append(place)
            return nf.Unavailable("it is away", outcome="not_applied")
        assert place != REFLECTOR
        return status(lag(dues.pop(0)))

    wait = reflecting.DueWait(context(), "rules", None)
    assert driven(wait.look(), answer) is True and woken == [REFLECTOR]
    assert driven(wait.look(), answer) is True and woken == [REFLECTOR]  # not at every look
    assert driven(wait.look(), answer) is False


def test_nobody_waits_for_what_cannot_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store whose extractor, an object, was not given to its host had a ``settle`` for ever."""
    monkeypatch.setattr(reflecting, "WAKE_EVERY_S", 0.0)
    monkeypatch.setattr(reflecting, "STALLED_S", 0.0)
    turns, running = [10, 20, 20, 20, 20], [1, 0, 0, 0, 0]
    window = RunningWindow((), "s", 0, 59, 0)

    def answer(place: int, request: Request) -> AnyReply:
        if isinstance(request, WakeReflector):
            return DoneReply(0)
        if place == REFLECTOR:
            at = [window] * running.pop(0)
            return ReflectorStatusReply(0, 1, "", at, 0, 0, turns.pop(0), 1, 4, 0, "not given", 5)
        return status(lag(1))

    wait = reflecting.DueWait(context(), "rules", None)
    assert driven(wait.look(), answer) is True  # a window is being worked on
    assert driven(wait.look(), answer) is True  # and it was done
    with pytest.raises(nf.Unavailable, match="cannot be reflected: 2; not given"):
        driven(wait.look(), answer)


def test_who_only_looks_is_told_that_sessions_are_due() -> None:
    wait = reflecting.DueWait(context(), "rules", 0)
    with pytest.raises(nf.Unavailable, match="wait to be reflected: 2;"):
        driven(wait.look(), lambda place, request: status(lag(1)))
    never = reflecting.DueWait(context(), "none", 0)
    assert driven(never.look(), lambda place, request: status(lag(1))) is False


def test_a_status_starts_no_reflector_and_shows_a_view_its_own() -> None:
    lags = [
        lag(1, failed_at(5, "a", "b"), failed_at(2, "ab"), turns=100, oldest=3_000_000),
        None,
        lag(0, failed_at(1, "a"), turns=7, oldest=2_000_000),
    ]

    def nobody(place: int, request: Request) -> AnyReply:
        raise AssertionError(f"{place} was asked {request}")

    found = driven(reflecting.info("rules", lags, ("a",), False), nobody)
    assert (found.turns, found.sessions, found.due, found.failures) == (107, 1, 1, 3)
    assert [(each.namespace, each.at.timestamp()) for each in found.failed] == [
        (("a",), 1.0),
        (("a", "b"), 5.0),
    ]
    assert (found.oldest_at.timestamp(), found.state, found.error) == (2.0, "idle", None)


def test_a_status_tells_what_the_reflector_is_at_or_that_it_is_away() -> None:
    window = RunningWindow((), "s", 0, 59, 0)
    reply = ReflectorStatusReply(0, 1, "rules-1", [window], 3, 0, 60, 1, 4, 0, "ValueError", 5)
    found = driven(reflecting.info("rules", [], (), True), lambda place, request: reply)
    assert (found.state, found.running, found.turns_reflected, found.facts) == ("running", 1, 60, 4)
    assert found.error == "ValueError"
    away = nf.Unavailable("gone", outcome="not_applied")
    found = driven(reflecting.info("rules", [], (), True), lambda place, request: away)
    assert (found.state, found.error) == ("unavailable", "gone")
