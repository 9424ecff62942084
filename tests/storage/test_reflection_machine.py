"""The ledger of reflection against a plain model: any mix of appends, plans, marks, failures, forks
and erasures of several sessions by several extractors, with repeats, kills, power cuts and orderly
restarts in between. Random walks of one seed each: what matters here are long mixtures.

The model looks at every turn, one by one; see ``test_region_machine`` for its snapshots.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from neverforget.storage.errors import Conflict
from neverforget.storage.reflection_results import DueSession
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.results import ForkPoint, TurnFlag
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem
from tests.storage.small_region import Client
from tests.storage.snapshots import survivor
from tests.storage.test_region_append import UnlockedBench

EVERY = 5
OPTIONS = RegionOptions(segment_bytes=8192, first_segment_bytes=4096, reflect_every=EVERY)
NAMES = ("alpha", "beta", "gamma")
EXTRACTORS = ("v1", "v2", "v3")

STEPS = 60


@dataclass
class Letter:
    """A failure, as it was told; ``first`` and ``last`` of all of it."""

    number: int
    first: int
    last: int
    extractor: str
    error: str


@dataclass
class Talk:
    """``done``: seq -> extractor; ``failed``: seq -> number of its letter."""

    base: int = 0
    end: int = 0
    done: dict[int, str] = field(default_factory=dict)
    failed: dict[int, int] = field(default_factory=dict)
    letters: dict[int, Letter] = field(default_factory=dict)
    plan: tuple[int, int, str] | None = None
    target: int = 0

    @property
    def own(self) -> range:
        return range(self.base, self.end)

    @property
    def waiting(self) -> list[int]:
        return [seq for seq in self.own if seq not in self.done and seq not in self.failed]

    @property
    def due(self) -> bool:
        return self.plan is not None or any(seq < self.target for seq in self.waiting)

    def changed(self) -> None:
        waiting = self.waiting
        full = len(waiting) // EVERY * EVERY
        if full:
            self.target = max(self.target, waiting[full - 1] + 1)
        if not any(seq < self.target for seq in waiting):
            self.target = 0

    def ended(self, first: int, last: int) -> None:
        if self.plan is not None and first <= self.plan[0] and self.plan[1] <= last:
            self.plan = None

    def left(self, extractor: str, again: bool) -> set[int]:
        """Turns that are to be done when somebody asks."""
        others = {seq for seq, by in self.done.items() if again and by != extractor}
        planned = range(self.plan[0], self.plan[1] + 1) if self.plan else ()
        return {*self.waiting, *self.failed, *others, *planned}

    def failed_ranges(self) -> list[tuple[int, int, int]]:
        """(number of the letter, first, last)."""
        found: list[tuple[int, int, int]] = []
        for seq, number in sorted(self.failed.items()):
            if found and found[-1][0] == number and found[-1][2] == seq - 1:
                found[-1] = (number, found[-1][1], seq)
            else:
                found.append((number, seq, seq))
        return found


World = dict[str, Talk]


class Walk:
    """``seed`` decides everything, also what each power cut leaves."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.fs = CrashFileSystem(seed=seed)
        self.fs.make_directory(ROOT)
        self.bench = UnlockedBench(ROOT / "p0", fs=self.fs, options=OPTIONS)
        self.world: World = {}
        self.snapshots: list[tuple[int, World]] = [(0, {})]
        self.letters = 0
        self.asked: list[Callable[[], int]] = []  # what was asked, to be asked again

    def step(self) -> None:
        always = [self.append, self.append, self.end_in_order, self.kill, self.cut_the_power]
        always += [self.sync, self.sync, self.verify]
        about = [self.plan, self.mark, self.fail] * 4 + [self.fork, self.erase_turns, self.repeat]
        if self.random.random() < 0.2:
            about.append(self.erase_session)
        there = any(talk.own for talk in self.world.values())
        self.random.choice(always + about if there else always)()
        assert self.observed() == self.expected(self.world)

    @property
    def client(self) -> Client:
        return self.bench.client

    def took(self, end: int) -> None:
        self.snapshots.append((end, copy.deepcopy(self.world)))

    def some_run(self) -> tuple[str, int, int]:
        """Turns of some session: any, or what stands there already."""
        name = self.random.choice(sorted(name for name, talk in self.world.items() if talk.own))
        talk = self.world[name]
        known = [(letter.first, letter.last) for letter in talk.letters.values()]
        known += [talk.plan[:2]] * 3 if talk.plan is not None else []
        if known and self.random.random() < 0.4:
            return name, *self.random.choice(known)
        first = self.random.randrange(talk.base, talk.end)
        return name, first, min(first + self.random.randrange(6), talk.end - 1)

    # ---- writing ---------------------------------------------------------------------------------

    def append(self) -> None:
        name, turns = self.random.choice(NAMES), self.random.randint(1, 7)
        end = self.client.append(name, *["word"] * turns).end
        talk = self.world.setdefault(name, Talk())
        talk.end += turns
        talk.changed()
        self.took(end)

    def plan(self) -> None:
        name, first, last = self.some_run()
        extractor = self.random.choice(EXTRACTORS)
        request = self.client.next_request()

        def ask() -> int:
            return self.bench.region.plan((), name, first, last, extractor, *request)[1]

        before = self.bench.region.log_end
        talk = self.world[name]
        stands = talk.plan == (first, last, extractor)
        if not stands and extractor in {talk.done.get(seq) for seq in range(first, last + 1)}:
            with pytest.raises(Conflict, match="done already"):
                ask()
            assert self.bench.region.log_end == before
            return
        end = ask()
        if stands:
            assert end <= self.bench.region.log_end == before, "it stands already"
            return
        self.world[name].plan = first, last, extractor
        self.asked.append(ask)
        self.took(end)

    def mark(self) -> None:
        name, first, last = self.some_run()
        extractor = self.random.choice(EXTRACTORS)
        request = self.client.next_request()

        def ask() -> int:
            return self.bench.region.mark((), name, first, last, extractor, *request)

        end = ask()
        talk = self.world[name]
        for seq in range(first, last + 1):
            talk.done[seq] = extractor
            talk.failed.pop(seq, None)
        talk.ended(first, last)
        talk.changed()
        self.asked.append(ask)
        self.took(end)

    def fail(self) -> None:
        name, first, last = self.some_run()
        extractor = self.random.choice(EXTRACTORS)
        error = self.random.choice(["", "why", "e\ud83d"])
        request = self.client.next_request()

        def ask() -> int:
            return self.bench.region.fail_reflection(
                (), name, first, last, extractor, 3, error, *request
            )

        end = ask()
        talk = self.world[name]
        self.letters += 1
        talk.letters[self.letters] = Letter(self.letters, first, last, extractor, error)
        talk.failed.update(dict.fromkeys(range(first, last + 1), self.letters))
        talk.ended(first, last)
        talk.changed()
        self.asked.append(ask)
        self.took(end)

    def repeat(self) -> None:
        """It is answered as before, and changes nothing."""
        if not self.asked:
            return
        end = self.bench.region.log_end
        assert self.random.choice(self.asked)() <= end
        assert self.bench.region.log_end == end

    def fork(self) -> None:
        name = self.random.choice(NAMES)
        parent = self.random.choice(sorted(self.world))
        if name in self.world:
            return
        at = self.random.randint(self.world[parent].base, self.world[parent].end)
        request = self.client.next_request()
        end = self.bench.region.fork((), name, ForkPoint((), parent, at, 0), 0, "me", *request)
        self.world[name] = Talk(at, at)
        self.took(end)

    def erase_turns(self) -> None:
        name, first, last = self.some_run()
        self.client.erase(name, [(first, last)])
        for letter in self.world[name].letters.values():
            if letter.first <= last and first <= letter.last:
                letter.error = ""
        self.erased()

    def erase_session(self) -> None:
        name = self.random.choice(sorted(self.world))
        self.client.erase(name)
        del self.world[name]
        self.asked = []  # who repeats what was about a session that is gone finds none
        self.erased()

    def erased(self) -> None:
        self.snapshots = []
        self.took(self.bench.region.durable)

    # ---- the disk --------------------------------------------------------------------------------

    def sync(self) -> None:
        self.client.commit()

    def end_in_order(self) -> None:
        seal = self.random.random() < 0.5
        if seal:
            self.client.commit()
        written = self.bench.region.written
        self.bench.reopen(seal=seal)
        self.survives({written})

    def kill(self) -> None:
        written = self.bench.region.written
        self.continue_on(self.fs.process_death())
        self.survives({written})

    def cut_the_power(self) -> None:
        durable, written = self.bench.region.durable, self.bench.region.written
        self.continue_on(self.fs.power_cut())
        self.survives({end for end, _ in self.snapshots if durable <= end <= written} | {durable})

    def continue_on(self, fs: CrashFileSystem) -> None:
        self.bench.close()
        self.fs = self.bench.fs = fs
        self.client.region = self.bench.open()

    def survives(self, ends: set[int]) -> None:
        self.world = survivor(self.snapshots, ends, self.observed, self.expected)
        self.snapshots, self.asked = [], []
        self.took(self.bench.region.durable)

    # ---- looking ---------------------------------------------------------------------------------

    def observed(self) -> dict[str, Any]:
        reads = self.bench.region.reflection
        lag = reads.lag()
        found: dict[str, Any] = {
            "lag": (lag.turns, lag.sessions, lag.due, lag.failed),
            "due": sorted(map(seen, reads.due(99))),
            "failed": [
                (f.session, f.first, f.last, f.extractor, f.error) for f in lag.failed_ranges
            ],
        }
        for session in self.bench.region.sessions((), None, None, 99)[0]:
            window = self.client.all(session.session)
            found[f"done {session.session}"] = [
                seq
                for first, last, flags in window.flags
                if flags & TurnFlag.CONSOLIDATED
                for seq in range(first, last + 1)
            ]
        for extractor in EXTRACTORS:
            for again in (False, True):
                views, more, _ = reads.unreflected((), None, None, 99, extractor, again, 0)
                assert not more
                found[f"left {extractor} {again}"] = [seen(view) for view in views]
        return found

    @staticmethod
    def expected(world: World) -> dict[str, Any]:
        talks = world.values()
        found: dict[str, Any] = {
            "lag": (
                sum(len(talk.waiting) for talk in talks),
                sum(bool(talk.waiting) for talk in talks),
                sum(talk.due for talk in talks),
                sum(len(talk.failed_ranges()) for talk in talks),
            ),
            "due": sorted(
                shown(name, talk, {*talk.waiting, *talk.left("", False)} - {*talk.failed} | planned)
                for name, talk in world.items()
                if talk.due
                for planned in [set(range(talk.plan[0], talk.plan[1] + 1)) if talk.plan else set()]
            ),
            "failed": [
                (name, first, last, letter.extractor, letter.error)
                for number, first, last, name in sorted(
                    (*found, name) for name, talk in world.items() for found in talk.failed_ranges()
                )
                for letter in [world[name].letters[number]]
            ],
        }
        for name, talk in world.items():
            found[f"done {name}"] = sorted(talk.done)
        for extractor in EXTRACTORS:
            for again in (False, True):
                found[f"left {extractor} {again}"] = [
                    shown(name, talk, left)
                    for name, talk in sorted(world.items())
                    if (left := talk.left(extractor, again))
                ]
        return found

    def verify(self) -> None:
        kinds = {finding.kind for finding in self.bench.region.verify()}
        assert kinds <= {"torn_tail"}, kinds


def seen(view: DueSession) -> tuple[Any, ...]:
    plan = view.planned
    planned = None if plan is None else (plan.first, plan.last, plan.extractor)
    return view.session, view.first, view.stop, view.turns, view.end, planned


def shown(name: str, talk: Talk, todo: set[int]) -> tuple[Any, ...]:
    first, stop = min(todo), min(todo) + 1
    if talk.plan is not None:
        first, stop = talk.plan[0], talk.plan[1] + 1
    else:
        while stop in todo:
            stop += 1
    return name, first, stop, len(todo), talk.end, talk.plan


@pytest.mark.parametrize(
    "seeds",
    [range(15), pytest.param(range(15, 500), marks=pytest.mark.long)],
    ids=["some", "many"],
)
def test_the_ledger_is_as_the_model_says_after_every_step(seeds: range) -> None:
    for seed in seeds:
        print(f"seed {seed}")
        walk = Walk(seed)
        try:
            for _ in range(STEPS):
                walk.step()
        finally:
            walk.bench.close()
