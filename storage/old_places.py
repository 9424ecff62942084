"""Where what an old log names is today: sessions by the ids, and turns by the seqs, that it has.

In front of where the logs part all of it is the same. Behind, turns are where they were brought, or
where their clients appended them again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from neverforget.storage.appending import Name
from neverforget.storage.region_state import RegionState
from neverforget.storage.runs import Runs
from neverforget.storage.session_index import Session


class OldPlaces:
    """Of one reading. ``names``: of sessions that the old log opened behind ``parting``; ``seqs``:
    (id, seq) there -> session and seq here.
    """

    def __init__(self, state: RegionState, parting: int = 0) -> None:
        self._state = state
        self.parting = parting
        self.names: dict[int, Name] = {}
        self.seqs: dict[tuple[int, int], tuple[Session, int]] = {}
        self._taken: set[tuple[int, int]] = set()

    def note(self, old: tuple[int, int], session: Session, seq: int) -> None:
        """What turn that was, (id, seq), is here."""
        self.seqs[old] = session, seq
        self._taken.add((session.session_id, seq))

    def is_taken(self, session: Session, seq: int) -> bool:
        """Is this turn one of the old ones, as is known by now?"""
        return (session.session_id, seq) in self._taken

    def is_front(self, session: Session) -> bool:
        """Was it opened before the logs parted?"""
        return session.opened_at < self.parting

    def name_of(self, session_id: int) -> Name | None:
        name = self.names.get(session_id)
        session = self._state.index.by_id.get(session_id)
        if name is not None or session is None or session.name is None:
            return name
        return (session.namespace, session.name) if self.is_front(session) else None

    def here(self, session_id: int) -> Session | None:
        """The session that an old id means, if it is there."""
        name = self.name_of(session_id)
        if name is None:
            return self._state.index.by_id.get(session_id)
        return self._state.index.find(*name)[0]

    def front_end(self, session: Session | None) -> int:
        """The first seq that does not stand in front of where the logs part; 0: none does."""
        if session is None or not self.is_front(session):
            return 0
        rows = session.rows
        places = range(1, len(rows) >> 1)
        row = 1 + bisect_left(places, self.parting, key=lambda r: rows[r << 1])
        return session.seq_of_row(row - 1) + 1 if row > 1 else session.base

    def in_front(self, session_id: int, runs: Iterable[tuple[int, int]]) -> Runs:
        """Those of the turns that are the same in both logs."""
        found = Runs()
        end = self.front_end(self._state.index.by_id.get(session_id))
        for first, last in runs:
            if first < end:
                found.add(first, min(last, end - 1))
        return found

    def moved(self, session_id: int, runs: Sequence[tuple[int, int]]) -> dict[int, Runs]:
        """Old turns as they are here: new seqs by the ids of their sessions."""
        front = self.in_front(session_id, runs)
        found = {session_id: front} if front else {}
        end = self.front_end(self._state.index.by_id.get(session_id))
        for first, last in runs:
            for seq in range(max(first, end), last + 1):
                held = self.seqs.get((session_id, seq))
                if held is not None:
                    found.setdefault(held[0].session_id, Runs()).add(held[1], held[1])
        return found
