"""The vector index: one writer adds and removes, readers search snapshots that stand still.

    index = VectorIndex(VectorBase.empty(384))
    index.add(ids, vectors); index.remove(ids)      # the writer; at once in the next snapshot
    index.snapshot().search(query, 10, allowed=...)  # any thread

    if index.fold_due():                            # the writer, from time to time
        fold = index.begin_fold()
        base = fold.run()                           # long; any thread, while the writer goes on
        index.finish_fold(fold, base)
        seal = base.save(fs, path)                  # any thread

New vectors go to an overlay that is searched one by one, removed ids to a list that every search
leaves out; a fold makes a new base of both, and the index changes over to it in a moment. So a
search never meets a half-changed FAISS index, and no reader waits for a writer.

What stands for a memory (one id, or several for a long text) is the caller's business. Nothing here
is durable by itself: what the last saved base does not hold, the caller adds again from its log.

Invariants: ids are unique among base less removed plus overlay; ``removed`` is a subset of the
base's ids; an overlay row that is not alive is never found again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from neverforget.storage.errors import InvalidArgument
from neverforget.storage.vector_base import Batch, GoOn, VectorBase, VectorBounds, nothing
from neverforget.storage.vector_math import NO_IDS, Array, members, sorted_ids, unit_vectors
from neverforget.storage.vector_snapshot import Overlay, VectorHits, VectorSnapshot

__all__ = ["Fold", "VectorBase", "VectorBounds", "VectorHits", "VectorIndex", "VectorSnapshot"]

_REMOVED_SHARE_MAX = 8  # removed ids slow every search: a fold is due at an eighth of the base
_ROWS_MIN = 256


@dataclass(frozen=True)
class Fold:
    """What goes into the next base, fixed when the fold began."""

    snapshot: VectorSnapshot

    def run(self, go_on: GoOn = nothing) -> VectorBase:
        """Make the next base. Long, and pure: reads only what never changes. ``go_on`` may end it
        by raising.
        """
        view = self.snapshot
        alive = view.overlay.alive
        added = (view.overlay.ids[alive], np.ascontiguousarray(view.overlay.vectors[alive]))
        return view.base.folded(view.removed, added, view.bounds, go_on)


class VectorIndex:
    """See the module. ``add``, ``remove`` and the folds are called by one writer."""

    def __init__(self, base: VectorBase, bounds: VectorBounds | None = None) -> None:
        self.bounds = bounds or VectorBounds()
        self._lock = threading.Lock()  # held for moments: readers take snapshots under it
        self._base = base
        self._removed = NO_IDS
        self._ids, self._vectors = _rows(_ROWS_MIN, base.dimension)
        self._alive = np.empty(0, bool)
        self._row_of: dict[int, int] = {}  # id -> its row in the overlay, where it is alive
        self._snapshot: VectorSnapshot | None = None
        self._folding: Fold | None = None

    @property
    def dimension(self) -> int:
        return self._base.dimension

    def __len__(self) -> int:
        return len(self.snapshot())

    def snapshot(self) -> VectorSnapshot:
        """What is there now, unchanged for as long as it is held. Cheap; any thread."""
        with self._lock:
            if self._snapshot is None:
                count = len(self._alive)
                overlay = Overlay(self._ids[:count], self._vectors[:count], self._alive)
                self._snapshot = VectorSnapshot(self._base, self._removed, overlay, self.bounds)
            return self._snapshot

    # ---- the writer ------------------------------------------------------------------------------

    def add(self, ids: Any, vectors: Any) -> None:
        """Add vectors under ids; a live id gets the new vector instead of its old one.

        InvalidArgument, and nothing is added, for an id given twice, another dimension, NaN,
        infinity or a vector of zeros.
        """
        given: Array = np.array(ids, dtype=np.int64, ndmin=1)
        rows = unit_vectors(vectors, self.dimension) if len(given) else np.empty((0, 0))
        if given.ndim != 1 or len(rows) != len(given):
            raise InvalidArgument(f"{len(given)} ids for {len(rows)} vectors")
        if len(np.unique(given)) != len(given):
            raise InvalidArgument("an id is given twice in one call")
        if not len(given):
            return
        count = len(self._alive)
        self._make_room(count + len(given))
        with self._lock:
            self._take_out(np.sort(given))
            self._ids[count : count + len(given)] = given
            self._vectors[count : count + len(given)] = rows
            self._alive = np.concatenate([self._alive, np.ones(len(given), bool)])
            self._row_of.update(zip(given.tolist(), range(count, count + len(given))))
            self._snapshot = None

    def remove(self, ids: Any) -> int:
        """Remove ids; those that are not there are passed over. Returns how many were."""
        with self._lock:
            gone = self._take_out(sorted_ids(ids))
            if gone:
                self._snapshot = None
            return gone

    def fold_due(self) -> bool:
        """Whether searches pay for what a fold would clear away."""
        removed_max = max(self.bounds.overlay_max, len(self._base) // _REMOVED_SHARE_MAX)
        return self._folding is None and (
            len(self._alive) >= self.bounds.overlay_max or len(self._removed) >= removed_max
        )

    def fold_trains(self) -> bool:
        """Whether a fold of now would train lists anew, which takes long."""
        return not self._base.serves(len(self), self.bounds)

    def begin_fold(self) -> Fold:
        """Fix what the next base will hold. One fold at a time."""
        assert self._folding is None, "a fold is under way"
        self._folding = Fold(self.snapshot())
        return self._folding

    def finish_fold(self, fold: Fold, base: VectorBase) -> None:
        """Change over to the base that ``fold`` made. What was added and removed meanwhile stays
        so.
        """
        assert fold is self._folding, "not the fold that is under way"
        before = fold.snapshot
        # Only the writer changes these, and that is the one who calls: readers need not wait.
        count = len(before.overlay.alive)
        # Of what went into the base, these have been removed or replaced since.
        died = before.overlay.alive & ~self._alive[:count]
        later = self._removed[~members(self._removed, before.removed)]
        removed = np.sort(np.concatenate([before.overlay.ids[died], later]))
        alive = self._alive[count:].copy()
        used = slice(count, count + len(alive))
        ids, vectors = _rows(max(_ROWS_MIN, len(alive)), self.dimension)
        ids[: len(alive)], vectors[: len(alive)] = self._ids[used], self._vectors[used]
        row_of = {key: row - count for key, row in self._row_of.items() if row >= count}
        with self._lock:
            self._base, self._removed = base, removed
            self._alive, self._ids, self._vectors = alive, ids, vectors
            self._row_of, self._snapshot = row_of, None
        self._folding = None

    def abandon_fold(self, fold: Fold) -> None:
        """Forget a fold that failed; the index stays as it is and may begin another."""
        assert fold is self._folding, "not the fold that is under way"
        self._folding = None

    def fold(self) -> VectorBase:
        """The three steps of a fold at once, in the writer's thread. Returns the base that now
        holds everything.
        """
        fold = self.begin_fold()
        try:
            base = fold.run()
        except BaseException:
            self.abandon_fold(fold)
            raise
        self.finish_fold(fold, base)
        return base

    # ---- inside ----------------------------------------------------------------------------------

    def _take_out(self, ids: Array) -> int:
        """Under the lock: let sorted ``ids`` die, wherever they live."""
        rows = [row for key in ids.tolist() if (row := self._row_of.pop(key, None)) is not None]
        if rows:
            self._alive = self._alive.copy()  # snapshots hold the old one
            self._alive[rows] = False
        old = ids[members(ids, self._base.ids)]
        old = old[~members(old, self._removed)]
        if len(old):
            self._removed = np.sort(np.concatenate([self._removed, old]))
        return len(rows) + len(old)

    def _make_room(self, count: int) -> None:
        if count <= len(self._ids):
            return
        ids, vectors = _rows(max(count, 2 * len(self._ids)), self.dimension)
        used = len(self._alive)
        ids[:used], vectors[:used] = self._ids[:used], self._vectors[:used]
        self._ids, self._vectors = ids, vectors  # snapshots keep the old rows


def build_base(
    dimension: int,
    batches: Callable[[], Iterable[tuple[Any, Any]]],
    count: int,
    bounds: VectorBounds | None = None,
) -> VectorBase:
    """A base of everything that ``batches()`` yields as (ids, vectors), for a rebuild: one batch is
    in memory at a time. ``count``: how many vectors. Asked twice where there are many. Vectors of
    any length; InvalidArgument as ``VectorIndex.add``.
    """

    def checked() -> Iterator[Batch]:
        for ids, vectors in batches():
            given: Array = np.array(ids, dtype=np.int64, ndmin=1)
            if len(given):
                yield given, unit_vectors(vectors, dimension)

    return VectorBase.build(dimension, checked, count, bounds)


def _rows(count: int, dimension: int) -> tuple[Array, Array]:
    return np.empty(count, np.int64), np.empty((count, dimension), np.float32)
