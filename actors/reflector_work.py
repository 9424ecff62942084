"""What one thread of a reflector does: looks, searches for runs, windows."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from neverforget.actors.reflector_calls import Calls, Place
from neverforget.actors.reflector_extracting import Extracting, Make
from neverforget.actors.reflector_queue import Entry
from neverforget.actors.reflector_room import Room
from neverforget.actors.reflector_runs import Run
from neverforget.actors.reflector_schedule import (
    DUE_MAX,
    ERROR_CHARACTERS_MAX,
    STUCK_MAX,
    Look,
    Schedule,
)
from neverforget.actors.reflector_spec import ReflectorSpec
from neverforget.actors.reflector_subjects import Subjects
from neverforget.actors.reflector_window import Gone, Refused, WindowRun
from neverforget.storage.errors import (
    Conflict,
    NeverforgetError,
    NotFound,
    OutOfSpace,
    Overloaded,
    OwnerFenced,
    Poisoned,
    StoreClosed,
    Unavailable,
)
from neverforget.storage.reflection_results import DueSession

log = logging.getLogger(__name__)
SEARCHED_AT_ONCE: Final = 100  # sessions
_AWAY = (Unavailable, Overloaded, Poisoned, OutOfSpace, OwnerFenced, StoreClosed)


class Worker:
    """``stepped`` is called after everything that it has done."""

    def __init__(
        self,
        number: int,
        spec: ReflectorSpec,
        calls: Calls,
        subjects: Subjects,
        make: Make,
        schedule: Schedule,
        stepped: Callable[[], None],
        room: Room,
    ) -> None:
        self._number = number
        self._spec = spec
        self._calls = calls
        self._schedule = schedule
        self._stepped = stepped
        self._extracting = Extracting(make, spec.deadline_s)
        self._window = WindowRun(spec, calls, subjects, self._extracting, room)

    @property
    def stuck(self) -> int:
        return self._extracting.stuck

    def release(self, patience_s: float) -> None:
        """The process ends, and not because of the window under way."""
        self._window.release(patience_s)

    def run(self) -> None:
        """Until the schedule is closed or has stopped."""
        try:
            self._run()
        finally:
            self._extracting.close()

    def _run(self) -> None:
        while (found := self._schedule.next()) is not None:
            match found:
                case Look():
                    self._look()
                case Run():
                    self._search(found)
                case Entry():
                    try:
                        self._work_on(found)
                    finally:
                        self._schedule.gives_back(self._number, found)
            self._stepped()

    # ---- looking ---------------------------------------------------------------------------------

    def _look(self) -> None:
        error: str | None = None
        for partition in range(self._spec.partitions):
            try:
                self._look_at(partition)
            except StoreClosed as closed:
                error = closed.message
                break
            except NeverforgetError as away:
                error = away.message
        self._schedule.looked(error)

    def _look_at(self, partition: int) -> list[DueSession]:
        found = self._calls.due(partition, DUE_MAX)
        self._schedule.found_due(partition, found)
        return found

    def _search(self, run: Run) -> None:
        """A page of what a run has to do."""
        partition = run.partitions[0]
        try:
            extractor = self._extractor_id()
            if extractor is None:
                self._schedule.searched(run, partition, [], None)
            elif run.session is not None:
                place = Place(partition, run.namespace, run.session)
                left = self._calls.left_in(place, extractor, run.again, 0)
                self._schedule.searched(run, partition, [] if left is None else [left], None)
            else:
                page = self._calls.unreflected(
                    partition, run.namespace, run.after, SEARCHED_AT_ONCE, extractor, run.again
                )
                after = page.after if page.more else None
                self._schedule.searched(run, partition, page.sessions, after)
        except NeverforgetError as error:
            self._schedule.not_searched(run, error.message)

    # ---- windows ---------------------------------------------------------------------------------

    def _work_on(self, entry: Entry) -> None:
        schedule = self._schedule
        try:
            extractor = self._extractor_id()
            if extractor is None:
                schedule.gone(entry)
                return
            due = self._due_in(entry, extractor)
            if due is None:
                return
            schedule.begins(self._number, entry.place, due.first, (due.stop or due.end) - 1)
            done = self._window.reflect(entry.place, due, extractor)
            schedule.done(entry, done.planned, done.facts)
        except Refused as refused:
            self._refused(entry, refused)
        except (Gone, NotFound):
            schedule.gone(entry)
        except (*_AWAY, Conflict) as error:  # Conflict: what was known of it is no longer so
            schedule.went_wrong(entry, error.message, whose_fault="owners")
        except NeverforgetError as error:
            schedule.went_wrong(entry, error.message, whose_fault="ours")
        except Exception as error:
            log.exception("a window could not be reflected")
            told = f"internal error: {type(error).__name__}"
            schedule.went_wrong(entry, told, whose_fault="ours")

    def _extractor_id(self) -> str | None:
        """Raises Unavailable while there is none that could be asked."""
        try:
            extractor = self._extracting.extractor_id()
        except Unavailable as error:
            self._schedule.extractor_away(None, error.message)
            raise
        if extractor is not None:
            self._schedule.extractor = extractor
        return extractor

    def _due_in(self, entry: Entry, extractor: str) -> DueSession | None:
        """What is to be done in a session now; None: nothing, and who asked for it is told."""
        due, entry.due = entry.due, None  # of before any window that is done now
        for name, part in list(entry.runs.items()):
            run = self._schedule.runs.get(name)
            left = None
            if run is not None:
                left = self._calls.left_in(entry.place, extractor, run.again, part.floor)
            if left is not None and left.first < part.until:
                return left
            self._schedule.nothing_left(entry, name)
        if not entry.automatic:
            return None
        if due is None:
            found = self._look_at(entry.place.partition)
            _, namespace, session = entry.place
            due = next(
                (d for d in found if (tuple(d.namespace), d.session) == (namespace, session)), None
            )
        if due is None:
            self._schedule.nothing_left(entry, None)
        return due

    def _refused(self, entry: Entry, refused: Refused) -> None:
        schedule, planned = self._schedule, refused.planned
        message = refused.message[:ERROR_CHARACTERS_MAX]
        if refused.away:
            schedule.extractor_away(entry, message)
            return
        tries = refused.deaths or schedule.failed_once(entry, planned, message)
        is_full = schedule.count_stuck(self._number, self.stuck) >= STUCK_MAX
        if tries >= self._spec.tries or refused.deaths or is_full:
            try:
                self._calls.fail(entry.place, planned, tries, message)
            except NotFound:
                schedule.gone(entry)
            except NeverforgetError as error:  # it is tried once more then
                schedule.went_wrong(entry, error.message, whose_fault="owners")
            else:
                schedule.given_up(entry, planned, tries, message)
        if is_full:
            schedule.stop(
                f"{STUCK_MAX} extractions hang; the extractor has to be mended, and whoever runs "
                "it started anew"
            )
