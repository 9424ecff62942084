"""Which memories a filter means: columns first, then metadata, which only their records have.

Everything in a filter must hold. Nothing here raises for what a memory lacks: it just does not
match.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from neverforget.storage.errors import Corrupt, InvalidArgument
from neverforget.storage.longterm_checks import check_tags
from neverforget.storage.longterm_fields import is_derived_type
from neverforget.storage.longterm_results import STATUS_CODES, MemoryFilter, Namespace, Status
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.longterm_where import Where
from neverforget.storage.memory_table import NEVER, NO_ROW, Array, Interned, MemoryTable

_WINDOW_ROWS = 4_096


def is_empty(wanted: MemoryFilter) -> bool:
    """Whether nothing but the status narrows it: what may not be deleted by."""
    narrowed = (wanted.types, wanted.tags, wanted.agent, wanted.where, wanted.older_than)
    return (
        not wanted.namespace
        and wanted.timeframe is None
        and wanted.as_of is None
        and all(part is None or part in ((), {}) for part in narrowed)
    )


def matching(state: LongTermState, wanted: MemoryFilter) -> Array:
    """Rows, ascending, that match in every column; ``where`` is not looked at."""
    table = state.table
    return np.flatnonzero(column_mask(_Window(table, 0, table.count), wanted))


class Columns(Protocol):
    """The memory table, or what it was at some moment."""

    @property
    def types(self) -> Interned[str]: ...
    @property
    def namespaces(self) -> Interned[Namespace]: ...
    @property
    def agents(self) -> Interned[str | None]: ...
    @property
    def tags(self) -> Interned[tuple[str, ...]]: ...
    def column(self, name: str) -> Array: ...


def rows_between(
    table: MemoryTable,
    wanted: MemoryFilter,
    after: int | None,
    before: int | None,
    *,
    backwards: bool = False,
) -> Iterator[int]:
    """Rows born after and before these positions that match in every column; a window of the table
    at a time, so that a page costs what it looks at, however many memories there are.
    """
    born = table.column("born")
    start = 0 if after is None else int(born.searchsorted(np.uint64(after), "right"))
    stop = len(born) if before is None else int(born.searchsorted(np.uint64(before), "left"))
    size = _WINDOW_ROWS
    while start < stop:
        if backwards:
            first, last = max(start, stop - size), stop
            stop = first
        else:
            first, last = start, min(stop, start + size)
            start = last
        rows = first + np.flatnonzero(column_mask(_Window(table, first, last), wanted))
        yield from (rows[::-1] if backwards else rows).tolist()
        size *= 2


class _Window:
    """Some rows of a table, one after the other. Chunks and summaries have the tags that their
    original has now.
    """

    def __init__(self, table: MemoryTable, start: int, stop: int) -> None:
        self._table, self._rows = table, slice(start, stop)
        self.types, self.namespaces = table.types, table.namespaces
        self.agents, self.tags = table.agents, table.tags

    def column(self, name: str) -> Array:
        found: Array = self._table.column(name)[self._rows]
        if name == "tags":
            originals = self._table.column("original")[self._rows]
            derived = np.flatnonzero(originals != NO_ROW)
            if len(derived):
                found = found.copy()
                found[derived] = self._table.column("tags")[originals[derived]]
        return found


def column_mask(table: Columns, wanted: MemoryFilter) -> Array:
    """One truth value a row, all of ``wanted`` but ``where``."""
    mask = _status_mask(table, wanted.status)
    if not wanted.derived:
        plain = np.array([not is_derived_type(name) for name in table.types.values], np.bool_)
        mask &= plain[table.column("type")]
    if wanted.types is not None:
        asked = np.array([name in wanted.types for name in table.types.values], np.bool_)
        mask &= asked[table.column("type")]
    if wanted.namespace:
        mask &= table.namespaces.under(tuple(wanted.namespace))[table.column("namespace")]
    if wanted.tags:
        check_tags(wanted.tags)
        mask &= table.tags.under(*wanted.tags)[table.column("tags")]
    if wanted.agent is not None:
        code = table.agents.known(wanted.agent)
        mask &= False if code is None else table.column("agent") == code
    return _time_mask(table, wanted, mask)


def _status_mask(table: Columns, status: str | None) -> Array:
    held = table.column("status")
    if status is None:
        found: Array = held != Status.GONE
        return found
    code = STATUS_CODES.get(status)
    if code is None:
        raise InvalidArgument(f"status {status!r}: one of {', '.join(STATUS_CODES)}, or None")
    found = held == code
    return found


def _time_mask(table: Columns, wanted: MemoryFilter, mask: Array) -> Array:
    created = table.column("created_at")
    if wanted.older_than is not None:
        mask &= created < wanted.older_than
    if wanted.timeframe is not None:
        start, stop = wanted.timeframe
        occurred = table.column("occurred_at")
        when = np.where(occurred == NEVER, created, occurred)
        if start is not None:
            mask &= when >= start
        if stop is not None:
            mask &= when < stop
    if wanted.as_of is not None:
        mask &= table.column("valid_from") <= wanted.as_of
        mask &= table.column("valid_to") > wanted.as_of
    return mask


def within(namespace: Namespace, prefix: Namespace) -> bool:
    """Element by element: ("acme",) holds ("acme", "x") and not ("acme-corp",)."""
    return namespace[: len(prefix)] == tuple(prefix)


def row_matches(state: LongTermState, row: int, where: Where) -> bool:
    """An unreadable one does not."""
    try:
        body = state.body_at(state.table.get(row, "position"))
    except Corrupt:
        return False
    return where.matches(body)
