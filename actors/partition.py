"""The owner of one region: takes requests in groups, answers each when its promise is kept.

One turn (``run``): stage every mutation; one write; answer those that asked for ``process``; one
fdatasync if anybody waits for ``disk``; answer those; then reads. So a group commit needs no timer,
and reads never delay an acknowledgement.

Invariants
* One thread at a time is in ``run``, ``tick``, ``deadline`` and ``welcome``. Checks of the whole
  log and backups run on one worker thread, opening on another; neither touches what the loop owns.
* After a failed write or sync nothing staged is acknowledged: the callers are told that the outcome
  is unknown, the region is opened anew, and what came after waits for that.
* The plain class never raises because of the disk. See ``region_life`` for its states.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from neverforget.actors import partition_requests as requests
from neverforget.actors.checks import Checks
from neverforget.actors.group_commit import Mutations, of_one_request, outcome_unknown
from neverforget.actors.messages import (
    PROTOCOL_VERSION,
    AnyReply,
    AnyRequest,
    Append,
    Backup,
    Erase,
    Failure,
    Fork,
    Status,
    StatusReply,
    Verify,
    Wait,
    Welcome,
)
from neverforget.actors.owner_spec import PartitionSpec
from neverforget.actors.parked_waits import ParkedWaits, SessionName
from neverforget.actors.partition_life import PartitionOpening
from neverforget.actors.ports import Pending, failure
from neverforget.actors.region_life import RegionLife
from neverforget.storage.clock import Clock, SystemClock
from neverforget.storage.errors import (
    InvalidArgument,
    NeverforgetError,
    Overloaded,
    Poisoned,
    Unavailable,
)
from neverforget.storage.filesystem import FileSystem, LocalFileSystem
from neverforget.storage.region import Region

__all__ = ["Partition", "PartitionSpec"]

_PARKED_MAX = 10_000
T = TypeVar("T")


def _nothing() -> None:
    pass


class Partition:
    """``open`` or ``start`` it, then hand it to a transport; ``close`` when that has stopped.

    ``lock`` False: the caller vouches that nobody else has the directory (a file system in
    memory). ``store_displaced`` tells what has become of the store's own directory, as
    ``DirectoryLock.displaced`` does; for an owner whose host looks after that itself, nothing."""

    def __init__(
        self,
        spec: PartitionSpec,
        *,
        fs: FileSystem | None = None,
        clock: Clock | None = None,
        lock: bool = True,
        store_displaced: Callable[[], str | None] = _nothing,
    ) -> None:
        self.spec = spec
        self._clock = clock or SystemClock()
        self._wake: Callable[[], None] = _nothing
        opening = PartitionOpening(spec, fs or LocalFileSystem(), self._clock, lock)
        self._life: RegionLife[Region] = RegionLife(
            opening, self._clock, lambda: self._wake(), lock, store_displaced
        )
        self._held: deque[Pending] = deque()  # wait for the region to be open
        self._waits = ParkedWaits(_PARKED_MAX)
        self._checks = Checks(f"checks-p{spec.partition}")
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
        self._checks.close()
        closed = Unavailable("the owner has ended; open the store again", outcome="not_applied")
        self._waits.close(lambda pending: failure(pending.request.id, closed))
        self._refuse_held(closed)
        self._life.close()

    # ---- Service ---------------------------------------------------------------------------------

    def bind(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def welcome(self, id: int) -> Welcome:
        return Welcome(
            id,
            self.spec.store_id,
            self.spec.partition,
            self._life.epoch,
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

    def run(self, pendings: Sequence[Pending], send: Callable[[], None] = _nothing) -> None:
        region = self._life.region
        self._queued = len(pendings)
        if region is None:
            self._hold(pendings)
            return
        mutations = Mutations(region, requests.STAGED, pendings, self._life.error)
        try:
            mutations.carry_out(send)
            while mutations.later:
                self._serve(region, mutations.later.popleft())
        except Poisoned as error:
            # What nobody has looked at yet is asked again of the reopened region.
            mutations.fail(error)
            self._held.extend(mutations.later)
            self._lost(error)
            return
        except BaseException as error:
            # An interrupt in a caller's thread, or a mistake of ours: what is staged is in doubt.
            for pending in pendings:
                pending.reply(failure(pending.request.id, outcome_unknown(error)))
            self._lost(error)
            raise
        if len(self._waits) and mutations.staged:
            changed = _changed(mutations)
            self._waits.news(changed, lambda pending: self._news_for(region, pending))
        self._plan(region, bool(mutations.staged))

    def tick(self, send: Callable[[], None] = _nothing) -> None:
        now = self._clock.monotonic()
        if self._life.tick():
            self._state_changed(send)
        region = self._life.region
        if region is None:
            self._sync_at = self._noop_at = None
        else:
            try:
                self._sync_and_prove(region, now)
            except Poisoned as error:
                self._lost(error)
                return
            except BaseException as error:
                self._lost(error)
                raise
        self._waits.expire(now, self._time_is_up)

    def check_place(self) -> None:
        """Look now, and not within a second, whether the directory is still the one that was
        opened."""
        if self._life.check_place():
            self._state_changed()

    def _state_changed(self, send: Callable[[], None] = _nothing) -> None:
        error = self._life.error
        if self._life.region is not None:
            held, self._held = list(self._held), deque()
            self.run(held, send)
        elif error is not None:
            self._refuse_held(error)
            if self.state == "quarantined":  # nothing will ever come
                self._waits.close(lambda pending: failure(pending.request.id, error))

    # ---- one turn --------------------------------------------------------------------------------

    def _serve(self, region: Region, pending: Pending) -> None:
        """Everything that is not staged: reads, erasure, checks."""
        request = pending.request
        if type(request) is Erase:
            self._erase(region, pending, request)
        elif not pending.alive:
            return  # nobody waits for what changes nothing
        elif type(request) is Verify:
            self._checks.verify(region, pending, request)
        elif type(request) is Backup:
            self._checks.backup(region, pending, request)
        else:
            reply = _answer(request, lambda: self._read(region, pending))
            if reply is not None:
                pending.reply(reply)

    def _erase(self, region: Region, pending: Pending, request: Erase) -> None:
        if self._life.error is not None:
            pending.reply(failure(request.id, self._life.error))
            return
        try:
            pending.reply(requests.erase(region, request))
        except Poisoned as error:
            pending.reply(failure(request.id, outcome_unknown(error)))
            raise
        except NeverforgetError as error:
            pending.reply(failure(request.id, error))
        except OSError as error:
            pending.reply(failure(request.id, of_one_request(error)))

    def _read(self, region: Region, pending: Pending) -> AnyReply | None:
        request = pending.request
        if type(request) is Status:
            return self._status(pending)
        if type(request) is Wait:
            return self._wait(region, pending, request)
        read = requests.READ.get(type(request))
        if read is None:
            raise InvalidArgument(f"{type(request).__name__} is not for an owner")
        return read(region, request)

    def _lost(self, error: BaseException) -> None:
        self._sync_at = self._noop_at = None
        if self._life.lost(error):
            self._state_changed()

    # ---- what time makes due ---------------------------------------------------------------------

    def _plan(self, region: Region, mutated: bool) -> None:
        """After a turn: when must what it left behind be synced, and when proven?"""
        if region.written > region.durable:
            if self._sync_at is None:
                self._sync_at = self._clock.monotonic() + self.spec.sync_interval_ms / 1000
        else:
            self._sync_at = None
            if mutated and region.unproven:
                self._noop_at = self._clock.monotonic() + self.spec.noop_after_ms / 1000

    def _sync_and_prove(self, region: Region, now: float) -> None:
        if self._sync_at is not None and self._sync_at <= now:
            region.sync()
            self._plan(region, True)
        if self._noop_at is not None and self._noop_at <= now:
            self._noop_at = None
            region.noop_if_idle()

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
        return _answer(request, lambda: requests.news(region, request))

    def _time_is_up(self, pending: Pending) -> AnyReply:
        request = pending.request
        assert isinstance(request, Wait)
        region = self._life.region
        if region is None:
            return failure(request.id, self._not_ready())
        return _answer(request, lambda: requests.info(region, request))

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

    def _status(self, pending: Pending) -> StatusReply:
        region = self._life.region
        return StatusReply(
            pending.request.id,
            None if region is None else region.status(),
            self.state,
            self.reason,
            os.getpid(),
            self._queued - 1 + len(self._held) + len(self._checks),
            self._clients,
        )


def _changed(mutations: Mutations[Region]) -> set[SessionName]:
    """Sessions that may have new turns."""
    requests = (pending.request for pending, *_ in mutations.staged)
    return {(r.namespace, r.session) for r in requests if isinstance(r, Append | Fork)}


def _answer(request: AnyRequest, ask: Callable[[], T]) -> T | Failure:
    """What ``ask`` answers; what it raises is an error of this request alone."""
    try:
        return ask()
    except NeverforgetError as error:
        return failure(request.id, error)
    except Exception as error:
        return failure(request.id, of_one_request(error))
