"""What the vector index holds at one moment, for any number of readers. Nothing in it ever changes.

A base, less what was removed from it since it was made, and an overlay: the vectors that came
since, searched one by one. A filter is a set of ids and is applied inside the search; where it
leaves few, they are all looked at, so that ``k`` hits come back whenever they exist.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from neverforget.storage.vector_base import VectorBase, VectorBounds
from neverforget.storage.vector_math import (
    NO_IDS,
    NO_SCORES,
    Array,
    IdBits,
    best,
    ids_of,
    inner_products,
    members,
    selector_of,
    selector_of_bits,
    selector_without,
    sorted_ids,
    unit_vectors,
    without,
)

_PROBES_FACTOR_MAX = 8  # how many times the lists a filter may make a search look into
_SCAN_PER_VECTOR = 100  # fetching one vector by its id costs as much as passing over so many


class VectorHits(NamedTuple):
    """Best first. ``scores`` are cosines, -1..1; equal ones in the order of their ids."""

    ids: Array
    scores: Array


@dataclass(frozen=True)
class Overlay:
    """Recent vectors, in the order they came. Arrays are views of what the writer goes on filling
    behind them; ``alive`` is this snapshot's own.
    """

    ids: Array
    vectors: Array
    alive: Array


@dataclass(frozen=True)
class VectorSnapshot:
    base: VectorBase
    removed: Array  # sorted ids of the base that are gone
    overlay: Overlay
    bounds: VectorBounds

    def __len__(self) -> int:
        return len(self.base) - len(self.removed) + int(self.overlay.alive.sum())

    @property
    def dimension(self) -> int:
        return self.base.dimension

    def ids(self) -> Array:
        """Every live id, ascending. A copy."""
        recent = self.overlay.ids[self.overlay.alive]
        return np.sort(np.concatenate([without(self.base.ids, self.removed), recent]))

    def vectors(self, ids: Any) -> tuple[Array, Array]:
        """(ids, vectors) of those of ``ids`` that are live, ascending."""
        wanted = sorted_ids(ids)
        rows = np.flatnonzero(self.overlay.alive & members(self.overlay.ids, wanted))
        old = without(wanted[members(wanted, self.base.ids)], self.removed)
        found = np.concatenate([old, self.overlay.ids[rows]])
        parts = [self.overlay.vectors[rows]]
        if len(old):
            parts.insert(0, self.base.vectors(old))
        order = np.argsort(found)
        return found[order], np.concatenate(parts)[order]

    def search(self, query: Any, k: int, *, allowed: Any = None, exact: bool = False) -> VectorHits:
        """The ``k`` nearest to ``query``, among ``allowed`` where that is given: ids, or IdBits.

        ``exact`` looks at every vector (an IVF's 8-bit codes are all there is of its vectors).
        InvalidArgument for a query of another dimension, zero, or not finite.
        """
        vector = unit_vectors(query, self.dimension)[0]
        if k < 1:
            return VectorHits(NO_IDS, NO_SCORES)
        wanted: Array | IdBits | None = allowed
        if wanted is not None and not isinstance(wanted, IdBits):
            wanted = sorted_ids(wanted)
        recent = self._search_overlay(vector, wanted)
        if isinstance(wanted, IdBits):
            old = self._search_bits(vector, k, wanted, exact)
        else:
            old = self._search_base(vector, k, wanted, exact)
        found = best(np.concatenate([old[0], recent[0]]), np.concatenate([old[1], recent[1]]), k)
        return VectorHits(*found)

    def _search_overlay(self, vector: Array, wanted: Array | IdBits | None) -> tuple[Array, Array]:
        seen = self.overlay.alive
        if isinstance(wanted, IdBits):
            seen = seen & wanted.holds(self.overlay.ids)
        elif wanted is not None:
            seen = seen & members(self.overlay.ids, wanted)
        scores = inner_products(vector, self.overlay.vectors)
        return self.overlay.ids[seen], scores[seen]

    def _search_base(
        self, vector: Array, k: int, wanted: Array | None, exact: bool
    ) -> tuple[Array, Array]:
        base = self.base
        if wanted is None:
            found = base.search(
                vector, k, self._alive_selector, None if exact else self.bounds.probes
            )
            if not exact and len(found[0]) < min(k, len(base) - len(self.removed)):
                found = base.search(vector, k, self._alive_selector, None)
            return found
        few = max(self.bounds.exact_max, k)
        if len(wanted) <= 4 * few:  # for more, finding out which are here costs as much as a search
            here = without(wanted[members(wanted, base.ids)], self.removed)
            if len(here) == 0:
                return NO_IDS, NO_SCORES
            if len(here) <= few and len(here) * _SCAN_PER_VECTOR < len(base):
                return best(here, base.scores(vector, here), k)
            exact = exact or len(here) <= few
            wanted = here
        else:
            wanted = without(wanted, self.removed)
        return self._search_selected(vector, k, selector_of(wanted), len(wanted), exact)

    def _search_bits(
        self, vector: Array, k: int, wanted: IdBits, exact: bool
    ) -> tuple[Array, Array]:
        """As ``_search_base``: a bit an id instead of its 8 bytes."""
        base = self.base
        bits, beyond = base.bits
        shared = min(len(bits), len(wanted.bits))
        here = bits[:shared] & wanted.bits[:shared]
        # Ids that are bits here and lie beyond those of ``wanted``: few, or none.
        rest = np.concatenate([ids_of(bits[shared:]) + 8 * shared, beyond])
        rest = without(rest[wanted.holds(rest)], self.removed)
        gone = self.removed[self.removed.searchsorted(0) : self.removed.searchsorted(8 * shared)]
        np.bitwise_and.at(here, gone >> 3, ~(1 << (gone & 7)).astype(np.uint8))
        count = int(np.bitwise_count(here).sum()) + len(rest)
        if count == 0:
            return NO_IDS, NO_SCORES
        few = max(self.bounds.exact_max, k)
        if count <= few and count * _SCAN_PER_VECTOR < len(base):
            ids = np.concatenate([ids_of(here), rest])
            return best(ids, base.scores(vector, ids), k)
        selector = selector_of_bits(here, rest)
        return self._search_selected(vector, k, selector, count, exact or count <= few)

    def _search_selected(
        self, vector: Array, k: int, selector: Any, count: int, exact: bool
    ) -> tuple[Array, Array]:
        """Among the ``count`` that the selector lets through."""
        base = self.base
        if not exact:
            # What passes a filter lies farther away, on average, than what is nearest of all.
            rarity = math.sqrt(len(base) / max(count, 1))
            probes = int(self.bounds.probes * min(_PROBES_FACTOR_MAX, max(1.0, rarity)))
            found = base.search(vector, k, selector, probes)
            if len(found[0]) == min(k, count, len(base)):
                return found
        return base.search(vector, k, selector, None)

    @cached_property
    def _alive_selector(self) -> Any:
        return selector_without(self.removed)
