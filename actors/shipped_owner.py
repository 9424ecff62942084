"""The part of an owner that has to do with its log being shipped: what a turn may do, who waits,
and what happens when another owner serves it. Without a replica nothing here is called.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from neverforget.actors.checks import Checked
from neverforget.actors.group_commit import Written
from neverforget.actors.metrics import Meter
from neverforget.actors.ports import Pending
from neverforget.actors.region_life import Owned, RegionLife
from neverforget.actors.replicating import Replicating
from neverforget.storage.errors import NeverforgetError, OwnerFenced, Poisoned, Unavailable

if TYPE_CHECKING:
    from neverforget.actors.bringing_back import BringingBack
    from neverforget.storage.clock import Clock
    from neverforget.storage.old_logs import Aside
    from neverforget.storage.salvage_results import Piece, SalvageReport
    from neverforget.storage.shipper import Shipper
    from neverforget.storage.shipping_events import Stop
    from neverforget.storage.slices import Slices


class OwnedRegion(Owned, Written, Checked, Protocol):
    """A region, as far as its owner knows what it is."""

    @property
    def written(self) -> int: ...

    @property
    def unproven(self) -> bool: ...

    def noop_if_idle(self) -> bool: ...

    def complete_erasures(self) -> int: ...

    @property
    def shipper(self) -> Shipper | None: ...

    @property
    def log_id(self) -> int: ...

    def asides(self) -> list[Aside]: ...

    def let_go(self, aside: Aside) -> None: ...

    def salvage(self, piece: Piece) -> Slices[SalvageReport]: ...

    def note_finding(self, kind: str, message: str) -> None: ...


R = TypeVar("R", bound=OwnedRegion)
log = logging.getLogger(__name__)


class ShippedOwner(ABC, Generic[R]):
    """See the module; ``RegionOwner`` is the rest of it. ``_held`` wait for a region to be open."""

    meter: Meter
    _life: RegionLife[R]
    _held: deque[Pending]
    _wake: Callable[[], None]
    _clock: Clock

    @abstractmethod
    def run(self, pendings: Sequence[Pending], send: Callable[[], None]) -> None: ...

    @abstractmethod
    def _lost(self, error: BaseException) -> None: ...

    @abstractmethod
    def _state_changed(self, send: Callable[[], None] = ...) -> None: ...

    def _begin_shipping(self, mutating: Iterable[type], queued_max: int) -> None:
        self._bringing: tuple[R, BringingBack] | None = None
        self._mutating = frozenset(mutating)
        self._replicating = Replicating(queued_max, self.meter)

    def _admitted(self, shipper: Shipper, pendings: Sequence[Pending]) -> list[Pending]:
        """Those of this turn; what is held back is taken by ``_ship``."""
        shipper.look()
        may_append = shipper.stopped is None and shipper.may_append()
        return self._replicating.admit(pendings, self._mutating, may_append)

    def _shipping_due(self, region: R) -> float | None:
        """When ``_ship`` or ``_bring_back`` must be called."""
        shipper = region.shipper
        if shipper is None:
            return None
        shipper.wake = self._wake
        if shipper.stopped is not None:
            return 0.0
        dues = shipper.deadline(), self._salvaging(region, shipper).due()
        return min((due for due in dues if due is not None), default=None)

    def _ship(self, shipper: Shipper, send: Callable[[], None]) -> None:
        """Part of ``tick``: answer what is shipped by now, go on with what was held back."""
        shipper.look()
        self._replicating.answer(shipper.shipped)
        if shipper.stopped is not None:
            self._stop_shipping(shipper.stopped)
            return
        if self._replicating.holds_back and shipper.may_append():
            self.run(self._replicating.let_go(), send)
        if shipper.erases_now:
            self._complete_erasures(shipper)

    def _complete_erasures(self, shipper: Shipper) -> None:
        """The replica answers again, and what is on record as to be erased is in it."""
        region = self._life.region
        if region is None or region.shipper is not shipper:
            return
        try:
            count = region.complete_erasures()
        except (Unavailable, OwnerFenced) as error:
            shipper.put_erasures_off(longer=True)
            log.info("an erasure still waits: %s", error)
        except Poisoned as error:
            self._lost(error)
        except NeverforgetError as error:
            shipper.put_erasures_off(longer=True)
            log.error("an erasure is not complete: %s", error)
        else:
            log.info("%d erasures that waited are complete", count)

    # ---- what was set aside ----------------------------------------------------------------------

    def _salvaging(self, region: R, shipper: Shipper) -> BringingBack:
        if self._bringing is None or self._bringing[0] is not region:
            from neverforget.actors.bringing_back import BringingBack

            self._bringing = region, BringingBack(region, shipper, self._clock)
        return self._bringing[1]

    def _bring_back(self, region: R) -> None:
        """Part of ``tick``: a slice of it, where there is any. Raises Poisoned."""
        shipper = region.shipper
        if shipper is not None and self._salvaging(region, shipper).step():
            self._brought_back(region)

    def _brought_back(self, region: R) -> None:
        """Some of it is durable, and may have changed what others wait for."""

    def _stop_shipping(self, stop: Stop) -> None:
        """Nothing more is acknowledged: another owner may serve."""
        from neverforget.storage.replica import error_of

        error = error_of(stop)
        if isinstance(error, Unavailable):
            self._lost(error)
            return
        self._replicating.fail(error)
        self._life.stop(str(error), error)
        self._hold_shipped(error)
        self._state_changed()

    def _hold_shipped(self, error: NeverforgetError) -> None:
        """The region is gone: ``error`` for whoever waits for its shipping; what was held back was
        not begun and waits for the next region, or for its refusal."""
        self._replicating.fail(error)
        self._held.extend(self._replicating.let_go())
