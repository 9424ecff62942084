"""When a node host, or the keeper, leaves by itself: in order, and within a time.

* Its process gets SIGTERM: Ray starts the next one.
* Its node is being drained (``ray drain-node``, SIGTERM to ``ray start --block``, a machine that is
  taken back). Ray starts nobody there any more, and ends the node as soon as nothing runs on it.
* Its cluster has ended: its raylet is gone, or the head answers as another cluster's.

A head that does not answer is no reason: whoever is connected goes on until Ray itself gives up.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from neverforget.actors.process_end import when_ended
from neverforget.storage.directory_lock import ProcessId, start_time
from neverforget.storage.errors import Unavailable

log = logging.getLogger(__name__)
LOOK_S = 0.5
TERMINATED_S = 25.0  # Kubernetes, and ``ray start --block``, kill 30 s after SIGTERM
ENDED_S = 10.0  # without a cluster; Ray ends the process about a second later, if it can
DRAINED_S_MIN, DRAINED_S_MAX = 2.0, 60.0


class Leave(NamedTuple):
    """Why, and how many seconds there are for it."""

    why: str
    within_s: float


def drained(until: float, now: float) -> Leave:
    """``until``: when the node must be empty, seconds since 1970, 0: no limit."""
    left_s = DRAINED_S_MAX if until == 0.0 else until - now - 1.0
    return Leave("its node is being drained", min(DRAINED_S_MAX, max(DRAINED_S_MIN, left_s)))


class Leaving:
    """Calls ``leave`` once, from whatever thread, and ends the process if that is not done in time;
    ``done`` ends it in any case. ``reason``: set from then on. ``end`` ends a process."""

    def __init__(self, leave: Callable[[], None], end: Callable[[int], object] = os._exit) -> None:
        self._leave = leave
        self._end = end
        self.reason: Leave | None = None
        self._once = threading.Lock()

    def watch(self) -> None:
        """From now on. For the thread that a process begins with."""
        raylet = os.getppid()
        when_ended(
            ProcessId(raylet, start_time(raylet)),
            lambda: self.leave(Leave("its raylet has ended", ENDED_S)),
        )
        if threading.current_thread() is threading.main_thread():
            signal.signal(
                signal.SIGTERM, lambda *_: self.leave(Leave("told to by SIGTERM", TERMINATED_S))
            )
        threading.Thread(target=self._look, name="leaving", daemon=True).start()

    def leave(self, reason: Leave) -> None:
        if not self._once.acquire(blocking=False):
            return
        self.reason = reason
        late = threading.Timer(reason.within_s, self._too_late)
        late.daemon = True
        late.start()
        log.warning("leaving within %.0f s: %s", reason.within_s, reason.why)
        self._leave()

    def done(self) -> None:
        """Everything is given back: end the process, for Ray to start the next where it may."""
        logging.shutdown()
        self._end(1)

    def _too_late(self) -> None:
        log.error("not everything has ended in time; it will be recovered")
        self.done()

    def _look(self) -> None:
        pause = threading.Event()
        while self.reason is None:
            try:
                reason = must_leave()
            except Exception:
                log.exception("whether to leave cannot be told")
            else:
                if reason is not None:
                    self.leave(reason)
            pause.wait(LOOK_S)


def must_leave() -> Leave | None:
    """Whether what runs on this node, in this cluster, should end."""
    from neverforget.actors import ray_link

    try:
        until = ray_link.draining().get(ray_link.node_id())
    except Unavailable:
        if ray_link.trouble() == "cluster ended":
            return Leave("its cluster has ended", ENDED_S)
        return None
    return None if until is None else drained(until, time.time())
