"""Recent documents as they were at one moment: ``text_overlay`` makes these views, readers search
them. Never changed by what the writer does meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from neverforget.storage.text_document import FIELDS, CorpusSize
from neverforget.storage.vector_math import Array

_K1, _B = 1.2, 0.75
TIMES_BITS: Final = 32
_TIMES: Final = np.uint64((1 << TIMES_BITS) - 1)

Postings = Array  # of a word: row << 32 | how often; rows ascending
NO_POSTINGS: Final[Postings] = np.empty(0, np.uint64)


@dataclass(frozen=True)
class LayerView:
    """A layer at one moment, as far as it had grown."""

    _postings: Mapping[str, Mapping[str, bytearray]]
    ids: Array
    lengths: Mapping[str, Array]
    labels: Sequence[tuple[str, ...]]  # goes on growing
    size: CorpusSize
    _died: Array
    _now: int

    @property
    def living(self) -> Array:
        mask: Array = (self._died == 0) | (self._died > self._now)
        return mask

    def postings(self, word: str, name: str) -> Array:
        """Dead ones too."""
        held = self._postings[name].get(word)
        if held is None:
            return NO_POSTINGS
        copied = np.frombuffer(bytes(held), "<u8")  # what grows cannot be looked at in place
        return copied[: copied.searchsorted(np.uint64(len(self.ids) << TIMES_BITS))]


@dataclass(frozen=True)
class OverlayView:
    """The overlay at one moment. Rows are counted through all layers."""

    _layers: tuple[LayerView, ...]

    @cached_property
    def size(self) -> CorpusSize:
        return sum_of(layer.size for layer in self._layers)

    @cached_property
    def _living(self) -> Array:
        return _joined([layer.living for layer in self._layers], np.bool_)

    @cached_property
    def _all_live(self) -> bool:
        return bool(self._living.all())

    @cached_property
    def _ids(self) -> Array:
        return _joined([layer.ids for layer in self._layers], np.int64)

    @cached_property
    def _lengths(self) -> dict[str, Array]:
        return {n: _joined([each.lengths[n] for each in self._layers], np.uint32) for n in FIELDS}

    def __len__(self) -> int:
        """How many documents live."""
        return int(np.count_nonzero(self._living))

    def ids(self) -> Array:
        """Of all that live, in no order."""
        return self._ids[self._living]

    def postings(self, words: Sequence[str], name: str) -> dict[str, Postings]:
        """Of each word the living rows that have it in the field ``name``."""
        found = {}
        for word in words:
            parts, first = [], 0
            for layer in self._layers:
                part = layer.postings(word, name)
                if len(part):
                    parts.append(part + np.uint64(first << TIMES_BITS) if first else part)
                first += len(layer.ids)
            all_ = _joined(parts, np.uint64)
            found[word] = all_ if self._all_live else all_[self._living[_rows_of(all_)]]
        return found

    def search(
        self,
        postings: Mapping[str, Postings],
        name: str,
        weights: Mapping[str, float],
        average: float,
        wanted: Callable[[tuple[str, ...]], bool] | None,
    ) -> tuple[Array, Array]:
        """(ids, scores) of every document in ``postings``, in no order. ``weights`` of words (idf)
        and the ``average`` length are those of all documents, on disk and here. ``wanted``: which
        labels a document is to have; None: any.
        """
        found = _joined(list(postings.values()), np.uint64)
        rows, times = _rows_of(found), (found & _TIMES).astype(np.float64)
        norms = _K1 * (1 - _B + _B * self._lengths[name][rows] / average)
        each = [weights[word] * (1 + _K1) for word in postings]
        gained = np.repeat(each, list(map(len, postings.values()))) * times / (times + norms)
        sums, rows = np.bincount(rows, gained), np.unique(rows)
        if wanted is not None:
            rows = rows[np.array([wanted(labels) for labels in self._labels_of(rows)], np.bool_)]
        return self._ids[rows], sums[rows].astype(np.float32)

    def _labels_of(self, rows: Array) -> Iterator[tuple[str, ...]]:
        """``rows`` ascend."""
        first = 0
        for layer in self._layers:
            count = len(layer.ids)
            for row in rows[(rows >= first) & (rows < first + count)].tolist():
                yield layer.labels[row - first]
            first += count


def _rows_of(postings: Postings) -> Array:
    return (postings >> np.uint64(TIMES_BITS)).astype(np.int64)


def _joined(parts: list[Array], dtype: Any) -> Array:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def sum_of(sizes: Iterable[CorpusSize]) -> CorpusSize:
    total = CorpusSize()
    for size in sizes:
        total = total.plus(size)
    return total
