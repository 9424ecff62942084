"""What of each session is not reflected yet, what is planned, what was given up, and who is due.

A turn of a session's own (a fork's begin at its base) *waits* while it is neither consolidated nor
given up; hidden, erased and lost ones count as well. A session is due

* when ``every`` turns of it wait, or any multiple: then it stays due until the turn that made the
  multiple full, and all that wait before it, are done;
* when turns wait and nothing was appended to it for ``after_s`` (or 1/256 longer): until what waits
  then is done;
* while it has a plan that is not done.

With ``every`` and ``after_s`` both 0 nothing is ever due. Everything is derived: it is a function
of the records in the log, so that the same sessions are due after a restart. (What was due for
being quiet, went on, and was cut short between two windows waits to be quiet again.)

Memory: 50 to 100 bytes for a session in which turns wait, 150 more with ``after_s``; none for one
in which none do. Opening takes half a microsecond for each that waits, as much again with
``after_s``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from neverforget.storage import control
from neverforget.storage.clock import Clock
from neverforget.storage.consolidation import consolidate
from neverforget.storage.control import Body, ControlField, F
from neverforget.storage.dead_letters import DeadLetter, DeadLetters
from neverforget.storage.errors import Corrupt
from neverforget.storage.format import Kind, stride
from neverforget.storage.log import Log
from neverforget.storage.record import Header
from neverforget.storage.reflection_results import PlannedRange
from neverforget.storage.runs import Runs
from neverforget.storage.session_index import NO_POSITION, Session, SessionIndex

REFLECTION = (Kind.MARK, Kind.PLANNED, Kind.NOT_REFLECTED)
_BEATS = 256  # in ``after_s``
_BEAT_S_MIN = 0.02
_SWEPT_MAX = 200  # sessions that one look at the quiet ones takes: about a millisecond


class Planned(NamedTuple):
    """``end``: the log position that must be durable for it."""

    range: PlannedRange
    end: int


def is_same(one: PlannedRange, other: PlannedRange) -> bool:
    """The same turns by the same extractor."""
    return (one.first, one.last, one.extractor) == (other.first, other.last, other.extractor)


class ReflectionLedger:
    """``newly_due``: some session has become due since somebody set it to False. ``quiet_at``:
    when (monotonic) ``pass_time`` must be called, None: never. One thread owns it.
    """

    def __init__(
        self, index: SessionIndex, log: Log, clock: Clock, every: int = 0, after_s: float = 0.0
    ) -> None:
        self.waiting: dict[int, int] = {}  # session id -> turns, in the order they began to wait
        self.targets: dict[int, int] = {}  # of due ones: they are until all below it is done
        self.planned: dict[int, Planned] = {}
        self.letters: dict[int, DeadLetters] = {}
        self.newly_due = False
        self.quiet_at: float | None = None
        self._index, self._log, self._clock = index, log, clock
        self._every, self._after_s = every, after_s
        # Appends only note in which sessions they were: the clock is read once a beat.
        self._beat_s = max(after_s / _BEATS, _BEAT_S_MIN)
        self._beat_began: float | None = None
        self._touched: dict[int, None] = {}
        # When each that waits was last appended to before that, oldest first; None: before the
        # opening.
        self._last: OrderedDict[int, float | None] = OrderedDict()
        self._loading = True

    def take_news(self) -> bool:
        """Has a session become due since this was asked last?"""
        news, self.newly_due = self.newly_due, False
        return news

    @property
    def ever_due(self) -> bool:
        return self._every > 0 or self._after_s > 0

    def due(self) -> Iterator[int]:
        """Ids of the sessions that are due, the first ones for longest."""
        if self.ever_due:
            yield from (planned for planned in self.planned if planned not in self.targets)
            yield from self.targets

    @property
    def due_count(self) -> int:
        if not self.ever_due:
            return 0
        return len(self.targets) + sum(planned not in self.targets for planned in self.planned)

    # ---- what waits ------------------------------------------------------------------------------

    def covered(self, session: Session) -> Runs:
        """Turns that do not wait."""
        letters = self.letters.get(session.session_id)
        if letters is not None:
            return letters.covered
        return session.marks

    def runs_waiting(self, session: Session, end: int) -> Iterator[tuple[int, int]]:
        """Runs of turns below ``end`` that wait."""
        at = session.base
        for first, last in self.covered(session).within(session.base, end):
            if at < first:
                yield at, first - 1
            at = last + 1
        if at < end:
            yield at, end - 1

    # ---- what changes it -------------------------------------------------------------------------

    def appended(self, session: Session, turns: int) -> None:
        """``turns`` more; the index has them already. On the path of every append."""
        session_id = session.session_id
        before = self.waiting.get(session_id, 0)
        self.waiting[session_id] = after = before + turns
        if self._after_s:
            self._touched[session_id] = None
            if self._beat_began is None:
                self._begin_beat()
        every = self._every
        if after >= every > 0 and after // every != before // every:
            self._full(session, session.end, after)

    def recount(self, session: Session) -> None:
        """The session has got a name, or an end that is not behind a turn."""
        if not self._loading and session.name is not None:
            self._settle(session, session.end)

    def apply(self, session: Session, header: Header, position: int, body: Body) -> None:
        """Take a record of ``REFLECTION``. Raises Corrupt with nothing changed."""
        session_id, kind = session.session_id, header.kind
        if kind == Kind.NOT_REFLECTED and F[ControlField.REASON] in body:
            session.note_text(position)  # of the error: the record in front of it says the rest
            return
        first, last = control.one_run(body)
        extractor = control.text(body, ControlField.EXTRACTOR)
        end = position + stride(header.body_length)
        if kind == Kind.PLANNED:
            self._plan(
                session_id, PlannedRange(first, last, extractor, header.timestamp), body, end
            )
            return
        tries = 0 if kind == Kind.MARK else control.number(body, ControlField.TRIES)
        # While loading, the index holds turns from behind this record already.
        turns_then = header.sequence_id
        if self._loading and session.name is not None:
            self._full(session, turns_then, self._count(session, turns_then))
        letters = self.letters.get(session_id)
        if kind == Kind.MARK:
            consolidate(session, first, last, extractor)
            if letters is not None:
                letters.consolidated(first, last)
                if not letters.letters:
                    del self.letters[session_id]
        else:
            if letters is None:
                letters = self.letters[session_id] = DeadLetters(self.covered(session))
            at = header.timestamp
            letters.add(DeadLetter(first, last, extractor, tries, at, position, end))
        held = self.planned.get(session_id)
        if held is not None and first <= held.range.first and held.range.last <= last:
            del self.planned[session_id]
        if session.name is not None:
            self._settle(session, turns_then)
            if session_id in self.targets:  # it made progress: others come first now
                self.targets[session_id] = self.targets.pop(session_id)

    def _plan(self, session_id: int, planned: PlannedRange, body: Body, end: int) -> None:
        if F[ControlField.TRIES] in body:  # the same one begins again
            held = self.planned.get(session_id)
            stands = held is not None and is_same(held.range, planned)
            at = held.range.at if held is not None and stands else planned.at
            begun = control.number(body, ControlField.TRIES)
            planned = PlannedRange(planned.first, planned.last, planned.extractor, at, begun)
        self.planned[session_id] = Planned(planned, end)

    def drop(self, session_id: int) -> None:
        """The session is erased."""
        for held in (self.waiting, self.targets, self.planned, self.letters):
            held.pop(session_id, None)
        self._touched.pop(session_id, None)
        self._last.pop(session_id, None)

    def _settle(self, session: Session, end: int) -> None:
        """What waits has changed."""
        session_id = session.session_id
        count = self._count(session, end)
        if not self._loading:
            if count:
                self.waiting[session_id] = count
            else:
                self.waiting.pop(session_id, None)
                self._last.pop(session_id, None)
        self._full(session, end, count)
        target = self.targets.get(session_id)
        if target is not None and next(self.runs_waiting(session, target), None) is None:
            del self.targets[session_id]

    def _count(self, session: Session, end: int) -> int:
        base = session.base
        held = self.covered(session).within(base, end)
        return end - base - sum(last - first + 1 for first, last in held)

    def _full(self, session: Session, end: int, count: int) -> None:
        """Due, where ``count`` turns below ``end`` are enough: up to the last full multiple."""
        if not self._every or count < self._every:
            return
        left = count // self._every * self._every
        for first, last in self.runs_waiting(session, end):
            if last - first + 1 >= left:
                self._due_up_to(session.session_id, first + left)
                return
            left -= last - first + 1

    def _due_up_to(self, session_id: int, target: int) -> None:
        held = self.targets.get(session_id)
        if held is None:
            self.newly_due = True
        if held is None or target > held:
            self.targets[session_id] = target

    # ---- quiet sessions --------------------------------------------------------------------------

    def pass_time(self, now: float) -> None:
        """``now``: monotonic seconds. Sessions that have been quiet for long enough are due."""
        if self.quiet_at is None or now < self.quiet_at:
            return
        if self._beat_began is not None and self._beat_began + self._beat_s <= now:
            self._end_beat(self._beat_began, now)
        self.quiet_at = self._sweep(now)
        if self._beat_began is not None:
            ends = self._beat_began + self._beat_s
            self.quiet_at = ends if self.quiet_at is None else min(self.quiet_at, ends)

    def _begin_beat(self) -> None:
        self._beat_began = now = self._clock.monotonic()
        ends = now + self._beat_s
        self.quiet_at = ends if self.quiet_at is None else min(self.quiet_at, ends)

    def _end_beat(self, began: float, now: float) -> None:
        """An append counts as of the end of its beat, late by that at most; of a beat whose end was
        missed as of its beginning.
        """
        at = now if now - began <= 2 * self._beat_s else began
        for session_id in self._touched:
            if session_id in self.waiting:
                self._last[session_id] = at
                self._last.move_to_end(session_id)
        self._touched, self._beat_began = {}, None

    def _sweep(self, now: float) -> float | None:
        """When the next session will have been quiet for long. Takes a bounded number at a time."""
        for _ in range(_SWEPT_MAX):
            session_id, last = next(iter(self._last.items()), (0, None))
            if not session_id:
                return None
            if last is None:
                last = self._last[session_id] = now - self._age_s(session_id)
            if last + self._after_s > now:
                return last + self._after_s
            self._last.popitem(last=False)
            if session_id not in self._touched:
                self._due_up_to(session_id, self._index.by_id[session_id].end)
        return now  # the rest at the next tick

    def _age_s(self, session_id: int) -> float:
        """How long ago, by the wall clock, the session's last turn was said. One that says it comes
        from the future counts from now on.
        """
        session = self._index.by_id[session_id]
        try:
            said = self._log.header(session.rows[-2]).timestamp
        except Corrupt:
            return self._after_s
        return max(0, self._clock.now_us() - said) / 1e6

    # ---- loading ---------------------------------------------------------------------------------

    def loaded(self) -> None:
        """The index stands: count what waits in every session."""
        self._loading = False
        for session_id, session in self._index.by_id.items():
            if session.name is None:
                # Lost, or erased: nobody could ask for it.
                self.drop(session_id)
                continue
            left = session.turn_rows - session.done
            if session.extra is not None or 0 < self._every <= left:
                self._settle(session, session.end)
            elif left:
                self.waiting[session_id] = left
        by_id = self._index.by_id
        self.targets = dict(
            sorted(self.targets.items(), key=lambda held: self.waits_at(by_id[held[0]]))
        )
        if self._after_s and self.waiting:
            order = sorted(self.waiting, key=lambda session_id: by_id[session_id].rows[-2])
            self._last = OrderedDict.fromkeys(order)
            self.quiet_at = self._clock.monotonic()
        self.newly_due = self.due_count > 0

    def waits_at(self, session: Session) -> int:
        """Where the record of the first turn that waits stands; NO_POSITION where it is lost."""
        first = next(self.runs_waiting(session, session.end), None)
        return NO_POSITION if first is None else session.position(first[0])
