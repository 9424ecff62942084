"""What an owner counts of its own work, for whoever asks how it is.

It is counted where the work is done, by plain additions, and read from other threads: a figure may
lag behind another of the same moment, and nobody waits. ``metric_names`` says what becomes of it
outside.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import Final, NamedTuple, Protocol

from neverforget.actors.message_bases import SYNC_DISK, SYNC_PROCESS, SYNC_REPLICA, Measured
from neverforget.actors.messages import Failure
from neverforget.storage.clock import Clock
from neverforget.storage.errors import (
    ConfirmationRequired,
    Conflict,
    EmbedderMismatch,
    InvalidArgument,
    NotFound,
    StoreLocked,
)

# Seconds; the last bucket has all above. Half a sync of a fast disk, up to what a deadline allows.
BOUNDS_S: Final = (
    *(0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05),
    *(0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0),
)
RECENT: Final = 256  # syncs of which a status tells
_OF_THE_CALLER: Final = frozenset(
    kind.code
    for kind in (InvalidArgument, NotFound, Conflict, ConfirmationRequired, EmbedderMismatch)
)


class Latencies:
    """How many took how long: ``counts[i]`` took no longer than ``BOUNDS_S[i]``, and longer than
    the bound before.
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)

    def add(self, seconds: float, count: int = 1) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += count

    @property
    def total(self) -> int:
        return sum(self.counts)


class LastError(NamedTuple):
    """``at``: microseconds UTC."""

    message: str
    at: int


class Syncs(Protocol):
    def sync(self) -> None: ...


class Meter:
    """``appends``: by the level that was asked for, from when the owner took a change (append,
    remember, hide, …) until it answered that it is done. ``syncs``: of the log. ``recalls``: from
    the question to the answer, what it waited for included. ``now``: seconds, as
    ``Clock.monotonic``.
    """

    def __init__(self, clock: Clock) -> None:
        self.appends = {level: Latencies() for level in (SYNC_PROCESS, SYNC_DISK, SYNC_REPLICA)}
        self.syncs = Latencies()
        self.recalls = Latencies()
        self.failures = 0  # requests answered with an error that is not the caller's
        self.refusals = 0  # ... that is
        self.last_error: LastError | None = None
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._clock = clock
        self.now = clock.monotonic  # bound once: it is called in every turn

    def sync(self, log: Syncs) -> float:
        """Sync it, and how long that took; what it raises is passed on. When it was done."""
        began = self.now()
        log.sync()
        ended = self.now()
        self.syncs.add(ended - began)
        self._recent.append(ended - began)
        return ended

    def answered(self, failure: Failure) -> None:
        """A request was answered with this."""
        if failure.code in _OF_THE_CALLER:
            self.refusals += 1
        else:
            self.failures += 1
            self._failed(failure.message)

    def note(self, error: BaseException | None) -> None:
        """What went wrong here, whether or not somebody waits for it; None: nothing did."""
        if error is not None and not isinstance(error, StoreLocked):  # its predecessor still ends
            self._failed(str(error) or repr(error))

    def _failed(self, message: str) -> None:
        self.last_error = LastError(message, self._clock.now_us())

    def measured(self) -> Measured:
        """For a status. Called by the thread that syncs."""
        ordered = sorted(self._recent) or [0.0]
        last = len(ordered) - 1
        error, at = self.last_error or (None, 0)
        return Measured(
            int(ordered[last // 2] * 1e6), int(ordered[int(0.99 * last)] * 1e6), error, at
        )
