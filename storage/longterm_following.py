"""Which memories changed behind a position of the log: how everything derived keeps up with it.

The log itself is the feed, while a store is open and when it is opened again, so no change can be
told to the table and kept from the indexes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from neverforget.storage.control import Body
from neverforget.storage.errors import Corrupt
from neverforget.storage.format import Kind
from neverforget.storage.log_state import of_kinds
from neverforget.storage.longterm_fields import Id, id_in, packed_in
from neverforget.storage.longterm_state import ABOUT_MANY, CONTENT, LongTermState
from neverforget.storage.memory_table import Array, MemoryTable
from neverforget.storage.row_index import distinct
from neverforget.storage.scan import gather_heads, scan
from neverforget.storage.segment import SEGMENT_HEADER_BYTES

_NONE: Array = np.empty(0, np.uint64)
_ABOUT_HEADER = (*CONTENT, Kind.TAGGED, Kind.UNTAGGED)


class Changed(NamedTuple):
    """``rows``: ascending. ``upto``: the position from which to look the next time. ``erased``:
    whether bytes were taken away, so that what holds copies of them must be made anew.
    ``forgotten``: whether anything was forgotten or restored, so that contexts are affected.
    """

    rows: Array
    upto: int
    erased: bool
    forgotten: bool


def changed_since(state: LongTermState, since: int, stop: int | None = None) -> Changed:
    """Rows that any record from ``since`` on is about, below ``stop`` or of all that is written. In
    the owner's thread, between a write and the next staging; below a ``stop`` that is written on
    any thread.
    """
    stop = state.log.written if stop is None else stop
    table = state.table
    ids: set[Id] = set()
    every = False
    seen: set[int] = set()
    new: list[Array] = []
    rows_named: list[Array] = []
    for heads, positions in heads_from(state, since, stop):
        is_new, rows = _born_there(table, heads, positions)
        new.append(rows)
        for position, kind in of_kinds(
            heads[~is_new], positions[~is_new], *_ABOUT_HEADER, *ABOUT_MANY
        ):
            if kind in _ABOUT_HEADER:
                ids.add(id_in(state.log.header(position)))
            seen.add(kind)
            if kind in ABOUT_MANY or kind == Kind.REVISED:
                body = _body(state, position)
                if body is None:  # whom it named is lost: anybody
                    every = every or kind in ABOUT_MANY
                else:
                    rows_named.append(table.find_packed(packed_in(body)))
    rows = (
        np.arange(table.count)
        if every
        else distinct(np.concatenate([table.find_many(list(ids)), *rows_named, *new]))
    )
    return Changed(
        rows.astype(np.int64),
        stop,
        erased=not seen.isdisjoint((Kind.PURGED, Kind.ERASING)),
        forgotten=not seen.isdisjoint((Kind.FORGOTTEN, Kind.UNDONE, Kind.PURGED, Kind.ERASING)),
    )


def _born_there(table: MemoryTable, heads: Array, positions: Array) -> tuple[Array, Array]:
    """Which of these records are the first of a memory, and the rows of those: most of a log that
    was filled, found without looking up one id.
    """
    born = table.column("born")
    rows = born.searchsorted(positions)
    is_new = (heads["kind"] == int(Kind.REMEMBERED)) & (rows < len(born))
    is_new[is_new] = born[rows[is_new]] == positions[is_new]
    return is_new, rows[is_new]


def heads_from(
    state: LongTermState, since: int, until: int | None = None
) -> Iterator[tuple[Array, Array]]:
    """(headers, positions) of what is written and sound from ``since`` on, in log order, below
    ``until``. Both are 0 or places where a record ends.
    """
    until = state.log.written if until is None else until
    log = state.log
    for segment, side in log.segments_with_side_files():
        stop = min(segment.end, until)
        if stop <= since:
            continue
        start = max(SEGMENT_HEADER_BYTES, since - segment.base)
        heads, positions = (side.heads, side.positions) if side is not None else (_NONE, _NONE)
        # One that its owner replaces at this moment is let go of: the segment tells the same.
        if side is not None and len(heads) == len(positions) > 0:
            first, last = np.searchsorted(positions, np.array((since, stop), np.uint64))
            yield heads[first:last], positions[first:last]
            start = max(start, side.stop - segment.base)
        if stop - segment.base <= start:
            continue
        view, _ = segment.whole(start, stop - segment.base)
        found = scan(
            view[: stop - segment.base],
            base=segment.base,
            start=start,
            size=segment.size,
            seed=state.log_seed,
        )
        offsets = np.array(found.offsets, np.int64)
        yield gather_heads(view, offsets), offsets.astype(np.uint64) + np.uint64(segment.base)


def _body(state: LongTermState, position: int) -> Body | None:
    try:
        return state.control(position)[1]
    except Corrupt:
        return None
