"""Chunks and summaries that stand alone: there is never one, and ``verify`` looks for it.

A living chunk or summary has an original in the same status, of whose current version it is; the
chunks of one memory cover its text without a gap; and each is related to its original and to its
neighbours. Whoever looks is on a thread of its own: what seems wrong is read again while no record
is taking effect, so that half a change is never taken for a fault.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from neverforget.storage.control import Body
from neverforget.storage.errors import Corrupt
from neverforget.storage.longterm_fields import M, MemoryField, id_text, is_derived_type
from neverforget.storage.longterm_relating import CHUNK_OF, PART_OF_SEQUENCE, SUMMARIZES
from neverforget.storage.longterm_results import Status
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.memory_table import NO_ROW
from neverforget.storage.results import Finding

_PAUSE_ORIGINALS: Final = 64
_TRIES_MAX: Final = 200  # a millisecond each


class _Part(NamedTuple):
    row: int
    body: Body

    @property
    def span(self) -> tuple[int, int] | None:
        """None of a summary."""
        span = self.body.get(M[MemoryField.SPAN])
        return None if span is None else (span[0], span[1])


def orphans(
    state: LongTermState, limit: int, pause: Callable[[float], None] = time.sleep
) -> Iterator[Finding]:
    """``limit``: a log position; of what is newer nothing is said. ``pause``: lets others run."""
    scan = _Scan(state, limit, pause)
    yield from scan.without_original()
    originals = state.table.column("original")
    for at, row in enumerate(np.unique(originals[originals != NO_ROW]).tolist()):
        if not at % _PAUSE_ORIGINALS:
            pause(0)  # the owner's thread would otherwise wait for the interpreter
        yield from scan.of(row)


class _Scan:
    def __init__(self, state: LongTermState, limit: int, pause: Callable[[float], None]) -> None:
        self._state = state
        self._limit = limit
        self._pause = pause

    def without_original(self) -> Iterator[Finding]:
        table = self._state.table
        derived = np.array([is_derived_type(name) for name in table.types.values], np.bool_)
        held = table.column("type")
        suspects = derived[np.minimum(held, len(derived) - 1)]
        suspects &= table.column("original")[: len(held)] == NO_ROW
        for row in np.flatnonzero(suspects).tolist():
            if table.get(row, "status") < Status.FORGOTTEN and self._is_old(row):
                yield self._finding(row, "its original is not there")

    def of(self, row: int) -> list[Finding]:
        """What is wrong with the chunks and the summary of one memory."""
        found = self._look(row)
        for _ in range(_TRIES_MAX if found else 0):
            turn = self._state.turns
            found = self._look(row)
            if not found or (turn == self._state.turns and not turn % 2):
                return found
            self._pause(0.001)
        return []

    def _look(self, row: int) -> list[Finding]:
        table = self._state.table
        children = [
            int(r) for r in table.children(row) if table.get(r, "status") < Status.FORGOTTEN
        ]
        if not children or not all(map(self._is_old, (row, *children))):
            return []
        status = table.get(row, "status")
        apart = [r for r in children if table.get(r, "status") != status]
        if apart:
            return [self._finding(r, "its original is in another status") for r in apart]
        try:
            parts = [
                _Part(r, self._state.bodies.read(table.get(r, "position"))[1]) for r in children
            ]
        except Corrupt:
            return []  # which is reported as what it is
        version = table.get(row, "version")
        stale = [p for p in parts if p.body.get(M[MemoryField.ORIGINAL_VERSION]) != version]
        if stale:
            return [self._finding(p.row, "it is of another version of its original") for p in stale]
        return list(self._gaps(row, parts)) or list(self._unrelated(row, parts))

    def _gaps(self, row: int, parts: list[_Part]) -> Iterator[Finding]:
        table = self._state.table
        at = 0
        for start, stop in sorted(part.span for part in parts if part.span is not None):
            if start != at:
                break
            at = stop
        else:
            if at == table.get(row, "characters") or not table.get(row, "readable"):
                return
        yield self._finding(parts[0].row, f"the chunks of its original do not fit at {at}")

    def _unrelated(self, row: int, parts: list[_Part]) -> Iterator[Finding]:
        chunks = sorted((p for p in parts if p.span is not None), key=lambda p: p.span or (0, 0))
        wanted = [(p.row, row, SUMMARIZES if p.span is None else CHUNK_OF) for p in parts]
        for one, following in pairwise(chunks):
            wanted.append((one.row, following.row, PART_OF_SEQUENCE))
            wanted.append((following.row, one.row, PART_OF_SEQUENCE))
        for source, target, kind in wanted:
            if self._state.relations.find(source, target, kind) is None:
                yield self._finding(source, f"its relation {kind} is not there")

    def _is_old(self, row: int) -> bool:
        position: int = self._state.table.get(row, "position")
        return position < self._limit

    def _finding(self, row: int, what: str) -> Finding:
        table = self._state.table
        message = f"{id_text(table.id(row))}, a chunk or summary: {what}"
        return self._state.finding("orphan_chunk", table.get(row, "position"), 0, message)
