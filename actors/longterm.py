"""The owner of the long-term store: takes requests in groups, answers when a promise is kept.

One turn (``run``): stage every mutation; one write; answer those that asked for ``process``; one
fdatasync if anybody waits for ``disk``; answer those; tell the indexes; then what deletes, which
writes by itself; then reads. A deletion is answered when no later recall can find what it deleted,
an erasure when its words have left every derived file.

Invariants
* One thread at a time is in ``run``, ``tick``, ``deadline`` and ``welcome``; it alone changes the
  region. Searches never run in it: see ``longterm_searching``. Indexes are kept by another thread:
  see ``longterm_indexing``. Nothing that was acknowledged depends on either.
* What is damaged of the derived files is made anew from the log and reported; no caller sees it.
* After a failed write or sync: as in ``partition``.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from neverforget.actors import longterm_requests as requests
from neverforget.actors.checks import Checks
from neverforget.actors.embedder_health import EmbedderHealth
from neverforget.actors.embedding import Embedding
from neverforget.actors.group_commit import Mutations, of_one_request, outcome_unknown
from neverforget.actors.longterm_indexing import Indexing
from neverforget.actors.longterm_life import LongTermOpening
from neverforget.actors.longterm_messages import LongTermStatusReply, Recall
from neverforget.actors.longterm_promises import Promises
from neverforget.actors.longterm_searching import Recalls
from neverforget.actors.longterm_spec import LongTermSpec
from neverforget.actors.longterm_status import index_status
from neverforget.actors.messages import (
    PROTOCOL_VERSION,
    AnyReply,
    AnyRequest,
    Backup,
    Failure,
    Settle,
    Status,
    Verify,
    Welcome,
)
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
from neverforget.storage.longterm import LongTermRegion

__all__ = ["LONGTERM", "LongTerm", "LongTermSpec"]

LONGTERM = -2  # stands in a Welcome where a partition has its number
T = TypeVar("T")


def _nothing() -> None:
    pass


class LongTerm:
    """``open`` or ``start`` it, then hand it to a transport; ``close`` when that has stopped.

    ``embedding`` None: everything is found by words only. It is closed with the owner. ``lock`` and
    ``store_displaced``: as for a ``Partition``.
    """

    def __init__(
        self,
        spec: LongTermSpec,
        embedding: Embedding | None,
        *,
        fs: FileSystem | None = None,
        clock: Clock | None = None,
        lock: bool = True,
        store_displaced: Callable[[], str | None] = _nothing,
    ) -> None:
        self.spec = spec
        self._fs = fs or LocalFileSystem()
        self._clock = clock or SystemClock()
        self._embedding = embedding if spec.embedder != "none" else None
        self._given = embedding
        self._wake: Callable[[], None] = _nothing
        self._turn = threading.Lock()
        opening = LongTermOpening(spec, self._fs, self._clock, lock, self._leave)
        self._life: RegionLife[LongTermRegion] = RegionLife(
            opening, self._clock, lambda: self._wake(), lock, store_displaced
        )
        self._health = EmbedderHealth(spec.embedder, self._clock.monotonic)
        self._indexing: Indexing | None = None
        self._recalls = Recalls(
            spec.fusion,
            self._embedding,
            spec.embedder,
            self._health,
            spec.reply_bytes_max,
            self._clock.monotonic,
            self._tell_news,
        )
        self._promises = Promises()
        self._held: deque[Pending] = deque()  # wait for the region to be open
        self._checks = Checks(f"checks-lt{spec.shard}")
        self._news = False
        self._clients = 0
        self._queued = 0
        self._sync_at: float | None = None
        self._noop_at: float | None = None
        if self._embedding is None:
            self._health.there_is_none()

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
        """Recover the region in this thread; the indexes come later. Never raises."""
        self._life.open()
        self._follow_region()

    def start(self) -> None:
        """Recover it in the background. Requests wait meanwhile."""
        self._life.start()

    def close(self) -> None:
        """Seal the log and give the region back. Everybody who waits is told. Does not wait for an
        embedder that hangs.
        """
        closed = Unavailable("the owner has ended; open the store again", outcome="not_applied")
        self._checks.close()
        if self._given is not None:
            self._given.close()
        self._recalls.close(closed)
        self._promises.close(closed)
        self._refuse_held(closed)
        self._life.close()

    # ---- Service ---------------------------------------------------------------------------------

    def bind(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def welcome(self, id: int) -> Welcome:
        return Welcome(
            id,
            self.spec.store_id,
            LONGTERM,
            self._life.epoch,
            PROTOCOL_VERSION,
            self.state,
            self.reason,
            os.getpid(),
        )

    def clients_changed(self, clients: int) -> None:
        self._clients = clients

    def deadline(self) -> float | None:
        if self._news:
            return 0.0
        dues = (
            self._life.deadline(),
            self._sync_at,
            self._noop_at,
            self._recalls.deadline(),
            self._promises.deadline(self._clock.monotonic()),
        )
        return min((at for at in dues if at is not None), default=None)

    def run(self, pendings: Sequence[Pending], send: Callable[[], None] = _nothing) -> None:
        region = self._life.region
        self._queued = len(pendings)
        if region is None:
            self._hold(pendings)
            return
        try:
            with self._turn:
                self._take_turn(region, pendings, send)
        except Poisoned as error:
            self._lost(error)
        except BaseException as error:
            # An interrupt in a caller's thread, or a mistake of ours: what is staged is in doubt.
            for pending in pendings:
                pending.reply(failure(pending.request.id, outcome_unknown(error)))
            self._lost(error)
            raise

    def _take_turn(
        self, region: LongTermRegion, pendings: Sequence[Pending], send: Callable[[], None]
    ) -> None:
        deletions = deque(p for p in pendings if requests.acts_by_itself(p.request))
        others = [p for p in pendings if not requests.acts_by_itself(p.request)]
        mutations = Mutations(region, requests.STAGED, others, self._life.error)
        try:
            mutations.carry_out(send)
            self._notice(bool(mutations.staged))
            while deletions:
                self._delete(region, deletions.popleft())
            while mutations.later:
                self._serve(region, mutations.later.popleft())
        except Poisoned as error:
            # What nobody has looked at yet is asked again of the reopened region.
            mutations.fail(error)
            self._held.extend([*deletions, *mutations.later])
            raise
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
                with self._turn:
                    self._sync_and_prove(region, now)
            except Poisoned as error:
                self._lost(error)
                return
            except BaseException as error:
                self._lost(error)
                raise
        self._news = False
        self._recalls.look()
        if self._indexing is not None:
            self._promises.keep(self._indexing)

    def check_place(self) -> None:
        """Look now, and not within a second, whether the directory is still the one that was
        opened."""
        if self._life.check_place():
            self._state_changed()

    # ---- region and indexes ----------------------------------------------------------------------

    def _state_changed(self, send: Callable[[], None] = _nothing) -> None:
        error = self._life.error
        self._follow_region()
        if self._life.region is not None:
            held, self._held = list(self._held), deque()
            self.run(held, send)
        elif error is not None:
            self._refuse_held(error)
            if self.state == "quarantined":  # nothing will ever come
                self._recalls.refuse(error)
                self._promises.close(error)

    def _follow_region(self) -> None:
        region = self._life.region
        if region is None or (self._indexing is not None and self._indexing.region is region):
            return
        self._indexing = Indexing(
            self.spec,
            self._fs,
            self._clock,
            region,
            self._embedding,
            self._health,
            self._turn,
            self._tell_news,
        )
        self._recalls.follow(self._indexing)
        self._indexing.start()

    def _leave(self, region: LongTermRegion) -> None:
        """Nothing reads ``region`` any more when this returns. On whatever thread closes it."""
        indexing = self._indexing
        if indexing is not None and indexing.region is region:
            self._recalls.leave()
            indexing.close()

    def _tell_news(self) -> None:
        self._news = True
        self._wake()

    def _notice(self, changed: bool) -> None:
        if changed and self._indexing is not None:
            self._indexing.notice()

    def _lost(self, error: BaseException) -> None:
        self._sync_at = self._noop_at = None
        if self._life.lost(error):
            self._state_changed()

    # ---- one turn --------------------------------------------------------------------------------

    def _delete(self, region: LongTermRegion, pending: Pending) -> None:
        """On the disk, out of every view from now on, and then answered."""
        request = pending.request
        if self._life.error is not None:
            pending.reply(failure(request.id, self._life.error))
            return
        try:
            reply = requests.BY_ITSELF[type(request)](region, request)
        except Poisoned as error:
            pending.reply(failure(request.id, outcome_unknown(error)))
            raise
        except NeverforgetError as error:
            pending.reply(failure(request.id, error))
            return
        except OSError as error:
            pending.reply(failure(request.id, of_one_request(error)))
            return
        self._notice(True)
        if requests.takes_bytes_away(request):
            self._promises.when_clean(pending, reply, region.written)
            if self._indexing is not None:
                self._promises.keep(self._indexing)
        else:
            pending.reply(reply)

    def _serve(self, region: LongTermRegion, pending: Pending) -> None:
        """What changes nothing: reads, searches, checks."""
        request = pending.request
        if not pending.alive:
            return
        if isinstance(request, Recall):
            self._recalls.ask(pending, request)
        elif isinstance(request, Verify):
            self._checks.verify(region, pending, request)
        elif isinstance(request, Backup):
            self._checks.backup(region, pending, request)
        elif isinstance(request, Settle):
            self._settle(region, pending)
        else:
            pending.reply(_answer(request, lambda: self._read(region, pending)))

    def _settle(self, region: LongTermRegion, pending: Pending) -> None:
        if self._life.error is None:
            try:
                region.sync()
            except Poisoned as error:
                pending.reply(failure(pending.request.id, outcome_unknown(error)))
                raise
        self._promises.when_settled(pending)
        if self._indexing is not None:
            self._promises.keep(self._indexing)

    def _read(self, region: LongTermRegion, pending: Pending) -> AnyReply:
        request = pending.request
        if isinstance(request, Status):
            return self._status(pending)
        read = requests.READ.get(type(request))
        if read is None:
            raise InvalidArgument(f"{type(request).__name__} is not for the long-term owner")
        return read(region, request)

    # ---- what time makes due ---------------------------------------------------------------------

    def _plan(self, region: LongTermRegion, mutated: bool) -> None:
        """After a turn: when must what it left behind be synced, and when proven?"""
        if region.written > region.durable:
            if self._sync_at is None:
                self._sync_at = self._clock.monotonic() + self.spec.sync_interval_ms / 1000
        else:
            self._sync_at = None
            if mutated and region.unproven:
                self._noop_at = self._clock.monotonic() + self.spec.noop_after_ms / 1000

    def _sync_and_prove(self, region: LongTermRegion, now: float) -> None:
        if self._sync_at is not None and self._sync_at <= now:
            region.sync()
            self._plan(region, True)
        if self._noop_at is not None and self._noop_at <= now:
            self._noop_at = None
            region.noop_if_idle()

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

    def _status(self, pending: Pending) -> LongTermStatusReply:
        region, indexing = self._life.region, self._indexing
        waiting = len(self._held) + len(self._checks) + len(self._recalls) + len(self._promises)
        return LongTermStatusReply(
            pending.request.id,
            None if region is None else region.status(),
            None if region is None or indexing is None else index_status(indexing, self._health),
            self.state,
            self.reason,
            os.getpid(),
            self._queued - 1 + waiting,
            self._clients,
        )


def _answer(request: AnyRequest, ask: Callable[[], T]) -> T | Failure:
    """What ``ask`` answers; what it raises is an error of this request alone."""
    try:
        return ask()
    except NeverforgetError as error:
        return failure(request.id, error)
    except Exception as error:
        return failure(request.id, of_one_request(error))
