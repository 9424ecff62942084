"""The owner of one region: takes requests in groups, answers each when its promise is kept.

One turn (``run``): stage every mutation; one write; answer those that asked for ``process``; one
fdatasync if anybody waits for ``disk``; answer those; then reads. So a group commit needs no timer,
and reads never delay an acknowledgement.

What an answer means: after ``SYNC_DISK`` (and for everything but appends) fdatasync has covered it
and it survives a power loss; after ``SYNC_PROCESS`` it is in the file and survives the death of any
process. A repeat of what is not durable yet waits like the original.

Invariants
* One thread at a time is in ``run``, ``tick``, ``deadline`` and ``welcome``. Checks of the whole
  log and backups run on one worker thread, opening on another; neither touches what the loop owns.
* After a failed write or sync nothing staged is acknowledged: the callers are told that the outcome
  is unknown, the region is opened anew, and what came after waits for that.
* The plain class never raises because of the disk. See ``region_life`` for its states.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from neverforget.actors import partition_requests as requests
from neverforget.actors.messages import (
    PROTOCOL_VERSION,
    SYNC_DISK,
    AnyReply,
    Append,
    Backup,
    BackupReply,
    Erase,
    Fork,
    Status,
    StatusReply,
    Verify,
    VerifyReply,
    Wait,
    Welcome,
)
from neverforget.actors.parked_waits import ParkedWaits, SessionName
from neverforget.actors.ports import Pending, failure
from neverforget.actors.region_life import PartitionSpec, RegionLife
from neverforget.storage.clock import Clock, SystemClock
from neverforget.storage.errors import (
    Corrupt,
    NeverforgetError,
    Overloaded,
    Poisoned,
    Unavailable,
)
from neverforget.storage.filesystem import FileSystem, LocalFileSystem
from neverforget.storage.region import Region

__all__ = ["Partition", "PartitionSpec"]

log = logging.getLogger(__name__)
_PARKED_MAX = 10_000
_JOBS_MAX = 16
_FINDINGS_MAX = 10_000


def _nothing() -> None:
    pass


class Partition:
    """``open`` or ``start`` it, then hand it to a transport; ``close`` when that has stopped."""

    def __init__(
        self, spec: PartitionSpec, *, fs: FileSystem | None = None, clock: Clock | None = None
    ) -> None:
        self.spec = spec
        self._clock = clock or SystemClock()
        self._wake: Callable[[], None] = _nothing
        self._life = RegionLife(spec, fs or LocalFileSystem(), self._clock, lambda: self._wake())
        self._held: deque[Pending] = deque()  # wait for the region to be open
        self._waits = ParkedWaits(_PARKED_MAX)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=f"checks-p{spec.partition}")
        self._jobs = 0
        self._clients = 0
        self._queued = 0
        self._sync_at: float | None = None
        self._noop_at: float | None = None

    @property
    def state(self) -> str:
        return self._life.state

    @property
    def reason(self) -> str | None:
        return self._life.reason

    @property
    def error(self) -> NeverforgetError | None:
        """Why it is not serving, as its callers are told."""
        return self._life.error

    def open(self) -> None:
        """Recover the region in this thread. Never raises: see ``state``."""
        self._life.open()

    def start(self) -> None:
        """Recover it in the background. Requests wait meanwhile."""
        self._life.start()

    def close(self) -> None:
        """Seal the log and give the region back. Everybody who waits is told."""
        self._worker.shutdown(wait=True)
        closed = Unavailable("the owner has ended; open the store again", outcome="not_applied")
        self._waits.close(lambda pending: failure(pending.request.id, closed))
        self._refuse_held(closed)
        self._life.close()

    # ---- Service ---------------------------------------------------------------------------------

    def bind(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def welcome(self, id: int) -> Welcome:
        region = self._life.region
        return Welcome(
            id,
            self.spec.store_id,
            self.spec.partition,
            0 if region is None else region.epoch,
            PROTOCOL_VERSION,
            self.state,
            self.reason,
            os.getpid(),
        )

    def clients_changed(self, clients: int) -> None:
        self._clients = clients

    def deadline(self) -> float | None:
        due = None
        for at in (self._life.deadline(), self._sync_at, self._noop_at, self._waits.deadline()):
            if at is not None and (due is None or at < due):
                due = at
        return due

    def run(self, pendings: Sequence[Pending], flush: Callable[[], None] = _nothing) -> None:
        region = self._life.region
        self._queued = len(pendings)
        if region is None:
            self._hold(pendings)
            return
        later: list[Pending] = []
        changed: set[SessionName] = set()
        try:
            if self._mutate(region, pendings, later, changed, flush):
                flush()
            for pending in later:
                self._serve(region, pending)
        except Poisoned as error:
            self._lost(error)
            return
        if changed and len(self._waits):
            self._waits.news(changed, lambda pending: self._news_for(region, pending))
        self._plan(region)

    def tick(self) -> None:
        now = self._clock.monotonic()
        if self._life.tick():
            if self._life.region is not None:
                held, self._held = list(self._held), deque()
                self.run([p for p in held if p.alive])
            elif self._life.error is not None:
                self._refuse_held(self._life.error)
        region = self._life.region
        if region is None:
            self._sync_at = self._noop_at = None
        else:
            try:
                self._sync_and_prove(region, now)
            except Poisoned as error:
                self._lost(error)
                return
        self._waits.expire(now, self._time_is_up)

    # ---- one turn --------------------------------------------------------------------------------

    def _mutate(
        self,
        region: Region,
        pendings: Sequence[Pending],
        later: list[Pending],
        changed: set[SessionName],
        flush: Callable[[], None],
    ) -> bool:
        """Stage, write, sync, answer. What is no mutation goes to ``later``. True: answers wait for
        a flush. Raises Poisoned when all waiting callers have been told."""
        waiting: list[tuple[Pending, AnyReply, int, bool]] = []
        taken = 0
        try:
            for pending in pendings:
                taken += 1
                request = pending.request
                stage = requests.STAGED.get(type(request))
                if stage is None:
                    later.append(pending)
                    continue
                try:
                    reply, end = stage(region, request)
                except Poisoned:
                    waiting.append((pending, failure(request.id, _unknown()), 0, True))
                    raise
                except NeverforgetError as error:
                    pending.reply(failure(request.id, error))
                    continue
                disk = type(request) is not Append or request.sync == SYNC_DISK
                waiting.append((pending, reply, end, disk))
                if isinstance(request, Append | Fork):
                    changed.add((request.namespace, request.session))
            if not waiting:
                return False
            return self._answer(region, waiting, flush)
        except Poisoned as error:
            for pending, _, _, _ in waiting:
                pending.reply(failure(pending.request.id, _unknown(error)))
            # What nobody has looked at yet is asked again of the reopened region.
            self._held.extend(later)
            self._held.extend(pendings[taken:])
            raise

    def _answer(
        self,
        region: Region,
        waiting: list[tuple[Pending, AnyReply, int, bool]],
        flush: Callable[[], None],
    ) -> bool:
        region.write()
        for_disk = []
        durable = region.durable
        for pending, reply, end, disk in waiting:
            if disk and end > durable:
                for_disk.append((pending, reply))
            else:
                pending.reply(reply)
        if for_disk:
            if len(for_disk) < len(waiting):
                flush()
            region.sync()
            for pending, reply in for_disk:
                pending.reply(reply)
        return True

    def _serve(self, region: Region, pending: Pending) -> None:
        """Everything that is not staged: reads, erasure, checks."""
        if not pending.alive:
            return
        request = pending.request
        reply: AnyReply | None
        try:
            match request:
                case Status():
                    reply = self._status(pending)
                case Wait():
                    reply = self._wait(region, pending, request)
                case Verify():
                    reply = self._job(pending, lambda: self._verify(region, request.id))
                case Backup():
                    reply = self._job(pending, lambda: _backup(region, request))
                case Erase():
                    reply = requests.erase(region, request)
                case _:
                    reply = requests.READ[type(request)](region, request)
        except Poisoned as error:
            pending.reply(failure(request.id, _unknown(error)))
            raise
        except NeverforgetError as error:
            reply = failure(request.id, error)
        except KeyError:
            error = Unavailable(f"a partition does not answer {type(request).__name__}")
            reply = failure(request.id, error)
        except OSError as error:
            reply = failure(request.id, Corrupt(f"the log cannot be read: {error}"))
        if reply is not None:
            pending.reply(reply)

    def _lost(self, error: Poisoned) -> None:
        self._sync_at = self._noop_at = None
        self._life.lost(error)

    # ---- what time makes due ---------------------------------------------------------------------

    def _plan(self, region: Region) -> None:
        """After a turn: when must what it left behind be synced, and when proven?"""
        if region.written > region.durable:
            if self._sync_at is None:
                self._sync_at = self._clock.monotonic() + self.spec.sync_interval_ms / 1000
        else:
            self._sync_at = None
            if region.unproven:
                self._noop_at = self._clock.monotonic() + self.spec.noop_after_ms / 1000

    def _sync_and_prove(self, region: Region, now: float) -> None:
        if self._sync_at is not None and self._sync_at <= now:
            region.sync()
            self._plan(region)
        if self._noop_at is not None and self._noop_at <= now:
            self._noop_at = None
            region.noop_if_idle()
            region.write()
            region.sync()

    # ---- waiting ---------------------------------------------------------------------------------

    def _wait(self, region: Region, pending: Pending, request: Wait) -> AnyReply | None:
        if (reply := self._news_for(region, pending)) is not None:
            return reply
        if self._waits.park(pending, request, self._clock.monotonic()):
            return None
        return failure(request.id, Overloaded("too many followers wait at this owner"))

    def _news_for(self, region: Region, pending: Pending) -> AnyReply | None:
        request = pending.request
        assert isinstance(request, Wait)
        try:
            return requests.news(region, request)
        except NeverforgetError as error:
            return failure(request.id, error)

    def _time_is_up(self, pending: Pending) -> AnyReply:
        request = pending.request
        assert isinstance(request, Wait)
        region = self._life.region
        if region is None:
            return failure(request.id, self._not_ready())
        try:
            return requests.info(region, request)
        except NeverforgetError as error:
            return failure(request.id, error)

    # ---- not open --------------------------------------------------------------------------------

    def _hold(self, pendings: Sequence[Pending]) -> None:
        for pending in pendings:
            if isinstance(pending.request, Status):
                pending.reply(self._status(pending))
            elif self._life.error is not None:
                pending.reply(failure(pending.request.id, self._life.error))
            elif len(self._held) >= self.spec.requests_queued_max:
                error = Overloaded("the owner recovers and too many requests wait for it")
                pending.reply(failure(pending.request.id, error))
            else:
                self._held.append(pending)

    def _refuse_held(self, error: NeverforgetError) -> None:
        while self._held:
            pending = self._held.popleft()
            pending.reply(failure(pending.request.id, error))

    def _not_ready(self) -> NeverforgetError:
        return self._life.error or Unavailable(
            f"partition {self.spec.partition} is {self.state}", outcome="not_applied"
        )

    # ---- the worker thread -----------------------------------------------------------------------

    def _job(self, pending: Pending, work: Callable[[], AnyReply]) -> AnyReply | None:
        if self._jobs >= _JOBS_MAX:
            return failure(
                pending.request.id, Overloaded("too many checks and backups wait; ask again later")
            )

        def job() -> None:
            id = pending.request.id
            try:
                pending.reply(work())
            except NeverforgetError as error:
                pending.reply(failure(id, error))
            except OSError as error:
                pending.reply(failure(id, Corrupt(f"reading or copying the log failed: {error}")))
            except Exception as error:
                log.exception("a check or backup failed")
                pending.reply(failure(id, NeverforgetError(f"internal error: {error!r}")))
            finally:
                self._jobs -= 1

        self._jobs += 1
        self._worker.submit(job)
        return None

    def _verify(self, region: Region, id: int) -> VerifyReply:
        findings = []
        for finding in region.verify():
            if len(findings) < _FINDINGS_MAX:
                findings.append(finding)
        status = region.status()
        return VerifyReply(id, findings, status.turns, status.log_bytes)

    def _status(self, pending: Pending) -> StatusReply:
        region = self._life.region
        return StatusReply(
            pending.request.id,
            None if region is None else region.status(),
            self.state,
            self.reason,
            os.getpid(),
            self._queued - 1 + len(self._held) + self._jobs,
            self._clients,
        )


def _backup(region: Region, request: Backup) -> BackupReply:
    size, durable = region.backup(Path(request.directory))
    return BackupReply(request.id, size, durable)


def _unknown(error: Exception | None = None) -> Poisoned:
    cause = "" if error is None else f" ({error})"
    return Poisoned(
        f"a write or sync failed{cause}; the owner opens its log anew; repeat with the same key"
    )
