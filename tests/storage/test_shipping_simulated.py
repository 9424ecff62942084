"""The shipping state machine under the simulator, and the mutants that the simulator must kill.

A simulator that no mutant fails under proves nothing: each one breaks one rule of the protocol.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from neverforget.storage.shipping_events import (
    Action,
    Compared,
    Failed,
    Fetched,
    HeaderRead,
    Put,
    PutAnswered,
    RunRead,
    Shipped,
)
from neverforget.storage.shipping_machine import Shipping
from neverforget.storage.shipping_object import object_key
from tests.fakes.crash_filesystem import CrashFileSystem
from tests.storage.object_stores import crashing_folder, folder
from tests.storage.shipping_disk import Violation
from tests.storage.shipping_salvaged import Rules
from tests.storage.shipping_simulator import PREFIX, World

STEPS = 1_000
SEEDS = 300
SEEDS_LONG = 50_000
MUTANT_SEEDS = 500
# Worlds that found a mistake once: 24,000 others had not.
FOUND = (525_867_244, 525_867_491)


def test_every_promise_holds_whatever_goes_wrong(seed: int) -> None:
    """The first seeds are the same in every run, the others come from the run's seed."""
    for number in range(SEEDS):
        run(number if number < SEEDS // 2 else seed + number)
    for number in FOUND:
        run(number)


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_every_promise_holds_in_fifty_thousand_worlds(seed: int) -> None:
    for number in range(SEEDS_LONG):
        run(seed + SEEDS + number)


def run(number: int, rules: Rules | None = None) -> World:
    try:
        return World(number, rules).run(STEPS)
    except AssertionError as error:
        error.add_note(f"the world of seed {number}")
        raise


def test_a_world_is_the_same_whenever_its_seed_is() -> None:
    first, again = run(3), run(3)
    assert first.objects == again.objects and len(first.objects) > 10
    assert first.replicated == again.replicated and first.replicated


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_the_same_world_comes_of_a_real_folder(kind: str, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        root = tmp_path / str(number)
        store = folder(root) if kind == "disk" else crashing_folder(CrashFileSystem())
        world = World(number, store=store).run(STEPS)
        assert world.objects == run(number).objects
        keys = [key for key, _ in store.list(PREFIX)]
        assert keys == [object_key(PREFIX, n) for n in range(1, len(world.objects) + 1)]


# ---- mutants -------------------------------------------------------------------------------------


class NoFence(Shipping):
    """Ships on behind the last object, without a fence of its own."""

    def _fence(self) -> list[Action]:
        self._walk_end = self.number
        return self._take_over()


class AcknowledgesBeforeThePut(Shipping):
    def _run_read(self, answer: RunRead) -> list[Action]:
        actions = super()._run_read(answer)
        if answer.run is None:
            return actions
        return [Shipped(answer.run.stop, self.number), *actions]


class ReusesANumber(Shipping):
    """After a put whose outcome is unknown it puts what there is by now under the same number, and
    takes any object of its own there for that.
    """

    def _fail(self, answer: Failed, now_us: int) -> None:
        if isinstance(self._asked, Put) and self._running and answer.call == self._asked.call:
            self._asked = self._then = None
        else:
            super()._fail(answer, now_us)

    def _taken(self, answer: HeaderRead) -> list[Action]:
        if answer.header.owner == self._author.owner:
            return self._confirmed()
        return super()._taken(answer)


class TakesAnyObjectForItsOwn(Shipping):
    def _run_put(self, answer: PutAnswered) -> list[Action]:
        return self._confirmed()


class KeepsADivergedEnd(Shipping):
    """Writes what it lacks over what it has, and sets nothing aside."""

    def _fetched(self, answer: Fetched) -> list[Action]:
        return super()._fetched(Fetched(answer.call, answer.header, answer.same_until, False))


class ComparesNothing(Shipping):
    """Takes what stands in its log for what the objects hold, and only looks for more."""

    def _compared(self, answer: Compared) -> list[Action]:
        return super()._compared(Compared(answer.call, True))


class ServesBeforeItHasCaughtUp(Shipping):
    def _take_over(self) -> list[Action]:
        return self._caught_up(self._last.stop if self._last else 0)


MUTANTS = {
    "no fence": Rules(machine=NoFence),
    "acknowledged before the put": Rules(machine=AcknowledgesBeforeThePut),
    "shipped beyond the durable mark": Rules(ships_what_is_written=True),
    "a number used again": Rules(machine=ReusesANumber),
    "objects removed": Rules(removes_objects=True),
    "any object taken for its own": Rules(machine=TakesAnyObjectForItsOwn),
    "a diverged end kept": Rules(machine=KeepsADivergedEnd),
    "nothing compared": Rules(machine=ComparesNothing),
    "served before caught up": Rules(machine=ServesBeforeItHasCaughtUp),
    "salvaged twice": Rules(salvages_twice=True),
    "salvaged not at all": Rules(salvages_nothing=True),
    "salvaged from where it was last": Rules(forgets_where_it_was_first=True),
    "done before it is shipped": Rules(done_before_it_is_shipped=True),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(name: str) -> None:
    for number in range(MUTANT_SEEDS):
        try:
            run(number, MUTANTS[name])
        except Violation as violation:
            print(f"{name}: {violation}, in the world of seed {number}")
            return
    pytest.fail(f"nobody noticed: {name}, in {MUTANT_SEEDS} worlds")
