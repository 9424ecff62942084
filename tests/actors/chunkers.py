"""Chunkers that do what a test says, and long texts for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from neverforget.actors.chunker import Chunker
from neverforget.actors.chunker_spec import Chunked, ChunkerSpec, Cut, Document
from neverforget.storage.errors import Unavailable

SENTENCE = "We agreed to move the launch to the second week of March, after the audit. "


def long_text(word: str = "", characters: int = 5_000) -> str:
    return (f"{word} {SENTENCE}" * (characters // len(SENTENCE) + 1))[:characters]


class Scripted:
    """A ``Member``. ``does`` is called with each batch, in the member's thread; what it raises is
    how the member ends. ``spec`` says how texts are cut; ``summary_s`` how long a summary may take.
    """

    def __init__(
        self,
        does: Callable[[Sequence[Document]], None] = lambda documents: None,
        spec: ChunkerSpec | None = None,
        *,
        summary_s: float | None = None,
    ) -> None:
        self.does = does
        self.ended = threading.Event()
        self._chunker = Chunker(spec or ChunkerSpec(), summary_s=summary_s)

    def ready(self) -> None:
        pass

    def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
        self.does(documents)
        if self.ended.is_set():
            raise Unavailable("it was ended", outcome="not_applied")
        return self._chunker.chunk(documents)

    def end(self) -> None:
        self.ended.set()


def whole(documents: Sequence[Document]) -> list[Chunked]:
    """Each text as one piece."""
    return [Chunked([Cut(0, len(one.text), None)]) for one in documents]
