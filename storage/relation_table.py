"""Typed relations between memories, and from memories to turns: columns, found from both ends.

A relation is (source, target, kind) with a weight; there is one of each. It is seen as long as
neither of its ends is forgotten or gone; so forgetting and its undoing change nothing here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from neverforget.storage.longterm_results import Namespace, TurnPoint
from neverforget.storage.memory_table import Interned
from neverforget.storage.row_index import RowIndex

Array = NDArray[Any]

RELATION_COLUMNS: dict[str, type[np.generic]] = {
    "source": np.uint32,
    "target": np.int64,  # row of a memory, or -1 - code of turns
    "kind": np.uint32,
    "weight": np.float64,
    "alive": np.bool_,
}
_FIRST = 64


class RelationTable:
    def __init__(self) -> None:
        self.count = 0
        self.kinds: Interned[str] = Interned()
        self.turns: Interned[TurnPoint] = Interned(above=_session_of)
        self._columns: dict[str, Array] = {
            name: np.zeros(_FIRST, kind) for name, kind in RELATION_COLUMNS.items()
        }
        self._by_source = RowIndex()
        self._by_target = RowIndex()

    def column(self, name: str) -> Array:
        return self._columns[name][: self.count]

    def target_of(self, target: int | TurnPoint) -> int:
        """As the column has it. A memory is meant by its row."""
        return target if isinstance(target, int) else -1 - self.turns.code(target)

    def turn(self, target: int) -> TurnPoint:
        return self.turns.values[-1 - target]

    def put(self, source: int, target: int, kind: str, weight: float) -> None:
        """Make it, or give it another weight."""
        number = self.find(source, target, kind)
        if number is not None:
            self._columns["weight"][number] = weight
            return
        number = self.count
        if number == len(self._columns["source"]):
            self._grow(number + 1)
        row = (source, target, self.kinds.code(kind), weight, True)
        for column, value in zip(self._columns.values(), row):
            column[number] = value
        self.count = number + 1
        self._by_source.add(source, number)
        self._by_target.add(_unsigned(target), number)

    def drop(self, source: int, target: int, kind: str) -> bool:
        number = self.find(source, target, kind)
        if number is not None:
            self._columns["alive"][number] = False
        return number is not None

    def find(self, source: int, target: int, kind: str) -> int | None:
        code = self.kinds.known(kind)
        if code is None:
            return None
        numbers = np.array(self._by_source.find(source), np.int64)
        columns = self._columns
        same = columns["alive"][numbers] & (columns["target"][numbers] == target)
        found = numbers[same & (columns["kind"][numbers] == code)]
        return int(found[0]) if len(found) else None

    def of(self, row: int, *, outgoing: bool = True, incoming: bool = True) -> Array:
        """Numbers of the relations at a memory, in the order they were made."""
        numbers: list[int] = []
        if outgoing:
            numbers += self._by_source.find(row)
        if incoming:
            numbers += self._by_target.find(row)
        found = np.unique(np.array(numbers, np.int64))
        return found[self._columns["alive"][found]]

    def to_turns(self, namespace: Namespace, session: str, first: int, last: int) -> Array:
        """Numbers of the relations to any of a session's turns ``first``..``last``."""
        turns = self.turns.values
        numbers: list[int] = []
        for code in np.flatnonzero(self.turns.under((namespace, session))).tolist():
            if turns[code].first <= last and turns[code].last >= first:
                numbers += self._by_target.find(_unsigned(-1 - code))
        found = np.unique(np.array(numbers, np.int64))
        return found[self._columns["alive"][found]]

    def extend(self, columns: dict[str, Array]) -> None:
        """Many at once, which are not there yet, all columns given."""
        start, stop = self.count, self.count + len(columns["source"])
        if stop > len(self._columns["source"]):
            self._grow(stop)
        for name, column in self._columns.items():
            column[start:stop] = columns[name]
        self.count = stop
        numbers = np.arange(start, stop, dtype=np.uint32)
        self._by_source.extend(columns["source"].astype(np.uint64), numbers)
        self._by_target.extend(columns["target"].astype(np.int64).view(np.uint64), numbers)

    def _grow(self, count: int) -> None:
        capacity = max(count, len(self._columns["source"]) * 2)
        for name, column in self._columns.items():
            grown = np.zeros(capacity, column.dtype)
            grown[: self.count] = column[: self.count]
            self._columns[name] = grown


def _session_of(turns: TurnPoint) -> tuple[tuple[Namespace, str], ...]:
    return ((tuple(turns.namespace), turns.session),)


def _unsigned(target: int) -> int:
    return target & (2**64 - 1)
