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
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from neverforget.storage.errors import Corrupt
from neverforget.storage.longterm_bodies import BodySource
from neverforget.storage.longterm_results import MemoryFilter
from neverforget.storage.longterm_rows import RowsView
from neverforget.storage.longterm_where import Where
from neverforget.storage.memory_table import Array
from neverforget.storage.text_index import CONTEXT, TEXT, TextSnapshot
from neverforget.storage.vector_index import VectorSnapshot
from neverforget.storage.vector_math import members

WINDOW_BITS: Final = 3  # the first eight windows of all memories lie densely, for FAISS's bitmaps
_HIGH_BITS: Final = 40
_ROW_MASK: Final = (1 << (_HIGH_BITS - WINDOW_BITS)) - 1
_LOW_MASK: Final = (1 << WINDOW_BITS) - 1

_WIDER = 4  # how much more is looked at when duplicates or ``where`` left too few


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
    one of its chunks.
    """

    rows: list[int]
    scores: list[float]
    parts: list[int]


class Gate:
    """What a filter lets through, for all legs of one search."""

    def __init__(self, view: LongTermView, wanted: MemoryFilter) -> None:
        self._view = view
        self.mask: Array = view.rows.passing(wanted)
        self._where = Where(wanted.where) if wanted.where else None
        self._known: dict[int, bool] = {}
        # Nothing to leave out: the indexes hold what lives, and all of that passes.
        self.open = not view.lagging and bool((self.mask == view.rows.living).all())

    @cached_property
    def rows(self) -> Array:
        return np.flatnonzero(self.mask)

    def passes(self, original: int) -> bool:
        """Whether its metadata match as well. An unreadable one does not."""
        if self._where is None:
            return True
        known = self._known.get(original)
        if known is None:
            position = int(self._view.rows.column("position")[original])
            try:
                known = self._where.matches(self._view.bodies.read(position)[1])
            except Corrupt:
                known = False
            self._known[original] = known
        return known


@dataclass(frozen=True)
class LongTermView:
    """``words_upto``, ``vectors_upto``: every write below that log position can be found so.
    ``waiting`` and ``failed`` count memories without vectors. ``lagging``: the indexes hold what
    the rows no longer have. ``hiding``: a forgotten text is still being cut out of its neighbours.
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
    hiding: bool

    def gate(self, wanted: MemoryFilter) -> Gate:
        """Raises InvalidArgument for a filter that means nothing."""
        return Gate(self, wanted)

    # ---- finding ---------------------------------------------------------------------------------

    def find_words(self, query: str, limit: int, gate: Gate, field: str = TEXT) -> Found:
        """By BM25 of ``query`` in one field."""
        if field == CONTEXT and self.hiding:
            return Found([], [], [])
        allowed = None if gate.open else gate.rows

        def search(count: int) -> tuple[Array, Array]:
            return self.text.search(query, count, field=field, allowed=allowed)

        return self._distinct(search, limit, gate)

    def find_near(self, query: Any, limit: int, gate: Gate, *, exact: bool = False) -> Found:
        """By the cosine to ``query``, a vector."""
        vectors = self.vectors
        if vectors is None:
            return Found([], [], [])
        allowed = None if gate.open else self._allowed_vectors(gate)

        def search(count: int) -> tuple[Array, Array]:
            ids, scores = vectors.search(query, count, allowed=allowed, exact=exact)
            return rows_of_vectors(ids), scores

        return self._distinct(search, limit, gate)

    def _allowed_vectors(self, gate: Gate) -> Array:
        assert self.vectors is not None
        old, recent = self.vectors.base.ids, np.sort(self.vectors.overlay.ids)
        old, recent = (ids[gate.mask[rows_of_vectors(ids)]] for ids in (old, recent))
        return np.unique(np.concatenate([old, recent])) if len(recent) else old

    def _distinct(
        self, search: Callable[[int], tuple[Array, Array]], limit: int, gate: Gate
    ) -> Found:
        """The best ``limit`` memories of a search that finds rows, maybe several of one memory."""
        asked = limit
        while True:
            parts, scores = search(asked)
            found = Found([], [], [])
            seen: set[int] = set()
            originals = self.rows.originals(parts).tolist()
            for original, part, score in zip(originals, parts.tolist(), scores.tolist()):
                if original in seen or len(seen) == limit or not gate.passes(original):
                    continue
                seen.add(original)
                found.rows.append(original)
                found.scores.append(score)
                found.parts.append(part)
            if len(seen) == limit or len(parts) < asked:
                return found
            asked *= _WIDER

    # ---- scoring what others found ---------------------------------------------------------------

    def word_scores(self, query: str, rows: Sequence[int], field: str = TEXT) -> dict[int, float]:
        """BM25 of ``query`` for each of these memories; 0 for one without any of its words."""
        scores = dict.fromkeys(rows, 0.0)
        if rows and not (field == CONTEXT and self.hiding):
            wanted = self._members(rows)
            hits = self.text.search(query, len(wanted), field=field, allowed=wanted)
            self._keep_best(scores, hits.ids, hits.scores)
        return scores

    def near_scores(self, query: Any, rows: Sequence[int]) -> dict[int, float]:
        """Cosines of these memories to ``query``; those without a vector are left out."""
        scores: dict[int, float] = {}
        if self.vectors is not None and rows:
            vector = np.asarray(query, np.float32).reshape(-1)
            ids, vectors = self.vectors.vectors(vector_ids_of(self.vectors, self._members(rows)))
            length = float(np.linalg.norm(vector))
            self._keep_best(scores, rows_of_vectors(ids), vectors @ (vector / length))
        return scores

    def _members(self, rows: Sequence[int]) -> Array:
        """These memories and their chunks, ascending."""
        wanted = np.unique(np.array(rows, np.int64))
        parts = self.rows.parts(wanted)
        return np.union1d(wanted, parts) if len(parts) else wanted

    def _keep_best(self, scores: dict[int, float], parts: Array, found: Array) -> None:
        originals = self.rows.originals(parts)
        for original, score in zip(originals.tolist(), found.tolist()):
            scores[original] = max(score, scores.get(original, -2.0))
