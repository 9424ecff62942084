"""One window of a session, from its plan to its mark.

The order is: plan, which fixes the window; extract; store all facts as one batch whose ids follow
from the plan; mark. So a death anywhere costs an extraction at most: who comes after finds the plan
and the same ids. Where the batch is there, only the mark is missing. Where it is not, an extractor
may have taken the process with it: how often that was stands in the plan, whose window is given up
after a few times, and is worked on by itself until then, so that nothing else dies of it.

What is erased meanwhile is in no fact. The turns are read again before the facts are stored, and
once more after: what was gone by the first time is left out of a new extraction, and where
something went between the two the batch is erased and the window is done anew.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from neverforget.actors.extractor_contract import Fact, NotExtracted, extractable
from neverforget.actors.reflector_calls import PATIENCE_S, Calls, Place
from neverforget.actors.reflector_extracting import Extracting
from neverforget.actors.reflector_memories import batch_ids, memories_of
from neverforget.actors.reflector_room import Room
from neverforget.actors.reflector_spec import ReflectorSpec
from neverforget.actors.reflector_subjects import Subjects
from neverforget.actors.reflector_turns import Part, last_of, window_of
from neverforget.storage.errors import (
    Conflict,
    InvalidArgument,
    NeverforgetError,
    Unavailable,
)
from neverforget.storage.longterm_results import NewMemory
from neverforget.storage.reflection_results import DueSession, PlannedRange

log = logging.getLogger(__name__)
ROUNDS_MAX: Final = 5  # of one window, in each of which something was erased
ERASED_REASON: Final = "turns that it was made from were erased meanwhile"
_REPLANNED: Final = "planned-anew"  # in the place of an extractor's name, for a moment


class Done(NamedTuple):
    """``facts``: stored of it now, or by who died before the mark."""

    planned: PlannedRange
    facts: int


class Refused(Exception):
    """No facts could be made of a window this time. ``away``: for what the extractor asks is not
    there, and not because of the window. ``deaths``: it is not to be tried any more, for the
    process has ended so often with it.
    """

    def __init__(
        self, planned: PlannedRange, message: str, *, away: bool = False, deaths: int = 0
    ) -> None:
        super().__init__(message)
        self.planned, self.message, self.away, self.deaths = planned, message, away, deaths


class Gone(Exception):
    """The session is not there any more, or another one has its name."""


class WindowRun:
    """For one thread."""

    def __init__(
        self,
        spec: ReflectorSpec,
        calls: Calls,
        subjects: Subjects,
        extracting: Extracting,
        room: Room | None = None,
    ) -> None:
        self._spec = spec
        self._calls = calls
        self._subjects = subjects
        self._extracting = extracting
        self._room = room or Room()
        self._open: tuple[Place, PlannedRange] | None = None  # begun, and not ended yet

    def reflect(self, place: Place, due: DueSession, extractor: str) -> Done:
        """Do the window that ``due`` begins with. Raises Refused, Gone, and what owners answer."""
        planned, part = due.planned, None
        again = False  # somebody has begun it and was not heard of any more
        if planned is not None:
            stored = self._stored(place, planned)
            if stored:
                part = self._read(place, planned)
                if not any(each.state == "erased" for each in part.turns):
                    self._calls.mark(place, planned)
                    return Done(planned, len(stored))
                # Whether it was erased before or after the facts were made nobody can tell.
                self._calls.erase(stored, ERASED_REASON)
                planned = self._planned_anew(place, planned, extractor)
            elif planned.extractor != extractor:
                planned = None
            elif planned.begun >= self._spec.deaths_max:
                told = f"{planned.begun} times its process ended while the extractor was at work"
                raise Refused(planned, told, deaths=planned.begun)
            else:
                again = True
        with self._room(alone=again and planned is not None and planned.begun > 0):
            try:
                if planned is None:
                    part, last = self._chosen(place, due)
                    planned = self._calls.plan(place, due.first, last, extractor)
                elif again:
                    planned = self._calls.begun(place, planned, planned.begun + 1)
                self._open = place, planned
                return self._worked_on(place, planned, part, extractor)
            except Exception:
                self.release()
                raise
            finally:
                self._open = None

    def release(self, patience_s: float = PATIENCE_S) -> None:
        """Whatever becomes of the window under way, its extractor has not ended the process."""
        opened, self._open = self._open, None
        if opened is None:
            return
        place, planned = opened
        try:
            self._calls.begun(place, planned, planned.begun - 1, patience_s)
        except NeverforgetError as error:
            log.debug("a window counts as begun once too often: %s", error)

    def _worked_on(
        self, place: Place, planned: PlannedRange, part: Part | None, extractor: str
    ) -> Done:
        """From what is planned to its mark."""
        for _ in range(ROUNDS_MAX):
            part = self._read(place, planned) if part is None else part
            memories = self._memories(place, planned, part)
            if not memories:
                self._calls.mark(place, planned)
                return Done(planned, 0)
            now = self._read(place, planned, part)
            if not part.is_as(now):
                part = now
                continue
            if not self._store(place, planned, memories, part):
                planned, part = self._planned_anew(place, planned, extractor), None
                continue
            after = self._seen_after(place, planned, part, memories)
            if after is None:
                self._calls.mark(place, planned)
                return Done(planned, len(memories))
            planned, part = self._planned_anew(place, planned, extractor), after
        raise Refused(planned, "the turns of the window were erased again and again")

    # ---- reading ---------------------------------------------------------------------------------

    def _chosen(self, place: Place, due: DueSession) -> tuple[Part, int]:
        """The turns of a new window with those before it, and the last one."""
        first = due.first
        stop = min(due.stop or due.end, first + self._spec.window_turns)
        start = max(0, first - self._spec.overlap_turns)
        part = self._calls.turns(place, start, stop, all_of_them=False)
        if part.turns and part.turns[-1].seq < first:  # what stands before fills a reply
            part = self._calls.turns(place, first, stop, all_of_them=False)
        if not part.turns or part.turns[-1].seq < first:
            raise Gone
        last = last_of(part.turns, first, self._spec.window_turns, self._spec.window_tokens)
        return Part([each for each in part.turns if each.seq <= last], part.session_id), last

    def _read(self, place: Place, planned: PlannedRange, like: Part | None = None) -> Part:
        """The turns of a window with those before it. ``like``: the same that were read before."""
        start = max(0, planned.first - self._spec.overlap_turns)
        if like is not None and like.turns:
            start = like.turns[0].seq
        part = self._calls.turns(place, start, planned.last + 1)
        if not part.turns or part.turns[-1].seq != planned.last:
            raise Gone
        if like is not None and like.session_id != part.session_id:
            raise Gone
        return part

    # ---- facts -----------------------------------------------------------------------------------

    def _memories(self, place: Place, planned: PlannedRange, part: Part) -> list[NewMemory]:
        turns = part.turns
        window = window_of(place.namespace, place.session, turns, planned.first, planned.last)
        if not extractable(window):
            return []
        known = tuple(self._subjects.known(place.namespace))
        window = window_of(
            place.namespace, place.session, turns, planned.first, planned.last, known
        )
        try:
            facts: list[Fact] = self._extracting(window)
        except NotExtracted as error:
            raise Refused(planned, str(error)) from error
        except Unavailable as error:
            raise Refused(planned, error.message, away=True) from error
        return memories_of(window, facts, turns, planned)

    # ---- storing ---------------------------------------------------------------------------------

    def _stored(self, place: Place, planned: PlannedRange) -> list[str]:
        """The ids of the batch of this plan, if it is there."""
        ids = batch_ids(place.namespace, place.session, planned)
        return [view.id for view in self._calls.memories(ids)]

    def _store(
        self, place: Place, planned: PlannedRange, memories: list[NewMemory], part: Part
    ) -> bool:
        """False: these ids were used up, and what had them is gone."""
        done_before = any(each.consolidated and each.seq >= planned.first for each in part.turns)
        with self._subjects.lock:
            replaced = self._subjects.replaced(place, planned, memories) if done_before else []
            but = {each.old for each in replaced}
            placed, superseding = self._subjects.placed(place.namespace, memories, but)
            try:
                self._calls.remember(placed, superseding + replaced)
            except Conflict:
                return bool(self._stored(place, planned))
            except InvalidArgument as error:
                raise Refused(planned, "the facts cannot be remembered as they are") from error
        return True

    def _seen_after(
        self, place: Place, planned: PlannedRange, part: Part, memories: list[NewMemory]
    ) -> Part | None:
        """Look once more, now that the facts are there. What went meanwhile takes them with it:
        then the turns as they are now.
        """
        ids = [each.id for each in memories]
        try:
            after = self._read(place, planned, part)
        except Gone:
            self._calls.erase(ids, ERASED_REASON)
            raise
        before = {each.seq for each in part.turns if each.state == "erased"}
        if all(each.seq in before for each in after.turns if each.state == "erased"):
            return None
        self._calls.erase(ids, ERASED_REASON)
        return after

    def _planned_anew(self, place: Place, planned: PlannedRange, extractor: str) -> PlannedRange:
        """The same window with another time, and so with other ids."""
        self._calls.plan(place, planned.first, planned.last, _REPLANNED)
        planned = self._calls.plan(place, planned.first, planned.last, extractor)
        self._open = place, planned
        return planned
