"""The reflector: it makes memories of conversations, behind the back of whoever has them.

It owns nothing. What is to be done it asks the partitions, which know it from their logs; facts it
stores with the long-term owner; and that it is done it tells the partitions. So it may die at any
point, and may be there twice for a moment. ``reflector_window`` says why nothing is done twice.

A few threads work on windows, each with an extractor of its own; ``reflector_schedule`` holds what
they share. None of them is waited for when it is closed, but for a moment: an extractor may hang.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from neverforget.actors.messages import (
    PROTOCOL_VERSION,
    AnyReply,
    AnyRequest,
    DoneReply,
    Settle,
    Status,
    Welcome,
)
from neverforget.actors.metrics import Meter
from neverforget.actors.places import REFLECTOR
from neverforget.actors.ports import Owners, Pending, failure, internal_error
from neverforget.actors.reflector_calls import Calls, RequestSource
from neverforget.actors.reflector_extracting import Make
from neverforget.actors.reflector_messages import Reflect, ReflectorStatusReply, WakeReflector
from neverforget.actors.reflector_room import Room
from neverforget.actors.reflector_schedule import Schedule
from neverforget.actors.reflector_spec import ReflectorSpec
from neverforget.actors.reflector_subjects import Subjects
from neverforget.actors.reflector_work import Worker
from neverforget.actors.request_ids import RequestIds
from neverforget.storage.clock import Clock, SystemClock
from neverforget.storage.errors import InvalidArgument, NeverforgetError, Unavailable

log = logging.getLogger(__name__)
END_S: Final = 2.0  # for which ``close`` waits for windows under way


def nothing() -> None:
    pass


class Reflector:
    """A ``Service`` and a client of the owners. ``make``: see ``Extracting``. ``end``: called when
    so many extractions hang that only a new process helps; inline there is none.
    """

    def __init__(
        self,
        spec: ReflectorSpec,
        owners: Owners,
        make: Make,
        *,
        clock: Clock | None = None,
        ids: RequestSource | None = None,
        end: Callable[[], None] | None = None,
    ) -> None:
        self.spec = spec
        self._clock = clock or SystemClock()
        self.meter = Meter(self._clock)
        self._schedule = Schedule(spec, self._clock)
        calls = Calls(owners, ids or RequestIds())
        subjects = Subjects(calls)
        room = Room()
        self._workers = [
            Worker(number, spec, calls, subjects, make, self._schedule, self._answer_settled, room)
            for number in range(spec.threads)
        ]
        if end is None and spec.role == "worker":
            end = _end_process
        self._end = end
        self._settling: list[Pending] = []
        self._threads: list[threading.Thread] = []

    # ---- life ------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        return "serving" if self._schedule.stopped is None else "quarantined"

    @property
    def reason(self) -> str | None:
        return self._schedule.stopped

    def start(self) -> None:
        """Begin. Waits for no owner."""
        for worker in self._workers:
            thread = threading.Thread(
                target=self._run, args=(worker,), name="neverforget-reflector", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def wake(self) -> None:
        """Something may be due. Any thread; waits for nobody."""
        self._schedule.wake()

    def close(self) -> None:
        """What is under way and not done in a moment is left: it is in the logs how far it is."""
        self._schedule.close()
        until = time.monotonic() + END_S
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))
        self._release()
        with self._schedule.changed:
            settling, self._settling = self._settling, []
        closed = Unavailable("the reflector has ended; ask again", outcome="not_applied")
        for pending in settling:
            pending.reply(failure(pending.request.id, closed))

    def _run(self, worker: Worker) -> None:
        try:
            worker.run()
        except BaseException:
            if not self._schedule.closed:
                log.exception("a thread of the reflector has ended")
                self._schedule.stop("a thread of the reflector has ended by a mistake of its own")
        self._answer_settled()
        if self._schedule.stopped is not None and not self._schedule.closed:
            log.error("nothing more is reflected: %s", self._schedule.stopped)
            if self._end is not None:
                self._release()
                self._end()

    def _release(self) -> None:
        """What is under way and left behind dies with the process, and not because of itself."""
        until = time.monotonic() + END_S
        for worker in self._workers:
            worker.release(max(0.0, until - time.monotonic()))

    # ---- Service ---------------------------------------------------------------------------------

    def bind(self, wake: Callable[[], None]) -> None:
        """Nothing that it does needs the transport's loop."""

    def deadline(self) -> float | None:
        return None

    def tick(self, send: Callable[[], None] = nothing) -> None:
        pass

    def clients_changed(self, clients: int) -> None:
        pass

    def welcome(self, id: int) -> Welcome:
        return Welcome(
            id, self.spec.store_id, REFLECTOR, 0, PROTOCOL_VERSION, self.state, self.reason,
            os.getpid(),
        )  # fmt: skip

    def run(self, pendings: Sequence[Pending], send: Callable[[], None] = nothing) -> None:
        for pending in pendings:
            try:
                reply = self._answer(pending, pending.request)
            except NeverforgetError as error:
                reply = failure(pending.request.id, error)
            except Exception as error:
                log.exception("a request failed")
                reply = failure(pending.request.id, internal_error(error))
            if reply is not None:
                pending.reply(reply)

    def _answer(self, pending: Pending, request: AnyRequest) -> AnyReply | None:
        match request:
            case Reflect():
                return self._reflect(request)
            case WakeReflector():
                self.wake()
                return DoneReply(request.id)
            case Status():
                return self._status(request.id)
            case Settle():
                return self._settle(pending, request)
        raise InvalidArgument(f"{type(request).__name__} is not for the reflector")

    def _reflect(self, request: Reflect) -> AnyReply:
        schedule = self._schedule
        with schedule.changed:
            if request.begin and schedule.runs.begin(request):
                schedule.ask_at_once()
        if schedule.stopped is not None:
            schedule.stop(schedule.stopped)
        with schedule.changed:
            return schedule.runs.reply(
                request.id, request.run, schedule.extractor, schedule.holds_up
            )

    def _status(self, id: int) -> ReflectorStatusReply:
        schedule = self._schedule
        with schedule.changed:
            return ReflectorStatusReply(
                id,
                os.getpid(),
                schedule.extractor,
                schedule.running(),
                len(schedule.queue),
                len(schedule.runs.active()),
                schedule.turns,
                schedule.windows,
                schedule.facts,
                sum(worker.stuck for worker in self._workers),
                schedule.error,
                schedule.error_at,
            )

    # ---- settling --------------------------------------------------------------------------------

    def _settle(self, pending: Pending, request: Settle) -> AnyReply | None:
        schedule = self._schedule
        with schedule.changed:
            if request.at_once:
                if schedule.idle:
                    return DoneReply(request.id)
                raise Unavailable("there is something to reflect still", outcome="not_applied")
            schedule.want_look()
            self._settling.append(pending)
            schedule.changed.notify_all()
        self._answer_settled()
        return None

    def _answer_settled(self) -> None:
        """Tell those who wait for it that there is nothing left to do, if so."""
        with self._schedule.changed:
            stopped = self._schedule.stopped
            if not self._settling or not (self._schedule.idle or stopped):
                return
            settling, self._settling = self._settling, []
        for pending in settling:
            if stopped:
                error = Unavailable(stopped, outcome="not_applied")
                pending.reply(failure(pending.request.id, error))
            else:
                pending.reply(DoneReply(pending.request.id))


def _end_process() -> None:
    """Whoever hosts it starts another one."""
    logging.shutdown()
    os._exit(1)
