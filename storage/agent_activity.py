"""Who appended how many turns to a region, counted from its log when somebody asks.

Appending costs nothing for it, and the bytes say nothing of it: what was counted reaches up to a
position of the log, and goes on from there at the next call, a part at a time. Only an erasure of
what was counted makes it begin anew, since whose turns they were is among what it zeroes.

Invariant: the sums are what counting the log from its beginning would give.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neverforget.storage.activity_results import AgentTurns
from neverforget.storage.control import Body, ControlField, F
from neverforget.storage.errors import Corrupt
from neverforget.storage.format import HEADER_BYTES, BodyField, Kind
from neverforget.storage.record import body_of, decode_body
from neverforget.storage.region_state import RegionState
from neverforget.storage.scan import gather_heads, scan
from neverforget.storage.segment import SEGMENT_HEADER_BYTES, Segment
from neverforget.storage.session_index import Session
from neverforget.storage.side_file import SideFile

_PART_BYTES: Final = 512 * 1024  # of the log, counted in one go: 7 ms of turns of 300 bytes
_COUNTED: Final = (Kind.TURN, Kind.SESSION_OPENED, Kind.AGENT_JOINED)
_AGENT: Final = int(BodyField.AGENT)

Array = NDArray[Any]
Namespace = tuple[str, ...]


class _Part(NamedTuple):
    """Records from where counting stood up to the position ``upto``."""

    heads: Array
    positions: Array
    upto: int


class AgentActivity:
    """Sums by namespace and agent, those of a namespace with all below. Owned by the region's
    thread.
    """

    def __init__(self, state: RegionState) -> None:
        self._state = state
        self._begin()

    def _begin(self) -> None:
        self._upto = 0
        self._erasures = self._state.erasures
        self._sums: dict[Namespace, dict[str, AgentTurns]] = {}

    def count(self) -> bool:
        """Count the next part. True: everything that is written is counted."""
        if self._state.erasures != self._erasures:
            self._begin()
        part = self._next_part()
        if part is None:
            return True
        self._take(part)
        self._upto = part.upto
        return self._upto >= self._state.log.written

    def agents(
        self, namespace: Namespace, after: str | None, limit: int
    ) -> tuple[list[AgentTurns], bool]:
        """Of the namespace and all below, by name, strictly after ``after``, and whether there are
        more. Of what was counted.
        """
        held = self._sums.get(namespace, {})
        names = sorted(name for name in held if after is None or name > after)
        return [held[name] for name in names[:limit]], len(names) > limit

    # ---- the log ---------------------------------------------------------------------------------

    def _next_part(self) -> _Part | None:
        """None: there is none, all that is written is counted."""
        log = self._state.log
        for segment, side in log.segments_with_side_files():
            start = max(self._upto, segment.base + SEGMENT_HEADER_BYTES)
            stop = min(segment.end, log.written)
            if start < stop:
                known = None if side is None else _listed(side, start)
                return known or self._walked(segment, start, min(stop, start + _PART_BYTES))
        return None

    def _walked(self, segment: Segment, start: int, stop: int) -> _Part:
        """By walking the bytes, where no side file tells. A record that goes on behind ``stop`` is
        in the part; what is no record is passed over.
        """
        base = segment.base
        view, _ = segment.whole(start - base, stop - base)
        found = scan(
            view[: stop - base],
            base=base,
            start=start - base,
            size=segment.size,
            seed=self._state.log_seed,
        )
        offsets = np.array(found.offsets, np.int64)
        upto = base + found.data_end
        if not len(offsets):
            # Zeros to the end of it, or damage in which the next record may begin.
            damaged = found.garbage_end > found.data_end
            upto = max(stop - HEADER_BYTES + 8, start + 8) if damaged else stop
        positions = offsets.astype(np.uint64) + np.uint64(base)
        return _Part(gather_heads(view, offsets), positions, upto)

    # ---- counting --------------------------------------------------------------------------------

    def _take(self, part: _Part) -> None:
        index = self._state.index
        rows = np.flatnonzero(np.isin(part.heads["kind"], [int(kind) for kind in _COUNTED]))
        columns = (part.heads[name][rows].tolist() for name in ("kind", "session_id", "timestamp"))
        found: dict[tuple[Namespace, str], AgentTurns] = {}
        for position, (kind, session_id, at) in zip(part.positions[rows].tolist(), zip(*columns)):
            session = index.by_id.get(session_id)
            if session is None or session.name is None or not session.agents:
                continue  # lost, erased, or nobody's
            agent = self._agent_at(session, position, kind)
            if agent is None:
                continue
            key = (session.namespace, agent)
            one = found.get(key) or found.setdefault(key, AgentTurns(agent, 0, 0, None))
            if kind == Kind.TURN:
                one.turns += 1
                one.last_at = at if one.last_at is None else max(one.last_at, at)
            else:
                one.sessions += 1
        for (namespace, agent), more in found.items():
            for place in _at_and_above(namespace):
                self._add(self._sums.setdefault(place, {}), agent, more)

    def _add(self, held: dict[str, AgentTurns], agent: str, more: AgentTurns) -> None:
        one = held.get(agent) or held.setdefault(agent, AgentTurns(agent, 0, 0, None))
        one.turns += more.turns
        one.sessions += more.sessions
        one.last_at = max((a for a in (one.last_at, more.last_at) if a is not None), default=None)

    def _agent_at(self, session: Session, position: int, kind: int) -> str | None:
        """Whose record it is; None: nobody's, erased or unreadable. Only who has joined counts:
        nobody but the client has looked into a turn's body.
        """
        state = self._state
        if state.is_erased_at(position):
            return None
        try:
            body: Body = decode_body(body_of(state.log.read(position)))
        except Corrupt:
            return None
        agent = body.get(_AGENT if kind == Kind.TURN else F[ControlField.AGENT])
        return agent if isinstance(agent, str) and agent in session.agents else None


def _listed(side: SideFile, start: int) -> _Part | None:
    """From a side file; None where it says nothing of ``start``."""
    heads, positions = side.heads, side.positions
    if start >= side.stop or not len(positions) or len(heads) != len(positions):
        return None
    first = int(positions.searchsorted(np.uint64(start)))
    last = max(first + 1, int(positions.searchsorted(np.uint64(start + _PART_BYTES))))
    upto = int(positions[last]) if last < len(positions) else side.stop
    return _Part(heads[first:last], positions[first:last], upto)


def _at_and_above(namespace: Namespace) -> Iterator[Namespace]:
    for depth in range(len(namespace) + 1):
        yield namespace[:depth]
