"""Which memories a filter means, found while others go on writing.

``where`` asks the record of each memory that matches otherwise, about 20 us each: that is done in
slices. What was found out holds for the version that was looked at. ``rows`` is exact for the
moment in which it is asked: what was written behind the slices is looked at then, and ``look`` goes
on until that is little.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from neverforget.storage.longterm_filters import matching, row_matches
from neverforget.storage.longterm_results import MemoryFilter, Status
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.longterm_where import Where
from neverforget.storage.memory_table import Array
from neverforget.storage.slices import Slices

SLICE: Final = 256  # records: 3 ms
_ROUNDS_MAX: Final = 10  # each looks at what was written during the one before


class Matching:
    """``forgotten`` False: none of those, whatever status the filter allows."""

    def __init__(
        self, state: LongTermState, wanted: MemoryFilter, *, forgotten: bool = True
    ) -> None:
        self._state = state
        self._statuses = Status.FORGOTTEN if forgotten else Status.ARCHIVED  # and below
        self._wanted = msgspec.structs.replace(wanted, where=None)
        self._where = Where(wanted.where) if wanted.where else None
        self._judged = np.zeros(0, np.uint64)  # by row: the position of the version looked at
        self._passes = np.zeros(0, np.bool_)

    def look(self) -> Slices[None]:
        """Raises InvalidArgument for a filter that means nothing."""
        for _ in range(_ROUNDS_MAX):
            rows = self._unknown(self._by_column())
            for at in range(0, len(rows), SLICE):
                self._judge(rows[at : at + SLICE])
                yield
            if len(rows) <= SLICE:
                return

    def rows(self) -> Array:
        """Ascending, those that match now."""
        rows = self._by_column()
        if self._where is None:
            return rows
        self._judge(self._unknown(rows))
        found: Array = rows[self._passes[rows]]
        return found

    def _by_column(self) -> Array:
        rows = matching(self._state, self._wanted)
        found: Array = rows[self._state.table.column("status")[rows] <= self._statuses]
        return found

    def _unknown(self, rows: Array) -> Array:
        """Those of ``rows`` whose current version was not looked at yet."""
        count = self._state.table.count
        if self._where is None:
            return rows[:0]
        if count > len(self._judged):
            more = max(count, 2 * len(self._judged)) - len(self._judged)
            self._judged = np.append(self._judged, np.zeros(more, np.uint64))
            self._passes = np.append(self._passes, np.zeros(more, np.bool_))
        stale: Array = self._judged[rows] != self._state.table.column("position")[rows]
        return rows[stale]

    def _judge(self, rows: Array) -> None:
        assert self._where is not None or not len(rows)
        for row in rows.tolist():
            assert self._where is not None
            self._passes[row] = row_matches(self._state, row, self._where)
        self._judged[rows] = self._state.table.column("position")[rows]
