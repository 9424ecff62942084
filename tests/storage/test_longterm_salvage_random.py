"""Two owners of one long-term log go on apart, at random. A memory that nobody touched on the side
that counts is in the end as the lost owner had it; of the others nothing is there twice, and what
could not be done is on record.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from neverforget.storage.errors import NotFound
from tests.storage.parted import PartedLongTerm
from tests.storage.small_longterm import LongTermBench, everything

STEPS = 40


def states(bench: LongTermBench) -> dict[str, tuple[Any, ...]]:
    """Of every memory that is not gone."""
    views = bench.region.memories(everything(), limit=1_000).memories
    return {
        view.id: (view.text, view.key, set(view.tags), view.status, view.version, view.created_at)
        for view in views
    }


class Side:
    def __init__(self, bench: LongTermBench, rng: random.Random, name: str) -> None:
        self.bench, self.rng, self.name = bench, rng, name
        self.drawn = 0
        self.touched: set[str] = set()
        self.erased: set[str] = set()

    def words(self) -> str:
        self.drawn += 1
        return f"{self.name} {self.drawn} " + "x" * self.rng.randint(0, 600)

    def some(self, status: str) -> str | None:
        found = [wanted for wanted, state in states(self.bench).items() if state[3] == status]
        return self.rng.choice(found) if found else None

    def step(self) -> None:
        bench, kind = self.bench, self.rng.random()
        if kind < 0.35:
            key = f"{self.name} key {self.drawn}" if self.rng.random() < 0.3 else None
            self.touched.add(bench.remember(self.words(), key=key, tags=("new",)).id)
            return
        status = "archived" if kind > 0.9 else "forgotten" if kind > 0.85 else "active"
        wanted = self.some(status)
        if wanted is None:
            return
        self.touched.add(wanted)
        if kind < 0.5:
            bench.revise(wanted, text=self.words())
        elif kind < 0.62:
            bench.tag(wanted, f"tag-{self.rng.randint(0, 3)}")
        elif kind < 0.66:
            held = bench.region.get(wanted).tags
            if held:
                bench.untag(wanted, self.rng.choice(held))
        elif kind < 0.74:
            bench.forget(wanted, reason="why")
        elif kind < 0.8:
            bench.archive(wanted)
        elif kind < 0.85:
            bench.erase(wanted)
            self.erased.add(wanted)
        elif kind < 0.9:
            bench.undo(wanted)
        else:
            bench.unarchive(wanted)


@pytest.mark.parametrize(
    "number", [*range(18), *(pytest.param(n, marks=pytest.mark.long) for n in range(18, 30))]
)
def test_a_memory_that_nobody_touched_since_is_as_its_owner_had_it(
    number: int, tmp_path: Path
) -> None:
    rng = random.Random(number)
    front = LongTermBench(tmp_path / "old")
    shared = [front.remember(f"shared {n}", key=f"k{n}", tags=("a",)).id for n in range(6)]
    front.forget(shared[4])
    front.archive(shared[5])
    parted = PartedLongTerm(front, tmp_path / "new")
    old, new = Side(parted.old, rng, "old"), Side(parted.new, rng, "new")
    for _ in range(STEPS):
        (old if rng.random() < 0.75 else new).step()
    had, before = states(parted.old), states(parted.new)
    report = parted.salvage(bytes_max=rng.choice([1, 1_500, 1 << 18]))
    has = states(parted.new)
    for wanted, state in had.items():
        if wanted not in new.touched:
            assert has.get(wanted) == state, wanted
    for wanted, state in before.items():
        if wanted not in old.touched:
            assert has[wanted] == state
    for wanted in old.erased | new.erased:
        assert wanted not in has
        with pytest.raises(NotFound):
            parted.new.region.get(wanted)
    if not new.touched & old.touched:
        assert report.conflicts == 0, [f.message for f in parted.new.region.status().findings]
    seen, end = parted.new.all_there_is(), parted.new.region.log_end
    again = parted.salvage(bytes_max=700)
    assert (again.turns, again.conflicts, parted.new.region.log_end) == (0, 0, end)
    parted.new.reopen()
    assert parted.new.all_there_is() == seen
    assert parted.new.findings() == []
    parted.close()
