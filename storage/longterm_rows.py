"""What searches filter by, as it was at one moment: columns of the memory table that stand still.

Rows lie in blocks. The owner copies the blocks whose rows have changed; a view holds the blocks of
its moment. So a search on another thread never meets a row that is half changed, and a write costs
a copy of one block, however large the table is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from neverforget.storage.longterm_filters import column_mask
from neverforget.storage.longterm_results import MemoryFilter, Namespace, Status
from neverforget.storage.memory_table import NO_ROW, Array, Interned, MemoryTable

BLOCK_ROWS: Final = 8_192
_COLUMNS = (
    "born",
    "position",
    "status",
    "readable",
    "created_at",
    "occurred_at",
    "valid_from",
    "valid_to",
    "type",
    "namespace",
    "agent",
    "tags",
    "original",
)
_SPEAKER = "speaker"


@dataclass(frozen=True)
class _Block:
    columns: dict[str, Array]

    @cached_property
    def derived(self) -> Array:
        """Places in the block of chunks and summaries."""
        return np.flatnonzero(self.columns["original"] != NO_ROW)

    @cached_property
    def living(self) -> Array:
        mask: Array = self.columns["readable"] & (
            (self.columns["status"] == Status.ACTIVE) | (self.columns["status"] == Status.ARCHIVED)
        )
        return mask


@dataclass(frozen=True)
class RowsView:
    """Every row as it was. Safe on any thread; what is computed is kept."""

    _blocks: tuple[_Block, ...]
    count: int
    types: Interned[str]
    namespaces: Interned[Namespace]
    agents: Interned[str | None]
    tags: Interned[tuple[str, ...]]
    speakers: Interned[str | None]
    _columns: dict[str, Array] = field(default_factory=dict)

    def column(self, name: str) -> Array:
        found = self._columns.get(name)
        if found is None:
            parts = [block.columns[name] for block in self._blocks]
            found = np.concatenate(parts) if parts else np.empty(0, np.int64)
            self._columns[name] = found
        return found

    @cached_property
    def living(self) -> Array:
        """Which rows are active or archived, and readable: nothing else is ever found."""
        parts = [block.living for block in self._blocks]
        return np.concatenate(parts) if parts else np.empty(0, bool)

    @cached_property
    def _derived(self) -> tuple[Array, Array]:
        """(originals, rows) of all chunks and summaries, by original."""
        starts = range(0, len(self._blocks) * BLOCK_ROWS, BLOCK_ROWS)
        parts = [block.derived + start for block, start in zip(self._blocks, starts)]
        rows = np.concatenate(parts) if parts else np.empty(0, np.int64)
        originals = self.column("original")[rows].astype(np.int64)
        order = np.argsort(originals, kind="stable")
        return originals[order], rows[order]

    def originals(self, rows: Array) -> Array:
        """The memory that each row is of: itself, or that of a chunk or summary."""
        if not len(self._derived[1]):
            return rows
        found = self.column("original")[rows].astype(np.int64)
        return np.where(found == NO_ROW, rows, found)

    def parts(self, originals: Array) -> Array:
        """The living chunks and summaries of these, ascending."""
        of, rows = self._derived
        found = rows[np.isin(of, originals)]
        return np.sort(found[self.living[found]])

    def passing(self, wanted: MemoryFilter) -> Array:
        """One truth value a row: what a search with this filter may find. Chunks and summaries are
        judged by their original. ``where`` is not looked at.
        """
        mask = column_mask(self, wanted) & self.living
        _, rows = self._derived
        if len(rows):
            mask[rows] = self.living[rows] & mask[self.originals(rows)]
        return mask

    def speakers_within(self, namespace: Namespace) -> set[str]:
        """Who is known to have spoken in ``namespace`` or below it."""
        inside = [n[: len(namespace)] == tuple(namespace) for n in self.namespaces.values]
        rows = np.array(inside, bool)[self.column("namespace")] & self.living
        codes = np.unique(self.column(_SPEAKER)[rows])
        return {n for c in codes.tolist() if (n := self.speakers.values[c]) is not None}

    def spoken_by(self, rows: Any, speaker: str) -> Array:
        """Which of ``rows``, a list or array of them, this person spoke."""
        code = self.speakers.known(speaker)
        if code is None:
            return np.zeros(len(rows), bool)
        mask: Array = self.column(_SPEAKER)[rows] == code
        return mask


class SearchRows:
    """The owner's side. One thread calls it."""

    def __init__(self, table: MemoryTable) -> None:
        self._table = table
        self.speakers: Interned[str | None] = Interned(None)
        self._speaker = np.zeros(BLOCK_ROWS, np.uint32)
        self._blocks: list[_Block] = []
        self._count = 0

    def set_speaker(self, row: int, speaker: str | None) -> None:
        """Seen by the next ``take`` of that row."""
        self._make_room(row + 1)
        self._speaker[row] = self.speakers.code(speaker)

    def take(self, rows: Array) -> None:
        """Copy what the table now says of ``rows``, and of all that are new."""
        table = self._table
        self._make_room(table.count)
        stale = set((rows // BLOCK_ROWS).tolist())
        stale.update(range(self._count // BLOCK_ROWS, -(-table.count // BLOCK_ROWS)))
        for number in sorted(stale):
            start = number * BLOCK_ROWS
            stop = min(start + BLOCK_ROWS, table.count)
            columns = {name: table.column(name)[start:stop].copy() for name in _COLUMNS}
            columns[_SPEAKER] = self._speaker[start:stop].copy()
            block = _Block(columns)
            if number == len(self._blocks):
                self._blocks.append(block)
            else:
                self._blocks[number] = block
        self._count = table.count

    def view(self) -> RowsView:
        table = self._table
        return RowsView(
            tuple(self._blocks),
            self._count,
            table.types,
            table.namespaces,
            table.agents,
            table.tags,
            self.speakers,
        )

    def _make_room(self, count: int) -> None:
        if count > len(self._speaker):
            grown = np.zeros(max(count, 2 * len(self._speaker)), np.uint32)
            grown[: len(self._speaker)] = self._speaker
            self._speaker = grown
