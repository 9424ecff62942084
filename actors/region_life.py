"""Whether a partition's region is open, and what happens when it is not.

    recovering --opened--> serving --poisoned--> recovering
        |  ^                                          |
        |  +------- again, with growing pauses -------+
        +--cannot be written--> readonly (tried again)      what is wrong with the disk may pass
        +--not what it should be--> quarantined             only a person can put that right

Nothing here raises because of what is on the disk: an owner always says what state it is in and
why. Opening takes as long as the log is long, so ``start`` does it on a thread of its own and
``tick`` takes over the result; only then does the region change hands.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import msgspec

from neverforget.storage.clock import Clock
from neverforget.storage.directory_lock import ProcessId, Role
from neverforget.storage.errors import (
    Corrupt,
    NeverforgetError,
    NotFound,
    OutOfSpace,
    Poisoned,
    StoreLocked,
    Unavailable,
    UnsupportedFormat,
)
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.region import Region, RegionOptions

log = logging.getLogger(__name__)
State = Literal["recovering", "serving", "readonly", "quarantined"]

_RETRY_S_MIN, _RETRY_S_MAX = 0.1, 10.0
_LOCK_WAIT_S = 2.0


class PartitionSpec(msgspec.Struct, frozen=True):
    """All that an owner needs to know, in plain values: it travels to another process."""

    directory: str
    store_id: str
    partition: int
    role: Role  # "worker" has a host; "application" is inline
    host: ProcessId | None = None
    socket: str = ""
    segment_bytes: int = 64 * 1024 * 1024
    batch_bytes_max: int = 64 * 1024 * 1024
    reply_bytes_max: int = 4 * 1024 * 1024
    requests_queued_max: int = 4096
    sync_interval_ms: int = 1000
    noop_after_ms: int = 200


class RegionLife:
    def __init__(
        self, spec: PartitionSpec, fs: FileSystem, clock: Clock, wake: Callable[[], None]
    ) -> None:
        self.region: Region | None = None  # there in "serving" and, where it could be, "readonly"
        self.state: State = "recovering"
        self.reason: str | None = None
        self.error: NeverforgetError | None = None  # why it is not serving
        self._spec = spec
        self._fs = fs
        self._clock = clock
        self._wake = wake
        self._outcome: Region | Exception | None = None
        self._opener: threading.Thread | None = None
        self._retry_at: float | None = None
        self._retry_s = _RETRY_S_MIN
        # Makes spare segments and side files for the region: one thread, started when first used.
        self._keeper = ThreadPoolExecutor(1, thread_name_prefix=f"keeper-{spec.partition}")

    def open(self) -> None:
        """Recover the region here and now."""
        self._accept(self._attempt(None))

    def start(self) -> None:
        """Recover it in the background; ``tick`` will find it."""
        self._start(None)

    def deadline(self) -> float | None:
        if self._outcome is not None:
            return 0.0
        return self._retry_at

    def tick(self) -> bool:
        """Take over what the background has done. True: the state has changed."""
        outcome = self._outcome
        if outcome is not None:
            self._outcome = None
            self._join()
            self._accept(outcome)
            return True
        if self._retry_at is not None and self._retry_at <= self._clock.monotonic():
            self._retry_at = None
            self._start(None)
        return False

    def lost(self, error: Exception) -> None:
        """The region has failed to write: nothing more is acknowledged until it was opened anew."""
        region, self.region = self.region, None
        self.state, self.reason = "recovering", str(error)
        self.error = None
        log.error("partition %d recovers: %s", self._spec.partition, error)
        self._start(region)

    def close(self) -> None:
        """Seal what is open, give the lock back. Does not raise: what was acknowledged is safe
        already, and the next owner recovers whatever this one could not finish."""
        self._join()
        if isinstance(self._outcome, Region):
            self.region = self._outcome
        self._outcome = self._retry_at = None
        region, self.region = self.region, None
        if region is not None:
            try:
                if self.state == "serving":
                    region.seal()
            except (NeverforgetError, OSError) as error:
                log.warning("partition %d ends without a seal: %s", self._spec.partition, error)
            region.close()
        self._keeper.shutdown(wait=True)
        self.state, self.reason = "recovering", "closed"

    # ---- opening ---------------------------------------------------------------------------------

    def _start(self, old: Region | None) -> None:
        def work() -> None:
            self._outcome = self._attempt(old)
            self._wake()

        name = f"open-p{self._spec.partition}"
        self._opener = threading.Thread(target=work, name=name, daemon=True)
        self._opener.start()

    def _join(self) -> None:
        if self._opener is not None:
            self._opener.join()
            self._opener = None

    def _attempt(self, old: Region | None) -> Region | Exception:
        try:
            if old is not None:
                old.close()
            return self._open()
        except Exception as error:
            return error

    def _open(self) -> Region:
        spec = self._spec
        return Region.open(
            self._fs,
            Path(spec.directory),
            store_id=spec.store_id,
            partition=spec.partition,
            role=spec.role,
            host=spec.host,
            clock=self._clock,
            options=RegionOptions(
                segment_bytes=spec.segment_bytes,
                batch_bytes_max=spec.batch_bytes_max,
                reply_bytes_max=spec.reply_bytes_max,
            ),
            submit=self._keeper.submit,
        )

    def _accept(self, outcome: Region | Exception) -> None:
        if not isinstance(outcome, Exception):
            self.region = outcome
            self.state, self.reason, self.error = "serving", None, None
            self._retry_s = _RETRY_S_MIN
            return
        name = f"partition {self._spec.partition}"
        self.reason = f"{type(outcome).__name__}: {outcome}"
        retry = True
        match outcome:
            case StoreLocked():
                self.state = "recovering"
                self.error = outcome
            case OutOfSpace() | Poisoned():
                self.state = "readonly"
                self.error = outcome
            case NotFound() | Corrupt():
                self.state, retry = "quarantined", False
                self.error = Corrupt(f"{name} is quarantined: {outcome}")
            case UnsupportedFormat():
                self.state, retry = "quarantined", False
                self.error = UnsupportedFormat(f"{name} is quarantined: {outcome}")
            case OSError():
                self.state = "readonly"
                self.error = Unavailable(
                    f"{name} cannot be opened: {outcome}; it tries again", outcome="not_applied"
                )
            case _:
                self.state, retry = "quarantined", False
                self.error = NeverforgetError(f"{name} is quarantined: {self.reason}")
        log.error("%s is %s: %s", name, self.state, self.reason, exc_info=outcome)
        if retry:
            self._retry_at = self._clock.monotonic() + self._retry_s
            self._retry_s = min(2 * self._retry_s, _RETRY_S_MAX)
