"""What one process may have under way through Ray."""

from __future__ import annotations

import queue
import threading

from neverforget.actors.under_way import UnderWay

PATIENCE_S = 60.0


def nobody() -> None:
    raise AssertionError("its turn had come already")


def test_calls_and_bytes_are_bounded_and_one_alone_may_have_any_size() -> None:
    way = UnderWay(calls_max=3, bytes_max=100)
    assert way.begin(1000, nobody) is None
    waiter = way.begin(1, nobody)
    assert waiter is not None
    way.give_up(waiter)
    way.give_up(waiter)
    way.end(1000)
    assert [way.begin(size, nobody) for size in (50, 40, 10)] == [None] * 3
    assert way.begin(0, nobody) is not None, "three calls"


def test_who_waits_has_his_turn_in_the_order_of_coming() -> None:
    """A small one does not overtake a large one for ever."""
    way, woken = UnderWay(calls_max=10, bytes_max=100), queue.Queue[str]()
    assert way.begin(60, nobody) is None
    waiters = [
        way.begin(size, lambda name=name: woken.put(name))  # type: ignore[misc]
        for name, size in (("large", 50), ("small", 1), ("next", 50))
    ]
    assert all(waiters) and woken.empty()
    way.end(60)
    assert [woken.get_nowait(), woken.get_nowait()] == ["large", "small"] and woken.empty()
    assert waiters[0] is not None
    way.give_up(waiters[0])  # its caller has gone when its turn came
    assert woken.get_nowait() == "next"


def test_a_thread_waits_for_its_turn_and_not_for_ever() -> None:
    way = UnderWay(calls_max=1)
    assert way.begin_waiting(1, PATIENCE_S)
    assert not way.begin_waiting(1, 0.01)
    came: list[bool] = []
    thread = threading.Thread(target=lambda: came.append(way.begin_waiting(1, PATIENCE_S)))
    thread.start()
    way.end(1)
    thread.join(PATIENCE_S)
    assert came == [True]
