"""Recent documents, searchable at once: a small inverted index in memory beside the one on disk.

A commit of tantivy syncs some twenty files (10-100 ms). So a document is found here from the moment
it is added, and goes to disk with the next commit. Scores are BM25 exactly as tantivy computes it
(k1 1.2, b 0.75, lengths in its 8-bit form), with the numbers of both (``text_statistics``).

One writer appends; readers hold an ``OverlayView`` that never looks at rows beyond its own count.
Lists only grow, and a list that grows may be iterated meanwhile, so neither side needs a lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

TEXT, CONTEXT = FIELDS = ("text", "context")

_K1, _B = 1.2, 0.75

Postings = Sequence[tuple[int, int]]  # of a word: row and how often, rows ascending


class TextDocument(msgspec.Struct, frozen=True):
    """``text`` and ``context`` are searched apart; ``date`` ("Monday 8 May 2023") counts as text.
    ``labels`` are whole strings that a search may ask for ("type:fact"), never words.
    """

    id: int
    text: str
    context: str = ""
    date: str = ""
    labels: tuple[str, ...] = ()


class CorpusSize(msgspec.Struct, frozen=True):
    """How much there is: documents, and words by field. What BM25 needs for its averages."""

    documents: int = 0
    words: tuple[int, int] = (0, 0)  # of FIELDS

    def plus(self, other: CorpusSize) -> CorpusSize:
        words = (self.words[0] + other.words[0], self.words[1] + other.words[1])
        return CorpusSize(self.documents + other.documents, words)


@dataclass
class _Field:
    postings: defaultdict[str, list[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )  # word -> (row, how often)
    lengths: list[int] = field(default_factory=list)


class TextOverlay:
    """The writer's side. ``analyze`` makes index words of a prepared text."""

    def __init__(self, analyze: Callable[[str], list[str]]) -> None:
        self._analyze = analyze
        self._fields = {name: _Field() for name in FIELDS}
        self.documents: list[TextDocument] = []  # by row; texts prepared
        self._row_of: dict[int, int] = {}
        self.dead: frozenset[int] = frozenset()
        self.size = CorpusSize()

    def __len__(self) -> int:
        """Rows, dead ones too."""
        return len(self.documents)

    def add(self, document: TextDocument) -> None:
        """``document`` has its texts prepared. A row of the same id dies."""
        self.remove(document.id)
        row = len(self.documents)
        counts = []
        for name, text in ((TEXT, document.text), (CONTEXT, document.context)):
            its = self._fields[name]
            often: dict[str, int] = {}
            words = self._analyze(text) if text else []
            for word in words:
                often[word] = often.get(word, 0) + 1
            for word, times in often.items():
                its.postings[word].append((row, times))
            its.lengths.append(coarse_length(len(words)))
            counts.append(len(words))
        self.size = self.size.plus(CorpusSize(1, (counts[0], counts[1])))
        self._row_of[document.id] = row
        self.documents.append(document)  # last: a view's count is the length of this list

    def remove(self, key: int) -> bool:
        row = self._row_of.pop(key, None)
        if row is None:
            return False
        self.dead |= {row}
        return True

    def view(self) -> OverlayView:
        return OverlayView(self._fields, self.documents, len(self.documents), self.dead, self.size)

    def since(self, row: int) -> TextOverlay:
        """A new overlay of the living rows from ``row`` on."""
        rest = TextOverlay(self._analyze)
        for at in range(row, len(self.documents)):
            if at not in self.dead:
                rest.add(self.documents[at])
        return rest


@dataclass(frozen=True)
class OverlayView:
    """The overlay at one moment."""

    _fields: Mapping[str, _Field]
    _documents: Sequence[TextDocument]
    _count: int
    _dead: frozenset[int]
    size: CorpusSize

    def living(self) -> list[TextDocument]:
        return [self._documents[row] for row in range(self._count) if row not in self._dead]

    def __len__(self) -> int:
        """How many documents live."""
        return self._count - len(self._dead)

    def postings(self, words: Sequence[str], name: str) -> dict[str, Postings]:
        """Of each word the living rows that have it in the field ``name``."""
        its, dead = self._fields[name].postings, self._dead
        found: dict[str, Postings] = {}
        for word in words:
            rows = its.get(word, [])
            rows = rows[: bisect_left(rows, (self._count,))]
            found[word] = [at for at in rows if at[0] not in dead] if dead else rows
        return found

    def search(
        self,
        postings: Mapping[str, Postings],
        name: str,
        weights: Mapping[str, float],
        average: float,
        wanted: Callable[[TextDocument], bool],
    ) -> list[tuple[int, float]]:
        """(id, score) of every document in ``postings``. ``weights`` of words (idf) and the
        ``average`` length are those of all documents, on disk and here.
        """
        lengths = self._fields[name].lengths
        scores: dict[int, float] = {}
        for word, rows in postings.items():
            weight = weights[word] * (1 + _K1)
            for row, times in rows:
                norm = _K1 * (1 - _B + _B * lengths[row] / average)
                scores[row] = scores.get(row, 0.0) + weight * times / (times + norm)
        return [
            (self._documents[row].id, score)
            for row, score in scores.items()
            if wanted(self._documents[row])
        ]


def coarse_length(words: int) -> int:
    """The length that tantivy's one byte for it stands for: exact up to 40, then rounded down to
    three leading bits and a one before them.
    """
    if words < 40:
        return words
    above = words - 24
    shift = max(0, above.bit_length() - 4)
    return 24 + (above >> shift << shift)
