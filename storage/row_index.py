"""From a 64-bit number to the rows that bear it: sorted columns, and a little of what is new.

12 bytes an entry, where a dict takes 120. Entries are added at the end of a small dict; when that
has grown, it is merged into the columns, which costs a sort of what is new and one copy. A number
may stand for several rows; nothing is removed, whoever asks looks at the rows. One thread owns it;
others may ``find`` in it meanwhile: what was there before they asked is found, maybe twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_RECENT_MAX = 65_536
# Merge when the dict holds so many, or an eighth of the columns: a merge copies all of them.
_RECENT_SHARE = 8

Array = NDArray[Any]


class RowIndex:
    def __init__(self) -> None:
        self._columns: tuple[Array, Array] = np.empty(0, np.uint64), np.empty(0, np.uint32)
        self._recent: dict[int, int | list[int]] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._columns[1]) + self._count

    def add(self, number: int, row: int) -> None:
        held = self._recent.get(number)
        if held is None:
            self._recent[number] = row
        elif isinstance(held, list):
            held.append(row)
        else:
            self._recent[number] = [held, row]
        self._count += 1
        if self._count > max(_RECENT_MAX, len(self._columns[1]) // _RECENT_SHARE):
            self._merge()

    def extend(self, numbers: Array, rows: Array) -> None:
        """Many at once, above all that was added before."""
        self._merge()
        self._absorb(np.asarray(numbers, np.uint64), np.asarray(rows, np.uint32))

    def find(self, number: int) -> list[int]:
        """The rows of ``number``, in the order they were added."""
        wanted = np.uint64(number)
        recent = self._recent.get(number)  # before the columns: a merge fills these first
        numbers, rows = self._columns
        first = int(numbers.searchsorted(wanted, "left"))
        found: list[int] = []
        if first < len(numbers) and numbers[first] == wanted:
            last = int(numbers.searchsorted(wanted, "right"))
            found = rows[first:last].tolist()
        if recent is None:
            return found
        return [*found, *(recent if isinstance(recent, list) else (recent,))]

    def find_all(self, numbers: Array) -> Array:
        """Every row of any of ``numbers``, in no order."""
        self._merge()
        wanted = np.unique(np.asarray(numbers, np.uint64))
        held, all_rows = self._columns
        first = held.searchsorted(wanted, "left")
        last = held.searchsorted(wanted, "right")
        counts = last - first
        starts = np.repeat(first - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
        found: Array = all_rows[starts + np.arange(int(counts.sum()))]
        return found

    def _merge(self) -> None:
        if not self._count:
            return
        numbers, rows = [], []
        for number, held in self._recent.items():
            for row in held if isinstance(held, list) else (held,):
                numbers.append(number)
                rows.append(row)
        self._absorb(np.array(numbers, np.uint64), np.array(rows, np.uint32))
        self._recent, self._count = {}, 0

    def _absorb(self, numbers: Array, rows: Array) -> None:
        order = np.argsort(numbers, kind="stable")
        numbers, rows = numbers[order], rows[order]
        held, held_rows = self._columns
        if not len(held) or (len(numbers) and held[-1] <= numbers[0]):
            self._columns = np.concatenate((held, numbers)), np.concatenate((held_rows, rows))
            return
        places = held.searchsorted(numbers, "right")
        self._columns = np.insert(held, places, numbers), np.insert(held_rows, places, rows)
