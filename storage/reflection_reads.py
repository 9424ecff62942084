"""What is answered about reflection: who is due, what is left to be done, how far behind it is."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest
from itertools import islice

from neverforget.storage.consolidation import consolidated_by_others
from neverforget.storage.control import ControlField, F
from neverforget.storage.dead_letters import DeadLetter
from neverforget.storage.errors import Corrupt
from neverforget.storage.reflection_results import DueSession, FailedRange, ReflectionLag
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.region_state import RegionState
from neverforget.storage.runs import Runs
from neverforget.storage.session_catalogue import place_of
from neverforget.storage.session_index import NO_POSITION, Session
from neverforget.storage.window_parts import check_limit

FAILED_RANGES_MAX = 100  # in one answer
_OLDEST_OF = 256  # sessions among which the longest waiting turn is looked for

Name = tuple[tuple[str, ...], str]


class ReflectionReads:
    def __init__(self, state: RegionState, options: RegionOptions) -> None:
        self._state = state
        self._ledger = state.ledger
        self._options = options

    def due(self, limit: int) -> list[DueSession]:
        """See ``messages.Due``."""
        check_limit(limit)
        by_id = self._state.index.by_id
        found: list[DueSession] = []
        for session_id in islice(self._ledger.due(), min(limit, self._options.scan_records_max)):
            session = by_id[session_id]
            waits = self._ledger.runs_waiting(session, session.end)
            if (view := self._view(session, waits, 0)) is not None:
                found.append(view)
        return found

    def unreflected(
        self,
        namespace: tuple[str, ...],
        name: str | None,
        after: Name | None,
        limit: int,
        extractor: str | None,
        again: bool,
        from_seq: int,
    ) -> tuple[list[DueSession], bool, Name | None]:
        """See ``messages.Unreflected``: the sessions, whether there may be more, and how far was
        looked.
        """
        check_limit(limit)
        if name is not None:
            session, _ = self._state.index.find(namespace, name)
            found = [] if session is None else [self._left(session, extractor, again, from_seq)]
            return [view for view in found if view is not None], False, None
        views: list[DueSession] = []
        size = 0
        at = after
        sessions = self._state.index.catalogue.sessions(namespace, None, after)
        for looked, session in enumerate(sessions):
            if looked == self._options.scan_records_max or len(views) == limit:
                return views, True, at
            view = self._left(session, extractor, again, 0)
            if view is not None:
                size += _bytes_of(view)
                if views and size > self._options.reply_bytes_max:
                    return views, True, at
                views.append(view)
            at = place_of(session)
        return views, False, at

    def lag(self) -> ReflectionLag:
        """The oldest turn is looked for among the sessions that began to wait first."""
        ledger, by_id = self._ledger, self._state.index.by_id
        failed = sum(len(letters.letters) for letters in ledger.letters.values())
        oldest = (ledger.waits_at(by_id[held]) for held in islice(ledger.waiting, _OLDEST_OF))
        first = min((position for position in oldest if position != NO_POSITION), default=None)
        return ReflectionLag(
            turns=sum(ledger.waiting.values()),
            sessions=len(ledger.waiting),
            oldest_at=None if first is None else self._time_at(first) or None,
            due=ledger.due_count,
            failed=failed,
            failed_ranges=self._failed() if failed else [],
        )

    def _failed(self) -> list[FailedRange]:
        every = (
            (letter.position, letter.first, session_id, letter)
            for session_id, letters in self._ledger.letters.items()
            for letter in letters.letters
        )
        by_id = self._state.index.by_id
        newest = nlargest(FAILED_RANGES_MAX, every)
        return [self._failed_range(by_id[held], letter) for *_, held, letter in reversed(newest)]

    def _failed_range(self, session: Session, letter: DeadLetter) -> FailedRange:
        return FailedRange(
            session.namespace,
            session.name or "",
            letter.first,
            letter.last,
            letter.extractor,
            letter.tries,
            self._error_of(letter),
            letter.at,
        )

    def _error_of(self, letter: DeadLetter) -> str:
        """Empty where it was erased with the turns, or is unreadable."""
        try:
            _, body = self._state.control(letter.error_at)
        except Corrupt:
            return ""
        error = body.get(F[ControlField.REASON])
        return error if isinstance(error, str) else ""

    def _left(
        self, session: Session, extractor: str | None, again: bool, from_seq: int
    ) -> DueSession | None:
        """What is to be done in the session when somebody asks; None: nothing."""
        ledger, session_id = self._ledger, session.session_id
        letters = ledger.letters.get(session_id)
        waits = session_id in ledger.waiting or session_id in ledger.planned
        if not waits and letters is None and not again:
            return None
        todo = Runs(ledger.runs_waiting(session, session.end))
        for letter in letters.letters if letters is not None else ():
            todo.add(letter.first, letter.last)
        if again:
            for first, last in consolidated_by_others(session, extractor):
                todo.add(first, last)
        return self._view(session, todo, from_seq)

    def _view(
        self, session: Session, runs: Iterable[tuple[int, int]], from_seq: int
    ) -> DueSession | None:
        """With ``runs`` of turns to be done, and the plan; None where there are none."""
        todo = Runs(Runs(runs).within(max(from_seq, session.base), session.end))
        held = self._ledger.planned.get(session.session_id)
        planned = None if held is None or held.range.first < from_seq else held.range
        if planned is not None:
            todo.add(planned.first, planned.last)
        elif not todo:
            return None
        first = todo.firsts[0] if planned is None else planned.first
        stop = todo.lasts[0] + 1 if planned is None else planned.last + 1
        position = session.position(first)
        return DueSession(
            session.namespace,
            session.name or "",
            first,
            session.end,
            len(todo),
            planned,
            0 if position == NO_POSITION else self._time_at(position),
            stop,
        )

    def _time_at(self, position: int) -> int:
        try:
            return self._state.log.header(position).timestamp
        except Corrupt:
            return 0


def _bytes_of(view: DueSession) -> int:
    """What it may take in a reply, roughly."""
    return 100 + 4 * sum(map(len, (*view.namespace, view.session)))
