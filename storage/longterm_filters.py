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
from neverforget.storage.memory_table import NEVER, Array, Interned


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
    return np.flatnonzero(column_mask(state.table, wanted))


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


def rows_where(state: LongTermState, rows: Array, where: Where | None) -> Iterator[int]:
    """Those of ``rows``, in their order, whose records match. Unreadable ones do not."""
    if where is None:
        yield from rows.tolist()
        return
    positions = state.table.column("position")
    for row in rows.tolist():
        try:
            _, body = state.bodies.read(int(positions[row]))
        except Corrupt:
            continue
        if where.matches(body):
            yield row
