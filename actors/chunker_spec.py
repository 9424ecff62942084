"""What a chunker is told when it is made, and what passes between it and who asks: plain values
that travel to another process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

CHARACTERS_MOST: Final = 2_000  # of a chunk


class ChunkerSpec(NamedTuple):
    """``most``: characters of a chunk. ``summarizer``: the name of the store's, with ``pickled``
    where that is an object; ``make`` makes it of either, and says what is wrong with it. None:
    nothing is summarised.
    """

    most: int = CHARACTERS_MOST
    summarizer: str = "none"
    pickled: bytes | None = None
    make: Callable[[Any], Any] | None = None

    @property
    def target(self) -> int:
        """Characters of a chunk, where the text lets itself be cut there."""
        return self.most * 3 // 4


class Document(NamedTuple):
    """``summarize`` False: it is to be cut only."""

    text: str
    summarize: bool = True


class Cut(NamedTuple):
    """Characters [start, stop) of the text, and what stands above them in it."""

    start: int
    stop: int
    context: str | None


class Chunked(NamedTuple):
    """Of one document: the pieces, which joined are the text, with a summary, or why there is none.
    ``silent``: the summarizer did not answer in time. ``error``: why it could not be cut.
    """

    pieces: list[Cut]
    summary: str | None = None
    summary_error: str | None = None
    error: str | None = None
    silent: bool = False


def most_of(over_characters: int) -> int:
    """Characters of a chunk, where texts over ``over_characters`` are cut."""
    return min(CHARACTERS_MOST, over_characters)
