"""Time as a seam: wall time stamps records, monotonic time drives timers. No lease ever trusts wall
time.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_us(self) -> int:
        """Wall time in microseconds since 1970-01-01 UTC. May jump in either direction."""
        ...

    def monotonic(self) -> float:
        """Seconds that only move forward."""
        ...


class SystemClock:
    def now_us(self) -> int:
        return time.time_ns() // 1000

    monotonic = staticmethod(time.monotonic)  # asked several times in every turn of an owner
