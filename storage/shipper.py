"""Shipping beside an owner that serves: the machine of ``shipping_machine`` and one thread that
carries out what it asks.

The owner's loop calls ``look`` after every turn and when ``deadline`` has passed; the thread calls
``wake`` when there is an answer. Only the thread waits for the store, but for erasing: that is
confirmed, and done, before the owner goes on.

    owner's loop:  append, sync -> look -> questions ->|queue|-> thread: pread, put
                                   look <- answers  <-|deque|<-
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec

from neverforget.storage.errors import NeverforgetError, OwnerFenced, Unavailable
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.log import Log
from neverforget.storage.log_state import Ranges
from neverforget.storage.object_store import ObjectStore
from neverforget.storage.put_off import PutOff
from neverforget.storage.results import ReplicaStatus
from neverforget.storage.shipping_calls import Got, carry_out
from neverforget.storage.shipping_erasing import ShippedEraser
from neverforget.storage.shipping_events import (
    Action,
    Answer,
    Compare,
    Compared,
    Durable,
    Failed,
    Fetch,
    Fetched,
    Level,
    Look,
    Persisted,
    PersistEpoch,
    Put,
    Question,
    ReadHeader,
    ReadRun,
    RunRead,
    Serve,
    Shipped,
    Stop,
    Tick,
    Wanted,
)
from neverforget.storage.shipping_local import LocalCopy
from neverforget.storage.shipping_machine import Shipping
from neverforget.storage.shipping_mark import Mark, write_mark
from neverforget.storage.shipping_runs import read_run

log = logging.getLogger(__name__)
CONFIRM_S = 3.0  # an erasure waits so long for its record to be shipped
FINISH_S = 5.0  # an orderly end waits so long for the rest
MARK_EVERY_US = 1_000_000
_JOIN_S = 15.0  # longer than a call to the store may take


class Shipper:
    """``machine``: its start is carried through. ``local``: what it was compared with. ``log``: the
    open one. ``wake`` may be set: called on the thread when ``look`` has something to see.
    """

    def __init__(
        self,
        machine: Shipping,
        store: ObjectStore,
        prefix: str,
        local: LocalCopy,
        log: Log,
        *,
        fs: FileSystem,
        directory: Path,
        mark: Mark,
        log_id: int,
        persist: Callable[[int], int],
        now_us: Callable[[], int],
        wall_us: Callable[[], int] = lambda: 0,
    ) -> None:
        self.wake: Callable[[], None] = lambda: None
        self._machine = machine
        self._store = store
        self._prefix = prefix
        self._local = local
        self._log = log
        self._fs = fs
        self._directory = directory
        self._mark = mark
        self._marked_us: int | None = None
        self._caught_up = False
        self._erasing = PutOff(500_000, 60_000_000)
        self._log_id = log_id
        self._persist = persist
        self._now_us = now_us
        self._wall_us = wall_us
        self._lock = threading.RLock()  # the status is asked on other threads
        self._told = 0
        self._proof = (0, 0)
        self._wanted = 0
        self._answers: deque[Answer] = deque()
        self._news = threading.Event()
        self._work: queue.SimpleQueue[Question | Mark | None] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._run, name=f"ship-{directory.name}", daemon=True
        )
        self._thread.start()
        if machine.asked is not None:  # by the last answer of the start
            self._work.put(machine.asked)

    # ---- the owner's loop ------------------------------------------------------------------------

    def look(self, wanted: int = 0) -> None:
        """Take what was answered, go on with what is durable. ``wanted``: somebody waits until
        everything up to this position is shipped.
        """
        with self._lock:
            machine, now_us = self._machine, self._now_us()
            actions: list[Action] = []
            while self._answers:
                answer = self._answers.popleft()
                if isinstance(answer, Persisted):
                    self._log.epoch = answer.epoch
                actions += machine.handle(answer, now_us)
            durable = self._untold()
            if durable is not None:
                self._told = durable
                actions += machine.handle(Durable(durable), now_us)
            if wanted > self._wanted:
                self._wanted = wanted
                actions += machine.handle(Wanted(wanted), now_us)
            wake_at_us = machine.wake_at_us
            if wake_at_us is not None and wake_at_us <= now_us:
                actions += machine.handle(Tick(), now_us)
            for action in actions:
                if isinstance(action, Stop):
                    log.error("%s is not shipped any more: %s", self._directory, action.reason)
                elif not isinstance(action, Serve | Shipped):
                    self._work.put(action)
            self._note(now_us)

    def deadline(self) -> float | None:
        """When ``look`` must be called, in seconds of the owner's monotonic clock."""
        with self._lock:
            if self._answers or (self._untold() is not None and self.stopped is None):
                return 0.0
            erasing_us = self._erasing.at_us if self._can_erase else None
            times = (self._machine.wake_at_us, erasing_us)
            return min((at_us / 1e6 for at_us in times if at_us is not None), default=None)

    def _untold(self) -> int | None:
        """What is durable, where the machine does not know it yet and should."""
        durable = self._log.durable
        if durable <= self._told or (self._proof[1] == durable and self._told >= self._proof[0]):
            return None
        return durable

    def leave_out(self, start: int, stop: int) -> None:
        """Between these positions stands a record that says nothing but that those before it are
        durable: it is shipped with the next one, and not as an object of its own.
        """
        self._proof = start, stop

    @property
    def shipped(self) -> int:
        """What ends at or below this position is in objects that are confirmed."""
        return self._machine.shipped

    @property
    def stopped(self) -> Stop | None:
        """Not None: nothing may be acknowledged any more."""
        return self._machine.stopped

    @property
    def ships(self) -> bool:
        """This owner is fenced and has caught up: False only where it was told to write without
        the store, which does not answer."""
        return self._machine.level == Level.EVERYTHING

    def may_append(self) -> bool:
        """False: it is too far ahead of the objects; appends wait."""
        with self._lock:
            return self._machine.may_append(self._now_us())

    def wait(self, position: int, timeout_s: float, *, patient: bool = True) -> bool:
        """Go on until everything up to ``position`` is shipped. False: it is not, in time, or this
        owner had to stop, or, where it is not ``patient``, the store failed to answer once.
        """
        until = time.monotonic() + timeout_s
        self._proof = (0, 0)
        self.look(position)
        while self.shipped < position and self.stopped is None:
            left_s = until - time.monotonic()
            given_up = not patient and self._machine.failure is not None
            if left_s <= 0 or given_up or not self._thread.is_alive():
                return False
            self._news.wait(min(left_s, 0.1))
            self._news.clear()
            self.look()
        return self.shipped >= position

    # ---- erasing ---------------------------------------------------------------------------------

    def confirm(self) -> None:
        """Everything durable is shipped when this returns: what an ERASING record in it names is in
        objects that are confirmed. Raises OwnerFenced; Unavailable, then nothing may be zeroed yet,
        at once where the store is known not to answer: others wait for this owner."""
        if self.wait(self._log.durable, CONFIRM_S, patient=False):
            return
        if self.stopped is not None and self.stopped.why == "fenced":
            raise OwnerFenced(self.stopped.reason)
        raise self._erase_later("does not answer in time")

    def erase(self, ranges: Ranges) -> None:
        """Zero these bodies in the objects, durably. Raises Unavailable, Corrupt."""
        pairs = [(int(position), int(length)) for position, length in ranges]
        try:
            ShippedEraser(self._store, self._prefix, self._machine.number).erase(pairs)
        except Unavailable as error:
            raise self._erase_later(error.message) from error

    def put_erasures_off(self, *, longer: bool = False) -> None:
        """What is on record waits for the store to answer, or where it does, for a while."""
        self._erasing.wait(self._now_us(), longer=longer and self._machine.failure is None)

    def erasures_are_done(self) -> None:
        self._erasing.done()

    @property
    def erases_now(self) -> bool:
        """What was put off is to be tried again."""
        return self._erasing.is_due(self._now_us()) and self._can_erase

    @property
    def _can_erase(self) -> bool:
        return self.ships and self.stopped is None and self._machine.failure is None

    def _erase_later(self, why: str) -> Unavailable:
        self.put_erasures_off()
        return Unavailable(
            f"the replica at {self._store.name} {why}; the erasure is on record and is carried out "
            "by itself when the replica answers; repeated then, it reports what it erased",
            outcome="unknown",
        )

    # ---- how it stands ---------------------------------------------------------------------------

    def status(self) -> ReplicaStatus:
        with self._lock:
            machine = self._machine
            failure = machine.failure
            stopped = machine.stopped
            return ReplicaStatus(
                place=self._store.name,
                state="stopped" if stopped else machine.level.name.lower(),
                error=stopped.reason if stopped else None if failure is None else failure[1],
                objects=machine.number,
                shipped=machine.held,
                lag_bytes=max(machine.lag_bytes, 0),
                lag_us=machine.lag_us(self._now_us()),
            )

    # ---- the end ---------------------------------------------------------------------------------

    def finish(self, timeout_s: float = FINISH_S) -> None:
        """An orderly end: what is durable is shipped, if the store answers; nothing needs it."""
        if self.ships and self._machine.failure is None:
            self.wait(self._log.durable, timeout_s, patient=False)
        with self._lock:
            self._note(None)

    def close(self) -> None:
        """The thread ends, with what it is at."""
        self._work.put(None)
        self._thread.join(_JOIN_S)
        if self._thread.is_alive():
            log.error("%s hangs at %s", self._thread.name, self._store.name)

    # ---- the thread ------------------------------------------------------------------------------

    def _note(self, now_us: int | None) -> None:
        """Have the mark written: at once, later once a second. ``now_us`` None: at the end."""
        machine = self._machine
        # Before it has caught up, what stands here need not be what the objects hold.
        self._caught_up = self._caught_up or self.ships
        if not self._caught_up or (machine.shipped, machine.number) == self._mark_pair:
            return
        marked_us = self._marked_us
        if now_us is not None and marked_us is not None and now_us - marked_us < MARK_EVERY_US:
            return
        self._marked_us = self._now_us()
        self._mark = msgspec.structs.replace(
            self._mark, position=machine.shipped, number=machine.number
        )
        self._work.put(self._mark)

    @property
    def _mark_pair(self) -> tuple[int, int]:
        return self._mark.position, self._mark.number

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            if isinstance(work, Mark):
                self._write(work)
                continue
            try:
                answer = self._carry_out(work)
            except (NeverforgetError, OSError) as error:  # of the local log: shown, and tried again
                log.error("what is to be shipped cannot be read: %s", error)
                answer = Failed(work.call, f"the local log: {error}")
            except Exception as error:  # a mistake of ours; without this thread nothing is shipped
                log.exception("shipping failed")
                answer = Failed(work.call, f"internal error: {error!r}")
            self._answers.append(answer)
            self._news.set()
            self.wake()

    def _carry_out(self, question: Question) -> Answer:
        match question:
            case ReadRun(call, start, limit, bytes_max):
                segments = self._log.segments()
                run = read_run(self._fs, self._log_id, segments, start, limit, bytes_max)
                return RunRead(call, run, self._wall_us())
            case PersistEpoch(call, at_least):
                return Persisted(call, self._persist(at_least), self._wall_us())
            case Compare(call, header, position):
                return Compared(call, self._local.holds(header, position))
            case Look() | ReadHeader() | Put() | Fetch():
                answer = carry_out(self._store, self._prefix, question)
                if not isinstance(answer, Got):
                    return answer
                assert isinstance(question, Fetch)
                same = self._local.same_until(answer.header, answer.payload, question.position)
                return Fetched(answer.call, answer.header, *same)
        raise AssertionError(f"{question} is not of an owner that serves")

    def _write(self, mark: Mark) -> None:
        try:
            write_mark(self._fs, self._directory, mark)
        except (NeverforgetError, OSError) as error:  # the next start has more to look at
            log.warning("how far %s is shipped cannot be kept: %s", self._directory, error)
