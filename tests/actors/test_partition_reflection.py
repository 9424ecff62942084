"""What a partition tells a reflector, and when it calls one."""

from __future__ import annotations

import errno
from typing import Any

from neverforget.actors.messages import AnyReply, Erase, Failure, Status, StatusReply
from neverforget.actors.partition import Partition
from neverforget.actors.reflection_messages import (
    Due,
    DueReply,
    FailReflection,
    Mark,
    Plan,
    PlannedReply,
    Unreflected,
    UnreflectedReply,
)
from neverforget.storage.reflection_results import DueSession, PlannedRange, ReflectionLag
from tests.actors.regions import (
    NAMESPACE,
    Owned,
    append,
    disk,
    own,
    spec,
    syncs,
)
from tests.fakes.crash_filesystem import CrashFileSystem, Fault

HOUR = 3600.0


class Bell:
    """Counts how often it rang."""

    def __init__(self) -> None:
        self.rung = 0

    def __call__(self) -> None:
        self.rung += 1

    def taken(self) -> int:
        rung, self.rung = self.rung, 0
        return rung


def reflected(fs: CrashFileSystem, **changes: Any) -> tuple[Owned, Bell]:
    """A partition whose sessions are due with three turns, or after an hour."""
    bell = Bell()
    owned = own(fs, opened=False)
    settings: dict[str, Any] = {"reflect_every": 3, "reflect_after_s": HOUR} | changes
    owned.partition = Partition(spec(**settings), fs=fs, clock=owned.clock, lock=False, on_due=bell)
    owned.partition.bind(owned.woken.release)
    owned.partition.open()
    return owned, bell


def say(owned: Owned, session: str, *numbers: int) -> None:
    for asked in owned.ask(*(append(number, session=session) for number in numbers)):
        assert asked.code is None


def due(owned: Owned) -> list[DueSession]:
    reply = owned.ask(Due(1, 99))[0].answer
    assert isinstance(reply, DueReply)
    return reply.sessions


def lag(owned: Owned) -> ReflectionLag:
    reply = owned.ask(Status(1))[0].answer
    assert isinstance(reply, StatusReply)
    assert reply.reflection is not None
    return reply.reflection


def plan(id: int, first: int, last: int, session: str = "s", seq: int | None = None) -> Plan:
    return Plan(id, NAMESPACE, session, first, last, "v1", 8, id if seq is None else seq)


def mark(id: int, first: int, last: int, session: str = "s") -> Mark:
    return Mark(id, NAMESPACE, session, first, last, "v1", 8, id)


def fail(id: int, first: int, last: int, session: str = "s") -> FailReflection:
    return FailReflection(id, NAMESPACE, session, first, last, "v1", 3, "no answer", 8, id)


def planned(answer: AnyReply) -> PlannedRange:
    assert isinstance(answer, PlannedReply), answer
    return answer.planned


def test_it_calls_once_when_a_session_becomes_due() -> None:
    owned, bell = reflected(disk())
    say(owned, "s", 1, 2)
    say(owned, "t", 3)
    assert (bell.taken(), owned.partition.welcome(0).due) == (0, 0)
    say(owned, "s", 4)
    assert (bell.taken(), owned.partition.welcome(0).due) == (1, 1)
    say(owned, "s", 5, 6, 7, 8)
    assert bell.taken() == 0, "it is due already"
    assert [(s.session, s.first, s.stop, s.turns) for s in due(owned)] == [("s", 0, 7, 7)]
    owned.ask(mark(9, 0, 5))
    assert (owned.partition.welcome(0).due, lag(owned).turns) == (0, 2)
    owned.partition.close()


def test_it_calls_when_it_has_opened_and_found_some() -> None:
    fs = disk()
    owned, _ = reflected(fs)
    say(owned, "s", 1, 2, 3)
    owned.partition.close()
    owned, bell = reflected(fs)
    assert (bell.taken(), owned.partition.welcome(0).due) == (1, 1)
    owned.partition.close()
    owned, bell = reflected(fs, reflect_every=0, reflect_after_s=0.0)
    assert (bell.taken(), owned.partition.welcome(0).due) == (0, 0)
    assert lag(owned).turns == 3
    owned.partition.close()


def test_a_quiet_session_is_due_by_the_partitions_own_timer() -> None:
    owned, bell = reflected(disk())
    say(owned, "s", 1)
    owned.pass_time(HOUR / 2)
    say(owned, "t", 2)
    owned.pass_time(HOUR / 2 - 1)
    assert bell.taken() == 0
    owned.pass_time(HOUR / 100)
    assert (bell.taken(), [s.session for s in due(owned)]) == (1, ["s"])
    owned.pass_time(HOUR)
    assert (bell.taken(), [s.session for s in due(owned)]) == (1, ["s", "t"])
    owned.ask(mark(3, 0, 0), mark(4, 0, 0, "t"))
    owned.pass_time(2 * HOUR)
    assert bell.taken() == 0
    assert owned.partition.deadline() is None, "nobody waits any more"
    owned.partition.close()


def test_plans_marks_and_failures_are_durable_when_they_are_answered() -> None:
    owned, _ = reflected(disk())
    say(owned, "s", 1, 2, 3, 4)
    for request in (plan(5, 0, 1), mark(6, 0, 1), plan(7, 2, 3), fail(8, 2, 3)):
        before = syncs(owned.fs)
        (asked,) = owned.ask(request)
        assert asked.code is None
        assert syncs(owned.fs) == before + 1
    owned, _ = reflected(owned.fs.power_cut())
    found = lag(owned)
    assert (found.turns, found.due, found.failed) == (0, 0, 1)
    assert [(f.session, f.first, f.last, f.error) for f in found.failed_ranges] == [
        ("s", 2, 3, "no answer")
    ]
    owned.partition.close()


def test_a_planned_range_survives_and_a_repeat_is_told_the_same() -> None:
    owned, _ = reflected(disk())
    say(owned, "s", 1, 2)
    first = planned(owned.ask(plan(5, 0, 1))[0].answer)
    owned.clock.now += 10
    assert planned(owned.ask(plan(6, 0, 1, seq=5))[0].answer) == first, "the same request"
    assert planned(owned.ask(plan(7, 0, 1))[0].answer) == first, "the plan that stands"
    owned, bell = reflected(owned.fs.power_cut())
    assert bell.taken() == 1, "unfinished work"
    assert [s.planned for s in due(owned)] == [first]
    assert planned(owned.ask(plan(8, 0, 1, seq=5))[0].answer) == first
    other = owned.ask(plan(9, 0, 0, seq=5))[0]
    assert other.code == "conflict"
    owned.partition.close()


def test_who_asks_finds_everything_that_is_to_be_done() -> None:
    owned, _ = reflected(disk())
    say(owned, "s", 1, 2, 3, 4)
    say(owned, "t", 5)
    owned.ask(mark(6, 0, 1), fail(7, 2, 2))

    def asked(**how: Any) -> list[tuple[str, int, int, int]]:
        settings: dict[str, Any] = {"session": None, "after": None, "limit": 9} | how
        reply = owned.ask(Unreflected(1, NAMESPACE[:1], **settings))[0].answer
        assert isinstance(reply, UnreflectedReply)
        assert not reply.more
        return [(s.session, s.first, s.stop, s.turns) for s in reply.sessions]

    assert asked() == [("s", 2, 4, 2), ("t", 0, 1, 1)]
    assert asked(session="s", from_seq=3) == [("s", 3, 4, 1)]
    assert asked(session="s", extractor="v2", again=True) == [("s", 0, 4, 4)]
    assert asked(session="nobody") == []
    owned.partition.close()


def test_of_an_erased_session_nothing_is_due() -> None:
    owned, _ = reflected(disk())
    say(owned, "s", 1, 2, 3)
    owned.ask(plan(4, 0, 2))
    (gone,) = owned.ask(Erase(5, NAMESPACE, "s", None, "confirmed", "me", None, 8, 5))
    assert gone.code is None
    assert (due(owned), owned.partition.welcome(0).due, lag(owned).turns) == ([], 0, 0)
    late = owned.ask(mark(6, 0, 2))[0]
    assert late.code == "not_found", "a reflector that comes too late is told so"
    owned.partition.close()


def test_a_failed_sync_leaves_no_plan_behind_that_nobody_was_told_of() -> None:
    owned, _ = reflected(disk())
    say(owned, "s", 1, 2)
    owned.fs.inject(Fault("fdatasync", nth=1, error=errno.EIO))
    (asked,) = owned.ask(plan(5, 0, 1))
    assert asked.code == "poisoned"
    owned.until("serving")
    found = due(owned)
    assert [s.planned is not None for s in found] in ([], [True]), "all of it or nothing"
    (again,) = owned.ask(plan(6, 0, 1, seq=5))
    assert isinstance(again.answer, PlannedReply)
    assert owned.ask(mark(7, 0, 1))[0].code is None
    assert due(owned) == []
    owned.partition.close()


def test_where_nothing_can_be_written_nobody_is_called() -> None:
    fs = disk()
    owned, _ = reflected(fs)
    say(owned, "s", 1, 2, 3)
    owned.partition.close()
    fs.inject(Fault("pwrite", error=errno.EIO, count=10**6))
    owned, bell = reflected(fs)
    assert owned.partition.state == "readonly"
    assert (bell.taken(), owned.partition.welcome(0).due) == (0, 0)
    assert [s.session for s in due(owned)] == ["s"], "who asks is told"
    assert isinstance(owned.ask(plan(5, 0, 2))[0].answer, Failure)
    owned.partition.close()
