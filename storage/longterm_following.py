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
from neverforget.storage.longterm_fields import Id, id_in, named_in
from neverforget.storage.longterm_state import CONTENT, LongTermState
from neverforget.storage.memory_table import Array
from neverforget.storage.scan import gather_heads, scan
from neverforget.storage.segment import SEGMENT_HEADER_BYTES

_ABOUT_HEADER = (*CONTENT, Kind.TAGGED, Kind.UNTAGGED)
_ABOUT_BODY = (
    Kind.FORGOTTEN,
    Kind.UNDONE,
    Kind.ARCHIVED,
    Kind.UNARCHIVED,
    Kind.PURGED,
    Kind.ERASING,
)


class Changed(NamedTuple):
    """``rows``: ascending. ``upto``: the position from which to look the next time. ``erased``:
    whether bytes were taken away, so that what holds copies of them must be made anew.
    ``forgotten``: whether anything was forgotten or restored, so that contexts are affected.
    """

    rows: Array
    upto: int
    erased: bool
    forgotten: bool


def changed_since(state: LongTermState, since: int) -> Changed:
    """Rows that any record from ``since`` on is about. Only of what is written; call it in the
    owner's thread, between a write and the next staging.
    """
    table = state.table
    ids: set[Id] = set()
    every = False
    seen: set[int] = set()
    for heads, positions in heads_from(state, since):
        for position, kind in of_kinds(heads, positions, *_ABOUT_HEADER, *_ABOUT_BODY):
            if kind in _ABOUT_HEADER:
                ids.add(id_in(state.log.header(position)))
            seen.add(kind)
            if kind in _ABOUT_BODY or kind == Kind.REVISED:
                body = _body(state, position)
                if body is None:  # whom it named is lost: anybody
                    every = every or kind in _ABOUT_BODY
                else:
                    ids.update(named_in(body))
    rows = np.arange(table.count) if every else np.unique(table.find_many(list(ids)))
    return Changed(
        rows.astype(np.int64),
        state.log.written,
        erased=not seen.isdisjoint((Kind.PURGED, Kind.ERASING)),
        forgotten=not seen.isdisjoint((Kind.FORGOTTEN, Kind.UNDONE, Kind.PURGED, Kind.ERASING)),
    )


def heads_from(state: LongTermState, since: int) -> Iterator[tuple[Array, Array]]:
    """(headers, positions) of what is written and sound from ``since`` on, in log order. ``since``
    is 0 or a place where a record ends.
    """
    log = state.log
    for segment, side in log.segments_with_side_files():
        stop = min(segment.end, log.written)
        if stop <= since:
            continue
        start = max(SEGMENT_HEADER_BYTES, since - segment.base)
        if side is not None:
            wanted = side.positions >= np.uint64(since)
            yield side.heads[wanted], side.positions[wanted]
            start = max(start, side.stop - segment.base)
        if stop - segment.base <= start:
            continue
        view, _ = segment.whole(start)
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
