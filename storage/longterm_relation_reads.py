"""Which memories and turns a memory is related to."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Final

import numpy as np

from neverforget.storage.errors import InvalidArgument
from neverforget.storage.longterm_fields import id_text
from neverforget.storage.longterm_results import Namespace, RelationView, Status, TurnPoint
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.memory_table import Array

DERIVED_FROM: Final = "derived-from"
_RELATIONS_AT_ONCE: Final = 1_000
_DERIVED_AT_ONCE: Final = 500  # memories


class RelationReads:
    """A part of ``LongTermReads``."""

    _state: LongTermState

    @abstractmethod
    def row(self, memory_id: str, *, include_forgotten: bool = False) -> int: ...

    def relations(
        self, memory_id: str, *, kind: str | None = None, direction: str = "both"
    ) -> list[RelationView]:
        """From it ("out"), to it ("in"), or both, in the order they were made; those whose other
        end is forgotten are not seen.
        """
        return [view for _, view in self.relations_from(memory_id, kind=kind, direction=direction)]

    def relations_from(
        self, memory_id: str, *, kind: str | None = None, direction: str = "both", start: int = 0
    ) -> Iterator[tuple[int, RelationView]]:
        """As ``relations``, each with its number, from the number ``start`` on. Numbers are good
        while the region is open.
        """
        if direction not in ("out", "in", "both"):
            raise InvalidArgument(f'direction {direction!r}: "out", "in" or "both"')
        row = self.row(memory_id)
        numbers = self._state.relations.of(
            row, outgoing=direction != "in", incoming=direction != "out"
        )
        return self._seen(numbers[numbers >= start], kind)

    def provenance(self, memory_id: str) -> list[TurnPoint]:
        """The turns it came from."""
        outgoing = self.relations(memory_id, direction="out")
        return [r.target for r in outgoing if isinstance(r.target, TurnPoint)]

    def derived_from(
        self, namespace: Namespace, session: str, first: int, last: int, *, start: int = 0
    ) -> tuple[list[RelationView], int | None]:
        """Of memories that come from any of a session's turns ``first``..``last``: all that each
        comes from, turns and memories; and where to go on, None where these were the last.
        """
        relations = self._state.relations
        found = relations.to_turns(namespace, session, first, last)
        rows = np.unique(relations.column("source")[found])
        rows = rows[rows >= start]
        code = relations.kinds.known(DERIVED_FROM)
        views: list[RelationView] = []
        for row in rows[:_DERIVED_AT_ONCE].tolist():
            numbers = relations.of(row, incoming=False)
            derives = relations.column("kind")[numbers] == (-1 if code is None else code)
            derives |= relations.column("target")[numbers] < 0
            views += [view for _, view in self._seen(numbers[derives], None)]
        return views, int(rows[_DERIVED_AT_ONCE]) if len(rows) > _DERIVED_AT_ONCE else None

    def _seen(self, numbers: Array, kind: str | None) -> Iterator[tuple[int, RelationView]]:
        relations = self._state.relations
        if kind is not None:
            code = relations.kinds.known(kind)
            numbers = numbers[relations.column("kind")[numbers] == (-1 if code is None else code)]
        for at in range(0, len(numbers), _RELATIONS_AT_ONCE):
            yield from self._seen_of(numbers[at : at + _RELATIONS_AT_ONCE])

    def _seen_of(self, numbers: Array) -> Iterator[tuple[int, RelationView]]:
        state, table = self._state, self._state.relations
        status = state.table.column("status")
        columns = [table.column(n)[numbers].tolist() for n in ("source", "target", "kind")]
        weights = table.column("weight")[numbers].tolist()
        for number, source, target, kind, weight in zip(numbers.tolist(), *columns, weights):
            if status[source] >= Status.FORGOTTEN:
                continue
            end: str | TurnPoint
            if target < 0:
                end = table.turn(target)
            elif status[target] >= Status.FORGOTTEN:
                continue
            else:
                end = id_text(state.table.id(target))
            source_id = id_text(state.table.id(source))
            yield number, RelationView(source_id, end, table.kinds.values[kind], weight)
