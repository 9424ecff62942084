"""What the text index is given: documents, their fields, and how much of them there is."""

from __future__ import annotations

import msgspec

TEXT, CONTEXT = FIELDS = ("text", "context")


class TextDocument(msgspec.Struct, frozen=True, gc=False):
    """``text`` and ``context`` are searched apart; ``date`` ("Monday 8 May 2023") counts as text.
    ``labels`` are whole strings that a search may ask for ("type:fact"), never words.
    """

    id: int
    text: str
    context: str = ""
    date: str = ""
    labels: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, str]:
        """Of ``FIELDS``."""
        return self.text, self.context


class CorpusSize(msgspec.Struct, frozen=True):
    """How much there is: documents, and words by field. What BM25 needs for its averages."""

    documents: int = 0
    words: tuple[int, int] = (0, 0)  # of FIELDS

    def plus(self, other: CorpusSize) -> CorpusSize:
        words = (self.words[0] + other.words[0], self.words[1] + other.words[1])
        return CorpusSize(self.documents + other.documents, words)
