"""What waits to be reflected, who is due, what is planned and what was given up, of one region."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neverforget.storage.errors import Conflict, InvalidArgument, NotFound
from neverforget.storage.reflection_results import DueSession, PlannedRange
from neverforget.storage.region import Region
from neverforget.storage.region_options import RegionOptions
from tests.storage.small_region import OPTIONS, Bench, bench

EVERY = RegionOptions(
    segment_bytes=OPTIONS.segment_bytes,
    first_segment_bytes=OPTIONS.first_segment_bytes,
    reflect_every=10,
)
HOUR = 3600
QUIET = RegionOptions(reflect_every=10, reflect_after_s=HOUR)


@pytest.fixture
def b(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path / "p0", options=EVERY) as opened:
        yield opened


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path / "p0", options=QUIET) as opened:
        yield opened


def say(b: Bench, session: str, turns: int) -> None:
    b.client.say(session, *["word"] * turns)


def mark(b: Bench, session: str, first: int, last: int, extractor: str = "v1") -> None:
    b.region.mark((), session, first, last, extractor, *b.client.next_request())
    b.client.commit()


def plan(b: Bench, session: str, first: int, last: int, extractor: str = "v1") -> PlannedRange:
    planned, _ = b.region.plan((), session, first, last, extractor, *b.client.next_request())
    b.client.commit()
    return planned


def fail(b: Bench, session: str, first: int, last: int, error: str = "no answer") -> None:
    request = b.client.next_request()
    b.region.fail_reflection((), session, first, last, "v1", 3, error, *request)
    b.client.commit()


def due(b: Bench) -> list[str]:
    return [session.session for session in b.region.reflection.due(99)]


def left(b: Bench, session: str | None = None, **how: Any) -> list[DueSession]:
    asked: dict[str, Any] = {"extractor": "v1", "again": False, "from_seq": 0} | how
    found, _, _ = b.region.reflection.unreflected((), session, None, 99, **asked)
    return found


def ranges(found: list[DueSession]) -> list[tuple[str, int, int, int]]:
    return [(each.session, each.first, each.stop, each.turns) for each in found]


# ---- due -----------------------------------------------------------------------------------------


def test_a_session_is_due_when_so_many_turns_wait_and_until_those_are_done(b: Bench) -> None:
    say(b, "chat", 9)
    say(b, "other", 3)
    assert due(b) == []
    say(b, "chat", 4)
    assert due(b) == ["chat"]
    mark(b, "chat", 0, 5)
    assert due(b) == ["chat"], "turns 6 to 9 belong to the ten that made it due"
    b.reopen()
    assert due(b) == ["chat"], "and they still do after a restart"
    mark(b, "chat", 6, 9)
    assert due(b) == [], "three wait, which is not enough"
    b.reopen(seal=True)
    assert due(b) == []
    lag = b.region.reflection.lag()
    assert (lag.turns, lag.sessions, lag.due, lag.failed) == (6, 2, 0, 0)


def test_what_an_append_of_many_leaves_over_waits_for_the_next_ten(b: Bench) -> None:
    say(b, "chat", 25)
    mark(b, "chat", 0, 15)
    assert due(b) == ["chat"], "nine wait, four of them for the first twenty"
    mark(b, "chat", 16, 19)
    assert due(b) == []
    say(b, "chat", 5)
    assert due(b) == ["chat"]


def test_those_that_wait_longest_come_first_and_who_made_progress_comes_last(b: Bench) -> None:
    for name in ("one", "two", "three"):
        say(b, name, 20)
    assert due(b) == ["one", "two", "three"]
    assert [s.session for s in b.region.reflection.due(2)] == ["one", "two"]
    mark(b, "one", 0, 4)
    assert due(b) == ["two", "three", "one"]
    b.reopen()
    assert due(b) == ["one", "two", "three"], "by the turn that waits for longest"


def test_nothing_is_due_where_reflection_is_only_on_request(tmp_path: Path) -> None:
    with bench(tmp_path / "p0") as b:
        say(b, "chat", 1000)
        plan(b, "chat", 0, 59)
        assert due(b) == []
        b.reopen()
        assert due(b) == []
        assert b.region.ledger.due_count == 0
        assert b.region.reflection.lag().turns == 1000
        assert ranges(left(b)) == [("chat", 0, 60, 1000)]


def test_a_fork_waits_from_its_base(b: Bench) -> None:
    say(b, "chat", 9)
    b.client.fork("fork", "chat", 9)
    assert ranges(left(b)) == [("chat", 0, 9, 9)]
    say(b, "fork", 10)
    assert due(b) == ["fork"]
    b.reopen()
    assert ranges(b.region.reflection.due(9)) == [("fork", 9, 19, 10)]
    with pytest.raises(InvalidArgument):
        plan(b, "fork", 8, 12)


def test_hidden_erased_and_lost_turns_count(b: Bench) -> None:
    say(b, "chat", 6)
    b.client.hide("chat", (0, 1))
    b.client.erase("chat", [(2, 2)])
    lost = b.position_of("chat", 4)
    b.region.seal()
    b.close()
    b.damage_header(lost)
    for path in (b.directory / "log").glob("*.heads"):
        path.unlink()
    b.client.region = b.open()
    say(b, "chat", 4)
    assert due(b) == ["chat"]
    assert ranges(left(b)) == [("chat", 0, 10, 10)]
    mark(b, "chat", 0, 3)
    assert left(b)[0].oldest_at == 0, "nobody knows when a lost turn was said"
    b.reopen()
    assert ranges(b.region.reflection.due(9)) == [("chat", 4, 10, 6)]


# ---- quiet sessions ------------------------------------------------------------------------------


def pass_time(b: Bench, seconds: float) -> None:
    b.clock.wall_us += int(seconds * 1e6)
    b.region.ledger.pass_time(b.clock.monotonic())


def test_a_session_that_was_quiet_for_long_is_due_with_all_that_waits(quiet: Bench) -> None:
    b = quiet
    say(b, "chat", 2)
    pass_time(b, HOUR / 2)
    say(b, "other", 2)
    pass_time(b, HOUR * 0.6)
    assert due(b) == ["chat"]
    say(b, "chat", 1)
    mark(b, "chat", 0, 1)
    assert due(b) == [], "what came later is not quiet yet"
    pass_time(b, HOUR * 0.5)
    assert due(b) == ["other"]
    pass_time(b, HOUR * 0.6)
    assert due(b) == ["other", "chat"]
    assert b.region.ledger.quiet_at is None, "there is nobody left to be looked at"


def test_an_append_begins_the_quiet_anew(quiet: Bench) -> None:
    b = quiet
    for _ in range(3):
        say(b, "chat", 1)
        pass_time(b, HOUR * 0.9)
        assert due(b) == []
    pass_time(b, HOUR * 0.2)
    assert due(b) == ["chat"]


def test_quiet_goes_on_over_a_restart(quiet: Bench) -> None:
    """A process that never lives for an hour would never reflect what is left over."""
    b = quiet
    say(b, "chat", 2)
    say(b, "fresh", 2)
    pass_time(b, HOUR * 0.9)
    say(b, "fresh", 1)
    b.reopen()
    pass_time(b, HOUR * 0.2)
    assert due(b) == ["chat"]
    pass_time(b, HOUR * 0.7)
    assert due(b) == ["chat"]
    pass_time(b, HOUR * 0.2)
    assert due(b) == ["chat", "fresh"]


def test_what_waits_behind_what_made_a_session_due_is_due_when_it_has_been_quiet(
    quiet: Bench,
) -> None:
    b = quiet
    say(b, "chat", 13)
    pass_time(b, HOUR * 1.1)
    mark(b, "chat", 0, 9)
    assert due(b) == ["chat"]
    mark(b, "chat", 10, 12)
    assert due(b) == []


def test_a_turn_from_the_future_is_quiet_from_the_opening_on(quiet: Bench) -> None:
    b = quiet
    b.client.say("chat", {"content": "x", "timestamp_us": b.clock.wall_us + 10**15})
    b.reopen()
    pass_time(b, HOUR * 0.9)
    assert due(b) == []
    pass_time(b, HOUR * 1.2)
    assert due(b) == ["chat"]


def test_a_wall_clock_that_jumps_makes_nobody_due_and_keeps_nobody_waiting(quiet: Bench) -> None:
    b = quiet
    for hours in (2, -4, 2):
        say(b, "chat", 1)
        b.clock.jump(hours * HOUR)
        pass_time(b, HOUR * 0.9)
        assert due(b) == []
    pass_time(b, HOUR * 0.2)
    assert due(b) == ["chat"]


@pytest.mark.parametrize(("hours", "waits"), [(2, 0.0), (-2, 1.0)])
def test_a_restart_in_another_time_costs_one_quiet_at_most(
    quiet: Bench, hours: int, waits: float
) -> None:
    """How long nobody spoke while nobody served is known by the wall clock alone."""
    b = quiet
    say(b, "chat", 2)
    b.clock.jump(hours * HOUR)
    b.reopen()
    pass_time(b, 0)
    if waits:
        pass_time(b, HOUR * (waits - 0.1))
        assert due(b) == []
    pass_time(b, HOUR * 0.2)
    assert due(b) == ["chat"]


def test_the_clock_is_read_once_a_beat_and_nobody_is_due_too_early(quiet: Bench) -> None:
    b = quiet
    beat = HOUR / 256
    say(b, "busy", 1)
    for turn in range(300):
        say(b, "busy", 1)
        mark(b, "busy", 0, turn)
        pass_time(b, beat / 2)
        assert due(b) == []
    say(b, "chat", 1)
    pass_time(b, beat * 1.1)
    assert b.region.ledger.quiet_at is not None
    for _ in range(254):
        pass_time(b, beat)
        assert due(b) == []
    pass_time(b, beat)
    pass_time(b, beat)
    assert due(b) == ["busy", "chat"]


def test_many_quiet_sessions_are_not_looked_at_in_one_go(quiet: Bench) -> None:
    b = quiet
    for number in range(300):
        b.client.append(f"chat {number}", "word")
    b.client.commit()
    b.reopen()
    pass_time(b, HOUR * 2)
    assert len(b.region.reflection.due(9999)) == 200
    assert b.region.ledger.quiet_at is not None, "the others come next"
    pass_time(b, 0)
    assert len(b.region.reflection.due(9999)) == 300


# ---- plans ---------------------------------------------------------------------------------------


def test_a_plan_stands_with_its_time_until_its_range_is_marked(b: Bench) -> None:
    say(b, "chat", 6)
    planned = plan(b, "chat", 0, 3)
    assert plan(b, "chat", 0, 3) == planned, "to plan the same again changes nothing"
    assert due(b) == ["chat"], "unfinished work"
    b.reopen()
    (found,) = b.region.reflection.due(9)
    assert found.planned == planned
    assert (found.first, found.stop, found.turns) == (0, 4, 6)
    mark(b, "chat", 0, 1)
    assert due(b) == ["chat"], "a part is not all of it"
    mark(b, "chat", 0, 3)
    assert due(b) == []
    assert ranges(left(b)) == [("chat", 4, 6, 2)]


def test_what_an_extractor_has_done_it_cannot_plan_again(b: Bench) -> None:
    """Who had asked what waits before it was done, planned it after, and stored its facts twice."""
    say(b, "chat", 9)
    plan(b, "chat", 0, 3)
    mark(b, "chat", 0, 3)
    for first, last in [(0, 3), (3, 8)]:
        with pytest.raises(Conflict, match="done already"):
            plan(b, "chat", first, last)
    plan(b, "chat", 2, 5, "v2")
    mark(b, "chat", 2, 5, "v2")
    b.reopen()
    with pytest.raises(Conflict, match="done already"):
        plan(b, "chat", 1, 2)
    with pytest.raises(Conflict, match="done already"):
        plan(b, "chat", 5, 6, "v2")
    plan(b, "chat", 2, 8)
    assert due(b) == ["chat"]


def test_a_new_plan_replaces_the_one_that_stood(b: Bench) -> None:
    say(b, "chat", 6)
    first = plan(b, "chat", 0, 3)
    second = plan(b, "chat", 0, 5, "v2")
    assert second.at > first.at
    b.reopen()
    assert left(b)[0].planned == second


def test_how_often_a_plan_was_begun_is_counted_under_its_time(b: Bench) -> None:
    def again(begun: int, at: int, last: int = 3) -> PlannedRange:
        request = b.client.next_request()
        planned, end = b.region.plan((), "chat", 0, last, "v1", *request, at, begun)
        assert b.region.plan((), "chat", 0, last, "v1", *request, at, begun) == (planned, end)
        b.client.commit()
        return planned

    say(b, "chat", 6)
    first = plan(b, "chat", 0, 3)
    assert first.begun == 1
    for begun in (2, 3, 1, 0, 1):
        assert again(begun, first.at) == PlannedRange(0, 3, "v1", first.at, begun)
        b.reopen()
        assert left(b)[0].planned == PlannedRange(0, 3, "v1", first.at, begun)
    assert plan(b, "chat", 0, 3) == first
    for at, last in ((first.at + 1, 3), (first.at, 4)):
        with pytest.raises(Conflict, match="does not stand"):
            again(2, at, last)
    with pytest.raises(InvalidArgument):
        again(-1, first.at)
    mark(b, "chat", 0, 3)
    with pytest.raises(Conflict, match="does not stand"):
        again(2, first.at)
    assert plan(b, "chat", 4, 5).begun == 1


def test_repeats_answer_as_the_first_time_and_others_conflict(b: Bench) -> None:
    say(b, "chat", 6)
    request = b.client.next_request()
    planned, end = b.region.plan((), "chat", 0, 3, "v1", *request)
    plan(b, "chat", 0, 5)
    for _ in range(2):
        assert b.region.plan((), "chat", 0, 3, "v1", *request) == (planned, end)
        assert left(b)[0].stop == 6, "the newer plan stands"
        b.reopen()
    with pytest.raises(Conflict):
        b.region.plan((), "chat", 0, 4, "v1", *request)
    request = b.client.next_request()
    ended = b.region.fail_reflection((), "chat", 0, 3, "v1", 3, "why", *request)
    mark(b, "chat", 0, 3)
    for _ in range(2):
        assert b.region.fail_reflection((), "chat", 0, 3, "v1", 3, "why", *request) == ended
        assert b.region.reflection.lag().failed == 0, "it was done since"
        b.reopen()
    with pytest.raises(Conflict):
        b.region.fail_reflection((), "chat", 0, 3, "v1", 3, "other", *request)


def test_what_is_not_there_cannot_be_planned_or_given_up(b: Bench) -> None:
    say(b, "chat", 6)
    for call in (plan, fail):
        with pytest.raises(NotFound):
            call(b, "nobody", 0, 1)
        with pytest.raises(NotFound):
            call(b, "chat", 0, 6)
        with pytest.raises(InvalidArgument):
            call(b, "chat", 3, 2)


def test_an_extractor_has_a_name_of_some_length(b: Bench) -> None:
    say(b, "chat", 6)
    for name in ("", "x" * 1001):
        for call in (plan, mark):
            with pytest.raises(InvalidArgument, match="name"):
                call(b, "chat", 0, 1, name)
    mark(b, "chat", 0, 1, "x" * 1000)


def test_a_plan_mark_or_failure_that_is_unreadable_leaves_its_turns_waiting(b: Bench) -> None:
    """Rot in what was said about turns costs a repeat of the work, never turns."""
    say(b, "chat", 12)
    positions = []
    for call in (plan, mark, fail):
        positions.append(b.region.log_end)
        call(b, "chat", 0, 3)
    b.region.noop_if_idle()
    b.close()
    for position in positions:
        b.damage_body(position)
    b.client.region = b.open()
    assert ranges(b.region.reflection.due(9)) == [("chat", 0, 12, 12)]
    assert b.region.reflection.due(9)[0].planned is None
    assert b.region.reflection.lag().failed == 0
    assert b.findings().count("corrupt_body") == 3


def test_an_unreadable_error_leaves_the_failure(b: Bench) -> None:
    say(b, "chat", 6)
    b.region.fail_reflection((), "chat", 0, 3, "v1", 3, "why", 0, 0)
    error_at = b.region.ledger.letters[b.client.all("chat").session_id].letters[0].error_at
    b.client.commit()
    b.region.noop_if_idle()
    b.close()
    b.damage_body(error_at)
    b.client.region = b.open()
    (failed,) = b.region.reflection.lag().failed_ranges
    assert (failed.first, failed.last, failed.error) == (0, 3, "")
    assert b.findings() == ["corrupt_body"]


# ---- what was given up ---------------------------------------------------------------------------


def test_a_range_that_was_given_up_waits_for_somebody_to_ask(b: Bench) -> None:
    say(b, "chat", 12)
    plan(b, "chat", 0, 5)
    fail(b, "chat", 0, 5, "the extractor answered rubbish")
    for _ in range(2):
        assert ranges(b.region.reflection.due(9)) == [("chat", 6, 12, 6)]
        lag = b.region.reflection.lag()
        assert (lag.turns, lag.failed) == (6, 1)
        (failed,) = lag.failed_ranges
        assert (failed.session, failed.first, failed.last) == ("chat", 0, 5)
        assert (failed.extractor, failed.tries) == ("v1", 3)
        assert failed.error == "the extractor answered rubbish"
        assert ranges(left(b)) == [("chat", 0, 12, 12)]
        assert ranges(left(b, "chat", from_seq=6)) == [("chat", 6, 12, 6)]
        b.reopen()
    mark(b, "chat", 0, 2)
    for _ in range(2):
        (failed,) = b.region.reflection.lag().failed_ranges
        assert (failed.first, failed.last) == (3, 5), "what is left of it"
        b.reopen()
    mark(b, "chat", 3, 11)
    assert b.region.reflection.lag().failed_ranges == []
    assert (left(b), due(b)) == ([], [])


def test_a_later_failure_of_the_same_turns_is_the_one_that_counts(b: Bench) -> None:
    say(b, "chat", 9)
    fail(b, "chat", 0, 5, "first")
    fail(b, "chat", 2, 3, "second")
    for _ in range(2):
        found = b.region.reflection.lag().failed_ranges
        assert [(f.first, f.last, f.error) for f in found] == [
            (0, 1, "first"),
            (4, 5, "first"),
            (2, 3, "second"),
        ]
        b.reopen()


def test_the_newest_hundred_failures_are_told(b: Bench) -> None:
    say(b, "chat", 130)
    for seq in range(130):
        b.region.fail_reflection((), "chat", seq, seq, "v1", 1, str(seq), 0, 0)
    b.client.commit()
    lag = b.region.reflection.lag()
    assert (lag.failed, len(lag.failed_ranges)) == (130, 100)
    assert [f.error for f in lag.failed_ranges] == [str(seq) for seq in range(30, 130)]


def test_a_long_error_is_cut(b: Bench) -> None:
    say(b, "chat", 1)
    fail(b, "chat", 0, 0, "x" * 5000)
    (failed,) = b.region.reflection.lag().failed_ranges
    assert failed.error == "x" * 2000 + "…"


# ---- again ---------------------------------------------------------------------------------------


def test_another_extractor_finds_what_the_earlier_one_did(b: Bench) -> None:
    say(b, "chat", 10)
    mark(b, "chat", 0, 9, "v1")
    say(b, "new", 2)
    assert ranges(left(b, extractor="v2")) == [("new", 0, 2, 2)]
    for _ in range(2):
        again = left(b, extractor="v2", again=True)
        assert ranges(again) == [("chat", 0, 10, 10), ("new", 0, 2, 2)]
        b.reopen()
    mark(b, "chat", 3, 6, "v2")
    for _ in range(2):
        again = left(b, "chat", extractor="v2", again=True)
        assert ranges(again) == [("chat", 0, 3, 6)]
        assert ranges(left(b, "chat", extractor="v2", again=True, from_seq=3)) == [
            ("chat", 7, 10, 3)
        ]
        assert ranges(left(b, "chat", extractor="v1", again=True)) == [("chat", 3, 7, 4)]
        assert left(b, "chat") == []
        b.reopen()
    mark(b, "chat", 0, 9, "v2")
    assert left(b, "chat", extractor="v2", again=True) == []
    session = b.region.ledger._index.find((), "chat")[0]
    assert session is not None
    assert (session.done, session.done_by) == (10, "v2"), "this is all that is kept"


# ---- erasing -------------------------------------------------------------------------------------


def test_of_an_erased_session_nothing_waits_is_planned_or_failed(b: Bench) -> None:
    say(b, "chat", 25)
    fail(b, "chat", 0, 3, "cannot read secretword")
    plan(b, "chat", 4, 7)
    b.client.erase("chat")
    for _ in range(2):
        lag = b.region.reflection.lag()
        assert (lag.turns, lag.sessions, lag.due, lag.failed) == (0, 0, 0, 0)
        assert (due(b), left(b)) == ([], [])
        b.reopen()
    assert b"secretword" not in b.every_byte()
    say(b, "chat", 3)
    assert ranges(left(b)) == [("chat", 0, 3, 3)], "the name starts afresh"


def test_erasing_turns_takes_what_an_error_says_of_them(b: Bench) -> None:
    say(b, "chat", 12)
    fail(b, "chat", 0, 3, "secretword")
    fail(b, "chat", 4, 5, "harmless")
    mark(b, "chat", 0, 1)
    b.client.erase("chat", [(1, 1)])
    for _ in range(2):
        found = b.region.reflection.lag().failed_ranges
        assert [(f.first, f.last, f.error) for f in found] == [(2, 3, ""), (4, 5, "harmless")]
        b.reopen()
    assert b"secretword" not in b.every_byte()
    assert b.findings() == []


# ---- everything that is to be done ---------------------------------------------------------------


def test_a_look_at_all_sessions_goes_on_where_it_ended(tmp_path: Path) -> None:
    options = RegionOptions(scan_records_max=4)
    with bench(tmp_path / "p0", options=options) as b:
        for number in range(10):
            b.client.say(f"{number}", "word", namespace=("deep", "er"))
        b.client.say("elsewhere", "word", namespace=("other",))
        for number in range(7):
            request = b.client.next_request()
            b.region.mark(("deep", "er"), f"{number}", 0, 0, "v1", *request)
        b.client.commit()
        pages, after, more = [], None, True
        while more:
            found, more, after = b.region.reflection.unreflected(
                ("deep",), None, after, 2, "v1", False, 0
            )
            pages.append([each.session for each in found])
        assert pages == [[], ["7"], ["8", "9"]]
        assert b.region.reflection.unreflected((), "nobody", None, 1, None, False, 0)[0] == []


def test_what_another_extractor_did_goes_on_being_flagged(b: Bench) -> None:
    """Marks of two extractors are one run of consolidated turns to everybody else."""
    say(b, "chat", 4)
    mark(b, "chat", 0, 1, "v1")
    mark(b, "chat", 2, 3, "v2")
    region: Region = b.reopen()
    assert region.info((), "chat").consolidated_through == 4
