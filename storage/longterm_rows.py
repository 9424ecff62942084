"""What searches filter by, as it was at one moment: columns of the memory table that stand still.

Rows lie in blocks. The owner copies the blocks whose rows have changed; a view holds the blocks of
its moment. So a search on another thread never meets a row that is half changed, and a write costs
a copy of one block, however large the table is. What a filter lets through is kept by block as
well: after a write it is worked out anew for what has changed only.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from neverforget.storage.longterm_fields import CHUNK
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
    "speaker",
    "tags",
    "original",
)
_FILTERS_KEPT: Final = 16  # a byte a row each
UNKNOWN, PASSES, FAILS = range(3)


class _Kept(dict[Hashable, Array]):
    """Arrays by filter, the newest few. Any thread; what two threads work out is the same."""

    def keep(self, key: Hashable, array: Array) -> Array:
        while len(self) >= _FILTERS_KEPT:
            oldest = next(iter(list(self)), None)
            self.pop(oldest, None)
        return self.setdefault(key, array)


@dataclass(frozen=True)
class _Block:
    columns: dict[str, Array]
    passing: _Kept = field(default_factory=_Kept)
    judged: _Kept = field(default_factory=_Kept)  # by ``where``: UNKNOWN, PASSES or FAILS

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
    _masks: _Kept = field(default_factory=_Kept)

    @property
    def columns(self) -> tuple[str, ...]:
        return _COLUMNS

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
    def living_count(self) -> int:
        return int(np.count_nonzero(self.living))

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

    def chunks_of(self, row: int) -> list[int]:
        """Its living chunks, in the order of its text."""
        originals, rows = self._derived
        first, stop = np.searchsorted(originals, (row, row + 1)).tolist()
        found = rows[first:stop]
        names, types = self.types.values, self.column("type")
        living = found[self.living[found]].tolist()
        return [each for each in living if names[int(types[each])].endswith(CHUNK)]

    def passing(self, wanted: MemoryFilter) -> Array:
        """One truth value a row: what a search with this filter may find. Chunks and summaries are
        judged by their original. ``where`` is not looked at. Shared: not to be changed.
        """
        key = _key(wanted)
        kept = self._masks.get(key)
        return self._masks.keep(key, self._passing(wanted, key)) if kept is None else kept

    def _passing(self, wanted: MemoryFilter, key: Hashable) -> Array:
        parts = [block.passing.get(key) for block in self._blocks]
        stale = [at for at, part in enumerate(parts) if part is None]
        if stale or not parts:
            some = self if len(stale) == len(parts) else self._only(stale)
            mask, start = column_mask(some, wanted) & some.living, 0
            for at in stale:
                stop = start + len(self._blocks[at].columns["status"])
                parts[at] = self._blocks[at].passing.keep(key, mask[start:stop])
                start = stop
            if len(stale) == len(parts):
                return self.with_derived(mask)
        return self.with_derived(np.concatenate([part for part in parts if part is not None]))

    def with_derived(self, mask: Array) -> Array:
        """With what living chunks and summaries of these there are, and no other."""
        _, rows = self._derived
        if len(rows):
            mask = mask.copy()
            mask[rows] = self.living[rows] & mask[self.originals(rows)]
        return mask

    def without_derived(self, mask: Array) -> Array:
        _, rows = self._derived
        if len(rows):
            mask = mask.copy()
            mask[rows] = False
        return mask

    def _only(self, blocks: list[int]) -> RowsView:
        some = tuple(self._blocks[at] for at in blocks)
        return RowsView(some, 0, self.types, self.namespaces, self.agents, self.tags, self.speakers)

    def judged(self, where: str) -> list[Array]:
        """By block, what is known of each of its rows under ``where``; filled by who finds out."""
        found = []
        for block in self._blocks:
            kept = block.judged.get(where)
            if kept is None:
                size = len(block.columns["status"])
                kept = block.judged.keep(where, np.full(size, UNKNOWN, np.uint8))
            found.append(kept)
        return found

    def speakers_within(self, namespace: Namespace) -> set[str]:
        """Who is known to have spoken in ``namespace`` or below it."""
        inside = self.namespaces.under(tuple(namespace))[self.column("namespace")] & self.living
        codes = np.flatnonzero(np.bincount(self.column("speaker")[inside]))
        return {n for c in codes.tolist() if (n := self.speakers.values[c]) is not None}

    def spoken_by(self, rows: Any, speaker: str) -> Array:
        """Which of ``rows``, a list or array of them, this person spoke."""
        code = self.speakers.known(speaker)
        if code is None:
            return np.zeros(len(rows), bool)
        mask: Array = self.column("speaker")[rows] == code
        return mask

    def valid_at(self, rows: Any, at: int) -> Array:
        """Which of ``rows``, a list or array of them, are valid at that time."""
        valid: Array = self.column("valid_from")[rows] <= at
        valid &= self.column("valid_to")[rows] > at
        return valid


def _key(wanted: MemoryFilter) -> Hashable:
    types = None if wanted.types is None else tuple(wanted.types)
    tags = None if wanted.tags is None else tuple(wanted.tags)
    about = (wanted.agent, wanted.status, wanted.derived)
    times = (wanted.timeframe, wanted.older_than, wanted.as_of)
    return tuple(wanted.namespace), types, tags, about, times


class SearchRows:
    """The owner's side. One thread calls it."""

    def __init__(self, table: MemoryTable) -> None:
        self._table = table
        self._blocks: list[_Block] = []
        self._count = 0
        self._view: RowsView | None = None

    def take(self, rows: Array) -> None:
        """Copy what the table now says of ``rows``, and of all that are new."""
        table = self._table
        stale = set((rows // BLOCK_ROWS).tolist())
        count = table.count  # rows may be added meanwhile, by an owner who will say so
        stale.update(range(self._count // BLOCK_ROWS, -(-count // BLOCK_ROWS)))
        for number in sorted(stale):
            start = number * BLOCK_ROWS
            stop = min(start + BLOCK_ROWS, count)
            columns = {name: table.column(name)[start:stop].copy() for name in _COLUMNS}
            block = _Block(columns)
            if number == len(self._blocks):
                self._blocks.append(block)
            else:
                self._blocks[number] = block
        if stale:
            self._count, self._view = count, None

    def view(self) -> RowsView:
        """The same one until the next ``take``. Under the lock that ``take`` is called under."""
        table = self._table
        if self._view is None:
            self._view = RowsView(
                tuple(self._blocks),
                self._count,
                table.types,
                table.namespaces,
                table.agents,
                table.tags,
                table.speakers,
            )
        return self._view
