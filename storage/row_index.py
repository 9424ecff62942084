"""From a 64-bit number to the rows that bear it: sorted columns, and a little of what is new.

12 bytes an entry, where a dict takes 120. Entries are added at the end of a small dict; when that
has grown, it is merged into the columns, which costs a sort of what is new and one copy. A number
may stand for several rows; nothing is removed, whoever asks looks at the rows. One thread owns it;
others may ``find`` in it meanwhile: what was there before they asked is found, maybe twice.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

import numpy as np
from numpy.typing import NDArray

_RECENT_MAX = 4_096
# What is merged is put beside the columns first, and into them when it is an eighth of these: a
# merge copies them.
_SHARE = 8
_BESIDE_MAX = 65_536

Array = NDArray[Any]
Columns = tuple[Array, Array]  # numbers, ascending, and their rows
_NOTHING: Columns = np.empty(0, np.uint64), np.empty(0, np.uint32)


class RowIndex:
    def __init__(self) -> None:
        self._columns: tuple[Columns, Columns] = _NOTHING, _NOTHING  # all but the newest; beside
        self._recent: dict[int, int | list[int]] = {}
        self._count = 0

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in self._columns) + self._count

    def add(self, number: int, row: int) -> None:
        held = self._recent.get(number)
        if held is None:
            self._recent[number] = row
        elif isinstance(held, list):
            held.append(row)
        else:
            self._recent[number] = [held, row]
        self._count += 1
        if self._count > _RECENT_MAX:
            self._merge()

    def extend(self, numbers: Array, rows: Array) -> None:
        """Many at once, above all that was added before."""
        self._merge()
        old, beside = self._columns
        more = np.asarray(numbers, np.uint64), np.asarray(rows, np.uint32)
        self._columns = _merged(_merged(old, beside), more), _NOTHING

    def find(self, number: int) -> list[int]:
        """The rows of ``number``, in the order they were added."""
        recent = self._recent.get(number)  # before the columns: a merge fills these first
        found: list[int] = []
        for numbers, rows in self._columns:
            # Not searchsorted: that lets the interpreter go, and to get it back from a busy thread
            # takes a thousand times as long as the search.
            sought = numbers.data
            first = bisect_left(sought, number)
            if first < len(sought) and sought[first] == number:
                found += rows[first : bisect_right(sought, number, first)].tolist()
        if recent is None:
            return found
        return [*found, *(recent if isinstance(recent, list) else (recent,))]

    def find_each(self, numbers: Array) -> tuple[Array, Array]:
        """(places, rows): every row of each number, and where in ``numbers`` that stands; by place,
        then in the order they were added. Any thread, as ``find``.
        """
        wanted = np.asarray(numbers, np.uint64)
        recent = self._recent.copy()  # before the columns: a merge fills these first
        if len(wanted) < len(recent):
            recent = {number: recent[number] for number in wanted.tolist() if number in recent}
        columns = (*self._columns, _columns_of(recent))
        parts = [_places_of(each, wanted) for each in columns]
        found = distinct(np.concatenate([places << 32 | rows for places, rows in parts]))
        return found >> 32, found & 0xFFFFFFFF

    def _merge(self) -> None:
        if not self._count:
            return
        old, beside = self._columns
        beside = _merged(beside, _columns_of(self._recent))
        if len(beside[1]) > max(_BESIDE_MAX, len(old[1]) // _SHARE):
            old, beside = _merged(old, beside), _NOTHING
        self._columns = old, beside
        self._recent, self._count = {}, 0


def _merged(held: Columns, more: Columns) -> Columns:
    """Of equal numbers the rows of ``more`` come later."""
    order = np.argsort(more[0], kind="stable")
    numbers, rows = more[0][order], more[1][order]
    if not len(held[0]) or (len(numbers) and held[0][-1] <= numbers[0]):
        return np.concatenate((held[0], numbers)), np.concatenate((held[1], rows))
    places = held[0].searchsorted(numbers, "right")
    return np.insert(held[0], places, numbers), np.insert(held[1], places, rows)


def distinct(numbers: Array) -> Array:
    """Ascending. As ``np.unique``, which takes ten times as long for what is nearly sorted."""
    ordered = np.sort(numbers)
    found: Array = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    return found


def _columns_of(recent: dict[int, int | list[int]]) -> Columns:
    """In the order that they were added."""
    numbers, rows = [], []
    for number, held in recent.items():
        for row in list(held) if isinstance(held, list) else (held,):
            numbers.append(number)
            rows.append(row)
    return _merged(_NOTHING, (np.array(numbers, np.uint64), np.array(rows, np.uint32)))


def _places_of(columns: Columns, wanted: Array) -> tuple[Array, Array]:
    """(places in ``wanted``, rows) of everything that bears one of these numbers."""
    numbers, rows = columns
    first = numbers.searchsorted(wanted, "left")
    counts = numbers.searchsorted(wanted, "right") - first
    starts = np.repeat(first - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
    places = np.repeat(np.arange(len(wanted)), counts)
    return places, rows[starts + np.arange(int(counts.sum()))].astype(np.int64)
