"""Which texts a summarizer is asked for, and what became of it.

A summarizer that did not answer in time is left alone for a while: else each text would wait for
it, and be found as a whole only. Then one text is tried with it, and no other until it answers or
twice as long has passed. What is cut meanwhile stays without a summary.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from neverforget.actors.chunker_spec import Chunked
from neverforget.actors.chunking_tries import Trial

log = logging.getLogger(__name__)
TOGETHER: Final = 8  # texts that wait for each other's summaries where those are made at once
PAUSE_S_MIN, PAUSE_S_MAX = 60.0, 960.0
_AT_ONCE: Final = ("none", "extractive")


class Summaries:
    """Of the store's ``summarizer``, by its name. For one thread; ``failed`` may be read on any."""

    def __init__(self, summarizer: str, monotonic: Callable[[], float]) -> None:
        self.wanted = summarizer != "none"
        self.together = TOGETHER if summarizer in _AT_ONCE else 1
        self.failed = 0
        self._monotonic = monotonic
        self._silent: str | None = None  # why it is left alone; None: it answers
        self._pause_s = PAUSE_S_MIN
        self._not_before = 0.0

    def asked_of(self, batch: list[Trial]) -> list[Trial]:
        """As they are to be handed out now."""
        if not self.wanted or not any(trial.summarize for trial in batch) or self._may_ask():
            return batch
        return [trial._replace(unasked=True) for trial in batch]

    def _may_ask(self) -> bool:
        if self._silent is None:
            return True
        now = self._monotonic()
        if now < self._not_before:
            return False
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)
        self._not_before = now + self._pause_s
        return True

    def seen(self, trial: Trial, chunked: Chunked) -> str | None:
        """Why it has none that it should have; to be asked of each text that was cut."""
        if not self.wanted:
            return None
        why = chunked.summary_error
        if trial.summarize:
            self._heard(why if chunked.silent else None)
        else:
            silent = self._silent if trial.unasked else None
            why = silent or f"memory {trial.one.id}: no summary was tried"
        self.failed += why is not None
        return why

    def _heard(self, silent: str | None) -> None:
        if silent is not None and self._silent is None:  # else others waited for it as well
            self._pause_s = PAUSE_S_MIN
            self._not_before = self._monotonic() + PAUSE_S_MIN
            log.warning("%s; it is not asked again for %g s", silent, PAUSE_S_MIN)
        self._silent = silent
