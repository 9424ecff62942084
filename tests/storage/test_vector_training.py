"""Long work on vectors: it can be given up at any moment, and lists lie where they should."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.vector_index import VectorBase, VectorBounds, VectorIndex
from neverforget.storage.vector_math import unit_vectors
from neverforget.storage.vector_training import centres
from tests.storage.test_vector_index import DIMENSION, clustered


class GivenUp(Exception):
    pass


def giving_up_after(calls: int) -> Callable[[], None]:
    left = iter(range(calls))

    def go_on() -> None:
        if next(left, None) is None:
            raise GivenUp

    return go_on


def test_a_fold_can_be_given_up_at_any_moment_of_its_training(rng: random.Random) -> None:
    """FAISS trains for minutes, and no other thread can end it: whoever closed a store waited, or
    left it locked.
    """
    index = VectorIndex(VectorBase.empty(DIMENSION), VectorBounds(flat_max=100))
    vectors = clustered(rng, 3_000)
    index.add(np.arange(3_000), vectors)
    steps: list[None] = []
    fold = index.begin_fold()
    base = fold.run(lambda: steps.append(None))
    assert base.kind == "ivf" and len(base) == 3_000
    assert len(steps) > 20
    for calls in (*range(0, len(steps), 5), len(steps) - 1):
        with pytest.raises(GivenUp):
            fold.run(giving_up_after(calls))
    index.abandon_fold(fold)
    assert len(index) == 3_000
    index.fold()
    assert index.snapshot().search(vectors[7], 1, exact=True).ids.tolist() == [7]


def test_a_base_that_is_given_up_while_it_is_written_leaves_the_old_file(
    tmp_path: Path, rng: random.Random
) -> None:
    fs, path = LocalFileSystem(), tmp_path / "vectors"
    large = VectorIndex(VectorBase.empty(DIMENSION))
    large.add(np.arange(20_000), clustered(rng, 20_000))
    base = large.fold()
    seal = VectorBase.empty(DIMENSION).save(fs, path)
    for calls in range(2):
        with pytest.raises(GivenUp):
            base.save(fs, path, giving_up_after(calls))
        assert len(VectorBase.load(fs, path, seal, DIMENSION)) == 0


def test_centres_lie_among_what_they_are_of_and_none_is_empty(rng: random.Random) -> None:
    alike = np.repeat(clustered(rng, 1), 300, axis=0)
    rows = unit_vectors(np.concatenate([clustered(rng, 500), alike]), DIMENSION)
    found = centres(rows, 64, lambda: None)
    assert found.shape == (64, DIMENSION) and found.dtype == np.float32
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert (rows @ found.T).max(axis=1).mean() > 0.9
    assert np.array_equal(found, centres(rows, 64, lambda: None))
