"""Reading everything a long-term region has, and holding the table against it. May run beside the
owner's thread: it looks only at what was durable when it began.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neverforget.storage.errors import Corrupt
from neverforget.storage.format import HEADER_BYTES, stride
from neverforget.storage.log_heads import heads_of
from neverforget.storage.longterm_fields import id_in, id_text
from neverforget.storage.longterm_orphans import orphans
from neverforget.storage.longterm_state import CONTENT, LongTermState
from neverforget.storage.results import Finding
from neverforget.storage.working_verification import WorkingVerification

_PAUSE_RECORDS = 256


class LongTermVerification:
    """Iterate over it for the findings; ``records`` and ``bytes`` count what was read.
    ``before_each`` segment is called, and may end it all by raising.
    """

    def __init__(self, state: LongTermState, before_each: Callable[[], None]) -> None:
        self._state = state
        self._before_each = before_each
        self.records = 0
        self.bytes = 0

    def __iter__(self) -> Iterator[Finding]:
        state = self._state
        seen: set[tuple[str, str, int]] = set()
        for finding in state.log.verify(_ErasedAt(state), self._before_each):
            seen.add((finding.kind, finding.file, finding.offset))
            yield finding
        limit = state.log.durable
        yield from self._against_the_table()
        yield from orphans(state, limit)
        yield from WorkingVerification(state, limit, self._before_each)
        # What only an opening can find: torn tails, segments that are gone, unreadable records.
        for finding in list(state.findings):
            if (finding.kind, finding.file, finding.offset) not in seen:
                yield finding

    def _against_the_table(self) -> Iterator[Finding]:
        """Every memory in the log stands in the table at its newest record, and no other does."""
        state, table = self._state, self._state.table
        limit, erasures = state.log.durable, state.erasures
        zeroed = self._zeroed()
        newest: dict[tuple[int, int, int], int] = {}
        for heads, positions in heads_of(state.log, state.log_seed):
            self._before_each()
            durable = positions < np.uint64(limit)
            self.records += int(durable.sum())
            self.bytes += int(sum(map(stride, heads["body_length"][durable].tolist())))
            yield from self._intact(positions[durable], zeroed)
            rows = np.flatnonzero(durable & np.isin(heads["kind"], CONTENT))
            ids = (heads[name][rows].tolist() for name in ("session_id", "sequence_id"))
            lows = heads["token_count"][rows].tolist()
            for wanted, position in zip(zip(*ids, lows), positions[rows].tolist()):
                newest[wanted] = position
        if state.erasures != erasures:
            return  # an erasure wrote versions on the way
        for at, position in enumerate(newest.values()):
            if not at % _PAUSE_RECORDS:
                time.sleep(0)  # the owner's thread would otherwise wait for the interpreter
            wanted = id_in(state.log.header(position))
            row = table.find(wanted)
            if row is None or position > table.get(row, "position"):
                message = f"memory {id_text(wanted)} is not where the table says"
                yield state.finding("index_mismatch", position, 0, message)
        held = int((table.column("born") < np.uint64(limit)).sum())
        if held != len(newest):
            message = f"the table holds {held:,} memories below {limit}, the log {len(newest):,}"
            yield state.finding("index_mismatch", 0, 0, message)

    def _zeroed(self) -> NDArray[np.uint64]:
        """Positions of records whose erasure was done by now."""
        under_way = [p - HEADER_BYTES for part in self._state.unfinished.values() for p, _ in part]
        return np.setdiff1d(self._state.erased_at, np.array(under_way, np.uint64))

    def _intact(self, positions: NDArray[Any], zeroed: NDArray[np.uint64]) -> Iterator[Finding]:
        """Bodies that were to be erased and are as they were: the disk forgot the zeros."""
        for position in np.intersect1d(positions, zeroed).tolist():
            try:
                if not len(self._state.log.read(position)) > HEADER_BYTES:
                    continue
            except Corrupt:
                continue  # as it should be
            message = "this record was erased, and its body is here again"
            yield self._state.finding("unfinished_erasure", position, 0, message)


class _ErasedAt:
    """Positions of records whose bodies were erased, as of now."""

    def __init__(self, state: LongTermState) -> None:
        self._state = state

    def __contains__(self, position: object) -> bool:
        return isinstance(position, int) and self._state.is_erased_at(position)
