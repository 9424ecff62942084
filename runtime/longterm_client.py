"""What a client keeps between its long-term calls: how far its writes reach, and its last id.

Ids are UUIDv7 (RFC 9562): milliseconds, a counter that makes them ascend within this client, and 62
random bits from the system, so that no two clients draw the same, forked ones neither.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_COUNTER_MAX = 0xFFF
_COUNTER_START = 0x7FF  # drawn from the lower half, so that some are left in the millisecond
_RANDOM_BYTES = 10  # of an id: its counter's start, and its end
_DRAWN_BYTES = 64 * _RANDOM_BYTES  # from the system at once: each call lets other threads run
_MILLISECONDS_MAX = (1 << 48) - 1


class LongTermClient:
    """Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._end = 0
        self._millisecond = -1
        self._counter = 0
        self._random = b""
        _all.add(self)

    @property
    def end(self) -> int:
        """The log position below which all writes lie that this client knows to be done."""
        return self._end

    def note(self, end: int) -> None:
        """A write was acknowledged that ends there."""
        with self._lock:
            self._end = max(self._end, end)

    def draw_id(self, now_us: int) -> str:
        """The id of a new memory: later than every one drawn here before."""
        millisecond = min(max(now_us // 1000, 0), _MILLISECONDS_MAX)
        with self._lock:
            if not self._random:
                self._random = os.urandom(_DRAWN_BYTES)
            drawn, self._random = self._random[:_RANDOM_BYTES], self._random[_RANDOM_BYTES:]
            if millisecond > self._millisecond:
                self._millisecond = millisecond
                self._counter = int.from_bytes(drawn[:2]) & _COUNTER_START
            else:  # the same millisecond, or a clock that was set back
                self._counter += 1
                if self._counter > _COUNTER_MAX:
                    self._millisecond, self._counter = self._millisecond + 1, 0
            high = self._millisecond << 16 | 7 << 12 | self._counter
        low = 2 << 62 | int.from_bytes(drawn[2:]) >> 2
        text = f"{high:016x}{low:016x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def __reduce__(self) -> Any:
        raise TypeError("a client is never copied: a copy would know nothing of its writes")

    def _begin_in_child(self) -> None:
        self._lock = threading.Lock()  # a thread that held it is the parent's
        self._random = b""  # or two processes would draw the same


def _begin_in_child() -> None:
    for client in _all:
        client._begin_in_child()


_all: weakref.WeakSet[LongTermClient] = weakref.WeakSet()
os.register_at_fork(after_in_child=_begin_in_child)
