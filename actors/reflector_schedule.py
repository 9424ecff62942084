"""What is to be done next, and what has been: the state that the threads of a reflector share.

Everything here takes moments and waits for no owner: whoever wakes a reflector may hold the lock of
a partition. Nothing here matters beyond the process: what is done, planned and failed is in the
logs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Final

from neverforget.actors.reflector_calls import Place
from neverforget.actors.reflector_messages import RunningWindow
from neverforget.actors.reflector_pauses import AWAY_S_MAX, pause_after
from neverforget.actors.reflector_queue import Entry, FairQueue, RunPart
from neverforget.actors.reflector_runs import Run, Runs
from neverforget.actors.reflector_spec import ReflectorSpec
from neverforget.storage.clock import Clock
from neverforget.storage.reflection_results import DueSession, FailedRange, PlannedRange

DUE_MAX: Final = 200  # sessions that are asked for at once
WAITING_MAX: Final = 1_000  # above it runs look for no more
STUCK_MAX: Final = 4  # extractions that hang, before nothing more is begun
FAULTS_MAX: Final = 5  # of a session in a run, before the run goes on without it
ERROR_CHARACTERS_MAX: Final = 500
_NAP_S: Final = 1.0  # so often a thread that waits for the clock looks at it


class Look:
    """To be done: ask every partition what is due."""


class Schedule:
    """``changed``: somebody may have something to do. Every method takes its lock, but those that
    say so.
    """

    def __init__(self, spec: ReflectorSpec, clock: Clock) -> None:
        self.changed = threading.Condition()
        self.queue = FairQueue()
        self.runs = Runs(spec.partitions)
        self.error: str | None = None
        self.error_at: int | None = None
        self.windows = self.turns = self.facts = 0
        self.stopped: str | None = None  # why nothing more is begun
        self.extractor = spec.extractor  # as it calls itself, once that is known
        self._spec = spec
        self._clock = clock
        # Inline the partitions are here, and say themselves when there is something.
        self._look_every_s = None if spec.role == "application" else 1.0
        self._look_at: float | None = 0.0 if spec.automatic else None
        self._looking = False
        self._look_faults = 0
        self._away = 0
        self._away_until = 0.0
        self._windows: dict[int, RunningWindow] = {}
        self._stuck: dict[int, int] = {}
        self.closed = False

    # ---- asked from outside ----------------------------------------------------------------------

    def wake(self) -> None:
        with self.changed:
            if self._spec.automatic:
                self._look_at = 0.0
            self.changed.notify()

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def stop(self, why: str) -> None:
        """Begin nothing more; runs that are under way fail."""
        with self.changed:
            self.stopped = why
            self._noted(why)
            for run in self.runs.active():
                self._end_run(run, why)
            self.changed.notify_all()

    @property
    def idle(self) -> bool:
        """The lock is held. Nothing that is known of is to be done."""
        return not (self.queue.busy or self._looking or self._look_now or self.runs.active())

    def want_look(self) -> None:
        """The lock is held."""
        if self._spec.automatic:
            self._look_at = 0.0

    def ask_at_once(self) -> None:
        """The lock is held. Somebody has come to wait for it."""
        self._away, self._away_until = 0, 0.0
        self.changed.notify_all()

    @property
    def holds_up(self) -> str | None:
        """The lock is held. What everything waits for, if it does."""
        return self.error if self._away or self._look_faults else None

    def count_stuck(self, worker: int, stuck: int) -> int:
        """How many extractions hang in all, now that so many of this thread do."""
        with self.changed:
            self._stuck[worker] = stuck
            return sum(self._stuck.values())

    def running(self) -> list[RunningWindow]:
        """The lock is held."""
        return list(self._windows.values())

    # ---- what a thread does ----------------------------------------------------------------------

    def next(self) -> Look | Run | Entry | None:
        """Waits for something to do; None: no more. What is given is to be ``looked``,
        ``searched`` or given back.
        """
        with self.changed:
            while not self.closed and self.stopped is None:
                now = self._clock.monotonic()
                found = self._to_do(now)
                if found is not None:
                    return found
                at = self._next_at(now)
                self.changed.wait(None if at is None else min(_NAP_S, max(0.001, at - now)))
            return None

    def _to_do(self, now: float) -> Look | Run | Entry | None:
        if self._look_at is not None and self._look_at <= now and not self._looking:
            self._looking, self._look_at = True, None
            return Look()
        if now < self._away_until:
            return None
        for run in self.runs.active():
            idle = not run.looking and run.partitions and run.not_before <= now
            if idle and len(self.queue) < WAITING_MAX:
                run.looking = True
                return run
        return self.queue.take(now)

    @property
    def _look_now(self) -> bool:
        return self._look_at is not None and self._look_at <= self._clock.monotonic()

    def _next_at(self, now: float) -> float | None:
        times = [self._look_at, self.queue.next_at()]
        times += [run.not_before for run in self.runs.active() if run.partitions]
        at = min((each for each in times if each is not None), default=None)
        return at if at is None or at == self._look_at else max(at, self._away_until)

    # ---- looking ---------------------------------------------------------------------------------

    def found_due(self, partition: int, found: Sequence[DueSession]) -> None:
        """All that is due in a partition, or the first DUE_MAX of it."""
        with self.changed:
            places = {}
            for each in found:
                place = Place(partition, tuple(each.namespace), each.session)
                places[place] = each
                entry = self.queue.entry(place)
                entry.automatic = True
                if not self.queue.is_running(entry):
                    entry.due = each
            if len(found) < DUE_MAX:
                for entry in self.queue.waiting():
                    if entry.place.partition == partition and entry.place not in places:
                        entry.automatic, entry.due = False, None
                self.queue.leave_out()
            self.changed.notify_all()

    def looked(self, error: str | None) -> None:
        with self.changed:
            self._looking = False
            pause_s = self._look_every_s
            self._look_faults = 0 if error is None else self._look_faults + 1
            if error is not None:
                self._noted(error)
                pause_s = pause_after(self._look_faults)
            if self._look_at is None and pause_s is not None:
                self._look_at = self._clock.monotonic() + pause_s
            self.changed.notify_all()

    def searched(
        self,
        run: Run,
        partition: int,
        found: Iterable[DueSession],
        after: tuple[tuple[str, ...], str] | None,
    ) -> None:
        """``found`` is to be done in this partition; ``after``: where it goes on, None: that was
        the last of it.
        """
        with self.changed:
            run.looking, run.faults = False, 0
            if not run.partitions:  # it was ended meanwhile
                return
            for each in found:
                entry = self.queue.entry(Place(partition, tuple(each.namespace), each.session))
                if run.name not in entry.runs:
                    entry.runs[run.name] = RunPart(each.end, each.turns)
                    run.parts += 1
                    run.sessions += 1
                    run.turns_all += each.turns
            run.after = after
            if after is None:
                run.partitions = run.partitions[1:]
            self.changed.notify_all()

    def not_searched(self, run: Run, error: str) -> None:
        with self.changed:
            run.looking = False
            run.faults += 1
            run.not_before = self._clock.monotonic() + pause_after(run.faults)
            run.error = error
            self._noted(error)
            self.changed.notify_all()

    # ---- windows ---------------------------------------------------------------------------------

    def begins(self, worker: int, place: Place, first: int, last: int) -> None:
        with self.changed:
            now = self._clock.now_us()
            self._windows[worker] = RunningWindow(place.namespace, place.session, first, last, now)

    def gives_back(self, worker: int, entry: Entry) -> None:
        """Whatever has become of it."""
        with self.changed:
            self._windows.pop(worker, None)
            self.queue.give_back(entry)
            self.changed.notify_all()

    def nothing_left(self, entry: Entry, name: str | None) -> None:
        """For the run of this name; None: for those that are due."""
        with self.changed:
            if name is None:
                entry.automatic, entry.due = False, None
            else:
                self._end_part(entry, name)

    def done(self, entry: Entry, planned: PlannedRange, facts: int) -> None:
        with self.changed:
            turns = planned.last - planned.first + 1
            entry.went_well()
            self._away = 0
            self.windows, self.turns = self.windows + 1, self.turns + turns
            self.facts += facts
            for name, part in entry.runs.items():
                run = self.runs.get(name)
                if run is not None:
                    run.windows, run.facts = run.windows + 1, run.facts + facts
                    run.turns_done, part.done = run.turns_done + turns, part.done + turns

    def failed_once(self, entry: Entry, planned: PlannedRange, message: str) -> int:
        """How often its extraction has failed now."""
        with self.changed:
            self._noted(message)
            window = (planned.first, planned.last)
            entry.tries = entry.tries + 1 if entry.range == window else 1
            entry.range = window
            entry.not_before = self._clock.monotonic() + pause_after(entry.tries)
            return entry.tries

    def given_up(self, entry: Entry, planned: PlannedRange, tries: int, message: str) -> None:
        """It is a dead letter now."""
        with self.changed:
            turns = planned.last - planned.first + 1
            entry.went_well()
            for name, part in entry.runs.items():
                part.floor = planned.last + 1
                run = self.runs.get(name)
                if run is not None:
                    self._fails(run, entry.place, planned.first, planned.last, tries, message)
                    run.turns_done, part.done = run.turns_done + turns, part.done + turns

    def extractor_away(self, entry: Entry | None, message: str) -> None:
        """What it asks cannot be reached; ``entry`` None: there is no extractor. Nothing is given
        up for that, but runs, for which somebody waits.
        """
        with self.changed:
            self._noted(message)
            self._away += 1
            self._away_until = self._clock.monotonic() + pause_after(self._away, AWAY_S_MAX)
            if entry is None:
                over = self.runs.active() if self._away >= self._spec.tries else []
            else:
                entry.away += 1
                asked = entry.runs if entry.away >= self._spec.tries else ()
                over = [run for name in asked if (run := self.runs.get(name)) is not None]
            for run in over:
                self._end_run(run, message)

    def went_wrong(self, entry: Entry, message: str, *, whose_fault: str) -> None:
        """``whose_fault``: "owners": those are away, and come back; "ours": then runs go on without
        this session after a while.
        """
        with self.changed:
            self._noted(message)
            entry.faults += 1
            entry.not_before = self._clock.monotonic() + pause_after(entry.faults)
            for name, part in list(entry.runs.items()):
                run = self.runs.get(name)
                if run is not None:
                    run.error = message
                if whose_fault == "ours" and entry.faults >= FAULTS_MAX:
                    if run is not None:
                        last = max(part.floor, part.until - 1)
                        self._fails(run, entry.place, part.floor, last, entry.faults, message)
                    self._end_part(entry, name)

    def gone(self, entry: Entry) -> None:
        """Its session is not there any more."""
        with self.changed:
            entry.went_well()
            entry.automatic, entry.due = False, None
            for name in list(entry.runs):
                self._end_part(entry, name)

    # ---- below the lock --------------------------------------------------------------------------

    def _end_part(self, entry: Entry, name: str) -> None:
        part, run = entry.runs.pop(name), self.runs.get(name)
        if run is not None:
            run.parts -= 1
            run.turns_all += part.done - part.counted

    def _end_run(self, run: Run, why: str) -> None:
        """All that it has not done has failed."""
        for entry in self.queue.entries():
            part = entry.runs.get(run.name)
            if part is not None:
                last = max(part.floor, part.until - 1)
                self._fails(run, entry.place, part.floor, last, self._away, why)
                self._end_part(entry, run.name)
        self.queue.leave_out()
        run.partitions, run.error = [], why
        run.failures = max(1, run.failures)

    def _fails(self, run: Run, place: Place, first: int, last: int, tries: int, why: str) -> None:
        why = why[:ERROR_CHARACTERS_MAX]
        at = self._clock.now_us()
        run.fails(
            FailedRange(place.namespace, place.session, first, last, self.extractor, tries, why, at)
        )

    def _noted(self, message: str) -> None:
        self.error = message[:ERROR_CHARACTERS_MAX]
        self.error_at = self._clock.now_us()
