"""Calls to owners that live in this very process: no Ray, no socket.

The caller's own thread runs the owner's loop for one turn. Requests of threads that wait meanwhile
are taken together in the next turn, so threads share a group commit here too. A ticker thread does
what time makes due: syncs, no-ops, and answers to those who wait for new turns.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from neverforget.actors.messages import AnyReply, AnyRequest, Failure, Request
from neverforget.actors.places import LONGTERM, REFLECTOR
from neverforget.actors.ports import Pending
from neverforget.runtime.channel import closed
from neverforget.runtime.retrying import Retrying
from neverforget.storage.errors import Unavailable

if TYPE_CHECKING:
    from neverforget.runtime.inline_reflection import InlineReflection

log = logging.getLogger(__name__)
_GIVE_WAY_S = 0.001
_PAUSE_S = 0.1  # after something that was due has failed


class Owner(Protocol):
    """What a plain ``Partition`` offers; see ``actors/ports.py``. All but ``bind`` are called by
    one thread at a time.
    """

    def bind(self, wake: Callable[[], None]) -> None: ...

    def run(self, pendings: Sequence[Pending]) -> None: ...

    def tick(self) -> None: ...

    def deadline(self) -> float | None: ...


class Queued(Pending, Protocol):
    """A request in the queue of its owner; ``answer`` is None until it is replied to."""

    @property
    def answer(self) -> AnyReply | None: ...


class _Waiting:
    """One request and its answer. Any thread may reply; one waits."""

    __slots__ = ("_answered", "alive", "answer", "request")

    def __init__(self, request: AnyRequest) -> None:
        self.request = request
        self.answer: AnyReply | None = None
        self.alive = True
        self._answered: threading.Event | None = None

    def reply(self, message: AnyReply) -> None:
        if self.answer is None:
            self.answer = message
            if self._answered is not None:
                self._answered.set()

    def wait(self, deadline: float) -> AnyReply | None:
        """The answer; None when there is none at ``deadline``."""
        # First the event, then the look: a reply in between is seen either way.
        self._answered = threading.Event()
        left_s = deadline - time.monotonic()
        if self.answer is None and not self._answered.wait(min(left_s, threading.TIMEOUT_MAX)):
            self.alive = False
        return self.answer


class _Turns:
    """Owners that take turns under one lock, and the thread that does what time makes due in them.
    ``lock`` is held whenever one of them runs. The thread starts with the first call that leaves
    something to be done.
    """

    def __init__(self, owners: Sequence[Owner], lock: threading.RLock) -> None:
        self._owners = owners
        self._lock = lock
        self._queues: list[deque[Queued]] = [deque() for _ in owners]
        self._closed = False
        self._woken = threading.Event()
        self._due: float | None = None  # when the ticker will look again
        self._ticker: threading.Thread | None = None
        for owner in owners:
            owner.bind(self._woken.set)

    def __len__(self) -> int:
        return len(self._owners)

    def turn(self, number: int, waiting: Queued) -> None:
        owner, queue = self._owners[number], self._queues[number]
        queue.append(waiting)
        with self._lock:
            if self._closed:
                raise closed()
            if waiting.answer is None and queue:
                owner.run([queue.popleft() for _ in range(len(queue))])
            due = owner.deadline()
            if due is not None and (self._due is None or due < self._due):
                self._due = due
                self._woken.set()
                self.start()

    def start(self) -> None:
        """Start the ticker, unless it runs."""
        with self._lock:
            if self._ticker is None:
                self._ticker = threading.Thread(
                    target=self._tick, name="neverforget-ticker", daemon=True
                )
                self._ticker.start()

    def _tick(self) -> None:
        while not self._closed:
            with self._lock:
                now = time.monotonic()
                failed = False
                for owner in self._owners:
                    due = owner.deadline()
                    if due is not None and due <= now and not self._closed:
                        try:
                            owner.tick()
                        except Exception:  # without this thread nobody would ever recover
                            log.exception("what was due in an owner failed; it is tried again")
                            failed = True
                dues = [due for owner in self._owners if (due := owner.deadline()) is not None]
                self._due = min(dues, default=None)
                timeout_s = None if self._due is None else max(0.0, self._due - time.monotonic())
                if timeout_s is not None and any(self._queues):
                    timeout_s = max(timeout_s, _GIVE_WAY_S)  # a lock is not taken in turns
            if failed:
                timeout_s = _PAUSE_S if timeout_s is None else max(timeout_s, _PAUSE_S)
            self._woken.wait(timeout_s)
            self._woken.clear()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            ticker = self._ticker
        self._woken.set()
        if ticker is not None and ticker is not threading.current_thread():
            ticker.join()


class InlineChannel:
    """``lock`` is held whenever a partition runs. ``longterm`` gives the long-term owner, which is
    made when it is first asked; it has a lock and a ticker of its own, so that what takes long
    there holds no conversation up. ``reflection`` gives the reflector in the same way.
    """

    def __init__(
        self,
        owners: Sequence[Owner],
        lock: threading.RLock,
        longterm: Callable[[], tuple[Owner, threading.RLock]] | None = None,
        reflection: InlineReflection | None = None,
    ) -> None:
        self._partitions = _Turns(owners, lock)
        self._make: dict[int, Callable[[], tuple[Owner, threading.RLock]]] = {}
        self._late: dict[int, _Turns] = {}  # of those, who was asked
        self._making = threading.Lock()
        self._pid = os.getpid()
        self._closed = False
        self._reflection = reflection
        if longterm is not None:
            self._make[LONGTERM] = longterm
        if reflection is not None:
            self._make[REFLECTOR] = reflection.service
            reflection.attach(self)

    def call(self, partition: int, request: Request, deadline: float) -> AnyReply:
        tries = Retrying(request, deadline)
        while True:
            waiting = _Waiting(cast("AnyRequest", request))
            self.turn(partition, waiting)
            reply = waiting.answer or waiting.wait(deadline)
            if reply is None:
                # The owner has taken it: it may wait there until a recovery is over, and be done.
                raise tries.too_late("no answer within the deadline", sent=True)
            if not isinstance(reply, Failure):
                return reply
            time.sleep(tries.refused(reply))

    def turn(self, partition: int, waiting: Queued) -> None:
        """Queue ``waiting`` and have the owner take what is queued, in this thread or another's.
        When this returns the owner has it."""
        self._check_process()
        if 0 <= partition < len(self._partitions):
            self._partitions.turn(partition, waiting)
        elif partition in self._make:
            (self._late.get(partition) or self._begin(partition)).turn(0, waiting)
        else:
            raise Unavailable(f"an inline store has no owner {partition}", outcome="not_applied")

    def _begin(self, place: int) -> _Turns:
        with self._making:
            if self._closed:
                raise closed()
            if place not in self._late:
                owner, lock = self._make[place]()
                turns = self._late[place] = _Turns([owner], lock)
                turns.start()  # its other threads have news without being asked
            return self._late[place]

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise Unavailable(
                f"this inline store belongs to process {self._pid}, of which this one is a fork; "
                "open the store here without inline=True, after its owner has closed it",
                outcome="not_applied",
            )

    def close(self) -> None:
        """Stop the reflector and the tickers. Whoever built the owners closes them afterwards."""
        if self._pid != os.getpid():
            return  # the locks and the threads are the parent's
        if self._reflection is not None:
            self._reflection.close()  # while there is somebody to tell what it has done
        with self._making:
            self._closed = True
            late = list(self._late.values())
        for turns in (*late, self._partitions):
            turns.close()
