"""What one process has under way to one owner through Ray.

Ray keeps a call until it is answered, also one that nobody waits for any more, and an owner carries
it out. Calls to an owner that is slow or away would pile up, each try of each caller again and
again, until every answer comes too late. So there is a bound; whoever comes next waits his turn,
and nothing of his has been sent yet. What is given up counts until Ray has let it go. Thread-safe,
for threads and event loops alike; no Ray here.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

CALLS_MAX = 64  # enough to keep an owner busy
BYTES_MAX = 8 * 1024 * 1024


class Waiter:
    """``wake`` is called, on any thread, when its turn has come."""

    def __init__(self, n_bytes: int, wake: Callable[[], object]) -> None:
        self.n_bytes = n_bytes
        self.wake = wake
        self.admitted = self.gone = False


class UnderWay:
    """Whoever was let in says ``end``. One call alone may go whatever its size."""

    def __init__(self, calls_max: int = CALLS_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._calls_max, self._bytes_max = calls_max, bytes_max
        self._calls = self._bytes = 0
        self._waiting: deque[Waiter] = deque()
        self._lock = threading.Lock()

    def begin(self, n_bytes: int, wake: Callable[[], object]) -> Waiter | None:
        """None: go on. Otherwise a place in the line."""
        with self._lock:
            waiter = Waiter(n_bytes, wake)
            self._waiting.append(waiter)
            self._admit()
            return None if waiter.admitted else waiter

    def begin_waiting(self, n_bytes: int, timeout_s: float) -> bool:
        """The same for a thread. False: it did not come to its turn in time."""
        turn = threading.Event()
        waiter = self.begin(n_bytes, turn.set)
        if waiter is None:
            return True
        came = False
        try:
            came = turn.wait(timeout_s)
        finally:  # also when the wait was interrupted
            if not came:
                self.give_up(waiter)
        return came

    def give_up(self, waiter: Waiter) -> None:
        """It waits no more, whether or not its turn has come meanwhile. Idempotent."""
        with self._room():
            if waiter.gone:
                return
            waiter.gone = True
            if waiter.admitted:
                self._leave(waiter.n_bytes)
            else:
                self._waiting.remove(waiter)

    def end(self, n_bytes: int) -> None:
        with self._room():
            self._leave(n_bytes)

    def open(self) -> None:
        """From now on nobody waits: the calls that are under way go to somebody who is asked no
        more."""
        with self._room():
            self._calls_max = self._bytes_max = sys.maxsize

    @contextmanager
    def _room(self) -> Iterator[None]:
        """What is done in it may make room: who comes to his turn then is woken, without the
        lock."""
        with self._lock:
            yield
            woken = self._admit()
        for each in woken:
            each.wake()

    # ---- below the lock --------------------------------------------------------------------------

    def _leave(self, n_bytes: int) -> None:
        self._calls, self._bytes = self._calls - 1, self._bytes - n_bytes

    def _admit(self) -> list[Waiter]:
        """In the order in which they came."""
        found = []
        while self._waiting and self._calls < self._calls_max:
            waiter = self._waiting[0]
            if self._calls and self._bytes + waiter.n_bytes > self._bytes_max:
                break
            self._waiting.popleft()
            self._calls, self._bytes = self._calls + 1, self._bytes + waiter.n_bytes
            waiter.admitted = True
            found.append(waiter)
        return found
