"""Runs against plain sets of integers."""

from __future__ import annotations

import random
from itertools import pairwise

from neverforget.storage.runs import Runs, combined


def as_set(runs: Runs) -> set[int]:
    return {number for first, last in runs for number in range(first, last + 1)}


def check_shape(runs: Runs) -> None:
    pairs = list(runs)
    assert all(first <= last for first, last in pairs)
    assert all(a[1] + 1 < b[0] for a, b in pairwise(pairs)), "disjoint, and touching is one"


def test_runs_hold_what_a_set_holds(rng: random.Random) -> None:
    for _ in range(200):
        runs, model = Runs(), set[int]()
        for _ in range(30):
            first = rng.randrange(40)
            last = first + rng.randrange(8)
            if rng.random() < 0.6:
                runs.add(first, last)
                model |= set(range(first, last + 1))
            else:
                runs.remove(first, last)
                model -= set(range(first, last + 1))
            check_shape(runs)
            assert as_set(runs) == model
            assert len(runs) == len(model)
            assert bool(runs) == bool(model)
        low, high = sorted((rng.randrange(50), rng.randrange(50)))
        assert as_set(Runs(runs.within(low, high))) == {n for n in model if low <= n < high}
        for number in range(50):
            assert (number in runs) == (number in model)
            run = runs.run_of(number)
            assert (run is not None) == (number in model)
            past = runs.contiguous_from(number)
            assert past not in model
            assert set(range(number, past)) <= model


def test_combined_ors_the_flags_of_what_overlaps() -> None:
    layers = [(Runs([(0, 4), (8, 8)]), 1), (Runs([(3, 6)]), 2)]
    assert combined(0, 10, layers) == [(0, 2, 1), (3, 4, 3), (5, 6, 2), (8, 8, 1)]
    assert combined(4, 6, layers) == [(4, 4, 3), (5, 5, 2)]
    assert combined(9, 10, layers) == []
