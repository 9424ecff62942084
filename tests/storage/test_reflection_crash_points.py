"""A reflector's dealings with a region, with a death at every call that changes something.

The client does what a reflector does: turns, a plan, a mark or a failure, an erasure now and then.
After a death it asks again, under the same request id, for what was not acknowledged. Whatever
happened, at the end everything is as if nothing had; and what was acknowledged is there at once.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from neverforget.storage.errors import Poisoned
from neverforget.storage.record import encode_turn
from neverforget.storage.region import Region
from neverforget.storage.region_options import RegionOptions
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem, Fault
from tests.fakes.deaths import deaths

DIRECTORY = ROOT / "p0"
STORE_ID = "store"
OPTIONS = RegionOptions(first_segment_bytes=8192, segment_bytes=16384, reflect_every=6)
PRODUCER = 99
SESSIONS = ("alpha", "beta")
WINDOW = 4
ROUNDS = 5


def open_region(fs: CrashFileSystem) -> Region:
    return Region.open(
        fs, DIRECTORY, store_id=STORE_ID, partition=0, options=OPTIONS, lock=False,
        random_bytes=bytes, clock=Still(),
    )  # fmt: skip


class Still:
    """Time does not matter here."""

    def now_us(self) -> int:
        return 1

    def monotonic(self) -> float:
        return 1.0


def create(fs: CrashFileSystem) -> None:
    Region.create(fs, DIRECTORY, store_id=STORE_ID, partition=0, options=OPTIONS)


Step = Callable[[Region, int], object]


def steps() -> list[Step]:
    """Two rounds of each session in turn: turns, plan, and how it ends."""
    found: list[Step] = []
    for number in range(ROUNDS):
        for session in SESSIONS:
            first = number * WINDOW
            found.append(append(session, first))
            found.append(plan(session, first))
            if number == 2:
                found.append(erase(session, first))
            found.append(fail(session, first) if number % 3 == 1 else mark(session, first))
    return found


def append(session: str, first: int) -> Step:
    def step(region: Region, request: int) -> object:
        records = b"".join(
            bytes(
                encode_turn(
                    role="user", content=f"{first + n} ".ljust(400, "x"), timestamp_us=request,
                    token_count=1, producer=PRODUCER, producer_seq=request, key_scope=b"",
                )
            )
            for n in range(WINDOW)
        )  # fmt: skip
        return region.append((), session, None, PRODUCER, request, None, records).first_seq

    return step


def plan(session: str, first: int) -> Step:
    def step(region: Region, request: int) -> object:
        last = first + WINDOW - 1
        return region.plan((), session, first, last, "v1", PRODUCER, request)[0]

    return step


def mark(session: str, first: int) -> Step:
    def step(region: Region, request: int) -> object:
        region.mark((), session, first, first + WINDOW - 1, "v1", PRODUCER, request)
        return None

    return step


def fail(session: str, first: int) -> Step:
    def step(region: Region, request: int) -> object:
        last = first + WINDOW - 1
        region.fail_reflection((), session, first, last, "v1", 3, "why", PRODUCER, request)
        return None

    return step


def erase(session: str, first: int) -> Step:
    """A turn of the window that is worked on, and one of the window that failed before."""

    def step(region: Region, request: int) -> object:
        runs = [(first, first), (first - WINDOW, first - WINDOW)]
        view = region.erase((), session, runs, "confirmed", "me", None, PRODUCER, request)
        return view.turns

    return step


def observed(region: Region) -> dict[str, Any]:
    reads = region.reflection
    found: dict[str, Any] = {"lag": reads.lag(), "due": reads.due(9)}
    for again in (False, True):
        found[f"left {again}"] = reads.unreflected((), None, None, 9, "v2", again, 0)
    return found


class Life:
    """``done``: steps that were acknowledged; ``told``: what they were answered. ``states``: what a
    region without deaths shows after so many steps; empty: this is that one.
    """

    def __init__(self, states: list[dict[str, Any]]) -> None:
        self.done = 0
        self.told: list[object] = []
        self.states = states

    def live(self, fs: CrashFileSystem, steps_max: int = 10**6) -> None:
        region = open_region(fs)
        if self.states:
            # The one that was under way may be there or not, whole either way.
            assert observed(region) in self.states[self.done : self.done + 2]
        for _ in range(steps_max):
            if self.done:  # what it did last it asks twice
                assert self.ask(region, self.done - 1) == self.told[-1]
            if self.done == len(STEPS):
                break
            self.told.append(self.ask(region, self.done))
            self.done += 1
            if self.states:
                assert observed(region) == self.states[self.done]
            if self.done % 6 == 0:
                region.noop_if_idle()
        region.seal()
        region.close()

    def ask(self, region: Region, number: int) -> object:
        answer = STEPS[number](region, number + 1)
        region.write()
        region.sync()
        return answer


STEPS = steps()


def undisturbed() -> list[dict[str, Any]]:
    fs = CrashFileSystem()
    create(fs)
    states, life = [], Life([])
    for _ in range(len(STEPS) + 1):
        region = open_region(fs)
        states.append(observed(region))
        region.close()
        if life.done < len(STEPS):
            life.live(fs, 1)
    return states


def workload(fs: CrashFileSystem, life: Life) -> None:
    life.live(fs, len(STEPS) // 2)
    life.live(fs)


@pytest.mark.parametrize("death", ["power_cut", "process_death"])
def test_a_death_at_any_call_changes_nothing_in_the_end(death: str, long_run: bool) -> None:
    """By the one or the other at any of them; under --long by both."""
    states = undisturbed()
    fs, whole = CrashFileSystem(), Life(states)
    create(fs)
    found = deaths(fs, lambda: workload(fs, whole), lambda: (whole.done, list(whole.told)))
    for died in found if long_run else found[death == "power_cut" :: 2]:
        life = Life(states)
        life.done, life.told = died.told
        after = died.found(death)
        life.live(after)
        region = open_region(after.power_cut())
        assert observed(region) == states[-1]
        assert [f for f in region.verify() if f.severity == "error"] == []
        region.close()


def test_a_failed_sync_loses_and_doubles_nothing() -> None:
    """EIO at every sync in turn, and the region opened anew in the same process."""
    states = undisturbed()
    counted = CrashFileSystem()
    create(counted)
    first = len(counted.calls)
    workload(counted, Life([]))
    syncs = sum(call.op == "fdatasync" for call in counted.calls[first:])
    for nth in range(1, syncs + 1):
        fs, life = CrashFileSystem(nth), Life(states)
        create(fs)
        fs.inject(Fault("fdatasync", nth=nth, error=errno.EIO))
        try:
            workload(fs, life)
        except (Poisoned, OSError):
            pass
        life.live(fs)
        region = open_region(fs.power_cut())
        assert observed(region) == states[-1]
        region.close()
