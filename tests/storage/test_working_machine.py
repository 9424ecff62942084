"""Working memories against a simple model, opened anew after every step; never over their budgets.

The model is a dict of dicts. How the region is opened anew changes with every step: from the log,
from side files, from a snapshot that stands behind everything or one that is old, after a kill and
after a power cut.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from neverforget.storage.errors import InvalidArgument, NotFound
from neverforget.storage.longterm_snapshot import Snapshot
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.working_results import WorkingPlace, WorkingTask
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem
from tests.storage.small_longterm import LongTermBench, memory_id
from tests.storage.small_working import standing

OPTIONS = RegionOptions(first_segment_bytes=8192, segment_bytes=16384)
PLACES = [
    WorkingPlace((), "a", False), WorkingPlace((), "g", True), WorkingPlace(("n",), "a", False),
]  # fmt: skip
OPENINGS = ("log", "side files", "snapshot", "old snapshot", "kill", "power cut")
REFUSED = (NotFound, InvalidArgument)

numbers = st.lists(st.integers(1, 9), min_size=1, max_size=4)
places = st.sampled_from(PLACES)
budgets = st.sampled_from([0, 30, 60, 100])


@dataclass
class Memory:
    tokens: int
    importance: float
    status: str = "active"


@dataclass
class Held:
    tokens: int
    pinned: bool = False
    accesses: int = 0


@dataclass
class Place:
    budget: int = 0
    items: dict[str, Held] = field(default_factory=dict)
    members: list[str] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return sum(each.tokens for each in self.items.values())


@dataclass
class Model:
    memories: dict[str, Memory] = field(default_factory=dict)
    places: list[Place] = field(default_factory=lambda: [Place() for _ in PLACES])

    def evict(self, place: Place, staying: list[str]) -> None:
        by_worth = sorted(  # ids ascend with the time of making
            (name for name, held in place.items.items() if not held.pinned and name not in staying),
            key=lambda name: (self.memories[name].importance, name),
        )
        last = sorted(
            (name for name in staying if name in place.items),
            key=lambda name: (
                place.items[name].pinned, self.memories[name].importance, name,
            ),
        )  # fmt: skip
        for name in by_worth + last:
            if place.tokens <= place.budget:
                break
            del place.items[name]
            place.evicted.append(name)

    def add(self, place: Place, ids: list[str], pinned: bool, budget: int) -> None:
        budget = budget or place.budget
        if not budget or any(self._status(name) != "active" for name in ids):
            raise NotFound("")
        kept = sum(h.tokens for name, h in place.items.items() if h.pinned and name not in ids)
        if kept + sum(self.memories[name].tokens for name in set(ids)) > budget:
            raise NotFound("")
        for name in dict.fromkeys(ids):
            held = place.items.setdefault(name, Held(0))
            held.tokens = self.memories[name].tokens
            held.pinned = held.pinned or pinned
        place.budget = budget
        self.evict(place, ids)

    def recall(self, place: Place, ids: list[str], budget: int) -> None:
        budget = budget or place.budget
        room = budget - sum(h.tokens for h in place.items.values() if h.pinned)
        if not budget or room < 0:
            raise NotFound("")
        taken = []
        for name in dict.fromkeys(ids):
            if self._status(name) != "active":
                continue
            held = place.items.get(name)
            takes = self.memories[name].tokens - (held.tokens if held and held.pinned else 0)
            if takes <= room:
                room -= takes
                taken.append(name)
        for name in taken:
            held = place.items.setdefault(name, Held(0))
            held.tokens = self.memories[name].tokens
            held.accesses += 1
        place.budget = budget
        self.evict(place, taken)

    def _status(self, name: str) -> str:
        held = self.memories.get(name)
        return held.status if held else "gone"

    def leave(self, name: str) -> None:
        for place in self.places:
            place.items.pop(name, None)


def seen(model: Model) -> list[Any]:
    return [
        (
            [(name, h.tokens, h.pinned, h.accesses) for name, h in place.items.items()],
            place.budget,
            place.members,
        )
        for place in model.places
    ]


class WorkingMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1000))
    def begin(self, seed: int) -> None:
        self.b = LongTermBench(ROOT / "lt", fs=CrashFileSystem(seed), options=OPTIONS, lock=False)
        self.model = Model()
        self.snapshot: Snapshot | None = None
        self.steps = seed
        for tokens, importance in ((10, 1.0), (20, 2.0), (30, 1.0), (40, 3.0)):
            self.remember(tokens, importance)

    def teardown(self) -> None:
        if hasattr(self, "b"):
            self.b.region.close()

    # ---- after each step -------------------------------------------------------------------------

    def check(self) -> None:
        self.compare()
        opening = OPENINGS[self.steps % len(OPENINGS)]
        self.steps += 1
        self.open_by(opening)
        self.compare()

    def open_by(self, opening: str) -> None:
        b = self.b
        if opening in ("kill", "power cut"):
            fs = b.fs
            assert isinstance(fs, CrashFileSystem)
            b.fs = fs.power_cut() if opening == "power cut" else fs.process_death()
            b.region = b.open()
            return
        if opening == "old snapshot" and self.snapshot is not None:
            b.reopen(snapshot=self.snapshot)
            return
        snapshot = None
        if opening == "snapshot":
            snapshot = self.snapshot = b.region.snapshot()
        b.reopen(seal=opening == "side files", snapshot=snapshot)

    def compare(self) -> None:
        held = [
            (
                [(name, tokens, pinned, n) for name, tokens, pinned, _, _, n in items],
                budget,
                list(members),
            )
            for place in PLACES
            for items, budget, members in standing(self.b, place).values()
        ]
        assert held == seen(self.model)
        for place in PLACES:
            status = self.b.region.working_status(place)
            assert status.tokens <= status.max_tokens
        entries = self.b.audit(operation="evict")
        evicted = [name for entry in entries for name in entry.details["ids"]]
        assert sorted(evicted) == sorted(n for place in self.model.places for n in place.evicted)
        assert self.b.findings() == []

    def work(self, at: WorkingPlace, operation: str, *ids: str, **how: Any) -> Any:
        """Its answer, also when it is asked again; None: it was refused, and changed nothing."""
        task = WorkingTask(at, operation, list(ids), **how)
        request = self.b.next_request()
        try:
            answer = self.b.region.work(task, by="t", request=request)
        except REFUSED:
            return None
        self.b.commit()
        again = self.b.region.work(task, by="t", request=request) if answer.end else answer
        if operation != "remove":
            assert (again.evicted, again.count) == (answer.evicted, answer.count)
        self.b.commit()
        return answer

    def place(self, at: WorkingPlace) -> Place:
        return self.model.places[PLACES.index(at)]

    # ---- memories --------------------------------------------------------------------------------

    @rule(tokens=st.integers(1, 70), importance=st.sampled_from([0.0, 1.0, 2.0, 9.0]))
    def remember(self, tokens: int, importance: float) -> None:
        told = self.b.remember("x" * tokens, importance=importance)
        self.model.memories[told.id] = Memory(tokens, importance)
        self.check()

    @rule(number=st.integers(1, 9), tokens=st.integers(1, 70), importance=st.sampled_from([0, 5]))
    def revise(self, number: int, tokens: int, importance: float) -> None:
        name = memory_id(number)
        held = self.model.memories.get(name)
        if held is None or held.status == "forgotten":
            return
        self.b.revise(name, text="y" * tokens, importance=float(importance))
        before, held.tokens = held.tokens, tokens
        for place in self.model.places:
            if name in place.items and tokens != before:
                place.items[name].tokens = tokens
                self.model.evict(place, [name])
        held.importance = float(importance)
        self.check()

    @rule(number=st.integers(1, 9), operation=st.sampled_from(["forget", "archive", "erase"]))
    def delete(self, number: int, operation: str) -> None:
        name = memory_id(number)
        held = self.model.memories.get(name)
        if held is None or (held.status == "forgotten" and operation == "archive"):
            return
        getattr(self.b, operation)(name)
        self.model.leave(name)
        if operation == "erase":
            del self.model.memories[name]
        elif not (operation == "archive" and held.status == "forgotten"):
            held.status = {"forget": "forgotten", "archive": "archived"}[operation]
        self.check()

    @rule(number=st.integers(1, 9))
    def bring_back(self, number: int) -> None:
        name = memory_id(number)
        held = self.model.memories.get(name)
        if held is None or held.status == "active":
            return
        if held.status == "forgotten":
            self.b.undo(name)
            held.status = "archived" if self.b.region.get(name).status == "archived" else "active"
        else:
            self.b.unarchive(name)
            held.status = "active"
        self.check()

    # ---- working memories ------------------------------------------------------------------------

    @rule(at=places, ids=numbers, pinned=st.booleans(), budget=budgets)
    def add(self, at: WorkingPlace, ids: list[int], pinned: bool, budget: int) -> None:
        names = [memory_id(number) for number in ids]
        model = copy.deepcopy(self.model)
        answer = self.work(at, "add", *names, pinned=pinned, max_tokens=budget)
        try:
            self.model.add(self.place(at), names, pinned, budget)
        except NotFound:
            assert answer is None
            self.model = model
        else:
            assert answer is not None
        self.check()

    @rule(at=places, ids=numbers, budget=budgets)
    def recall(self, at: WorkingPlace, ids: list[int], budget: int) -> None:
        names = [memory_id(number) for number in ids]
        answer = self.work(at, "recall", *names, max_tokens=budget)
        try:
            self.model.recall(self.place(at), names, budget)
        except NotFound:
            assert answer is None
        else:
            assert answer is not None
        self.check()

    @rule(at=places, number=st.integers(1, 9))
    def remove(self, at: WorkingPlace, number: int) -> None:
        if memory_id(number) in self.model.memories:
            self.work(at, "remove", memory_id(number))
            self.place(at).items.pop(memory_id(number), None)
        self.check()

    @rule(at=places, number=st.integers(1, 9), pin=st.booleans())
    def pin(self, at: WorkingPlace, number: int, pin: bool) -> None:
        name, items = memory_id(number), self.place(at).items
        answer = self.work(at, "pin" if pin else "unpin", name)
        assert (answer is None) is (name not in items)
        if name in items:
            items[name].pinned = pin
        self.check()

    @rule(at=places, agent=st.sampled_from("xyz"), join=st.booleans(), budget=budgets)
    def belong(self, at: WorkingPlace, agent: str, join: bool, budget: int) -> None:
        self.work(at, "join" if join else "leave", agent=agent, max_tokens=budget)
        place = self.place(at)
        if join and agent not in place.members:
            place.members.append(agent)
            place.budget = place.budget or budget
        elif not join and agent in place.members:
            place.members.remove(agent)
        self.check()

    @rule()
    def erase_namespace(self) -> None:
        self.b.region.erase_where(("n",), **self.b.asked())
        self.model.places[2] = Place()
        self.check()


def run(examples: int, steps: int, **how: Any) -> None:
    run_state_machine_as_test(
        WorkingMachine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], **how,
        ),
    )  # fmt: skip


def test_working_memories_behave_like_their_model() -> None:
    run(14, 25)


@pytest.mark.long
def test_working_memories_behave_like_their_model_for_long() -> None:
    run(1000, 60, derandomize=False)
