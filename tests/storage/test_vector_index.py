"""The vector index against a model that multiplies everything: ids, order, filters, folds, threads.

The model is a dict of unit vectors and a full sort. On the flat part results must be the model's;
on the IVF part, whose vectors are 8-bit codes, ids must be live and most of the best ten the same.
"""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neverforget.storage.errors import Corrupt, InvalidArgument
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.vector_index import (
    VectorBase,
    VectorBounds,
    VectorIndex,
    VectorSnapshot,
    build_base,
)
from neverforget.storage.vector_math import IdBits, bits_of, faiss, ids_of

FS = LocalFileSystem()
DIMENSION = 24
# Small enough that a test of a few thousand vectors meets every part of the index.
SMALL = VectorBounds(flat_max=600, overlay_max=64, exact_max=40, probes=12)

Array = np.ndarray[Any, np.dtype[Any]]


def clustered(rng: random.Random, count: int, dimension: int = DIMENSION) -> Array:
    """Vectors as embeddings lie: around centres, not evenly."""
    numpy_rng = np.random.default_rng(rng.getrandbits(64))
    centres = np.random.default_rng(1).standard_normal((20, dimension))  # the same for all
    near = centres[numpy_rng.integers(0, 20, count)]
    rows: Array = (near + 0.6 * numpy_rng.standard_normal((count, dimension))).astype(np.float32)
    return rows


class Model:
    """Every live vector, and the exact answer."""

    def __init__(self) -> None:
        self.vectors: dict[int, Array] = {}

    def add(self, ids: Array, vectors: Array) -> None:
        for key, vector in zip(ids.tolist(), vectors):
            self.vectors[key] = vector / np.linalg.norm(vector)

    def remove(self, ids: list[int]) -> int:
        return sum(self.vectors.pop(key, None) is not None for key in set(ids))

    def best(self, query: Array, k: int, allowed: set[int] | None = None) -> list[int]:
        ids = [key for key in self.vectors if allowed is None or key in allowed]
        scores = {key: float(self.vectors[key] @ query) for key in ids}
        return sorted(ids, key=lambda key: (-scores[key], key))[:k]

    def ids(self) -> list[int]:
        return sorted(self.vectors)


def unit(vector: Array) -> Array:
    found: Array = vector / np.linalg.norm(vector)
    return found


def overlap(found: list[int], expected: list[int]) -> float:
    return len(set(found) & set(expected)) / max(1, len(expected))


@pytest.mark.parametrize("flat_max", [100_000, 150], ids=["flat", "ivf"])
def test_random_adds_and_removes_agree_with_a_model(rng: random.Random, flat_max: int) -> None:
    """Field report 23: index ids equal live ids, and what was removed is never found, not even as
    the neighbour it was before.
    """
    bounds = VectorBounds(flat_max=flat_max, overlay_max=64, exact_max=40, probes=12)
    index, model = VectorIndex(VectorBase.empty(DIMENSION), bounds), Model()
    agreed: list[float] = []
    for step in range(120):
        if rng.random() < 0.6:
            ids = np.array(rng.sample(range(2_000), 25))  # some are there already: replaced
            vectors = clustered(rng, 25)
            index.add(ids, vectors)
            model.add(ids, vectors)
        else:
            gone = rng.choices(range(2_000), k=12)  # some twice, some not there
            assert index.remove(gone) == model.remove(gone)
        if index.fold_due():
            index.fold()
        if step % 10 == 9:
            snapshot = index.snapshot()
            assert snapshot.ids().tolist() == model.ids()
            assert len(snapshot) == len(index) == len(model.vectors)
            query = unit(clustered(rng, 1)[0])
            found = snapshot.search(query, 10).ids.tolist()
            assert set(found) <= model.vectors.keys() and len(found) == len(set(found)) == 10
            if snapshot.base.kind == "flat":
                assert found == model.best(query, 10)
            agreed.append(overlap(found, model.best(query, 10)))
            everything = snapshot.search(query, 3_000)
            assert sorted(everything.ids.tolist()) == model.ids()
    assert index.snapshot().base.kind == ("ivf" if flat_max == 150 else "flat")
    assert np.mean(agreed) >= 0.9


def test_every_live_vector_finds_itself_and_no_removed_one_is_found(rng: random.Random) -> None:
    index = VectorIndex(VectorBase.empty(DIMENSION), SMALL)
    vectors = clustered(rng, 900)
    index.add(np.arange(900), vectors)
    index.fold()
    assert index.snapshot().base.kind == "ivf"
    gone = set(rng.sample(range(900), 200))
    index.remove(sorted(gone))
    for folded in (False, True):
        if folded:
            index.fold()
        snapshot = index.snapshot()
        for key in range(0, 900, 7):
            found = snapshot.search(vectors[key], 5, exact=True).ids.tolist()
            assert not gone & set(found)
            assert (found[0] == key) == (key not in gone)


def test_a_snapshot_stands_still_while_the_writer_goes_on(rng: random.Random) -> None:
    index = VectorIndex(VectorBase.empty(DIMENSION), SMALL)
    vectors = clustered(rng, 300)
    index.add(np.arange(100), vectors[:100])
    index.fold()
    index.add(np.arange(100, 130), vectors[100:130])
    before = index.snapshot()
    query = vectors[5]
    ids, hits = before.ids().tolist(), before.search(query, 200)
    index.add(np.arange(130, 300), vectors[130:])
    index.add([5], vectors[6:7])  # replaced
    index.remove([1, 2, 101])
    index.fold()
    index.add([1], vectors[1:2])
    again = before.search(query, 200)
    assert before.ids().tolist() == ids == list(range(130))
    assert again.ids.tolist() == hits.ids.tolist()
    assert again.scores.tolist() == hits.scores.tolist()
    assert index.snapshot().ids().tolist() == [n for n in range(300) if n not in (2, 101)]


def test_what_happens_during_a_fold_is_kept(rng: random.Random) -> None:
    index = VectorIndex(VectorBase.empty(DIMENSION), SMALL)
    vectors = clustered(rng, 100)
    index.add(np.arange(50), vectors[:50])
    index.fold()
    index.add(np.arange(50, 60), vectors[50:60])
    index.remove([0, 1])
    fold = index.begin_fold()
    index.remove([2, 50])  # of the old base, and of the overlay that goes into the new one
    index.add([3, 51, 0], vectors[60:63])  # replaced in both, and one that was removed comes back
    index.remove([51])
    index.add([70], vectors[70:71])
    index.finish_fold(fold, fold.run())
    snapshot = index.snapshot()
    expected = sorted(({*range(60)} - {1, 2, 50, 51}) | {70})
    assert snapshot.ids().tolist() == expected
    assert snapshot.search(vectors[60], 1).ids.tolist() == [3]
    assert 3 not in snapshot.search(vectors[3], 1).ids.tolist()
    assert index.fold() is index.snapshot().base
    assert index.snapshot().ids().tolist() == expected


def test_a_fold_that_fails_changes_nothing(rng: random.Random, monkeypatch: Any) -> None:
    index = VectorIndex(VectorBase.empty(DIMENSION), SMALL)
    index.add(np.arange(70), clustered(rng, 70))

    def no_memory(*_: Any) -> VectorBase:
        raise MemoryError

    monkeypatch.setattr(VectorBase, "folded", no_memory)
    with pytest.raises(MemoryError):
        index.fold()
    monkeypatch.undo()
    assert index.fold_due()
    assert index.snapshot().ids().tolist() == list(range(70))
    index.fold()
    assert len(index.snapshot().base) == 70


@pytest.mark.parametrize("count", [500, 2_000], ids=["flat", "ivf"])
@pytest.mark.parametrize("share", [0.5, 0.1, 0.01, 0.002])
def test_a_filter_finds_all_it_leaves_and_nothing_else(
    rng: random.Random, count: int, share: float
) -> None:
    index, model = VectorIndex(VectorBase.empty(DIMENSION), SMALL), Model()
    vectors, ids = clustered(rng, count), np.arange(count) * 1_000_003 + 17
    index.add(ids, vectors)
    model.add(ids, vectors)
    index.fold()
    index.remove(ids[:20])
    model.remove(ids[:20].tolist())
    recent, recent_ids = clustered(rng, 30), -1 - np.arange(30)  # negative ids are ids
    index.add(recent_ids, recent)
    model.add(recent_ids, recent)
    every = model.ids() + ids[:20].tolist()
    agreed = []
    for _ in range(10):
        allowed = set(rng.sample(every, max(1, int(share * count))))
        query = unit(clustered(rng, 1)[0])
        expected = model.best(query, 10, allowed)
        found = index.snapshot().search(query, 10, allowed=allowed).ids.tolist()
        assert len(found) == len(expected) and set(found) <= allowed & model.vectors.keys()
        agreed.append(overlap(found, expected))
        everything = index.snapshot().search(query, count * 2, allowed=list(allowed)).ids.tolist()
        assert sorted(everything) == sorted(allowed & model.vectors.keys())
    assert np.mean(agreed) >= 0.9


def test_a_filter_far_away_from_the_query_is_answered_in_full(rng: random.Random) -> None:
    """The lists next to the query hold nothing of it: an approximate search alone would say so."""
    near, far = np.ones(DIMENSION), -np.ones(DIMENSION)
    numpy_rng = np.random.default_rng(rng.getrandbits(32))
    noise = 0.3 * numpy_rng.standard_normal((3_000, DIMENSION))
    vectors = noise + np.where(np.arange(3_000)[:, None] < 2_500, near, far)
    index = VectorIndex(VectorBase.empty(DIMENSION), SMALL)
    index.add(np.arange(3_000), vectors)
    index.fold()
    assert index.snapshot().base.kind == "ivf"
    found = index.snapshot().search(near, 500, allowed=np.arange(2_500, 3_000))
    assert sorted(found.ids.tolist()) == list(range(2_500, 3_000))


def test_equal_vectors_come_in_the_order_of_their_ids() -> None:
    index = VectorIndex(VectorBase.empty(4), SMALL)
    index.add([9, 4, 7], [[1, 0, 0, 0]] * 3)
    index.fold()
    index.add([6, 2], [[2, 0, 0, 0]] * 2)
    hits = index.snapshot().search([5, 0, 0, 0], 5)
    assert hits.ids.tolist() == [2, 4, 6, 7, 9]
    assert hits.scores.tolist() == pytest.approx([1.0] * 5)


def test_nothing_is_found_in_nothing() -> None:
    snapshot = VectorIndex(VectorBase.empty(4), SMALL).snapshot()
    assert snapshot.search([1, 0, 0, 0], 10).ids.tolist() == []
    assert snapshot.search([1, 0, 0, 0], 10, allowed=[1, 2]).ids.tolist() == []
    assert snapshot.ids().tolist() == [] and len(snapshot) == 0
    index = VectorIndex(VectorBase.empty(4), SMALL)
    index.add([1], [[1, 0, 0, 0]])
    assert index.snapshot().search([1, 0, 0, 0], 0).ids.tolist() == []
    assert index.snapshot().search([1, 0, 0, 0], 5, allowed=[]).ids.tolist() == []


@pytest.mark.parametrize(
    ("ids", "vectors", "said"),
    [
        ([1, 1], [[1, 0], [0, 1]], "twice"),
        ([1], [[1, 0], [0, 1]], "1 ids for 2"),
        ([1], [[1, 0, 0]], "shape"),
        ([1], [[float("nan"), 0]], "not finite"),
        ([1], [[float("inf"), 0]], "not finite"),
        ([1, 2], [[1, 0], [0, 0]], "vector 1 is zero"),
    ],
)
def test_what_is_no_embedding_is_refused_whole(ids: Any, vectors: Any, said: str) -> None:
    index = VectorIndex(VectorBase.empty(2))
    index.add([1], [[0, 1]])
    with pytest.raises(InvalidArgument, match=said):
        index.add(ids, vectors)
    assert index.snapshot().ids().tolist() == [1]
    assert index.snapshot().search([0, 1], 1).scores.tolist() == pytest.approx([1.0])


def test_a_query_must_fit() -> None:
    snapshot = VectorIndex(VectorBase.empty(2)).snapshot()
    for query in ([1, 2, 3], [0, 0], [float("nan"), 1]):
        with pytest.raises(InvalidArgument):
            snapshot.search(query, 1)


def test_vectors_come_back_by_id(rng: random.Random) -> None:
    index = VectorIndex(VectorBase.empty(DIMENSION), SMALL)
    vectors = clustered(rng, 800)
    index.add(np.arange(700), vectors[:700])
    index.fold()
    index.add(np.arange(700, 800), vectors[700:])
    index.remove([3, 703])
    ids, found = index.snapshot().vectors([799, 3, 5, 703, 12_345])
    assert ids.tolist() == [5, 799]
    expected = [unit(vectors[5]), unit(vectors[799])]
    assert np.allclose(found, expected, atol=0.05)  # the first went through 8-bit codes


def test_readers_and_one_writer_at_once(rng: random.Random) -> None:
    """Four readers search while the writer adds, removes and folds: each sees whole batches."""
    index = VectorIndex(VectorBase.empty(DIMENSION), SMALL)
    vectors = clustered(rng, 3_000)
    stop, wrong = threading.Event(), list[str]()

    def read(seed: int) -> None:
        own = np.random.default_rng(seed)
        while not stop.is_set():
            snapshot = index.snapshot()
            ids = snapshot.ids()
            found = snapshot.search(own.standard_normal(DIMENSION), 5_000).ids
            if len(ids) % 10 or not np.array_equal(np.sort(found), ids):
                wrong.append(f"{len(ids)} ids, {len(found)} found")

    readers = [threading.Thread(target=read, args=(n,)) for n in range(4)]
    for reader in readers:
        reader.start()
    try:
        for at in range(0, 3_000, 10):
            index.add(np.arange(at, at + 10), vectors[at : at + 10])
            if at % 50 == 0 and at:
                index.remove(np.arange(at - 50, at - 40))
            if index.fold_due():
                index.fold()
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert not wrong
    assert index.snapshot().base.kind == "ivf"


def test_an_ivf_that_has_outgrown_its_lists_is_trained_anew(rng: random.Random) -> None:
    index = VectorIndex(VectorBase.empty(DIMENSION), SMALL)
    index.add(np.arange(700), clustered(rng, 700))
    lists = index.fold().lists
    index.add(np.arange(700, 1_500), clustered(rng, 800))
    assert index.fold().lists == lists
    vectors = clustered(rng, 3_000)
    index.add(np.arange(1_500, 4_500), vectors)
    base = index.fold()
    assert base.lists > lists and len(base) == 4_500
    assert index.snapshot().search(vectors[0], 1, exact=True).ids.tolist() == [1_500]


def test_vectors_farther_out_than_the_trained_ones_keep_their_shape(rng: random.Random) -> None:
    """The codes once covered what is left of a vector after its list's centre. Where the sample lay
    close to its centres, as with few vectors a list, later ones were cut off to next to nothing: in
    a store killed 200 times memories no longer found themselves.
    """
    numpy_rng = np.random.default_rng(rng.getrandbits(32))
    centres = numpy_rng.standard_normal((40, DIMENSION))[numpy_rng.integers(0, 40, 710)]
    spread = np.where(np.arange(710) < 310, 0.01, 0.5)[:, None]
    vectors = centres + spread * numpy_rng.standard_normal((710, DIMENSION))
    index = VectorIndex(VectorBase.empty(DIMENSION), VectorBounds(flat_max=300))
    index.add(np.arange(310), vectors[:310])
    lists = index.fold().lists
    index.add(np.arange(310, 710), vectors[310:])
    assert index.fold().lists == lists  # not trained anew
    _, kept = index.snapshot().vectors(np.arange(710))
    errors = np.linalg.norm(kept - vectors / np.linalg.norm(vectors, axis=1)[:, None], axis=1)
    assert errors.mean() < 0.03 and errors.max() < 0.3


def test_a_query_leaves_the_threads_of_faiss_as_they_were() -> None:
    index = VectorIndex(VectorBase.empty(2))
    index.add([1], [[0, 1]])
    index.fold()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(2)
    try:
        index.snapshot().search([0, 1], 1)
        assert faiss.omp_get_max_threads() == 2
    finally:
        faiss.omp_set_num_threads(before)


# ---- files ---------------------------------------------------------------------------------------


def saved(index: VectorIndex, path: Path, count: int, vectors: Array) -> VectorSnapshot:
    base = index.fold()
    seal = base.save(FS, path)
    loaded = VectorBase.load(FS, path, seal, DIMENSION)
    assert (loaded.kind, loaded.lists) == (base.kind, base.lists)
    snapshot = VectorIndex(loaded, index.bounds).snapshot()
    assert snapshot.ids().tolist() == list(range(count))
    for query in vectors[:10]:
        expected = index.snapshot().search(query, 20)
        found = snapshot.search(query, 20)
        assert found.ids.tolist() == expected.ids.tolist()
        assert found.scores.tolist() == expected.scores.tolist()
    return snapshot


@pytest.mark.parametrize("count", [1, 500, 1_500])
def test_a_saved_base_answers_as_before(rng: random.Random, tmp_path: Path, count: int) -> None:
    index = VectorIndex(VectorBase.empty(DIMENSION), SMALL)
    vectors = clustered(rng, count)
    index.add(np.arange(count), vectors)
    saved(index, tmp_path / "one.faiss", count, vectors)
    # The second save replaces the first, which somebody may still have mapped.
    index.add([0], vectors[-1:])
    saved(index, tmp_path / "one.faiss", count, vectors)


def test_an_empty_base_is_saved_and_loaded(tmp_path: Path) -> None:
    seal = VectorBase.empty(DIMENSION).save(FS, tmp_path / "none.faiss")
    assert len(VectorBase.load(FS, tmp_path / "none.faiss", seal, DIMENSION)) == 0


def test_an_index_of_other_dimensions_is_refused(tmp_path: Path) -> None:
    seal = VectorBase.empty(8).save(FS, tmp_path / "eight.faiss")
    with pytest.raises(Corrupt, match="8 dimensions"):
        VectorBase.load(FS, tmp_path / "eight.faiss", seal, DIMENSION)


@pytest.mark.parametrize("count", [300, 1_000], ids=["flat", "ivf"])
def test_a_mapped_base_is_copied_before_it_is_changed(
    rng: random.Random, tmp_path: Path, count: int
) -> None:
    """FAISS ends the process when an index over a map is added to, and reads freed memory when
    something is removed from it or from its clone: so this runs in a process of its own.
    """
    index = VectorIndex(VectorBase.empty(DIMENSION), SMALL)
    index.add(np.arange(count), clustered(rng, count))
    path = tmp_path / "base.faiss"
    seal = index.fold().save(FS, path)
    script = f"""
        from pathlib import Path
        import numpy as np
        from neverforget.storage.filesystem import LocalFileSystem
        from neverforget.storage.sealed_file import Seal
        from neverforget.storage.vector_index import VectorBase, VectorBounds, VectorIndex
        seal = Seal({seal.size}, {seal.crc32c}, {seal.sha256!r})
        path = Path({str(path)!r})
        base = VectorBase.load(LocalFileSystem(), path, seal, {DIMENSION}, mapped=True)
        assert base.mapped and len(base) == {count}
        index = VectorIndex(base, VectorBounds(flat_max=600))
        index.add(np.arange(5_000, 5_100), np.random.default_rng(1).standard_normal((100, 24)))
        index.remove(np.arange(50))
        path.unlink()
        before = index.snapshot()
        folded = index.fold()
        assert not folded.mapped and folded.kind == base.kind
        expected = [*range(50, {count}), *range(5_000, 5_100)]
        assert folded.ids.tolist() == index.snapshot().ids().tolist() == expected
        after = index.snapshot()
        index.fold()
        query = np.ones({DIMENSION})
        assert set(before.search(query, 9).ids.tolist()) <= set(expected)
        hits = [s.search(query, 9, exact=True).ids.tolist() for s in (after, index.snapshot())]
        assert hits[0] == hits[1]
        print("whole")
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=120
    )
    assert (run.returncode, run.stdout.strip()) == (0, "whole"), run.stderr


def test_a_base_is_built_from_batches_that_are_never_all_in_memory(rng: random.Random) -> None:
    vectors = clustered(rng, 2_000)
    asked = []

    def batches() -> Any:
        asked.append(1)
        for at in range(0, 2_000, 128):
            yield np.arange(at, min(at + 128, 2_000)), 3 * vectors[at : at + 128]

    base = build_base(DIMENSION, batches, 2_000, SMALL)
    assert (base.kind, len(base), len(asked)) == ("ivf", 2_000, 2)
    snapshot = VectorIndex(base, SMALL).snapshot()
    assert snapshot.search(vectors[77], 1, exact=True).ids.tolist() == [77]
    assert snapshot.search(vectors[77], 1).scores[0] == pytest.approx(1.0, abs=0.01)
    asked.clear()
    assert build_base(DIMENSION, batches, 2_000, VectorBounds(flat_max=5_000)).kind == "flat"
    assert len(asked) == 1


def test_an_id_given_to_two_vectors_is_noticed_in_a_build() -> None:
    with pytest.raises(InvalidArgument, match="two vectors"):
        build_base(2, lambda: [([1, 2], [[1, 0], [0, 1]]), ([2], [[1, 1]])], 3)
    assert len(build_base(2, lambda: [([], [])], 0)) == 0


@pytest.mark.parametrize("exact_max", [4, 10_000])
def test_a_set_of_bits_is_the_set_of_its_ids(exact_max: int) -> None:
    """Dense ids and far ones, in the base and recent, some removed since."""
    rng = np.random.default_rng(5)
    bounds = VectorBounds(flat_max=100, overlay_max=50, exact_max=exact_max, probes=4)
    far = (1 << 40) + np.arange(40)
    dense = rng.permutation(2_000)[:900]
    ids = np.concatenate([dense, far])
    vectors = rng.normal(size=(len(ids), 8))
    index = VectorIndex(build_base(8, lambda: [(ids[:800], vectors[:800])], 800, bounds), bounds)
    index.add(ids[800:], vectors[800:])
    index.remove(rng.choice(ids, 90, replace=False))
    view = index.snapshot()
    for size in (0, 3, 60, 700):
        wanted = np.sort(rng.choice(ids, size, replace=False))
        bits = IdBits(bits_of(wanted[wanted < 2_000]), _member_test(wanted))
        query = rng.normal(size=8)
        by_bits = view.search(query, 20, allowed=bits, exact=True)
        by_ids = view.search(query, 20, allowed=wanted, exact=True)
        assert by_bits.ids.tolist() == by_ids.ids.tolist()
        assert by_bits.scores == pytest.approx(by_ids.scores, abs=1e-6)
        assert set(view.search(query, 20, allowed=bits).ids.tolist()) <= set(wanted.tolist())
        assert len(view.search(query, 900, allowed=bits).ids) == len(
            np.intersect1d(wanted, view.ids())
        )


def _member_test(of: Any) -> Any:
    return lambda ids: np.isin(ids, of)


def test_bits_and_ids_are_the_same_numbers() -> None:
    ids = np.array([0, 7, 8, 9, 63, 64, 200])
    assert ids_of(bits_of(ids)).tolist() == ids.tolist()
    assert ids_of(bits_of(ids[:0])).tolist() == []
