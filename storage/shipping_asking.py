"""One question at a time, asked again until it is answered. Pure: time is passed in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from neverforget.storage.shipping_events import Action, Answer, Failed, Question

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class ShippingOptions:
    """Times in microseconds.

    ``run_bytes``, ``run_wait_us``: a run is put when so much waits, or for so long; at once where
    somebody waits for "replica". ``run_bytes_max``: of one object, but for a single larger batch.
    ``lag_bytes_max``, ``lag_us_max``: beyond either, appends wait. ``unreachable_after_us``: of
    failures in a row, until a starting owner is given a lower level. ``write_without_store``: that
    level is UNFENCED and not READS, and the lag has no bound while the store cannot be reached.
    """

    run_bytes: int = 1 << 20
    run_wait_us: int = 1_000_000
    run_bytes_max: int = 8 << 20
    lag_bytes_max: int = 64 << 20
    lag_us_max: int = 60_000_000
    retry_us_first: int = 100_000
    retry_us_max: int = 5_000_000
    unreachable_after_us: int = 5_000_000
    write_without_store: bool = False


class Asking:
    """``ask`` opens a question and keeps it; its answer goes to ``then``. A question that failed is
    asked again, as it was, after a wait that doubles.
    """

    def __init__(self, options: ShippingOptions) -> None:
        self._options = options
        self._calls = 0
        self._asked: Question | None = None
        self._then: Callable[[Any], list[Action]] | None = None
        self._retry_at_us: int | None = None
        self._retry_us = options.retry_us_first
        self._failing_since_us: int | None = None
        self._failure = ""

    @property
    def asked(self) -> Question | None:
        return self._asked

    @property
    def failure(self) -> tuple[int, str] | None:
        """(since when, why) the store does not answer; None: it did, when last asked."""
        return None if self._failing_since_us is None else (self._failing_since_us, self._failure)

    def _ask(self, question: Question, then: Callable[[A], list[Action]]) -> list[Action]:
        assert self._asked is None, f"{self._asked} is open"
        self._calls += 1
        self._asked = replace(question, call=self._calls)
        self._then = then
        return [self._asked]

    def _answer(self, answer: Answer) -> list[Action]:
        """To the question that is open; late answers are dropped."""
        if self._asked is None or answer.call != self._asked.call or self._retry_at_us is not None:
            return []
        then = self._then
        assert then is not None
        self._asked = self._then = None
        self._failing_since_us = None
        self._retry_us = self._options.retry_us_first
        return then(answer)

    def _fail(self, answer: Failed, now_us: int) -> None:
        if self._asked is None or answer.call != self._asked.call or self._retry_at_us is not None:
            return
        if self._failing_since_us is None:
            self._failing_since_us = now_us
        self._failure = answer.message
        self._retry_at_us = now_us + self._retry_us
        self._retry_us = min(self._retry_us * 2, self._options.retry_us_max)

    def _retry(self, now_us: int) -> list[Action]:
        if self._retry_at_us is None or now_us < self._retry_at_us or self._asked is None:
            return []
        self._retry_at_us = None
        self._calls += 1
        self._asked = replace(self._asked, call=self._calls)
        return [self._asked]
