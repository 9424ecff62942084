"""Centres of the lists of an IVF: k-means, as FAISS does it, in steps that may be given up between.

FAISS's own training of a million vectors takes minutes and cannot be ended from another thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from neverforget.storage.vector_math import Array, faiss, one_thread

_ITERATIONS: Final = 10
_SEED: Final = 1234
_STEP_PRODUCTS: Final = 1 << 30  # multiplications in a step: about a tenth of a second
_STEP_ROWS: Final = 8_192


def centres(training: Array, count: int, go_on: Callable[[], object]) -> Array:
    """``count`` unit vectors, float32, about which the unit vectors ``training``, at least as
    many, lie. The same for the same training. ``go_on`` may end it by raising.
    """
    random = np.random.default_rng(_SEED)
    found = training[random.permutation(len(training))[:count]].copy()
    for _ in range(_ITERATIONS):
        nearest = _nearest(training, found, go_on)
        found = _directions(training, nearest, found, go_on)
    return found


def _nearest(training: Array, found: Array, go_on: Callable[[], object]) -> Array:
    """The number of the nearest centre of each row."""
    lists = faiss.IndexFlatIP(found.shape[1])
    lists.add(found)
    nearest = np.empty(len(training), np.int64)
    rows = max(64, _STEP_PRODUCTS // found.size)
    for at in range(0, len(training), rows):
        go_on()
        with one_thread():
            nearest[at : at + rows] = lists.search(training[at : at + rows], 1)[1][:, 0]
    return nearest


def _directions(
    training: Array, nearest: Array, before: Array, go_on: Callable[[], object]
) -> Array:
    """Of the sums of what lies about each centre."""
    order = np.argsort(nearest, kind="stable")
    sums = np.zeros_like(before)
    for at in range(0, len(order), _STEP_ROWS):
        go_on()
        rows = order[at : at + _STEP_ROWS]
        labels = nearest[rows]
        starts = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
        sums[labels[starts]] += np.add.reduceat(training[rows], starts, axis=0)
    counts = np.bincount(nearest, minlength=len(before))
    for empty in np.flatnonzero(counts == 0).tolist():  # the largest one is split
        largest = int(counts.argmax())
        shift = np.where(np.arange(before.shape[1]) % 2, 1 / 1024, -1 / 1024).astype(np.float32)
        sums[empty] = sums[largest] * (1 + shift)
        sums[largest] *= 1 - shift
        counts[empty] = counts[largest] // 2
        counts[largest] -= counts[empty]
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    found: Array = np.where(lengths > 0, sums / np.maximum(lengths, 1e-30), before)
    return np.ascontiguousarray(found, np.float32)
