"""Cuts long texts where they let themselves be cut, and has them summarised. Owns nothing.

Plain: the same in an actor of the pool and in a thread of an inline store. What is wrong with one
document is said of that one, and the others go on. Neither reason holds anything of the text.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from neverforget.actors.background import unpickled
from neverforget.actors.bounded_calls import BoundedCalls
from neverforget.actors.chunker_spec import Chunked, ChunkerSpec, Cut, Document
from neverforget.actors.splitter import split
from neverforget.actors.summarizer_contract import NotSummarized, Summarizer
from neverforget.storage.errors import NeverforgetError, Unavailable

log = logging.getLogger(__name__)
OBJECT_S: Final = 30.0  # for one call of an object
ENDPOINT_S: Final = 60.0  # and of a model behind an endpoint, which asks it up to nine times
SLOW_S: Final = 10.0  # what failed after so long has not answered
REASON_CHARACTERS_MAX: Final = 300
_LATER = "the text was cut into chunks without a summary"


class Chunker:
    """``splitter``: as ``splitter.split``. ``summary_s``: for one call, None for what is usual."""

    def __init__(
        self,
        spec: ChunkerSpec,
        *,
        splitter: Callable[..., Sequence[Any]] = split,
        summary_s: float | None = None,
    ) -> None:
        self._spec = spec
        self._split = splitter
        self._summarizer: Summarizer | None = None  # made when it is first needed
        if summary_s is None:
            summary_s = ENDPOINT_S if spec.summarizer.startswith("openai:") else OBJECT_S
        self._slow_s = min(SLOW_S, summary_s)
        self._bounded = BoundedCalls(
            f"the summarizer {spec.summarizer}", summary_s, _LATER, one_at_a_time=True
        )

    def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
        """In the order asked."""
        return [self._chunk(one) for one in documents]

    def _chunk(self, one: Document) -> Chunked:
        try:
            found = self._split(one.text, target=self._spec.target, most=self._spec.most)
            pieces = [Cut(*piece) for piece in found]
        except Exception as error:
            log.exception("a text of %d characters cannot be cut", len(one.text))
            return Chunked([], error=f"the text cannot be cut: {type(error).__name__}")
        if self._spec.make is None or not one.summarize:
            return Chunked(pieces)
        started = time.monotonic()
        try:
            return Chunked(pieces, summary=self._summary(one.text))
        except Exception as error:
            slow = time.monotonic() - started >= self._slow_s
            why = self._why_not(error, len(one.text))
            return Chunked(pieces, summary_error=why, silent=slow or self._bounded.hanging)

    def _why_not(self, error: Exception, characters: int) -> str:
        """Why there is no summary."""
        if isinstance(error, NeverforgetError):
            return error.message
        who = f"the summarizer {self._spec.summarizer}"
        if isinstance(error, NotSummarized):
            return f"{who}: {str(error)[:REASON_CHARACTERS_MAX]}"
        log.error("a text of %d characters cannot be summarised", characters, exc_info=error)
        return f"{who} failed: {type(error).__name__}"

    def _summary(self, text: str) -> str | None:
        """None: there is to be none. Raises whatever the summarizer raises."""
        summarizer = self._summarizer = self._summarizer or self._made()
        if summarizer is None:
            return None
        said = self._bounded(lambda: summarizer.summarize(text))
        if not isinstance(said, str):
            raise self._useless(f"gave {type(said).__name__} instead of text")
        if len(said) > len(text):
            raise self._useless("said more than the text does")
        return said if said.strip() else None

    def _made(self) -> Summarizer | None:
        spec = self._spec
        assert spec.make is not None
        what: Any = spec.summarizer
        if spec.pickled is not None:
            what = unpickled(spec.pickled, f"the summarizer {spec.summarizer}")
        made: Summarizer | None = spec.make(what)
        return made

    def _useless(self, why: str) -> Unavailable:
        return Unavailable(f"the summarizer {self._spec.summarizer} {why}", outcome="not_applied")
