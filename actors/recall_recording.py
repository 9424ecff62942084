"""How often agents recall, brought onto the record now and then: a statistic is worth no write at
every recall.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from neverforget.storage.errors import NeverforgetError, OutOfSpace, Poisoned
from neverforget.storage.longterm import LongTermRegion

log = logging.getLogger(__name__)
RECORD_EVERY_S: Final = 60.0


class RecallRecording:
    """At most one record a minute, the first a minute after the first recall. The owner's loop
    calls it.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._at: float | None = None

    def count(self, region: LongTermRegion, namespace: tuple[str, ...], agent: str) -> None:
        region.recalled(namespace, agent)
        if self._at is None and region.has_new_recalls:
            self._at = self._monotonic() + RECORD_EVERY_S

    def deadline(
        self, region: LongTermRegion | None, refusal: NeverforgetError | None
    ) -> float | None:
        """``refusal``: why the region takes no writes."""
        return None if region is None or refusal is not None else self._at

    def is_due(self, refusal: NeverforgetError | None) -> bool:
        return refusal is None and self._at is not None and self._monotonic() >= self._at

    def end(self, region: LongTermRegion | None, refusal: NeverforgetError | None) -> None:
        """Record what is left; whoever closes the region makes it durable."""
        if region is None or refusal is not None or region.poisoned is not None:
            return
        try:
            self.record(region)
        except Poisoned as error:
            log.warning("the last recalls are not on record: %s", error)

    def record(self, region: LongTermRegion) -> bool:
        """True: something was written. Without room for it the counts stay where they are. Raises
        Poisoned.
        """
        self._at = None
        end = region.log_end
        try:
            region.record_recalls()
        except OutOfSpace as error:
            log.warning("how often agents recalled is not on record: %s", error)
            self._at = self._monotonic() + RECORD_EVERY_S
            return False
        if region.log_end == end:
            return False
        region.write()
        return True
