"""Recent documents, searchable at once: a small inverted index in memory beside the one on disk.

A commit of tantivy syncs some twenty files (10-100 ms). So a document is found here from the moment
it is added, and goes to disk with the next commit. Scores are BM25 exactly as tantivy computes it
(k1 1.2, b 0.75, lengths in its 8-bit form), with the numbers of both (``text_statistics``).

It lies in layers, of which the last one grows. Whole layers go to disk: a commit that begins puts a
new one behind them, and when it has ended they are let go. Nothing is copied or analysed again.

One writer appends; readers hold an ``OverlayView`` that never looks at rows beyond its own count,
nor at deaths after its own time. Arrays only grow, or are replaced by longer ones, so neither side
needs a lock. Postings are bytes: objects would be walked by every full collection of the
interpreter, beside which no thread runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from neverforget.storage.text_document import FIELDS, CorpusSize, TextDocument
from neverforget.storage.text_overlay_view import TIMES_BITS, LayerView, OverlayView, sum_of
from neverforget.storage.vector_math import NO_IDS, Array

_ROWS_MIN: Final = 256  # of a layer's arrays, which double
_DROPPED_AT_ONCE: Final = 256  # documents let go of without a chance for other threads


class TextLayer:
    """Some of the documents, in the order in which they were added: the writer's side."""

    def __init__(self) -> None:
        self.documents: list[TextDocument] = []  # by row; texts prepared
        self.size = CorpusSize()
        self._row_of: dict[int, int] = {}
        # By word, eight bytes each: row << 32 | how often.
        self._postings: dict[str, dict[str, bytearray]] = {name: {} for name in FIELDS}
        self._ids = np.zeros(_ROWS_MIN, np.int64)
        self._died = np.zeros(_ROWS_MIN, np.int64)  # when; 0: it lives
        self._lengths = {name: np.zeros(_ROWS_MIN, np.uint32) for name in FIELDS}
        self._labels: list[tuple[str, ...]] = []
        self._known_labels: dict[tuple[str, ...], tuple[str, ...]] = {}

    def __len__(self) -> int:
        """Rows, dead ones too."""
        return self.size.documents

    def add(self, document: TextDocument, words: Sequence[list[str]]) -> None:
        """No row of this id lives in it. ``words``: by field."""
        row = len(self)
        if row == len(self._ids):
            self._make_room()
        for name, its in zip(FIELDS, words):
            often: dict[str, int] = {}
            for word in its:
                often[word] = often.get(word, 0) + 1
            postings = self._postings[name]
            for word, times in often.items():
                posting = (row << TIMES_BITS | times).to_bytes(8, "little")
                held = postings.get(word)
                if held is None:
                    postings[word] = bytearray(posting)
                else:
                    held += posting
            self._lengths[name][row] = coarse_length(len(its))
        self._ids[row] = document.id
        self._labels.append(self._known_labels.setdefault(document.labels, document.labels))
        self._row_of[document.id] = row
        self.documents.append(document)
        self.size = self.size.plus(CorpusSize(1, (len(words[0]), len(words[1]))))

    def remove(self, key: int, now: int) -> bool:
        """``now``: later than every view that is held. False: it is not alive here."""
        row = self._row_of.pop(key, None)
        if row is None:
            return False
        self._died[row] = now
        return True

    def view(self, now: int) -> LayerView:
        count = len(self)
        return LayerView(
            self._postings,
            self._ids[:count],
            {name: lengths[:count] for name, lengths in self._lengths.items()},
            self._labels,
            self.size,
            self._died[:count],
            now,
        )

    def living(self, now: int) -> Iterator[TextDocument]:
        """Documents that were alive at ``now``. Any thread, once nothing more is added."""
        for row, document in enumerate(self.documents):
            if not 0 < self._died[row] <= now:
                yield document

    def ids(self) -> Array:
        """Of all documents, dead ones too."""
        return self._ids[: len(self)]

    def drop_documents(self) -> None:
        """They are on disk. Little by little: the interpreter frees what a list holds in one go,
        and no thread runs meanwhile.
        """
        while self.documents:
            del self.documents[-_DROPPED_AT_ONCE:]

    def _make_room(self) -> None:
        """Longer arrays: a view keeps those that it has."""
        self._ids, self._died = _doubled(self._ids), _doubled(self._died)
        self._lengths = {name: _doubled(lengths) for name, lengths in self._lengths.items()}


class TextOverlay:
    """The writer's side."""

    def __init__(self) -> None:
        self._layers = [TextLayer()]
        self._now = 0  # counts the deaths

    def __len__(self) -> int:
        """Rows, dead ones too."""
        return sum(map(len, self._layers))

    @property
    def size(self) -> CorpusSize:
        return sum_of(layer.size for layer in self._layers)

    def add(self, document: TextDocument, words: Sequence[list[str]]) -> None:
        """``document`` has its texts prepared; ``words`` are the index words of ``FIELDS``. The one
        of the same id has been removed.
        """
        self._layers[-1].add(document, words)

    def remove(self, key: int) -> TextLayer | None:
        """Where it was."""
        self._now += 1
        for layer in self._layers:
            if layer.remove(key, self._now):
                return layer
        return None

    def view(self) -> OverlayView:
        return OverlayView(tuple(layer.view(self._now) for layer in self._layers if len(layer)))

    def freeze(self) -> FrozenLayers:
        """Everything that is there now: nothing is added to these layers any more."""
        if len(self._layers[-1]):
            self._layers = [*self._layers, TextLayer()]
        return FrozenLayers(tuple(self._layers[:-1]), self._now)

    def drop(self, frozen: FrozenLayers) -> None:
        """These are on disk."""
        self._layers = self._layers[len(frozen.layers) :]


@dataclass(frozen=True)
class FrozenLayers:
    """What was in the overlay at one moment, of which documents may die, but none come."""

    layers: tuple[TextLayer, ...]
    _now: int

    def living(self) -> Iterator[TextDocument]:
        """At that moment. Any thread."""
        for layer in self.layers:
            yield from layer.living(self._now)

    def ids(self) -> Array:
        """Of all documents, those that are dead, too: an earlier commit may have failed late."""
        return np.concatenate([NO_IDS, *(layer.ids() for layer in self.layers)])

    def drop_documents(self) -> None:
        for layer in self.layers:
            layer.drop_documents()


def _doubled(held: Array) -> Array:
    grown = np.zeros(2 * len(held), held.dtype)
    grown[: len(held)] = held
    return grown


def coarse_length(words: int) -> int:
    """The length that tantivy's one byte for it stands for: exact up to 40, then rounded down to
    three leading bits and a one before them.
    """
    if words < 40:
        return words
    above = words - 24
    shift = max(0, above.bit_length() - 4)
    return 24 + (above >> shift << shift)
