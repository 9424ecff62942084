"""A few daemon threads for what must not be done in an owner's loop.

Unlike those of ``concurrent.futures`` they are not waited for when the process ends: one of them
may hang in somebody else's code.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)
Work = Callable[[], None]


class WorkerThreads:
    """At most ``count`` threads, started when there is work for them. What work raises is logged:
    it has to tell whom it concerns by itself.
    """

    def __init__(self, name: str, count: int) -> None:
        self._name, self._count = name, count
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._undone = 0
        self._closed = False

    def __len__(self) -> int:
        """How much is waiting or being done."""
        return self._undone

    def submit(self, work: Work) -> bool:
        """False: closed, nothing is done any more."""
        with self._lock:
            if self._closed:
                return False
            self._undone += 1
            if len(self._threads) < min(self._count, self._undone):
                self._start()
            self._work.put(work)
        return True

    def close(self, wait_s: float) -> bool:
        """What waits is still done, as far as time allows. False: some thread is still busy."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for _ in self._threads:
                    self._work.put(None)
        until = time.monotonic() + wait_s
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _start(self) -> None:
        name = f"{self._name}-{len(self._threads)}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except BaseException:  # also what a library in Rust panics with: the thread goes on
                log.exception("%s: what was to be done has failed", self._name)
            finally:
                with self._lock:
                    self._undone -= 1


def joined(thread: threading.Thread, wait_s: float) -> bool:
    """Whether it has ended, if need be within ``wait_s``; where it has not, that is logged. One
    that is not started has nothing to end, and a thread does not wait for itself.
    """
    if thread.is_alive() and thread is not threading.current_thread():
        thread.join(wait_s)
        if thread.is_alive():
            log.error("the thread %s hangs, and may still read what closes", thread.name)
    return not thread.is_alive()
