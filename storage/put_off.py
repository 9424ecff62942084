"""When to try again what could not be done: soon at first, later each time."""

from __future__ import annotations


class PutOff:
    """``at_us``: when it is due; None: nothing waits. Times in microseconds of any one clock."""

    def __init__(self, first_us: int, max_us: int) -> None:
        self.at_us: int | None = None
        self._first_us, self._max_us = first_us, max_us
        self._pause_us = first_us

    def wait(self, now_us: int, *, longer: bool) -> None:
        """As long as before, or twice as long."""
        if longer:
            self._pause_us = min(2 * self._pause_us, self._max_us)
        self.at_us = now_us + self._pause_us

    def is_due(self, now_us: int) -> bool:
        return self.at_us is not None and self.at_us <= now_us

    def done(self) -> None:
        self.at_us, self._pause_us = None, self._first_us
