"""A call of somebody else's code that may hang: in a thread of its own, waited for a bounded time.

A thread cannot be ended from outside. So one that hangs is left behind, and while it hangs no other
is started: each call says at once that there is no answer. When it comes back after all, its answer
is dropped and calls go through again.

A process that ends waits a moment for calls under way, and longer for those in compiled code that
ends by itself: a thread that comes back from there into an interpreter that is gone takes the
process down with SIGABRT or SIGSEGV.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from neverforget.storage.errors import Unavailable

EXIT_S = 5.0  # for which a process that ends waits for calls under way
COMPILED_EXIT_S = 60.0  # and for those in compiled code, which take seconds on a busy machine

_under_way: set[threading.Thread] = set()
_in_compiled_code: set[threading.Thread] = set()
_exiting = threading.Event()


@contextmanager
def compiled_code() -> Iterator[None]:
    """Around what computes for seconds at most and ends by itself. Unavailable when the process
    ends already.
    """
    thread = threading.current_thread()
    _in_compiled_code.add(thread)
    try:
        if _exiting.is_set():  # after the add: who ends the process sees either
            raise Unavailable("the process ends", outcome="not_applied")
        yield
    finally:
        _in_compiled_code.discard(thread)


class BoundedCalls:
    """``who`` is called, and ``remedy`` said of a call that hangs. ``one_at_a_time``: calls of
    several threads wait for each other, each at most ``deadline_s`` before its own begins.
    """

    def __init__(self, who: str, deadline_s: float, remedy: str, *, one_at_a_time: bool) -> None:
        self._who, self._deadline_s, self._remedy = who, deadline_s, remedy
        self._turn = threading.Lock() if one_at_a_time else None
        self._hanging: set[threading.Thread] = set()

    def __call__(self, function: Callable[[], Any]) -> Any:
        """What ``function`` returns or raises; Unavailable when it does neither in time, which is
        counted from when its turn has come.
        """
        self._refuse_while_hanging()
        if self._turn is None:
            return self._run(function)
        if not self._turn.acquire(timeout=self._deadline_s):
            raise self._silent()
        try:
            self._refuse_while_hanging()  # the call before this one may just have been given up
            return self._run(function)
        finally:
            self._turn.release()

    @property
    def hanging(self) -> bool:
        """Whether a call that was given up has not come back yet."""
        for thread in list(self._hanging):  # other threads may add to it meanwhile
            if not thread.is_alive():
                self._hanging.discard(thread)
        return bool(self._hanging)

    def _run(self, function: Callable[[], Any]) -> Any:
        outcome: list[tuple[bool, Any]] = []

        def run() -> None:
            try:
                outcome.append((True, function()))
            except BaseException as error:  # raised again in the thread that asked
                outcome.append((False, error))
            finally:
                _under_way.discard(thread)

        thread = threading.Thread(target=run, name="neverforget-bounded", daemon=True)
        _under_way.add(thread)
        try:
            thread.start()
        except BaseException:  # the process may have no more threads
            _under_way.discard(thread)
            raise
        try:
            thread.join(self._deadline_s)
        finally:  # also when the wait was interrupted
            if thread.is_alive():
                self._hanging.add(thread)
        if not outcome:
            raise self._silent()
        done, value = outcome[0]
        if done:
            return value
        raise value

    def _refuse_while_hanging(self) -> None:
        if self.hanging:
            raise self._silent()

    def _silent(self) -> Unavailable:
        return Unavailable(
            f"{self._who} has not answered within {self._deadline_s:g} s; {self._remedy}",
            outcome="not_applied",
        )


def _wait_for_calls() -> None:
    _exiting.set()
    until = time.monotonic() + EXIT_S
    for thread in list(_under_way):
        if thread.is_alive():  # one that is not started yet cannot be joined
            thread.join(max(0.0, until - time.monotonic()))
    until = time.monotonic() + COMPILED_EXIT_S
    while _in_compiled_code and time.monotonic() < until:
        time.sleep(0.01)


atexit.register(_wait_for_calls)
os.register_at_fork(after_in_child=_under_way.clear)  # the threads are the parent's
os.register_at_fork(after_in_child=_in_compiled_code.clear)
