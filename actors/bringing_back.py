"""What an owner had set aside when it took its log over is brought back while it serves: a slice in
each turn of its loop, and a file goes only when what came of it is shipped.

A crash at any point, or a failure, means that the same is begun again: nothing is brought twice.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

from neverforget.storage.clock import Clock
from neverforget.storage.errors import (
    Conflict,
    NeverforgetError,
    OutOfSpace,
    Overloaded,
    OwnerFenced,
    Poisoned,
    Unavailable,
)
from neverforget.storage.old_logs import Aside
from neverforget.storage.salvage_reading import pieces
from neverforget.storage.salvage_results import Piece, SalvageReport
from neverforget.storage.shipper import Shipper
from neverforget.storage.slices import Slices

log = logging.getLogger(__name__)
_AGAIN_S: Final = 5.0


class Salvaged(Protocol):
    """A region that is shipped."""

    @property
    def log_end(self) -> int: ...

    @property
    def log_id(self) -> int: ...

    def asides(self) -> list[Aside]: ...

    def let_go(self, aside: Aside) -> None: ...

    def write(self) -> None: ...

    def sync(self) -> None: ...

    def salvage(self, piece: Piece) -> Slices[SalvageReport]: ...

    def note_finding(self, kind: str, message: str) -> None: ...


class BringingBack:
    """Of one opening of ``region``. Owned by its loop."""

    def __init__(self, region: Salvaged, shipper: Shipper, clock: Clock) -> None:
        self._region = region
        self._shipper = shipper
        self._clock = clock
        self._asides: deque[Aside] = deque(region.asides())
        self._again_at = 0.0
        self._begin()

    def _begin(self) -> None:
        """With the first of what is left."""
        self._pieces: Iterator[Piece | None] | None = None
        self._work: Slices[SalvageReport] | None = None
        self._piece_is_last = False
        self._end: int | None = None  # of what came of it: what must be shipped

    def due(self) -> float | None:
        """When ``step`` has something to do; None: nothing, or what is staged is to be shipped
        first, which wakes the loop.
        """
        if not self._asides or not self._shipper.ships:
            return None
        if self._end is not None:
            return 0.0 if self._shipper.shipped >= self._end else None
        return self._again_at if self._shipper.may_append() else None

    def step(self) -> bool:
        """A slice, if one is due; whether anything may have changed. Raises Poisoned."""
        due = self.due()
        if due is None or due > self._clock.monotonic():
            return False
        try:
            if self._end is not None:
                self._finish()
            else:
                self._go_on()
        except (Conflict, OutOfSpace, Overloaded, Unavailable) as error:
            log.warning("what was set aside in %s waits: %s", self._asides[0].paths[0], error)
            self._begin()
            self._again_at = self._clock.monotonic() + _AGAIN_S
        except Poisoned:
            raise
        except OwnerFenced:
            self._asides.clear()  # whoever serves now has nothing of it yet, and gets it otherwise
        except (NeverforgetError, OSError) as error:
            # It stays where it is, for somebody to look at.
            why = f"what was set aside in {self._asides[0].paths[0]} is not brought back: {error}"
            log.error(why)
            self._region.note_finding("salvage_conflict", why)
            self._asides.popleft()
            self._begin()
        return True

    def _go_on(self) -> None:
        region = self._region
        if self._work is None:
            piece = next(self._reading(), None)
            if piece is None:
                return  # it was read a little further
            self._piece_is_last = piece.last
            self._work = region.salvage(piece)
        try:
            next(self._work)
            done = False
        except StopIteration:
            self._work, done = None, True
        region.write()
        region.sync()
        if done and self._piece_is_last:
            self._end = region.log_end
            self._shipper.look(self._end)

    def _reading(self) -> Iterator[Piece | None]:
        if self._pieces is None:
            aside = self._asides[0]
            stream = int.from_bytes(os.urandom(8), "little")
            self._pieces = pieces(
                aside.parts, log_id=self._region.log_id, parting=aside.parting, stream=stream
            )
        return self._pieces

    def _finish(self) -> None:
        self._region.let_go(self._asides.popleft())
        self._begin()
