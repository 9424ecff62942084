"""From a 64-bit number to the rows that bear it: sorted columns, and a little of what is new.

12 bytes an entry, where a dict takes 120. Entries are added at the end of a small dict; when that
has grown, it is merged into the columns, which costs a sort of what is new and one copy. A number
may stand for several rows; nothing is removed, whoever asks looks at the rows. One thread owns it.
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
        self._numbers: Array = np.empty(0, np.uint64)
        self._rows: Array = np.empty(0, np.uint32)
        self._recent: dict[int, int | list[int]] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._rows) + self._count

    def add(self, number: int, row: int) -> None:
        held = self._recent.get(number)
        if held is None:
            self._recent[number] = row
        elif isinstance(held, list):
            held.append(row)
        else:
            self._recent[number] = [held, row]
        self._count += 1
        if self._count > max(_RECENT_MAX, len(self._rows) // _RECENT_SHARE):
            self._merge()

    def extend(self, numbers: Array, rows: Array) -> None:
        """Many at once, above all that was added before."""
        self._merge()
        self._absorb(np.asarray(numbers, np.uint64), np.asarray(rows, np.uint32))

    def find(self, number: int) -> list[int]:
        """The rows of ``number``, in the order they were added."""
        wanted = np.uint64(number)
        first = int(self._numbers.searchsorted(wanted, "left"))
        found: list[int] = []
        if first < len(self._numbers) and self._numbers[first] == wanted:
            last = int(self._numbers.searchsorted(wanted, "right"))
            found = self._rows[first:last].tolist()
        recent = self._recent.get(number)
        if recent is None:
            return found
        return [*found, *(recent if isinstance(recent, list) else (recent,))]

    def find_all(self, numbers: Array) -> Array:
        """Every row of any of ``numbers``, in no order."""
        self._merge()
        wanted = np.unique(np.asarray(numbers, np.uint64))
        first = self._numbers.searchsorted(wanted, "left")
        last = self._numbers.searchsorted(wanted, "right")
        counts = last - first
        starts = np.repeat(first - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
        found: Array = self._rows[starts + np.arange(int(counts.sum()))]
        return found

    def _merge(self) -> None:
        if not self._count:
            return
        numbers, rows = [], []
        for number, held in self._recent.items():
            for row in held if isinstance(held, list) else (held,):
                numbers.append(number)
                rows.append(row)
        self._recent, self._count = {}, 0
        self._absorb(np.array(numbers, np.uint64), np.array(rows, np.uint32))

    def _absorb(self, numbers: Array, rows: Array) -> None:
        order = np.argsort(numbers, kind="stable")
        numbers, rows = numbers[order], rows[order]
        if not len(self._numbers) or (len(numbers) and self._numbers[-1] <= numbers[0]):
            self._numbers = np.concatenate((self._numbers, numbers))
            self._rows = np.concatenate((self._rows, rows))
            return
        places = self._numbers.searchsorted(numbers, "right")
        self._numbers = np.insert(self._numbers, places, numbers)
        self._rows = np.insert(self._rows, places, rows)
