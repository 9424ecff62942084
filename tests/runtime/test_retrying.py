"""When a call is asked again, when it is given up, and what is said of its outcome: the policy by
itself, over no channel. See ``test_lost_connections.py`` for what channels make of it.
"""

from __future__ import annotations

import math
import threading

import pytest

import neverforget as nf
from neverforget.actors.messages import Append, Failure, Tail
from neverforget.actors.ports import failure
from neverforget.runtime.operation import RequestIds
from neverforget.runtime.retrying import REACH_S_MAX, Retrying


def append_request(ids: RequestIds) -> Append:
    return Append(0, (), "s", None, *ids.next(), 1, None, b"records")


def test_pauses_grow_from_nothing_to_a_bound() -> None:
    tries = Retrying(Tail(0, (), "s", None, 1, None, None, False), math.inf, lambda: 0.0)
    pauses = [tries.lost(OSError(), sent=True) for _ in range(2000)]
    assert pauses[0] == 0.0 and 0 < pauses[1] < 0.002
    assert max(pauses) <= 0.15 and min(pauses[20:]) >= 0.05


def test_one_doubtful_try_makes_the_outcome_unknown() -> None:
    now = [0.0]
    tries = Retrying(append_request(RequestIds()), 1.0, lambda: now[0])
    tries.lost(OSError(), sent=True)
    now[0] = 2.0
    with pytest.raises(nf.Unavailable) as caught:
        tries.lost(OSError(), sent=False)
    assert caught.value.outcome == "unknown"


def test_an_owner_that_refuses_for_a_minute_is_not_asked_without_end() -> None:
    """Erasing may take as long as it takes, but not of an owner that never begins it."""
    now = [0.0]
    tries = Retrying(append_request(RequestIds()), math.inf, lambda: now[0])
    refusal = failure(0, nf.Unavailable("recovering", outcome="not_applied"))
    for _ in range(100):
        tries.refused(refusal)
        now[0] += REACH_S_MAX / 101
    tries.lost(OSError(), sent=True)  # it has begun, and died
    now[0] += REACH_S_MAX
    tries.refused(refusal)
    now[0] += REACH_S_MAX
    with pytest.raises(nf.Unavailable, match="recovering"):
        tries.refused(refusal)


def test_what_an_owner_has_waited_for_itself_is_not_asked_again() -> None:
    """A recall by vectors alone, while the embedder fails: it went on until the deadline."""
    tries = Retrying(append_request(RequestIds()), math.inf, lambda: 0.0)
    with pytest.raises(nf.Unavailable, match="no line") as caught:
        tries.refused(failure(0, nf.Unavailable("no line")))
    assert caught.value.outcome == "not_applied"


def test_request_ids_are_never_given_twice() -> None:
    ids = RequestIds()
    drawn: list[tuple[int, int]] = []
    threads = [
        threading.Thread(target=lambda: drawn.extend(ids.next() for _ in range(5000)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == 20_000
    assert ids.next()[0] != RequestIds().next()[0]
    with pytest.raises(TypeError):
        import copy

        copy.copy(ids)


def test_overload_after_a_lost_try_says_that_the_outcome_is_unknown() -> None:
    """The first try was lost with its answer, the next ones were refused: "Overloaded" came out,
    which is repeated without a thought, and what the first try had done was done twice."""
    times = iter([0.0, 10.0])
    tries = Retrying(append_request(RequestIds()), 10.0, lambda: next(times))
    tries.lost(ConnectionError("gone"), sent=True)
    with pytest.raises(nf.Unavailable, match="full") as caught:
        tries.refused(Failure(0, "overloaded", "full", {}))
    assert caught.value.outcome == "unknown"


def test_an_owner_that_does_not_come_back_is_not_waited_for_without_end() -> None:
    now = 100.0
    tries = Retrying(append_request(RequestIds()), math.inf, lambda: now)
    lost, waited = ConnectionRefusedError("nobody"), 0.0
    while waited < REACH_S_MAX - 1:
        tries.lost(lost, sent=False)
        waited += 0.5
        now += 0.5
    tries.lost(lost, sent=True)  # it was there in between
    now += 2 * REACH_S_MAX
    tries.lost(lost, sent=False)
    now += REACH_S_MAX
    with pytest.raises(nf.Unavailable):
        tries.lost(lost, sent=False)
