"""What the text index holds at one moment, for any number of readers. Nothing in it ever changes.

The documents on disk as tantivy's searcher shows them, less those removed since, and the overlay of
recent ones. Scores are BM25 with one set of numbers for both (``text_statistics``). Queries are
made of words, never parsed: nothing in them is an operator, and nothing in them can raise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from tantivy import Occur, Query

from neverforget.storage.surrogates import escaped
from neverforget.storage.text_analysis import query_words
from neverforget.storage.text_document import CONTEXT, FIELDS, TEXT, CorpusSize
from neverforget.storage.text_overlay_view import OverlayView, Postings
from neverforget.storage.text_statistics import DiskSearcher, WordWeights, word_weights
from neverforget.storage.vector_math import NO_IDS, NO_SCORES, Array, best, members, sorted_ids

__all__ = ["CONTEXT", "FIELDS", "TEXT", "TextHits", "TextSnapshot"]

QUERY_WORDS_MAX = 64  # of a longer query the rarest words count
MATCHES_MAX: Final = 1_000  # so many matches are all taken: cheaper than to ask for some of them
# What tantivy takes for one hit, for one allowed id as a term of its own, and for one in a set, in
# hundredths of a microsecond; and for having a set at all.
_HIT, _TERM, _IN_SET, _SET = 50, 140, 45, 250_000
_MARGIN: Final = 1.5  # how much deeper to look than a filter's share of the documents says

Labels = Sequence[str | Sequence[str]]


class TextHits(NamedTuple):
    """Best first. ``scores`` are BM25, above 0; equal ones in the order of their ids."""

    ids: Array
    scores: Array


class TextMatches(NamedTuple):
    """Hits, ``complete`` when nothing else matches (and is allowed)."""

    ids: Array
    scores: Array
    complete: bool


class AllowedIds:
    """A set of ids, given as such or as one truth value an id. Worth keeping for several searches
    of one snapshot.
    """

    def __init__(self, given: Any) -> None:
        self._mask: Array | None = None
        self.query: Query | None = None  # of the ids, once a search has needed it
        if isinstance(given, np.ndarray) and given.dtype == np.bool_:
            self._mask, self.count = given, int(np.count_nonzero(given))
        else:
            self._ids = sorted_ids(given)
            self.count = len(self._ids)

    def holds(self, ids: Array) -> Array:
        if self._mask is None:
            return members(ids, self._ids)
        found: Array = (ids >= 0) & (ids < len(self._mask))
        found[found] = self._mask[ids[found]]
        return found

    def ids(self) -> Array:
        return self._ids if self._mask is None else np.flatnonzero(self._mask)

    def span(self) -> tuple[int, int]:
        """The lowest, and the one behind the highest."""
        if self._mask is None:
            return int(self._ids[0]), int(self._ids[-1]) + 1
        return int(self._mask.argmax()), len(self._mask) - int(self._mask[::-1].argmax())


@dataclass(frozen=True)
class TextSnapshot:
    _searcher: DiskSearcher
    _analyze: Callable[[str], list[str]]
    _overlay: OverlayView
    _written: CorpusSize
    removed: Array  # sorted ids whose document on disk is gone or replaced

    def __len__(self) -> int:
        return len(self.ids())

    def ids(self) -> Array:
        """Every live id, ascending. For checks: takes time in the number of documents."""
        old, _ = self._searcher.search(Query.all_query(), max(1, self._searcher.documents))
        old = np.sort(old)
        return np.sort(np.concatenate([old[~members(old, self.removed)], self._overlay.ids()]))

    def words(self, query: str) -> list[str]:
        """The index words of a query, each once: at most ``QUERY_WORDS_MAX``, the rarest."""
        found = list(dict.fromkeys(self._analyze(" ".join(query_words(query)))))
        if len(found) <= QUERY_WORDS_MAX:
            return found
        recent = self._overlay.postings(found, TEXT)
        often = {word: self._frequency(TEXT, word) + len(recent[word]) for word in found}
        kept = sorted(found, key=lambda word: often[word] or 1 << 60)
        chosen = set(kept[:QUERY_WORDS_MAX])
        return [word for word in found if word in chosen]

    def search(
        self,
        query: str,
        limit: int,
        *,
        field: str = TEXT,
        allowed: Any = None,
        labels: Labels = (),
    ) -> TextHits:
        """The ``limit`` best documents by BM25 of ``query`` in one field (``TEXT`` or ``CONTEXT``).

        ``allowed``: only these ids. ``labels``: each element must be on the document; of an element
        that is a sequence, one of its strings. As many hits as exist come back, whatever the
        filter. A query without a word finds nothing.
        """
        found = self.matches(query, limit, field=field, allowed=allowed, labels=labels)
        return TextHits(found.ids[: max(limit, 0)], found.scores[: max(limit, 0)])

    def matches(
        self,
        query: str,
        limit: int,
        *,
        field: str = TEXT,
        allowed: Any = None,
        labels: Labels = (),
    ) -> TextMatches:
        """As ``search``, with more than ``limit`` hits where they came along: all that there are,
        if the answer says so. ``allowed`` may also be an array with one truth value an id, or
        AllowedIds.
        """
        assert field in FIELDS, field
        words = self.words(query)
        if not words or limit < 1:
            return TextMatches(NO_IDS, NO_SCORES, not words)
        wanted = allowed if isinstance(allowed, AllowedIds) else None
        if wanted is None and allowed is not None:
            wanted = AllowedIds(allowed)
        groups = [{_label(g)} if isinstance(g, str) else {_label(x) for x in g} for g in labels]
        boosts, recent = dict.fromkeys(words, 1.0), (NO_IDS, NO_SCORES)
        if len(self._overlay):
            postings = self._overlay.postings(words, field)
            weights = word_weights(field, postings, self._overlay, self._searcher, self._written)
            recent = self._search_overlay(postings, field, weights, wanted, groups)
            boosts = weights.boosts
        old = self._search_disk(boosts, limit, field, wanted, groups)
        ids = np.concatenate([old.ids, recent[0]])
        scores = np.concatenate([old.scores, recent[1]])
        ids, scores = best(ids, scores, len(ids) if old.complete else limit)
        return TextMatches(ids, scores, old.complete)

    def _search_overlay(
        self,
        postings: Mapping[str, Postings],
        field: str,
        weights: WordWeights,
        wanted: AllowedIds | None,
        groups: list[set[str]],
    ) -> tuple[Array, Array]:
        def passes(labels: tuple[str, ...]) -> bool:
            return all(not group.isdisjoint(labels) for group in groups)

        asked = passes if groups else None
        ids, scores = self._overlay.search(postings, field, weights.weights, weights.average, asked)
        if wanted is not None:
            kept = wanted.holds(ids)
            ids, scores = ids[kept], scores[kept]
        return ids, scores

    def _search_disk(
        self,
        words: Mapping[str, float],
        limit: int,
        field: str,
        wanted: AllowedIds | None,
        groups: list[set[str]],
    ) -> TextMatches:
        """The cheapest of three: the allowed ids are part of the query; or everything that matches
        is taken; or the best are, deeper and deeper until enough of them are allowed. ``words``:
        and what tantivy's score of each is multiplied by.
        """
        documents = self._searcher.documents
        labelled = [sum(self._frequency("label", each) for each in group) for group in groups]
        documents = min([documents, *labelled])
        most = min(documents, sum(self._frequency(field, word) for word in words))
        if most == 0 or (wanted is not None and wanted.count == 0):
            return TextMatches(NO_IDS, NO_SCORES, True)
        query, depth = self._query(words, field, groups), limit + min(limit, len(self.removed))
        if wanted is not None:
            first, last = wanted.span()
            among = min(documents, last - first)
            depth = int(_MARGIN * depth * max(1.0, among / wanted.count))
            looked_at = most if most <= MATCHES_MAX else min(most, depth)
            terms = min(_TERM * wanted.count, _SET + _IN_SET * wanted.count)
            if terms < _HIT * looked_at:
                wanted.query = wanted.query or self._one_of(wanted.ids())
                query, most = _both(query, wanted.query), min(most, wanted.count)
                depth = most
            elif 2 * among < documents:
                query = _both(query, self._searcher.between(first, last))
        if most <= MATCHES_MAX:
            depth = most
        while True:
            ids, scores = self._searcher.search(query, min(depth, most))
            kept = ~members(ids, self.removed)
            if wanted is not None:
                kept &= wanted.holds(ids)
            complete = depth >= most or len(ids) < depth
            if complete or int(kept.sum()) >= limit:
                return TextMatches(ids[kept], scores[kept], complete)
            depth *= 8

    def _query(self, words: Mapping[str, float], field: str, groups: list[set[str]]) -> Query:
        term = self._searcher.term
        query = _any(_boosted(term(field, word), boost) for word, boost in words.items())
        for group in groups:
            query = _both(query, _any(term("label", label) for label in sorted(group)))
        return query

    def _one_of(self, ids: Array) -> Query:
        if _TERM * len(ids) < _SET + _IN_SET * len(ids):
            return _any(self._searcher.term("id", key) for key in ids.tolist())
        return self._searcher.one_of(ids)

    def _frequency(self, field: str, word: str) -> int:
        return self._searcher.doc_freq(field, word)


def _any(queries: Any) -> Query:
    return Query.boolean_query([(Occur.Should, query) for query in queries])


def _boosted(query: Query, boost: float) -> Query:
    return query if boost == 1.0 else Query.boost_query(query, boost)


def _both(scored: Query, filter_: Query) -> Query:
    """``scored`` where ``filter_`` holds as well, which adds nothing to the score."""
    return Query.boolean_query(
        [(Occur.Must, scored), (Occur.Must, Query.const_score_query(filter_, 0.0))]
    )


def _label(text: str) -> str:
    return escaped(text)
