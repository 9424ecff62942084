"""Followers that wait for a turn."""

from __future__ import annotations

from dataclasses import dataclass, field

from neverforget.actors.messages import AnyReply, AnyRequest, DoneReply, Wait
from neverforget.actors.parked_waits import ParkedWaits
from neverforget.actors.ports import Pending

A, B = ((), "a"), ((), "b")


@dataclass(eq=False)
class Follower:
    request: AnyRequest
    alive: bool = True
    replies: list[AnyReply] = field(default_factory=list)

    def reply(self, message: AnyReply) -> None:
        self.replies.append(message)


def park(waits: ParkedWaits, session: str, timeout_ms: int, now: float = 0.0) -> Follower:
    request = Wait(1, (), session, 0, timeout_ms)
    follower = Follower(request)
    assert waits.park(follower, request, now)
    return follower


def done(pending: Pending) -> AnyReply:
    return DoneReply(pending.request.id)


def test_news_reach_the_followers_of_that_session_only() -> None:
    waits = ParkedWaits(10)
    a, b = park(waits, "a", 1000), park(waits, "b", 1000)
    waits.news([A], done)
    assert (a.replies, b.replies) == ([DoneReply(1)], [])
    assert len(waits) == 1


def test_a_follower_whose_turn_has_not_come_goes_on_waiting() -> None:
    waits = ParkedWaits(10)
    a = park(waits, "a", 1000)
    waits.news([A], lambda pending: None)
    assert (a.replies, len(waits)) == ([], 1)
    waits.news([A], done)
    assert a.replies == [DoneReply(1)]


def test_time_runs_out_for_each_on_its_own() -> None:
    waits = ParkedWaits(10)
    late, soon = park(waits, "a", 2000), park(waits, "a", 1000)
    assert waits.deadline() == 1.0
    waits.expire(1.0, done)
    assert (late.replies, soon.replies) == ([], [DoneReply(1)])
    assert waits.deadline() == 2.0
    waits.expire(5.0, done)
    assert late.replies == [DoneReply(1)]
    assert waits.deadline() is None


def test_nobody_is_answered_twice() -> None:
    waits = ParkedWaits(10)
    a = park(waits, "a", 1000)
    waits.news([A], done)
    waits.expire(2.0, done)
    waits.close(done)
    assert a.replies == [DoneReply(1)]


def test_the_bound_counts_those_who_wait() -> None:
    waits = ParkedWaits(2)
    park(waits, "a", 1000)
    park(waits, "b", 1000)
    refused = Follower(Wait(1, (), "a", 0, 1000))
    assert not waits.park(refused, Wait(1, (), "a", 0, 1000), 0.0)
    waits.news([A], done)
    park(waits, "a", 1000)


def test_a_follower_whose_client_is_gone_leaves_with_the_next_news() -> None:
    waits = ParkedWaits(10)
    a = park(waits, "a", 1000)
    a.alive = False
    waits.news([A], done)
    assert (a.replies, len(waits)) == ([], 0)


def test_a_follower_that_comes_back_after_each_turn_leaves_nothing_behind() -> None:
    """A busy session with a long time limit once kept every answered request until its time."""
    waits = ParkedWaits(10)
    for _ in range(1000):
        park(waits, "a", 3_600_000)
        waits.news([A, B], done)
    assert len(waits) == 0
    assert len(waits._by_time) < 100
