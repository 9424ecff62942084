"""Which long text is to be cut next, and what becomes of one that went wrong.

What went wrong in company says nothing of any one text: each is tried again alone, at once. What
went wrong alone is tried again after a pause that doubles, and given up after so many tries. The
later tries of a text are without a summary: whatever a summarizer does, it does not cost the
chunks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from neverforget.storage.longterm_unchunked import LongText

TRIES_MAX: Final = 5
SUMMARY_TRIES: Final = 2  # of these
PAUSE_S: Final = 1.0  # after the first
HELD_CHARACTERS_MAX: Final = 4_000_000  # of texts that wait to be tried again; no others are begun


class Trial(NamedTuple):
    """``tries``: how often it has gone wrong alone. ``unasked``: it is cut without its
    summarizer, which does not answer.
    """

    one: LongText
    tries: int = 0
    unasked: bool = False

    @property
    def summarize(self) -> bool:
        return self.tries < SUMMARY_TRIES and not self.unasked


class Tries:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._waiting: list[tuple[float, Trial]] = []  # due, in the order in which it came

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def pausing(self) -> int:
        """How many are not to be tried yet."""
        now = self._monotonic()
        return sum(due > now for due, _ in self._waiting)

    @property
    def due(self) -> int:
        """How many may be tried now, each by a chunker of its own."""
        return len(self._waiting) - self.pausing

    @property
    def full(self) -> bool:
        """As much waits here as may."""
        return sum(len(trial.one.text) for _, trial in self._waiting) > HELD_CHARACTERS_MAX

    def deadline(self) -> float | None:
        return min((due for due, _ in self._waiting), default=None)

    def take(self) -> Trial | None:
        """One that is due."""
        now = self._monotonic()
        for place, (due, trial) in enumerate(self._waiting):
            if due <= now:
                del self._waiting[place]
                return trial
        return None

    def alone(self, trial: Trial) -> None:
        """It went wrong in company."""
        self._waiting.append((self._monotonic(), trial))

    def again(self, trial: Trial) -> bool:
        """It went wrong by itself. False: for the last time."""
        tries = trial.tries + 1
        if tries >= TRIES_MAX:
            return False
        due = self._monotonic() + PAUSE_S * 2 ** (tries - 1)
        self._waiting.append((due, Trial(trial.one, tries)))
        return True
