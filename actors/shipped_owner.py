"""The part of an owner that has to do with its log being shipped: what a turn may do, who waits,
and what happens when another owner serves it. Without a replica nothing here is called.
"""

from __future__ import annotations

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
from neverforget.storage.errors import NeverforgetError, Unavailable

if TYPE_CHECKING:
    from neverforget.storage.shipper import Shipper
    from neverforget.storage.shipping_events import Stop


class OwnedRegion(Owned, Written, Checked, Protocol):
    """A region, as far as its owner knows what it is."""

    @property
    def written(self) -> int: ...

    @property
    def unproven(self) -> bool: ...

    def noop_if_idle(self) -> bool: ...

    @property
    def shipper(self) -> Shipper | None: ...


R = TypeVar("R", bound=OwnedRegion)


class ShippedOwner(ABC, Generic[R]):
    """See the module; ``RegionOwner`` is the rest of it. ``_held`` wait for a region to be open."""

    meter: Meter
    _life: RegionLife[R]
    _held: deque[Pending]
    _wake: Callable[[], None]

    @abstractmethod
    def run(self, pendings: Sequence[Pending], send: Callable[[], None]) -> None: ...

    @abstractmethod
    def _lost(self, error: BaseException) -> None: ...

    @abstractmethod
    def _state_changed(self, send: Callable[[], None] = ...) -> None: ...

    def _begin_shipping(self, mutating: Iterable[type], queued_max: int) -> None:
        self._mutating = frozenset(mutating)
        self._replicating = Replicating(queued_max, self.meter)

    def _admitted(self, shipper: Shipper, pendings: Sequence[Pending]) -> list[Pending]:
        """Those of this turn; what is held back is taken by ``_ship``."""
        shipper.look()
        may_append = shipper.stopped is None and shipper.may_append()
        return self._replicating.admit(pendings, self._mutating, may_append)

    def _shipping_due(self, shipper: Shipper) -> float | None:
        """When ``_ship`` must be called."""
        shipper.wake = self._wake
        return 0.0 if shipper.stopped is not None else shipper.deadline()

    def _ship(self, shipper: Shipper, send: Callable[[], None]) -> None:
        """Part of ``tick``: answer what is shipped by now, go on with what was held back."""
        shipper.look()
        self._replicating.answer(shipper.shipped)
        if shipper.stopped is not None:
            self._stop_shipping(shipper.stopped)
        elif self._replicating.holds_back and shipper.may_append():
            self.run(self._replicating.let_go(), send)

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
