"""Finding the last of objects that are numbered 1, 2, 3, … without a hole, by looking for few."""

from __future__ import annotations


class Galloping:
    """Steps of 1, 2, 4, … from a number that is known to exist (0: none is) up to one that does
    not, then halving: about 2 log2(n) looks. Objects that come meanwhile do no harm: ``last``
    existed, and the number behind it did not when it was looked for.
    """

    def __init__(self, known: int) -> None:
        self.last = known
        self._missing: int | None = None
        self._step = 1

    @property
    def next(self) -> int | None:
        """Which number to look for; None when ``last`` is the last."""
        if self._missing is None:
            return self.last + self._step
        if self._missing - self.last == 1:
            return None
        return (self.last + self._missing) // 2

    def answer(self, exists: bool) -> None:
        """Whether ``next`` exists."""
        number = self.next
        assert number is not None, "nothing was asked"
        if not exists:
            self._missing = number
            return
        self.last = number
        if self._missing is None:
            self._step *= 2
