"""What the text index holds at one moment, for any number of readers. Nothing in it ever changes.

The documents on disk as tantivy's searcher shows them, less those removed since, and the overlay of
recent ones. Scores are BM25, comparable between the two. Queries are made of words, never parsed:
nothing in them is an operator, and nothing in them can raise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tantivy
from tantivy import Occur, Query

from neverforget.storage.surrogates import escaped
from neverforget.storage.text_analysis import query_words
from neverforget.storage.text_overlay import (
    CONTEXT,
    FIELDS,
    TEXT,
    CorpusSize,
    OverlayView,
    TextDocument,
)
from neverforget.storage.vector_math import NO_IDS, NO_SCORES, Array, best, members, sorted_ids

__all__ = ["CONTEXT", "FIELDS", "TEXT", "TextHits", "TextSnapshot"]

QUERY_WORDS_MAX = 64  # of a longer query the rarest words count
_ALLOWED_IN_INDEX_MAX = 1_000  # more allowed ids are cheaper to look for among the hits
_TERMS_EACH_MAX = 100  # so few allowed ids are cheaper as one term each than as a set

Labels = Sequence[str | Sequence[str]]


class TextHits(NamedTuple):
    """Best first. ``scores`` are BM25, above 0; equal ones in the order of their ids."""

    ids: Array
    scores: Array


@dataclass(frozen=True)
class TextSnapshot:
    _searcher: tantivy.Searcher
    _schema: tantivy.Schema
    _analyze: Callable[[str], list[str]]
    _overlay: OverlayView
    _disk: CorpusSize
    removed: Array  # sorted ids whose document on disk is gone or replaced

    def __len__(self) -> int:
        return len(self.ids())

    def ids(self) -> Array:
        """Every live id, ascending. For checks: takes time in the number of documents."""
        hits = self._searcher.search(Query.all_query(), max(1, self._searcher.num_docs), False).hits
        old = np.sort(self._ids_at(hits))
        recent = np.array([document.id for document in self._overlay.living()], np.int64)
        return np.sort(np.concatenate([old[~members(old, self.removed)], recent]))

    def words(self, query: str) -> list[str]:
        """The index words of a query, each once: at most ``QUERY_WORDS_MAX``, the rarest."""
        found = list(dict.fromkeys(self._analyze(" ".join(query_words(query)))))
        if len(found) <= QUERY_WORDS_MAX:
            return found
        kept = sorted(found, key=lambda word: self._frequency(TEXT, word) or 1 << 60)
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
        assert field in FIELDS, field
        words = self.words(query)
        if not words or limit < 1:
            return TextHits(NO_IDS, NO_SCORES)
        wanted = None if allowed is None else sorted_ids(allowed)
        groups = [{_label(g)} if isinstance(g, str) else {_label(x) for x in g} for g in labels]
        old = self._search_disk(words, limit, field, wanted, groups)
        recent = self._search_overlay(words, field, wanted, groups)
        ids, scores = (np.concatenate(pair) for pair in zip(old, recent))
        return TextHits(*best(ids, scores, limit))

    def _search_overlay(
        self, words: list[str], field: str, wanted: Array | None, groups: list[set[str]]
    ) -> tuple[Array, Array]:
        def passes(document: TextDocument) -> bool:
            return all(not group.isdisjoint(document.labels) for group in groups)

        found = self._overlay.search(
            words, field, self._disk, lambda word: self._frequency(field, word), passes
        )
        if not found:
            return NO_IDS, NO_SCORES
        ids = np.array([key for key, _ in found], np.int64)
        scores = np.array([score for _, score in found], np.float32)
        if wanted is not None:
            kept = members(ids, wanted)
            ids, scores = ids[kept], scores[kept]
        return ids, scores

    def _search_disk(
        self,
        words: list[str],
        limit: int,
        field: str,
        wanted: Array | None,
        groups: list[set[str]],
    ) -> tuple[Array, Array]:
        documents = self._searcher.num_docs
        if documents == 0:
            return NO_IDS, NO_SCORES
        query, depth = self._query(words, field, groups), limit + min(limit, len(self.removed))
        if wanted is not None and len(wanted) <= _ALLOWED_IN_INDEX_MAX:
            if not len(wanted):
                return NO_IDS, NO_SCORES
            query = _both(query, self._one_of(wanted))
        elif wanted is not None:
            depth = int(depth * max(1.5, 1.5 * documents / len(wanted)))
        while True:
            hits = self._searcher.search(query, min(depth, documents), count=False).hits
            ids = self._ids_at(hits)
            kept = ~members(ids, self.removed)
            if wanted is not None:
                kept &= members(ids, wanted)
            if int(kept.sum()) >= limit or len(hits) < depth:
                scores = np.array([score for score, _ in hits], np.float32)
                return ids[kept], scores[kept]
            depth *= 8

    def _query(self, words: list[str], field: str, groups: list[set[str]]) -> Query:
        query = _any(self._term(field, word) for word in words)
        for group in groups:
            query = _both(query, _any(self._term("label", label) for label in sorted(group)))
        return query

    def _term(self, field: str, value: Any) -> Query:
        return Query.term_query(self._schema, field, value, "basic" if field == "label" else "freq")

    def _one_of(self, ids: Array) -> Query:
        if len(ids) <= _TERMS_EACH_MAX:
            return _any(self._term("id", key) for key in ids.tolist())
        return Query.term_set_query(self._schema, "id", ids.tolist())

    def _frequency(self, field: str, word: str) -> int:
        return self._searcher.doc_freq(field, word)

    def _ids_at(self, hits: list[tuple[Any, tantivy.DocAddress]]) -> Array:
        values = self._searcher.fast_field_values("id", [address for _, address in hits])
        return np.array(values, np.int64)


def _any(queries: Any) -> Query:
    return Query.boolean_query([(Occur.Should, query) for query in queries])


def _both(scored: Query, filter_: Query) -> Query:
    """``scored`` where ``filter_`` holds as well, which adds nothing to the score."""
    return Query.boolean_query(
        [(Occur.Must, scored), (Occur.Must, Query.const_score_query(filter_, 0.0))]
    )


def _label(text: str) -> str:
    return escaped(text)
