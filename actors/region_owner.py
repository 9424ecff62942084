"""What every owner of a region does: it takes requests in groups, and answers each when its promise
is kept.

One turn (``run``): stage every mutation; one write; answer those that asked for ``process``; one
fdatasync if anybody waits for ``disk``; answer those; then what writes by itself, and reads. So a
group commit needs no timer, and reads never delay an acknowledgement.

Invariants
* One thread at a time is in ``run``, ``tick``, ``deadline`` and ``welcome``. Checks of the whole
  log and backups run on one worker thread, opening on another; neither touches what the loop owns.
* After a failed write or sync nothing staged is acknowledged: the callers are told that the outcome
  is unknown, the region is opened anew, and what came after waits for that.
* The plain class never raises because of the disk. See ``region_life`` for its states.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from neverforget.actors.checks import COPIES, Checked, Checks
from neverforget.actors.group_commit import (
    Mutations,
    Stage,
    of_one_request,
    outcome_unknown,
)
from neverforget.actors.messages import (
    PROTOCOL_VERSION,
    AnyReply,
    AnyRequest,
    Failure,
    Status,
    Verify,
    Welcome,
)
from neverforget.actors.metrics import Meter
from neverforget.actors.owner_spec import OwnerSpec
from neverforget.actors.ports import Pending, failure
from neverforget.actors.region_life import Opening, RegionLife
from neverforget.actors.shipped_owner import R, ShippedOwner
from neverforget.storage.clock import Clock
from neverforget.storage.errors import NeverforgetError, Overloaded, Poisoned, Unavailable

T = TypeVar("T")

# What writes and syncs by itself: durable when it returns.
Act = Callable[[T, Any], AnyReply]


def nothing() -> None:
    pass


class RegionOwner(ShippedOwner[R]):
    """A ``Service``. ``open`` or ``start`` it, then hand it to a transport; ``close`` when that has
    stopped. ``number`` stands for it in a Welcome."""

    def __init__(
        self,
        spec: OwnerSpec,
        number: int,
        opening: Opening[R],
        clock: Clock,
        stages: Mapping[type, Stage[R]],
        acts: Mapping[type, Act[R]],
        lock: bool,
        store_displaced: Callable[[], str | None],
    ) -> None:
        self._owner_spec = spec
        self._number = number
        self._clock = clock
        self._stages, self._acts = stages, acts
        self.meter = Meter(clock)
        self._begin_shipping({*stages, *acts}, spec.requests_queued_max)
        self._wake: Callable[[], None] = nothing
        self._life: RegionLife[R] = RegionLife(
            opening, clock, lambda: self._wake(), lock, store_displaced
        )
        self._held: deque[Pending] = deque()  # wait for the region to be open
        self._checks = Checks(f"checks-{opening.label}")
        self._clients = self._queued = 0
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
        self.meter.note(self._life.error)
        self._region_changed()

    def start(self) -> None:
        """Recover it in the background. Requests wait meanwhile."""
        self._life.start()

    def close(self) -> None:
        """Seal the log and give the region back. Everybody who waits is told."""
        closed = Unavailable("the owner has ended; open the store again", outcome="not_applied")
        self._checks.close()
        self._give_up(closed)
        self._hold_shipped(Unavailable(closed.message, outcome="unknown"))
        self._refuse_held(closed)
        self._life.close()

    # ---- what an owner adds ----------------------------------------------------------------------

    @abstractmethod
    def _status(self, pending: Pending) -> AnyReply: ...

    @abstractmethod
    def _read(self, region: R, pending: Pending) -> AnyReply | None:
        """The answer, None: it comes later."""

    def _acknowledged(self, region: R, mutations: Mutations[R]) -> None:
        """What was staged is written and answered."""

    def _acted(self, region: R, pending: Pending, reply: AnyReply) -> None:
        """What wrote by itself is done; answer it."""
        pending.reply(reply)

    def _checked(self, region: R) -> Checked:
        return region

    def _region_changed(self) -> None:
        """There may be another region now, or none."""

    def _go_on(self, region: R) -> None:
        """Part of ``tick``: a slice of what takes long. Raises Poisoned."""

    def _pass_time(self, now: float) -> None:
        """Part of ``tick``."""

    def _due(self) -> float | None:
        """When ``_pass_time`` must be called."""
        return None

    def _give_up(self, error: NeverforgetError) -> None:
        """What waits will never come: tell them."""

    # ---- Service ---------------------------------------------------------------------------------

    def bind(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def welcome(self, id: int) -> Welcome:
        return Welcome(
            id,
            self._owner_spec.store_id,
            self._number,
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
        region = self._life.region
        shipping = None if region is None else self._shipping_due(region)
        for at in (self._life.deadline(), self._sync_at, self._noop_at, shipping, self._due()):
            if at is not None and (due is None or at < due):
                due = at
        return due

    def run(self, pendings: Sequence[Pending], send: Callable[[], None] = nothing) -> None:
        region = self._life.region
        self._queued = len(pendings)
        if region is None:
            self._hold(pendings)
            return
        shipper = region.shipper
        if shipper is not None:
            pendings = self._admitted(shipper, pendings)
        shipped, refusal = shipper is not None, self._life.error
        mutations = Mutations(region, self._stages, pendings, refusal, self.meter, shipped=shipped)
        try:
            mutations.carry_out(send)
            self._acknowledged(region, mutations)
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
        self._plan(region, bool(mutations.staged))
        if shipper is not None:
            shipper.look(self._replicating.wait(mutations.for_replica, mutations.began))
            self._replicating.answer(shipper.shipped)

    def tick(self, send: Callable[[], None] = nothing) -> None:
        now = self._clock.monotonic()
        if self._life.tick():
            self._state_changed(send)
        region = self._life.region
        if region is None:
            self._sync_at = self._noop_at = None
        else:
            try:
                self._sync_and_prove(region, now)
                self._go_on(region)
                self._bring_back(region)
            except BaseException as error:
                self._lost(error)
                if isinstance(error, Poisoned):
                    return
                raise
            if region.shipper is not None:
                self._ship(region.shipper, send)
        self._pass_time(now)

    def check_place(self) -> None:
        """Look now, not within a second, whether the directory is still the one it was."""
        if self._life.check_place():
            self._state_changed()

    def _state_changed(self, send: Callable[[], None] = nothing) -> None:
        error = self._life.error
        self.meter.note(error)
        self._region_changed()
        if self._life.region is not None:
            held, self._held = list(self._held), deque()
            self.run(held, send)
        elif error is not None:
            self._hold_shipped(Unavailable(error.message, outcome="unknown"))
            self._refuse_held(error)
            if self.state == "quarantined":  # nothing will ever come
                self._give_up(error)

    # ---- one turn --------------------------------------------------------------------------------

    def _serve(self, region: R, pending: Pending) -> None:
        """Everything that is not staged."""
        request = pending.request
        act = self._acts.get(type(request))
        if act is not None:
            self._act(region, pending, act)
        elif not pending.alive:
            return  # nobody waits for what changes nothing
        elif type(request) is Verify:
            self._checks.verify(self._checked(region), pending, request)
        elif type(request) in COPIES:
            self._checks.copy(self._checked(region), pending, request)
        elif type(request) is Status:
            pending.reply(self._status(pending))
        else:
            reply = answer(request, lambda: self._read(region, pending))
            if reply is not None:
                pending.reply(reply)

    def _act(self, region: R, pending: Pending, act: Act[R]) -> None:
        request = pending.request
        if self._life.error is not None:
            pending.reply(failure(request.id, self._life.error))
            return
        try:
            reply = act(region, request)
        except Poisoned as error:
            pending.reply(failure(request.id, outcome_unknown(error)))
            raise
        except NeverforgetError as error:
            pending.reply(failure(request.id, error))
        except OSError as error:
            pending.reply(failure(request.id, of_one_request(error)))
        else:
            self._acted(region, pending, reply)

    def _lost(self, error: BaseException) -> None:
        self.meter.note(error)
        self._sync_at = self._noop_at = None
        self._hold_shipped(outcome_unknown(error))
        if self._life.lost(error):
            self._state_changed()

    # ---- what time makes due ---------------------------------------------------------------------

    def _plan(self, region: R, mutated: bool) -> None:
        """After a turn: when must what it left behind be synced, and when proven?"""
        if region.written > region.durable:
            if self._sync_at is None:
                self._sync_at = self._clock.monotonic() + self._owner_spec.sync_interval_ms / 1000
        else:
            self._sync_at = None
            if mutated and region.unproven:
                self._noop_at = self._clock.monotonic() + self._owner_spec.noop_after_ms / 1000

    def _sync_and_prove(self, region: R, now: float) -> None:
        if self._sync_at is not None and self._sync_at <= now:
            self.meter.sync(region)
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
            elif len(self._held) >= self._owner_spec.requests_queued_max:
                error = Overloaded("the owner recovers and too many requests wait for it")
                pending.reply(failure(pending.request.id, error))
            else:
                self._held.append(pending)

    def _refuse_held(self, error: NeverforgetError) -> None:
        while self._held:
            pending = self._held.popleft()
            pending.reply(failure(pending.request.id, error))


def answer(request: AnyRequest, ask: Callable[[], T]) -> T | Failure:
    """What ``ask`` answers; what it raises is an error of this request alone."""
    try:
        return ask()
    except NeverforgetError as error:
        return failure(request.id, error)
    except Exception as error:
        return failure(request.id, of_one_request(error))
