"""Small numeric pieces around FAISS: unit vectors, sorted sets of ids, selectors, one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, NamedTuple

import numpy as np

from neverforget.storage.errors import InvalidArgument

faiss: Any = import_module("faiss")  # its stubs lack half of what it has

Array = np.ndarray[Any, np.dtype[Any]]

NO_IDS: Array = np.empty(0, np.int64)
NO_SCORES: Array = np.empty(0, np.float32)

BITS_PER_ID_MAX: Final = 64  # a bitmap beats a hash set while it is no larger than that


@contextmanager
def one_thread() -> Iterator[None]:
    """FAISS on this thread alone: for one query a second thread costs more than it brings, and
    background work must leave the other core to the owner. The setting is the calling thread's, and
    it is put back: the thread may be the application's.
    """
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def unit_vectors(vectors: Any, dimension: int) -> Array:
    """A float32 copy (n, dimension) with every row of length 1. InvalidArgument for another shape,
    NaN, infinity, or a row of zeros: an embedding that failed must not be stored as one.
    """
    rows: Array = np.array(vectors, dtype=np.float32, order="C", ndmin=2)
    if rows.ndim != 2 or rows.shape[1] != dimension:
        raise InvalidArgument(f"vectors of shape {rows.shape}, expected (n, {dimension})")
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        bad = int(np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))[0])
        raise InvalidArgument(f"vector {bad} is zero or not finite; embed its text again")
    rows /= lengths[:, None].astype(np.float32)
    return rows


def sorted_ids(ids: Any) -> Array:
    """int64, ascending, each once; of an array, a sequence, or any other iterable of integers."""
    if not isinstance(ids, np.ndarray):
        ids = list(ids)
    given: Array = np.asarray(ids, dtype=np.int64).ravel()
    if len(given) > 1 and not (given[1:] > given[:-1]).all():
        given = np.unique(given)
    return given


def members(ids: Array, of: Array) -> Array:
    """A mask over ``ids``: which are in ``of``, which is sorted."""
    if not len(of):
        return np.zeros(len(ids), bool)
    at = np.minimum(np.searchsorted(of, ids), len(of) - 1)
    mask: Array = of[at] == ids
    return mask


def without(ids: Array, removed: Array) -> Array:
    """Sorted ``ids`` less sorted ``removed``."""
    return ids[~members(ids, removed)] if len(removed) else ids


class IdBits(NamedTuple):
    """A set of ids: ``bits`` has the lowest of them, eight a byte, the first in its lowest bit;
    ``holds`` tells of any ids which are in the set.
    """

    bits: Array
    holds: Callable[[Array], Array]


def bits_of(ids: Array) -> Array:
    """Sorted ids from 0 on as ``IdBits.bits``."""
    if not len(ids):
        return np.empty(0, np.uint8)
    bits = np.zeros((int(ids[-1]) // 8 + 1) * 8, np.uint8)
    bits[ids] = 1
    return np.packbits(bits, bitorder="little")


def ids_of(bits: Array) -> Array:
    """The sorted ids that ``bits`` has."""
    places = np.flatnonzero(bits)
    set_ = np.unpackbits(bits[places][:, None], axis=1, bitorder="little").astype(bool)
    ids: Array = (places[:, None] * 8 + np.arange(8))[set_]
    return ids


def selector_of_bits(bits: Array, beyond: Array) -> Any:
    """A FAISS selector of the ids of ``bits`` and the sorted ids ``beyond`` these."""
    selector = faiss.IDSelectorBitmap(bits)
    return faiss.IDSelectorOr(selector, faiss.IDSelectorBatch(beyond)) if len(beyond) else selector


def selector_of(ids: Array) -> Any:
    """A FAISS selector of exactly the sorted ``ids``, the cheaper kind for how dense they are."""
    if len(ids) and ids[0] >= 0 and int(ids[-1]) < BITS_PER_ID_MAX * len(ids):
        return faiss.IDSelectorBitmap(bits_of(ids))
    return faiss.IDSelectorBatch(ids)


def selector_without(ids: Array) -> Any:
    """A FAISS selector of everything but ``ids``; None when that is everything."""
    return faiss.IDSelectorNot(selector_of(ids)) if len(ids) else None


def inner_products(query: Array, rows: Array) -> Array:
    """``rows @ query`` by FAISS's own loop: BLAS would wake a second thread for it (12 ms instead
    of 0.2 for 4,096 rows on a busy machine).
    """
    scores: Array = np.empty(len(rows), np.float32)
    if len(rows):
        faiss.fvec_inner_products_ny(
            faiss.swig_ptr(scores),
            faiss.swig_ptr(query),
            faiss.swig_ptr(rows),
            rows.shape[1],
            len(rows),
        )
    return scores


def best(ids: Array, scores: Array, k: int) -> tuple[Array, Array]:
    """The ``k`` highest, best first; equal scores by ascending id."""
    if len(ids) > 4 * k:
        floor = np.partition(scores, len(scores) - k)[len(scores) - k]
        kept = scores >= floor
        ids, scores = ids[kept], scores[kept]
    order = np.lexsort((ids, -scores))[:k]
    return ids[order], scores[order]
