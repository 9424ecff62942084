"""The ids under which owners recognise a request that they have seen."""

from __future__ import annotations

import itertools
import os
import secrets
from typing import Any, Final

_PRODUCER_SEQ_MAX: Final = 0xFFFFFFFF


class RequestIds:
    """The request ids of one client object in one process: a random producer and a count.

    A forked child draws another producer: the same id must never name two requests. Threads may
    share it.
    """

    def __init__(self) -> None:
        self._drawn = self._draw()

    def _draw(self) -> tuple[int, int, itertools.count[int]]:
        return os.getpid(), secrets.randbits(64), itertools.count(1)

    def next(self) -> tuple[int, int]:
        """(producer, producer_seq), never given before."""
        pid, producer, count = self._drawn
        seq = next(count)
        if pid != os.getpid() or seq > _PRODUCER_SEQ_MAX:
            self._drawn = self._draw()
            return self.next()
        return producer, seq

    def __reduce__(self) -> Any:
        raise TypeError("request ids are never copied: a copy would give the same ids again")
