"""A store whose clocks jump: those of its owner and of its writers, each in its own way, also while
the owner is away. No lease, wait or order may go by them; times that are told do.

No Ray: the owner is a host without it, in a process of its own.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import neverforget as nf
from neverforget.runtime.config import Config
from neverforget.storage.object_store import open_object_store
from neverforget.storage.shipped_objects import read_objects
from neverforget.storage.shipping_object import log_prefix
from tests.cluster.cluster_nodes import until
from tests.conftest import ROOT
from tests.fakes.plain_host import PlainHost, end
from tests.faults.acknowledged import PATIENCE_S, Found, judge, read_back
from tests.faults.replica_scenarios import SESSIONS, Place, place
from tests.faults.shim import compile_shim, reason_not_to_run
from tests.faults.wall_clock import SOURCE, WallClock
from tests.faults.writing import NotRun, Row, Writing

QUIET = "quiet"  # a session that no writer writes
TURNS = 12  # of every session and writer, after each jump
POINTS = 2  # restored at so many of them
# Hours from the right time: the owner's, one writer's and the other's.
JUMPS = ((2, 0, 0), (2, 2, -2), (-2, 2, -2), (-2, -2, 2), (0, 0, 0))
FEW = ((2, 2, -2), (-2, -2, 2))


class Clocks:
    """A hosted store with two writers, and a clock for each of the three."""

    def __init__(self, at: Place) -> None:
        self._at = at
        library = compile_shim(at.folder, SOURCE)
        self._clocks = [WallClock(library, at.folder / f"clock-{n}") for n in range(3)]
        self.path = at.folder / "store"
        PlainHost(self.path, Config(**at.settings())).close()
        self.start()

    def start(self) -> None:
        self.host = subprocess.Popen(
            [sys.executable, "-m", "tests.fakes.plain_host", str(self.path)],
            env={**self._at.environment, **self._clocks[0].environment},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.host.stdout is not None
        assert self.host.stdout.readline() == b"serving\n"

    def end(self, *, killed: bool = False) -> None:
        if killed:
            self.host.send_signal(signal.SIGKILL)
        end(self.host)

    def write(self) -> list[Writing]:
        for number, clock in enumerate(self._clocks[1:]):
            writing = Writing(
                f"writer-{number}", str(self.path), self._at.told_folder, SESSIONS,
                "--attached", "--sync", "mixed", "--pause-ms", "20",
                environment={**self._at.environment, **clock.environment},
            )  # fmt: skip
            self._at.writers.append(writing)
        return self._at.writers

    def jump(self, hours: Sequence[float]) -> None:
        for clock, shift in zip(self._clocks, hours, strict=True):
            clock.shift(shift)

    def close(self) -> None:
        self.host.kill()
        end(self.host)


@contextmanager
def clocks(at: Place) -> Iterator[Clocks]:
    found = Clocks(at)
    try:
        yield found
    finally:
        found.close()


def clocks_jump(jumps: Sequence[Sequence[float]] = JUMPS) -> Row:
    """[30] Two hours forward and back, under writers. Before every second jump the owner is killed,
    or ended in order, and finds another time than it left."""
    if (why := reason_not_to_run()) is not None:
        raise NotRun(why)
    with place("folder") as at, clocks(at) as store:
        writers = store.write()
        for number, hours in enumerate(jumps):
            going_on(writers)
            away = number % 2 == 1
            if away:
                store.end(killed=number % 4 == 1)
            store.jump(hours)
            if away:
                store.start()
        going_on(writers)
        problems = [f"{w.name}: {w.said()}" for w in writers if w.stop() != 0]
        what_waits_is_done(store)
        store.end()
        row = judged(at)
        row.problems += problems
        return row


def going_on(writers: Sequence[Writing]) -> None:
    """All sessions of all writers."""
    asked = [(writer, session) for writer in writers for session in SESSIONS]
    before = [len(writer.acks(session)) for writer, session in asked]

    def further() -> bool:
        for writer in writers:
            writer.check()
        now = [len(writer.acks(session)) for writer, session in asked]
        return all(b - a >= TURNS for a, b in zip(before, now, strict=True))

    until(further, f"{TURNS} more turns in each session")


def what_waits_is_done(store: Clocks) -> None:
    """The owner's clock falls before what the owner does by itself, a second after an append that
    waits for nothing: to sync it; and a second after that: to ship it."""
    with nf.open(store.path, host="never", deadline_s=PATIENCE_S) as opened:
        store.jump((2, 0, 0))
        before = _durable(opened)
        opened.session(QUIET).append("user", "x" * 5000, sync="process")
        store.jump((0, 0, 0))
        until(lambda: _durable(opened) > before + 5000, "what nobody waits for to be synced")
        store.jump((-2, 0, 0))
        until(lambda: not _lag(opened), "and shipped")


def _durable(store: nf.Store) -> int:
    return sum(owner.durable_bytes for owner in store.status().owners)


def judged(at: Place) -> Row:
    with at.opened("store") as opened:
        found = read_back(opened, [*SESSIONS, QUIET])
        told = [turn.timestamp for name in SESSIONS for turn in opened.session(name)]
        report = opened.verify()
        store_id = opened.status().store_id
        until(lambda: not _lag(opened), "the rest to be shipped")
    row = Row(
        "wall clocks jump by two hours, owner killed and ended in between",
        judge(
            {writer.name: writer.lines() for writer in at.writers}, {s: found[s] for s in SESSIONS}
        ),
        problems=[str(each) for each in report.findings if each.severity == "error"],
    )
    if row.verdict.errors:
        row.problems.append(f"writers were told {dict(row.verdict.errors)}: by the wrong clock?")
    fell = sum(a > b for a, b in pairwise(told))
    hours = (max(told) - min(told)).total_seconds() / 3600
    if hours < 3.9 or not fell:
        row.problems.append(f"the writers' clocks did not jump: {hours:.1f} h, {fell} falls")
    row.notes.append(f"times of turns fell {fell} times, by up to {hours:.1f} h")
    row.problems += _objects(at, store_id)
    row.problems += _restored(at, store_id, found)
    return row


def _lag(store: nf.Store) -> int:
    replicas = [owner.replica for owner in store.status().owners]
    return sum(replica.lag_bytes for replica in replicas if replica is not None)


def _objects(at: Place, store_id: str) -> list[str]:
    """The owner's clock did jump, and nobody is told of times that fall."""
    wrong, fell = [], 0
    for log in ("partition-0", "partition-1"):
        objects = read_objects(open_object_store(at.url), log_prefix(store_id, log))
        fell += sum(a.made_us > b.made_us for a, b in pairwise(objects.headers))
        if any(a > b for a, b in pairwise(objects.made_us)):
            wrong.append(f"the times of the objects of {log} fall")
    return wrong if fell else [*wrong, "the owner's clock did not jump"]


def _restored(at: Place, store_id: str, whole: dict[str, list[Found]]) -> list[str]:
    """At each time that is told there is a store that was: the beginning of what there is now, with
    as many turns as were told; at the last one, everything."""
    wrong: list[str] = []
    told = nf.restore_points(at.url, store_id).points
    if any(a.at >= b.at for a, b in pairwise(told)):
        wrong.append("the times to restore at are not in order")
    if told[-1].turns != sum(map(len, whole.values())):
        wrong.append(f"at the last time there are {told[-1].turns} turns")
    step = max(1, len(told) // POINTS)
    for number, point in enumerate(told[-1::-step][:POINTS]):
        path = at.folder / f"then-{number}"
        nf.restore(path, at.url, at=point.at, store_id=store_id)
        with nf.open(path, inline=True) as then:
            found = read_back(then, [*SESSIONS, QUIET])
            if not then.verify().ok:
                wrong.append(f"damage in what was restored at {point.at}")
        if sum(map(len, found.values())) != point.turns:
            wrong.append(f"{point.at} was to bring {point.turns} turns")
        if any(turns != whole[name][: len(turns)] for name, turns in found.items()):
            wrong.append(f"what was restored at {point.at} was never there")
    return wrong
