"""Who waits for what is beyond this machine, and in which order they go on. No log, no objects."""

from __future__ import annotations

from neverforget.actors.messages import Append, DoneReply
from neverforget.actors.metrics import Meter
from neverforget.actors.replicating import Replicating
from tests.actors.regions import Asked, ManualClock, append, get

MUTATING = {Append}


def asked(*ids: int) -> list[Asked]:
    return [Asked(append(id, "x")) for id in ids]


def made(queued_max: int = 10) -> Replicating:
    return Replicating(queued_max, Meter(ManualClock()))


def test_what_comes_while_others_are_held_back_does_not_overtake_them() -> None:
    """The replica has caught up just now, and those that waited are not let go yet."""
    waiting = made()
    first, second = asked(1), asked(2)
    read = Asked(get(3))
    assert waiting.admit(first, MUTATING, may_append=False) == []
    assert waiting.admit([*second, read], MUTATING, may_append=True) == [read]
    assert waiting.let_go() == [*first, *second]
    assert waiting.admit(second, MUTATING, may_append=True) == second


def test_more_than_may_wait_is_refused() -> None:
    waiting = made(queued_max=1)
    first, second = asked(1, 2)
    assert waiting.admit([first, second], MUTATING, may_append=False) == []
    assert (first.replies, second.code) == ([], "overloaded")


def test_a_repeat_is_answered_before_those_in_front_of_it_that_wait_for_more() -> None:
    waiting = made()
    new, repeat = asked(1, 2)
    replies = [(new, DoneReply(1), 200), (repeat, DoneReply(2), 100)]
    assert waiting.wait(replies, began=0.0) == 200
    waiting.answer(100)
    assert (new.replies, repeat.replies) == ([], [DoneReply(2)])
    waiting.answer(199)
    assert new.replies == []
    waiting.answer(200)
    assert new.replies == [DoneReply(1)] and len(waiting) == 0
