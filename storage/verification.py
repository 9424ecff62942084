"""Reading everything a region has, and holding the index against it. May run beside the owner's
thread: it looks only at what was durable when it began.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neverforget.storage.format import HEADER_BYTES, Kind
from neverforget.storage.region_state import RegionState
from neverforget.storage.results import Finding
from neverforget.storage.scan import Scan, gather_heads, scan
from neverforget.storage.segment import SEGMENT_HEADER_BYTES
from neverforget.storage.session_index import NO_POSITION

_PAUSE_TURNS = 256


class Verification:
    """Iterate over it for the findings; ``records`` and ``bytes`` count what was read.
    ``before_each`` segment is called, and may end it all by raising.
    """

    def __init__(self, state: RegionState, before_each: Callable[[], None]) -> None:
        self._state = state
        self._before_each = before_each
        self.records = 0
        self.bytes = 0

    def __iter__(self) -> Iterator[Finding]:
        state = self._state
        seen: set[tuple[str, str, int]] = set()
        for finding in self._in_the_log():
            seen.add((finding.kind, finding.file, finding.offset))
            yield finding
        yield from self._against_the_index()
        # What only an opening can find: torn tails, segments that are gone, side files made again.
        for finding in list(state.findings):
            if (finding.kind, finding.file, finding.offset) not in seen:
                yield finding

    def _in_the_log(self) -> Iterator[Finding]:
        yield from self._state.log.verify(_ErasedAt(self._state), self._before_each)

    def _against_the_index(self) -> Iterator[Finding]:
        """Every turn in the log stands in the index, and the index has no others."""
        state = self._state
        limit = state.log.durable
        erasures = state.erasures
        erased = self._zeroed()
        entered = 0
        for segment in state.log.segments():
            self._before_each()
            stop = min(limit, segment.base + segment.size)
            if stop <= segment.base + SEGMENT_HEADER_BYTES:
                continue
            file = state.fs.open(segment.path, read_only=True)
            try:
                raw = memoryview(file.pread(stop - segment.base, 0))
            finally:
                file.close()
            found = scan(
                raw,
                base=segment.base,
                start=SEGMENT_HEADER_BYTES,
                size=segment.size,
                seed=state.log_seed,
                pause=_let_others_run,
            )
            self.records += len(found.offsets)
            self.bytes += len(raw)
            heads = gather_heads(raw, found.offsets)
            yield from self._intact(segment.base, found, heads, erased)
            columns = (heads["kind"], heads["session_id"], heads["sequence_id"])
            for at, (kind, session_id, seq, offset) in enumerate(
                zip(*(column.tolist() for column in columns), found.offsets)
            ):
                if not at % _PAUSE_TURNS:
                    _let_others_run()
                if kind != Kind.TURN or session_id in state.index.erased_ids:
                    continue
                session = state.index.by_id.get(session_id)
                position = segment.base + offset
                held = NO_POSITION if session is None else session.position(seq)
                if held == position:
                    entered += 1
                elif session_id not in state.index.erased_ids:
                    message = f"turn {seq} of session {session_id:016x} is not where the index says"
                    yield state.finding("index_mismatch", position, 0, message)
        if state.erasures == erasures:
            yield from self._count(limit, entered)

    def _zeroed(self) -> NDArray[np.uint64]:
        """Positions of records whose erasure was done by now."""
        under_way = [p - HEADER_BYTES for part in self._state.unfinished.values() for p, _ in part]
        return np.setdiff1d(self._state.erased_at, np.array(under_way, np.uint64))

    def _intact(
        self, base: int, found: Scan, heads: NDArray[Any], erased: NDArray[np.uint64]
    ) -> Iterator[Finding]:
        """Bodies that were to be erased and are as they were: the disk forgot the zeros."""
        offsets = np.array(found.offsets, np.uint64)
        readable = ~np.isin(offsets, found.bad_bodies) & (heads["body_length"] > 0)
        for position in np.intersect1d(offsets[readable] + np.uint64(base), erased).tolist():
            message = "this record was erased, and its body is here again"
            yield self._state.finding("unfinished_erasure", position, 0, message)

    def _count(self, limit: int, entered: int) -> Iterator[Finding]:
        expected = 0
        for at, session in enumerate(list(self._state.index.by_id.values())):
            if not at % _PAUSE_TURNS:
                _let_others_run()
            rows = session.rows
            expected += bisect_left(
                range(session.turn_rows), limit, key=lambda row: rows[(row + 1) << 1]
            )
        if expected != entered:
            message = f"the index holds {expected:,} turns below {limit}, the log {entered:,}"
            yield self._state.finding("index_mismatch", 0, 0, message)


class _ErasedAt:
    """Positions of records whose bodies were erased, as of now."""

    def __init__(self, state: RegionState) -> None:
        self._state = state

    def __contains__(self, position: object) -> bool:
        return isinstance(position, int) and self._state.is_erased_at(position)


def _let_others_run() -> None:
    """Give up the interpreter: the owner's thread would otherwise wait for it."""
    time.sleep(0)
