"""Holding working memories against their records: each state must be what the changes say.

Every change is read once more from the first record on. A working memory of which a record was lost
says nothing until its next state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from neverforget.storage.errors import Corrupt
from neverforget.storage.format import Kind
from neverforget.storage.log_heads import heads_of
from neverforget.storage.longterm_fields import Id, id_in
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.results import Finding
from neverforget.storage.working_bodies import Standing, change_in, place_id, place_in, state_in
from neverforget.storage.working_loading import rows_of
from neverforget.storage.working_memory import WorkingMemory

_PAUSE_RECORDS = 256


class WorkingVerification:
    """Iterate over it, on whatever thread. ``limit``: a log position; of what is newer nothing is
    said. ``before_each`` part of the log is called, and may end it all by raising.
    """

    def __init__(self, state: LongTermState, limit: int, before_each: Callable[[], None]) -> None:
        self._state = state
        self._limit = limit
        self._before_each = before_each
        self._told: dict[Id, WorkingMemory | None] = {}  # None: not known for certain

    def __iter__(self) -> Iterator[Finding]:
        state = self._state
        if state.lost.ranges:
            return  # nobody can tell whose records were lost there
        seen = 0
        for heads, positions in heads_of(state.log, state.log_seed):
            self._before_each()
            for position in positions[rows_of(heads)].tolist():
                if position >= self._limit:
                    return
                seen += 1
                if not seen % _PAUSE_RECORDS:
                    time.sleep(0)  # the owner's thread would otherwise wait for the interpreter
                message = self._look(position)
                if message is not None and not state.is_erased_at(position):
                    yield state.finding("index_mismatch", position, 0, message)

    def _look(self, position: int) -> str | None:
        """What is wrong with the record there."""
        wanted = id_in(self._state.log.header(position))
        try:
            header, body = self._state.control(position)
        except Corrupt:  # erased, or told by who reads the log
            if self._state.is_erased_at(position):
                self._told.pop(wanted, None)
            else:
                self._told[wanted] = None
            return None
        try:
            place = place_in(body)
            if place_id(place) != wanted:
                return "it is about another working memory than its header says"
            if header.kind == Kind.WORKING_STATE:
                return self._compare(wanted, WorkingMemory(place, state_in(body)))
            memory = self._told.setdefault(wanted, WorkingMemory(place))
            if memory is not None:
                memory.apply(change_in(body), position, header.timestamp)
        except Corrupt as error:
            self._told[wanted] = None
            return str(error)
        return None

    def _compare(self, wanted: Id, found: WorkingMemory) -> str | None:
        known = self._told.get(wanted)
        self._told[wanted] = found
        if known is None or _agree(known.standing, found.standing):
            return None
        return f"the working memory of {found.place.name!r} is not what its changes say"


def _agree(known: Standing, found: Standing) -> bool:
    """What is no memory any more may be missing: who opened the log has left it out."""
    same = all(known.items.get(wanted) == item for wanted, item in found.items.items())
    return same and known.budget == found.budget and known.members == found.members
