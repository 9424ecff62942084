"""Chunkers that are started when there is work, and ended when there is none.

One thread tends the pool. Each member has a thread of its own, which waits for the member's answers
and may hang in it; so does whoever starts a member. What a member does not bring in time ends it.
A member that never came up says nothing of any document: the pool waits before it starts another.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from neverforget.actors.chunker_spec import Chunked, Document
from neverforget.actors.ports import internal_error
from neverforget.storage.errors import NeverforgetError, Unavailable

log = logging.getLogger(__name__)
START_S: Final = 60.0
IDLE_S: Final = 10.0  # without work before a member ends
PAUSE_S_MIN, PAUSE_S_MAX = 1.0, 60.0  # before another is started where one did not come up
_END_S: Final = 2.0
T = TypeVar("T")


class Member(Protocol):
    """One chunker, wherever it runs. ``ready`` and ``chunk`` are called by one thread."""

    def ready(self) -> None:
        """Return when it can begin. Raises Unavailable."""
        ...

    def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
        """As ``Chunker.chunk``. Raises Unavailable when it has died."""
        ...

    def end(self) -> None:
        """Any thread, also twice. A call under way raises, or never returns."""
        ...


class Done(NamedTuple, Generic[T]):
    """What became of ``work``."""

    work: T
    outcome: list[Chunked] | NeverforgetError


class _Seat(Generic[T]):
    """A member and its thread. All but ``_run`` is for the thread that tends the pool."""

    def __init__(
        self, spawn: Callable[[], Member], number: int, now: float, tell: Callable[[], None]
    ) -> None:
        self.ready = False
        self.since = now  # of being started, without work, or at work
        self.late_at: float | None = now + START_S
        self.work: T | None = None
        self._spawn = spawn
        self._tell = tell
        self._ended = threading.Event()
        self._member: Member | None = None
        self._documents: queue.SimpleQueue[Sequence[Document] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[list[Chunked] | NeverforgetError | None] = (
            queue.SimpleQueue()
        )
        self.thread = threading.Thread(
            target=self._run, name=f"neverforget-chunker-{number}", daemon=True
        )
        self.thread.start()

    def begin(self, work: T, documents: Sequence[Document], now: float, late_at: float) -> None:
        self.work, self.since, self.late_at = work, now, late_at
        self._documents.put(documents)

    def heard(self) -> list[Chunked] | NeverforgetError | None:
        """The next answer; None: it is ready. Raises ``queue.Empty``."""
        return self._answers.get_nowait()

    def end(self) -> None:
        self._ended.set()
        self._documents.put(None)
        if self._member is not None:
            self._member.end()

    def _run(self) -> None:
        try:
            member = self._member = self._spawn()
            if self._ended.is_set():
                member.end()
                return
            member.ready()
        except Exception as error:
            self._answer(error)
            return
        self._answers.put(None)
        self._tell()
        while (documents := self._documents.get()) is not None:
            try:
                self._answers.put(member.chunk(documents))
            except Exception as error:
                self._answer(error)
                return
            self._tell()

    def _answer(self, error: Exception) -> None:
        if not isinstance(error, NeverforgetError):
            error = internal_error(error)
        self._answers.put(error)
        self._tell()


class ChunkerPool(Generic[T]):
    """``spawn`` makes a member; ``most``: members at once. ``tell`` is called, on any thread, when
    there is something to see. ``T``: what the caller knows a call by.
    """

    def __init__(
        self,
        spawn: Callable[[], Member],
        most: int,
        monotonic: Callable[[], float],
        tell: Callable[[], None],
    ) -> None:
        self.error: str | None = None  # why no member comes up
        self._spawn = spawn
        self._most = most
        self._monotonic = monotonic
        self._tell = tell
        self._seats: list[_Seat[T]] = []
        self._done: list[Done[T]] = []
        self._number = 0
        self._pause_s = PAUSE_S_MIN
        self._not_before = 0.0

    def __len__(self) -> int:
        return len(self._seats)

    @property
    def free(self) -> bool:
        """There is a member without work."""
        return any(seat.ready and seat.work is None for seat in self._seats)

    @property
    def busy(self) -> int:
        return sum(seat.work is not None for seat in self._seats)

    def tend(self, wanted: int) -> list[Done[T]]:
        """Look after the members, of which ``wanted`` have something to do; what they have done."""
        now = self._monotonic()
        for seat in list(self._seats):
            self._look_at(seat, now)
        while len(self._seats) < min(wanted, self._most) and now >= self._not_before:
            self._number += 1
            self._seats.append(_Seat(self._spawn, self._number, now, self._tell))
        done, self._done = self._done, []
        return done

    def give(self, work: T, documents: Sequence[Document], deadline_s: float) -> None:
        """Have a free member do it; after ``deadline_s`` it is ended."""
        seat = next(seat for seat in self._seats if seat.ready and seat.work is None)
        now = self._monotonic()
        seat.begin(work, documents, now, now + deadline_s)

    def deadline(self) -> float | None:
        """When ``tend`` has something to do, unless it is told before."""
        dues = [self._not_before] if self._not_before > self._monotonic() else []
        for seat in self._seats:
            dues.append(seat.since + IDLE_S if seat.late_at is None else seat.late_at)
        return min(dues, default=None)

    def close(self) -> None:
        """Waits 2 s for all members together; one that hangs then is left behind."""
        for seat in self._seats:
            seat.end()
        until = time.monotonic() + _END_S
        for seat in self._seats:
            seat.thread.join(max(0.0, until - time.monotonic()))
        self._seats = []

    # ---- one member ------------------------------------------------------------------------------

    def _look_at(self, seat: _Seat[T], now: float) -> None:
        try:
            answer = seat.heard()
        except queue.Empty:
            if seat.late_at is None:
                if now >= seat.since + IDLE_S:
                    self._remove(seat)
            elif now >= seat.late_at:
                said = f"a chunker took longer than {now - seat.since:.0f} s and was ended"
                self._lost(seat, Unavailable(said, outcome="not_applied"), now)
            return
        if isinstance(answer, NeverforgetError):
            self._lost(seat, answer, now)
            return
        if answer is None:
            seat.ready = True
            self.error, self._pause_s = None, PAUSE_S_MIN
        else:
            assert seat.work is not None
            self._done.append(Done(seat.work, answer))
        seat.work, seat.since, seat.late_at = None, now, None

    def _lost(self, seat: _Seat[T], error: NeverforgetError, now: float) -> None:
        self._remove(seat)
        if seat.work is not None:
            self._done.append(Done(seat.work, error))
            return
        log.warning("a chunker does not come up: %s", error)
        self.error = f"no chunker comes up: {error.message}"
        self._not_before = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)

    def _remove(self, seat: _Seat[T]) -> None:
        self._seats.remove(seat)
        seat.end()
