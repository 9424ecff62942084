"""A search's view of the long-term tier: it stands still while owner and indexer go on.

Three legs are searched independently: ``text`` (the memory's words and its date in words),
``context`` (words of its neighbours) and ``vector`` (meaning). Filters are applied inside each
search, and where they leave few memories, those are looked at one by one: a leg finds as many as
exist, up to what is asked for. Every memory is found once, however many vectors and chunks point to
it. What one leg found the others can score (``scores``), so that fusing compares like with like.

What is forgotten is in no view made after the owner noticed it, whatever the indexes still hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from neverforget.storage.errors import Corrupt
from neverforget.storage.longterm_bodies import BodySource
from neverforget.storage.longterm_documents import ForgottenTexts
from neverforget.storage.longterm_fields import M, MemoryField
from neverforget.storage.longterm_gate import Gate
from neverforget.storage.longterm_results import MemoryFilter
from neverforget.storage.longterm_rows import RowsView
from neverforget.storage.memory_table import Array
from neverforget.storage.text_index import CONTEXT, TEXT, TextSnapshot
from neverforget.storage.vector_index import VectorSnapshot
from neverforget.storage.vector_math import IdBits, members

WINDOW_BITS: Final = 3  # the first eight windows of all memories lie densely, for FAISS's bitmaps
_HIGH_BITS: Final = 40
_ROW_MASK: Final = (1 << (_HIGH_BITS - WINDOW_BITS)) - 1
_LOW_MASK: Final = (1 << WINDOW_BITS) - 1


def vector_ids(row: int, windows: int) -> Array:
    """Ids of the vectors of a memory's windows, in order."""
    numbers: Array = np.arange(windows, dtype=np.int64)
    high, low = numbers >> WINDOW_BITS, numbers & _LOW_MASK
    ids: Array = (high << _HIGH_BITS) | (row << WINDOW_BITS) | low
    return ids


def rows_of_vectors(ids: Array) -> Array:
    rows: Array = (ids >> WINDOW_BITS) & _ROW_MASK
    return rows


def vector_ids_of(vectors: VectorSnapshot, rows: Array) -> Array:
    """All ids that vectors of these ``rows`` (ascending) have, and maybe some that none has."""
    first = 1 << _HIGH_BITS
    old = vectors.base.ids[np.searchsorted(vectors.base.ids, first) :]
    recent = vectors.overlay.ids
    later = np.concatenate([old, recent[recent >= first]])
    low = (rows[:, None] << WINDOW_BITS) | np.arange(1 << WINDOW_BITS)
    return np.concatenate([low.ravel(), np.unique(later[members(rows_of_vectors(later), rows)])])


class Found(NamedTuple):
    """Best first. ``rows``: memories, each once; ``parts``: where each was found best, itself or
    one of its chunks. ``seen``: (parts, scores) of all that matched, if that is known; None where
    there may be more.
    """

    rows: list[int]
    scores: list[float]
    parts: list[int]
    seen: tuple[Array, Array] | None = None


class _Hits(NamedTuple):
    """What a search found, best first; ``complete``: there is no more."""

    parts: Array
    scores: Array
    complete: bool


@dataclass(frozen=True)
class LongTermView:
    """``words_upto``, ``vectors_upto``: every write below that log position can be found so; a long
    memory by vectors of its own, its chunks may come later. ``waiting`` and ``failed`` count
    memories without vectors. ``lagging``: the indexes hold what the rows no longer have.
    ``hiding``: texts that are forgotten and not yet cut out of what is indexed of their neighbours;
    None where they are too many to look for.
    """

    rows: RowsView
    text: TextSnapshot
    vectors: VectorSnapshot | None
    bodies: BodySource
    words_upto: int
    vectors_upto: int
    waiting: int
    failed: int
    lagging: bool
    hiding: ForgottenTexts | None

    def gate(self, wanted: MemoryFilter) -> Gate:
        """Raises InvalidArgument for a filter that means nothing."""
        return Gate(self, wanted)

    # ---- finding ---------------------------------------------------------------------------------

    def find_words(self, query: str, limit: int, gate: Gate, field: str = TEXT) -> Found:
        """By BM25 of ``query`` in one field."""
        if field == CONTEXT and self.hiding is None:
            return Found([], [], [])

        def search(count: int) -> _Hits:
            labels = () if gate.open else gate.labels
            return _Hits(
                *self.text.matches(query, count, field=field, allowed=gate.words, labels=labels)
            )

        return self._distinct(search, limit, gate, field == CONTEXT)

    def find_near(self, query: Any, limit: int, gate: Gate, *, exact: bool = False) -> Found:
        """By the cosine to ``query``, a vector."""
        vectors = self.vectors
        if vectors is None:
            return Found([], [], [])

        def search(count: int) -> _Hits:
            allowed = None if gate.open else _vectors_of(gate.mask)
            ids, scores = vectors.search(query, count, allowed=allowed, exact=exact)
            return _Hits(rows_of_vectors(ids), scores, len(ids) < count)

        return self._distinct(search, limit, gate)

    def _distinct(
        self,
        search: Callable[[int], _Hits],
        limit: int,
        gate: Gate,
        context: bool = False,
    ) -> Found:
        """The best ``limit`` memories of a search that finds rows, maybe several of one memory."""
        asked = limit
        while True:
            hits = search(asked)
            found = Found([], [], [], (hits.parts, hits.scores) if hits.complete else None)
            taken: set[int] = set()
            originals = self.rows.originals(hits.parts).tolist()
            for at, original in enumerate(originals):
                if original in taken or not gate.passes(original):
                    continue
                if context and self._shows_hidden(original):
                    continue
                taken.add(original)
                found.rows.append(original)
                found.parts.append(int(hits.parts[at]))
                found.scores.append(float(hits.scores[at]))
                if len(taken) == limit:
                    break
            if len(taken) == limit or hits.complete:
                return found
            asked = gate.next_depth(asked, len(taken), limit)

    def _shows_hidden(self, row: int) -> bool:
        """Whether a text that is forgotten stands in its context still."""
        if not self.hiding:
            return False
        try:
            body = self.bodies.read(int(self.rows.column("position")[row]))[1]
        except Corrupt:
            return True
        return self.hiding.stand_in(str(body.get(M[MemoryField.CONTEXT], "")))

    # ---- scoring what others found ---------------------------------------------------------------

    def word_scores(
        self, query: str, rows: Sequence[int], field: str = TEXT, found: Found | None = None
    ) -> dict[int, float]:
        """BM25 of ``query`` for each of these rows, chunks by themselves; 0 for one without any of
        its words. ``found``: by the same query in the same field, where it knows already.
        """
        scores = dict.fromkeys(rows, 0.0)
        if not rows or (field == CONTEXT and self.hiding is None):
            return scores
        wanted = np.unique(np.array(rows, np.int64))
        if found is not None and found.seen is not None:
            there = members(found.seen[0], wanted)
            ids, given = found.seen[0][there], found.seen[1][there]
        else:
            ids, given = self.text.search(query, len(wanted), field=field, allowed=wanted)
        scores.update(zip(ids.tolist(), given.tolist()))
        if field == CONTEXT and self.hiding:
            scores.update({row: 0.0 for row in rows if scores[row] and self._shows_hidden(row)})
        return scores

    def near_scores(self, query: Any, rows: Sequence[int]) -> dict[int, float]:
        """Cosines of these rows to ``query``, chunks by themselves, of several windows the nearest;
        those without a vector are left out.
        """
        scores: dict[int, float] = {}
        if self.vectors is not None and rows:
            wanted = np.unique(np.array(rows, np.int64))
            vector = np.asarray(query, np.float32).reshape(-1)
            ids, vectors = self.vectors.vectors(vector_ids_of(self.vectors, wanted))
            cosines = vectors @ (vector / float(np.linalg.norm(vector)))
            for row, score in zip(rows_of_vectors(ids).tolist(), cosines.tolist()):
                scores[row] = max(score, scores.get(row, -2.0))
        return scores


def _vectors_of(mask: Array) -> IdBits:
    """The ids of all windows of these rows: a byte a row, all of its bits alike."""
    assert WINDOW_BITS == 3

    def holds(ids: Array) -> Array:
        rows = rows_of_vectors(ids)
        found: Array = rows < len(mask)
        found[found] = mask[rows[found]]
        return found

    return IdBits(mask.view(np.uint8) * np.uint8(0xFF), holds)
