"""How far the objects are behind the local log, in bytes of the log and in time."""

from __future__ import annotations

from collections import deque

_COARSE_US = 100_000
MARKS_MAX = 4096


class Lag:
    """``durable`` is the local durable mark, ``shipped`` the position that objects cover. A mark of
    time stands for a stretch of the log that became durable within a tenth of a second, with its
    first moment: so the age may be overstated by that much, and the marks are few. Where the store
    is away for long, and appends go on without it, the oldest stretches grow.
    """

    def __init__(self) -> None:
        self.durable = 0
        self.shipped = 0
        self._marks: deque[tuple[int, int]] = deque()  # (end of the stretch, since)

    @property
    def bytes(self) -> int:
        return max(0, self.durable - self.shipped)

    @property
    def since_us(self) -> int | None:
        """Since when the oldest byte that is not shipped is durable; None: all is shipped."""
        return self._marks[0][1] if self._marks else None

    def age_us(self, now_us: int) -> int:
        since_us = self.since_us
        return 0 if since_us is None else max(0, now_us - since_us)

    def synced(self, position: int, now_us: int) -> None:
        if position <= self.durable:
            return
        self.durable = position
        if position <= self.shipped:
            return
        if self._marks and now_us - self._marks[-1][1] < _COARSE_US:
            self._marks[-1] = (position, self._marks[-1][1])
        else:
            self._marks.append((position, now_us))
            if len(self._marks) > MARKS_MAX:
                self._halve()

    def ship(self, position: int) -> None:
        self.shipped = max(self.shipped, position)
        while self._marks and self._marks[0][0] <= self.shipped:
            self._marks.popleft()

    def _halve(self) -> None:
        """Two stretches become one that began with the first."""
        marks = list(self._marks)
        self._marks = deque((end, since) for (_, since), (end, _) in zip(marks[::2], marks[1::2]))
        self._marks.extend(marks[len(marks) & ~1 :])
