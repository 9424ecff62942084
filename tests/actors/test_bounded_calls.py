"""Calls of foreign code in threads: what is kept of those that hang, and of those never begun."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from neverforget.actors import bounded_calls
from neverforget.actors.bounded_calls import BoundedCalls
from neverforget.storage.errors import Unavailable


def test_a_thread_that_cannot_be_started_is_not_waited_for(monkeypatch: Any) -> None:
    """It stayed among the calls under way: joining it at the end of the process raised, and the
    others were not waited for.
    """

    def no_more(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    calls = BoundedCalls("it", 1.0, "", one_at_a_time=False)
    before = set(bounded_calls._under_way)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_more)
        with pytest.raises(RuntimeError, match="new thread"):
            calls(lambda: 1)
    assert bounded_calls._under_way == before
    assert calls(lambda: 1) == 1


def test_the_end_of_a_process_passes_over_a_call_that_is_about_to_begin(monkeypatch: Any) -> None:
    monkeypatch.setattr(bounded_calls, "_exiting", threading.Event())
    monkeypatch.setattr(bounded_calls, "_under_way", {threading.Thread()})
    bounded_calls._wait_for_calls()
    assert bounded_calls._exiting.is_set()


def test_the_end_of_a_process_waits_for_compiled_code_and_lets_none_begin(
    monkeypatch: Any,
) -> None:
    """A busy machine took longer for a group of texts than a process that ended waited: SIGSEGV."""
    monkeypatch.setattr(bounded_calls, "_exiting", threading.Event())
    monkeypatch.setattr(bounded_calls, "EXIT_S", 0.0)
    begun, done = threading.Event(), []

    def compute() -> None:
        with bounded_calls.compiled_code():
            begun.set()
            bounded_calls._exiting.wait()
            done.append(1)

    thread = threading.Thread(target=compute)
    thread.start()
    begun.wait()
    bounded_calls._wait_for_calls()
    assert done == [1] and not bounded_calls._in_compiled_code
    with pytest.raises(Unavailable, match="the process ends"), bounded_calls.compiled_code():
        pytest.fail("begun in a process that ends")
    thread.join()


def test_while_a_call_hangs_no_other_is_begun() -> None:
    calls = BoundedCalls("it", 0.01, "wait", one_at_a_time=False)
    let_go = threading.Event()
    with pytest.raises(Unavailable, match=r"^it has not answered within 0.01 s; wait$"):
        calls(let_go.wait)
    with pytest.raises(Unavailable):
        calls(lambda: pytest.fail("begun beside one that hangs"))
    let_go.set()
    for thread in list(calls._hanging):
        thread.join()
    calls._deadline_s = 60.0
    assert calls(lambda: 1) == 1
    assert not calls._hanging


def test_a_call_that_waited_for_its_turn_has_all_its_time(monkeypatch: Any) -> None:
    """It had what was left of the time that it had waited in, and then counted as hanging."""
    calls = BoundedCalls("it", 60.0, "wait", one_at_a_time=True)
    now, waited = [0.0], []
    join = threading.Thread.join

    class LastMoment:
        def acquire(self, timeout: float) -> bool:
            now[0] += timeout
            return True

        def release(self) -> None:
            pass

    def joined(thread: threading.Thread, timeout: float) -> None:
        waited.append(timeout)
        join(thread, 60.0)

    calls._turn = LastMoment()  # type: ignore[assignment]
    with monkeypatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: now[0])
        patch.setattr(threading.Thread, "join", joined)
        assert calls(lambda: 1) == 1
    assert waited == [60.0]
