"""What BM25 reckons with: how many documents there are, how long, and how many have a word.

tantivy scores with the numbers of the documents on disk. Recent ones stand beside them, so that a
query is scored with those of both: each word's weight (idf) is of both, which tantivy is told by a
boost, its BM25 being linear in the weight. Of the average length it cannot be told: that is the
disk's for both wherever a document on disk may be a hit, and of both elsewhere.

Documents that are gone count for as long as their words are there: on disk until tantivy merges
their segment with another; in memory they do not, but in the average length, until a commit. It
shifts weights, for all documents alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import tantivy
from tantivy import Query

from neverforget.storage.text_document import FIELDS, CorpusSize
from neverforget.storage.text_overlay_view import OverlayView, Postings
from neverforget.storage.vector_math import Array

_DOCUMENTS: Final = "N, "  # how the explanation of a score begins to tell its numbers
_AVERAGE: Final = "avgdl, "


class Counted(NamedTuple):
    """What tantivy's BM25 takes for a field: documents, deleted ones that are still there with
    them, and their average length in words.
    """

    documents: int
    average: float


class WordWeights(NamedTuple):
    """Of one query in one field: what each word weighs, and how many times what tantivy says."""

    weights: dict[str, float]
    boosts: dict[str, float]
    average: float


class DiskSearcher:
    """One searcher of tantivy's. It never changes; any thread."""

    def __init__(self, searcher: tantivy.Searcher, schema: tantivy.Schema) -> None:
        self._searcher, self._schema = searcher, schema
        self._counted: dict[str, Counted] = {}

    @property
    def documents(self) -> int:
        """Without the deleted ones."""
        return self._searcher.num_docs

    def doc_freq(self, field: str, value: Any) -> int:
        """How many documents have it, deleted ones that are still there with them."""
        return self._searcher.doc_freq(field, value)

    def term(self, field: str, value: Any) -> Query:
        return Query.term_query(self._schema, field, value, "basic" if field == "label" else "freq")

    def between(self, first: int, last: int) -> Query:
        """Ids from ``first`` up to, and without, ``last``."""
        kind = tantivy.FieldType.Integer
        return Query.range_query(self._schema, "id", kind, first, last, True, False)

    def one_of(self, ids: Array) -> Query:
        return Query.term_set_query(self._schema, "id", ids.tolist())

    def search(self, query: Query, limit: int) -> tuple[Array, Array]:
        """Ids and scores, best first."""
        hits = self._searcher.search(query, limit, count=False).hits
        ids = self._searcher.fast_field_values("id", [address for _, address in hits])
        return np.array(ids, np.int64), np.array([score for score, _ in hits], np.float32)

    def counted(self, field: str, words: Sequence[str], written: CorpusSize) -> Counted | None:
        """What the scores of this field are made with; None where no document has any of ``words``.

        tantivy tells when it explains a score, so one is looked at, once. Should it ever tell in
        other words, ``written`` counts: all that was, the deleted included.
        """
        known = self._counted.get(field)
        if known is None:
            often = {word: self.doc_freq(field, word) for word in words}
            for word in sorted(filter(often.__getitem__, words), key=often.__getitem__):
                query = self.term(field, word)
                if hits := self._searcher.search(query, 1, count=False).hits:
                    told = _numbers(query.explain(self._searcher, hits[0][1]).to_json())
                    known = told or _average(written, field)
                    self._counted[field] = known
                    break
        return known


def word_weights(
    field: str,
    postings: Mapping[str, Postings],
    recent: OverlayView,
    disk: DiskSearcher,
    written: CorpusSize,
) -> WordWeights:
    """``postings`` in ``recent`` of the words of the query. ``written``: all that ever went to
    disk.
    """
    counted = disk.counted(field, list(postings), written)
    if counted is None:
        average = _average(written.plus(recent.size), field).average
        counted = Counted(written.documents, average)
    weights, boosts = {}, {}
    for word, rows in postings.items():
        there = disk.doc_freq(field, word)
        n = there + len(rows)
        weights[word] = math.log(1 + (counted.documents + len(recent) - n + 0.5) / (n + 0.5))
        alone = _idf_of_tantivy(counted.documents, there)
        boosts[word] = weights[word] / alone if there and alone > 0 else 1.0
    return WordWeights(weights, boosts, counted.average)


def _idf_of_tantivy(documents: int, n: int) -> float:
    """In its 32 bits: of a word that nearly all have, they leave two or three digits."""
    return math.log(np.float32(1 + (documents - n + 0.5) / (n + 0.5)))


def _average(size: CorpusSize, field: str) -> Counted:
    return Counted(size.documents, size.words[FIELDS.index(field)] / max(1, size.documents))


class _Explanation(msgspec.Struct):
    value: float
    description: str
    details: list[_Explanation] = []


def _numbers(explanation: str) -> Counted | None:
    told = {}
    left = [msgspec.json.decode(explanation, type=_Explanation)]
    while left:
        one = left.pop()
        left += one.details
        for name in (_DOCUMENTS, _AVERAGE):
            if one.description.startswith(name):
                told[name] = one.value
    if len(told) < 2:
        return None
    return Counted(int(told[_DOCUMENTS]), told[_AVERAGE])
