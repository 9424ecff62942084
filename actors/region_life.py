"""Whether an owner's region is open, and what happens when it is not.

    recovering --opened--> serving --poisoned--> recovering
        |  ^                                          |
        |  +------- again, with growing pauses -------+
        +--cannot be written--> readonly (tried again)      what is wrong with the disk may pass;
        |                                                   it serves until the next one stands
        +--not what it should be--> quarantined             only a person can put that right
        +--no right even to read--> quarantined

A serving region whose directory was deleted, renamed or replaced is quarantined as well: what it
wrote from then on would be found by nobody. It is looked at about once a second, through the lock.

Nothing here raises because of what is on the disk: an owner always says what state it is in and
why. Opening takes as long as the log is long, so ``start`` does it on a thread of its own and
``tick`` takes over the result; only then does the region change hands.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

from neverforget.storage.clock import Clock
from neverforget.storage.directory_lock import Role
from neverforget.storage.errors import (
    Corrupt,
    NeverforgetError,
    NotFound,
    OutOfSpace,
    OwnerFenced,
    Poisoned,
    StoreLocked,
    Unavailable,
    UnsupportedFormat,
)
from neverforget.storage.free_memory import hide_from_collector
from neverforget.storage.spare import Submit

__all__ = ["LOCK_WAIT_S", "Opening", "Owned", "RegionLife", "State"]

log = logging.getLogger(__name__)
T = TypeVar("T")
State = Literal["recovering", "serving", "readonly", "quarantined"]

_RETRY_S_MIN, _RETRY_S_MAX = 0.1, 30.0
_LOOK_S = 0.5
LOCK_WAIT_S = 2.0
_PLACE_CHECK_S = 1.0


class Owned(Protocol):
    """A region, as far as its life goes."""

    @property
    def epoch(self) -> int: ...

    @property
    def poisoned(self) -> str | None: ...

    def displaced(self) -> str | None: ...

    def sync(self) -> None: ...

    def seal(self) -> None: ...


R = TypeVar("R", bound=Owned)


class Opening(Protocol[R]):
    """How one owner's region is opened and let go of; both are called on any thread, once at a
    time. ``name`` is for people, ``label`` for threads."""

    name: str
    label: str
    directory: str
    role: Role  # "worker": a process of its own

    def open(self, *, submit: Submit, read_only: bool, predecessor: R | None) -> R:
        """See ``Region.open``."""
        ...

    def close(self, region: R) -> None:
        """Release what it holds. Does not raise."""
        ...


class _Outcome(NamedTuple, Generic[R]):
    """Of an opening. With both: the region is read-only, because of ``error``."""

    region: R | None
    error: Exception | None


class RegionLife(Generic[R]):
    def __init__(
        self,
        opening: Opening[R],
        clock: Clock,
        wake: Callable[[], None],
        lock: bool,
        store_displaced: Callable[[], str | None],
    ) -> None:
        self.region: R | None = None  # there in "serving" and, where it could be, "readonly"
        self.state: State = "recovering"
        self.reason: str | None = None
        self.error: NeverforgetError | None = None  # why it is not serving
        self.epoch = 0
        self._opening = opening
        self._clock = clock
        self._wake = wake
        self._lock = lock
        self._store_displaced = store_displaced
        self._place_due: float | None = None
        self._outcome: _Outcome[R] | None = None
        self._opener: threading.Thread | None = None
        self._retry_at: float | None = None
        self._retry_s = _RETRY_S_MIN
        # Makes spare segments and side files for the region. Side files are made one at a time, so
        # with two threads no roll waits for one. They are started when first used.
        self._keeper = ThreadPoolExecutor(2, thread_name_prefix=f"keeper-{opening.label}")

    def open(self) -> None:
        """Recover the region here and now."""
        self._accept(self._attempt(None, None))

    def start(self) -> None:
        """Recover it in the background; ``tick`` will find it."""
        self._start(None, None)

    def deadline(self) -> float | None:
        if self._outcome is not None:
            return 0.0
        if self._opener is not None:
            return self._clock.monotonic() + _LOOK_S  # in case a transport misses the wake-up
        if self._retry_at is None or self._place_due is None:
            return self._place_due if self._retry_at is None else self._retry_at
        return min(self._retry_at, self._place_due)

    def tick(self) -> bool:
        """Take over what the background has done. True: the state has changed."""
        outcome = self._outcome
        if outcome is not None:
            self._outcome = None
            self._join()
            self._accept(outcome)
            return True
        now = self._clock.monotonic()
        if self._place_due is not None and self._place_due <= now and self.check_place():
            return True
        if self._retry_at is not None and self._retry_at <= now:
            self._retry_at = None
            if self.region is None:
                self._reopen()
            else:  # what can be read goes on being read
                self._start(None, self.region)
        return False

    def check_place(self) -> bool:
        """Quarantine the region if its directory, or the store's, is no longer the one that was
        opened. True: that was so."""
        region = self.region
        if region is None or not self._lock or self._opener is not None:
            self._place_due = None  # an opening finds out by itself, and begins this anew
            return False
        self._place_due = self._clock.monotonic() + _PLACE_CHECK_S
        why = self._store_displaced() or region.displaced()
        if why is None:
            return False
        reason = (
            f"{why} while the store was open; what was acknowledged since then may be lost with "
            "it. Put it back, or a backup in its place, then open the store again"
        )
        message = f"{self._opening.name} is quarantined: {reason}"
        self.stop(reason, Corrupt(message, file=self._opening.directory))
        return True

    def stop(self, reason: str, error: NeverforgetError) -> None:
        """Let the region go for good: nothing is served, everybody is told ``error``."""
        region, self.region = self.region, None
        self._retry_at = self._place_due = None
        if region is not None:
            self._end(region)
        self.state, self.reason, self.error = "quarantined", reason, error
        log.error("%s is quarantined: %s", self._opening.name, reason)

    def lost(self, error: BaseException) -> bool:
        """The region has failed to write: nothing more is acknowledged until it was opened anew.
        True: never, since its directory is gone."""
        if self._opener is not None:
            return False  # of a region that only reads: the next one comes already
        if self.check_place():
            return True
        self.reason = str(error)
        log.error("%s recovers: %s", self._opening.name, error)
        self._reopen()
        return False

    def close(self) -> None:
        """Seal what is open, give the lock back. Does not raise: the next owner does the rest."""
        self._join()
        if self._outcome is not None:
            self._accept(self._outcome)
        self._outcome = self._retry_at = self._place_due = None
        region, self.region = self.region, None
        self.state, self.reason = "recovering", "closed"
        try:
            if region is not None:
                self._end(region)
        finally:
            self._keeper.shutdown(wait=True)

    def _end(self, region: R) -> None:
        try:
            if region.poisoned is not None:
                pass
            elif region.displaced() is None:
                region.seal()
            else:  # sealing writes files by name, and that name is somebody else's now
                region.sync()
        except (NeverforgetError, OSError) as error:
            log.warning("%s ends without a seal: %s", self._opening.name, error)
        finally:
            self._opening.close(region)

    def _keep(self, work: Callable[[], T]) -> Future[T]:
        """Have the keeper do ``work``. While the interpreter ends there are no threads any more:
        Python stops its pools before it calls ``atexit`` functions, and one of those may be what
        seals a region that was never closed. Then the work is done here.
        """
        try:
            return self._keeper.submit(work)
        except RuntimeError:
            done: Future[T] = Future()
            try:
                done.set_result(work())
            except Exception as error:
                done.set_exception(error)
            return done

    # ---- opening ---------------------------------------------------------------------------------

    def _reopen(self) -> None:
        region, self.region = self.region, None
        self.state, self.error = "recovering", None
        self._start(region, None)

    def _start(self, lost: R | None, read_only: R | None) -> None:
        """Open anew in the background, after ``lost`` was closed or beside ``read_only``."""

        def work() -> None:
            self._outcome = self._attempt(lost, read_only)
            self._wake()

        name = f"open-{self._opening.label}"
        opener = threading.Thread(target=work, name=name, daemon=True)
        try:
            opener.start()
        except RuntimeError as error:  # no more threads: it is tried again
            if lost is not None:
                self._opening.close(lost)
            self._outcome = _Outcome(read_only, error)
        else:
            self._opener = opener

    def _join(self) -> None:
        if self._opener is not None:
            self._opener.join()
            self._opener = None

    def _attempt(self, lost: R | None, read_only: R | None) -> _Outcome[R]:
        try:
            if lost is not None:
                self._opening.close(lost)
            region = self._open(predecessor=read_only)
            if self._opening.role == "worker":  # a process of its own, that holds little else
                hide_from_collector()
            return _Outcome(region, None)
        except (StoreLocked, NotFound, Corrupt, UnsupportedFormat, OwnerFenced) as error:
            return _Outcome(None, error)
        except OSError as error:  # OutOfSpace and Poisoned are such
            return _Outcome(read_only or self._open_read_only(), error)
        except Exception as error:
            return _Outcome(read_only, error)

    def _open_read_only(self) -> R | None:
        """Where only writing fails, what is durable can still be read."""
        try:
            return self._open(read_only=True)
        except Exception as error:
            log.error("%s cannot even be read: %s", self._opening.name, error)
            return None

    def _open(self, *, read_only: bool = False, predecessor: R | None = None) -> R:
        return self._opening.open(submit=self._keep, read_only=read_only, predecessor=predecessor)

    def _accept(self, outcome: _Outcome[R]) -> None:
        before, self.region = self.region, outcome.region
        if before is not None and before is not outcome.region:
            self._opening.close(before)
        self.epoch = 0 if outcome.region is None else outcome.region.epoch
        error = outcome.error
        if self.region is not None and self._lock:
            self._place_due = self._clock.monotonic() + _PLACE_CHECK_S
        if error is None:
            self.state, self.reason, self.error = "serving", None, None
            self._retry_s = _RETRY_S_MIN
            return
        name = self._opening.name
        self.reason = f"{type(error).__name__}: {error}"
        retry = True
        match error:
            case StoreLocked():
                self.state, self.error = "recovering", error
            case NotFound() | Corrupt():
                self.state, retry = "quarantined", False
                self.error = Corrupt(f"{name} is quarantined: {self.reason}")
            case OutOfSpace():
                self.state = "readonly"
                self.error = OutOfSpace(f"{name} is read-only: {error}")
            case OwnerFenced():
                self.state, self.error, retry = "quarantined", error, False
            case Unavailable():  # the replica; reads go on where they can
                self.state = "recovering" if self.region is None else "readonly"
                self.error = Unavailable(f"{name} is {self.state}: {error}", outcome="not_applied")
            case PermissionError():  # nothing has failed, and no client need wait for it to pass
                retry = self.region is not None
                self.state = "readonly" if retry else "quarantined"
                remedy = f"let user {os.geteuid()} read and write there, then open the store again"
                self.error = Unavailable(f"{name} is {self.state}: {error}; {remedy}")
            case OSError():
                self.state = "readonly"
                self.error = Poisoned(f"{name} is read-only: {error}; it tries again")
            case UnsupportedFormat():
                self.state, retry = "quarantined", False
                self.error = UnsupportedFormat(f"{name} is quarantined: {error}")
            case _:  # not enough memory or threads, or a mistake of ours: nothing says it will stay
                self.state = "recovering" if outcome.region is None else "readonly"
                message = f"{name} cannot be opened now: {self.reason}; it tries again"
                self.error = Unavailable(message, outcome="not_applied")
        trace = None if isinstance(error, NeverforgetError | OSError) else error
        log.error("%s is %s: %s", name, self.state, self.reason, exc_info=trace)
        if retry:
            self._retry_at = self._clock.monotonic() + self._retry_s
            self._retry_s = min(2 * self._retry_s, _RETRY_S_MAX)
