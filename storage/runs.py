"""Sorted, disjoint, inclusive runs of integers: which seqs are hidden, erased, consolidated.

Runs that touch are one run, so the cost is that of the number of runs, never of the numbers in
them. Pure, no I/O.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise


class Runs:
    """Invariant: ``firsts[i] <= lasts[i]`` and ``lasts[i] + 1 < firsts[i + 1]``."""

    __slots__ = ("firsts", "lasts")

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        self.firsts: list[int] = []
        self.lasts: list[int] = []
        for first, last in runs:
            self.add(first, last)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self.firsts, self.lasts))

    def __len__(self) -> int:
        """How many numbers, not how many runs."""
        return sum(self.lasts) - sum(self.firsts) + len(self.firsts)

    def __bool__(self) -> bool:
        return bool(self.firsts)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self.firsts, number) - 1
        return at >= 0 and number <= self.lasts[at]

    def add(self, first: int, last: int) -> None:
        assert first <= last, (first, last)
        # Every run that overlaps first-1..last+1 melts into the new one.
        low = bisect_left(self.lasts, first - 1)
        high = bisect_right(self.firsts, last + 1)
        if low < high:
            first = min(first, self.firsts[low])
            last = max(last, self.lasts[high - 1])
        self.firsts[low:high] = [first]
        self.lasts[low:high] = [last]

    def remove(self, first: int, last: int) -> None:
        assert first <= last, (first, last)
        low = bisect_left(self.lasts, first)
        high = bisect_right(self.firsts, last)
        if low >= high:
            return
        left = (self.firsts[low], first - 1)
        right = (last + 1, self.lasts[high - 1])
        kept = [run for run in (left, right) if run[0] <= run[1]]
        self.firsts[low:high] = [run[0] for run in kept]
        self.lasts[low:high] = [run[1] for run in kept]

    def within(self, first: int, stop: int) -> Iterator[tuple[int, int]]:
        """The parts of the runs that lie in first..stop-1."""
        for at in range(bisect_left(self.lasts, first), len(self.firsts)):
            if max(self.firsts[at], first) >= stop:
                return
            yield max(self.firsts[at], first), min(self.lasts[at], stop - 1)

    def run_of(self, number: int) -> tuple[int, int] | None:
        """The run that holds ``number``."""
        at = bisect_right(self.firsts, number) - 1
        if at >= 0 and number <= self.lasts[at]:
            return self.firsts[at], self.lasts[at]
        return None

    def contiguous_from(self, number: int) -> int:
        """The first number at or after ``number`` that no run holds."""
        run = self.run_of(number)
        return number if run is None else run[1] + 1


NO_RUNS = Runs()  # of everybody who has none: never changed


def combined(
    first: int, stop: int, layers: Iterable[tuple[Runs, int]]
) -> list[tuple[int, int, int]]:
    """(first, last, flags) runs within first..stop-1, disjoint and sorted: the layers' flags ORed.

    Numbers that no layer holds are left out.
    """
    cuts: set[int] = set()
    parts: list[tuple[int, int, int]] = []
    for runs, flag in layers:
        for low, high in runs.within(first, stop):
            cuts.update((low, high + 1))
            parts.append((low, high, flag))
    if len(parts) <= 1:
        return parts
    edges = sorted(cuts)
    flags = dict.fromkeys(edges, 0)
    for low, high, flag in parts:
        for at in range(bisect_left(edges, low), bisect_left(edges, high + 1)):
            flags[edges[at]] |= flag
    return [(low, high - 1, flags[low]) for low, high in pairwise(edges) if flags[low]]
