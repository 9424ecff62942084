"""What the keeper of a deployed store publishes: which of its owners are there. One whose node is
away says nothing by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from neverforget.actors.publishing import Sink

log = logging.getLogger(__name__)
AVAILABLE: Final = "available"
MEMORIES: Final = "memories"


def ray_sink(store: str, partition: str) -> Sink | None:
    """See ``ray_metrics.sink``."""
    from neverforget.actors.ray_metrics import sink

    return sink(store, partition)


class KeeperMetrics:
    """``make``: as ``ray_sink``. A keeper whose metrics fail goes on without them."""

    def __init__(self, store: str, make: Callable[[str, str], Sink | None] = ray_sink) -> None:
        self._store, self._make = store, make
        self._sinks: dict[str, Sink | None] = {}
        self._failed = False

    def publish(self, states: Iterable[tuple[str, str]]) -> None:
        """The state of each partition, by its number, and of the memories."""
        if self._failed:
            return
        try:
            for partition, state in states:
                if partition not in self._sinks:
                    self._sinks[partition] = self._make(self._store, partition)
                sink = self._sinks[partition]
                if sink is not None:
                    sink.gauge(AVAILABLE, float(state == "serving"))
        except Exception:
            self._failed = True
            log.exception("metrics are not published any more")
