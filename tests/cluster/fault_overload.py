"""More calls than a slowed owner can take; see ``fault_scenarios``. Nobody grows without bound, or
waits without end: who is too much is told so.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cluster.cluster_nodes import RayNodes, until
from tests.cluster.fault_scenarios import ready
from tests.cluster.fault_world import World
from tests.faults.flooding import LARGE_BYTES_MEAN
from tests.faults.writing import Row, Writing

MIB = 1 << 20
CLIENTS = 4
SESSIONS_EACH = 300  # so many calls of each client at once
CALLS = 50_000
CALLS_S = 1800.0  # for all of them; a busy machine takes longer
DEADLINE_S = 10.0  # of a call, for most of them too short
LATE_S = 60.0  # by which a busy machine is late
SLOWER = 10
_BEAT_S = 0.1
_LOOK_S = 0.25


class Slowed:
    """Within its ``with`` a process runs for a tenth of the time."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            while not self._end.is_set():
                os.kill(self._pid, signal.SIGSTOP)
                self._end.wait(_BEAT_S * (SLOWER - 1) / SLOWER)
                os.kill(self._pid, signal.SIGCONT)
                self._end.wait(_BEAT_S / SLOWER)

    def __enter__(self) -> Slowed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


class Watch:
    """The most memory that a process of each group had, and how much that was above its first look;
    ``everybody``: all of them together. And the most that Ray had on disk in place of memory."""

    def __init__(self, folder: Path, groups: dict[str, list[int]], everybody: list[int]) -> None:
        self._folder, self._groups, self._everybody = folder, groups, everybody
        self.most: dict[str, int] = {}
        self._first: dict[str, int] = {}
        self.spilled = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._end.wait(_LOOK_S):
            self.look()

    def look(self) -> None:
        found = {name: max(map(memory_of, pids)) for name, pids in self._groups.items()}
        found["together"] = sum(map(memory_of, self._everybody))
        for name, n_bytes in found.items():
            self._first.setdefault(name, n_bytes)
            self.most[name] = max(self.most.get(name, 0), n_bytes)
        self.spilled = max(self.spilled, on_disk(self._folder))

    def growth(self, name: str) -> int:
        return self.most[name] - self._first[name]

    def __enter__(self) -> Watch:
        self.look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


def memory_of(pid: int) -> int:
    """Without pages of files, which the system takes back whenever it wants."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    held = dict(line.split(":", 1) for line in lines)
    return sum(int(held.get(name, "0 kB").split()[0]) for name in ("RssAnon", "RssShmem")) * 1024


def on_disk(ray_folder: Path) -> int:
    """Bytes of objects that Ray has put into files: spilled, or allocated there at once."""
    spilled = (p for p in ray_folder.glob("session_*/*spill*/**/*") if p.is_file())
    total = 0
    for path in spilled:
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


class Flooding(Writing):
    module = "tests.faults.flooding"

    def result(self) -> dict[str, Any]:
        """What it said at its end."""
        found: dict[str, Any] = json.loads(self.said().splitlines()[-1])
        return found


def _flooded(nodes: RayNodes, where: str, scenario: str, calls: int) -> Row:
    ready(nodes, "a", "b")
    settings = {"segment_bytes": 64 * MIB}
    with World(
        nodes, f"flooded-{where}", on=("b",), control="b", partitions=1, settings=settings
    ) as world:
        (owner,) = world.owners()
        floods = [_flooding(world, where, number, calls // CLIENTS) for number in range(CLIENTS)]
        until(lambda: all("connected" in each.said() for each in floods), "clients")
        clients = [each.process.pid for each in floods]
        groups = {"client": clients, "owner": [owner["pid"]]}
        everybody = [process.pid for node in "ab" for process in nodes.processes(node)]
        with Watch(nodes.folder / "ray", groups, everybody + clients) as watch:
            with Slowed(owner["pid"]):
                until(lambda: not any(map(_runs, floods)), "all calls to end", CALLS_S)
        row = world.finish(scenario)
        _tell(row, [each.result() for each in floods])
        _bound(row, watch)
        if world.owners()[0]["pid"] != owner["pid"]:
            row.problems.append("the owner was ended")
        world.cold(row)
        return row


def _runs(flooding: Flooding) -> bool:
    return flooding.process.poll() is None


def _flooding(world: World, where: str, number: int, calls: int) -> Flooding:
    nodes = world.nodes
    sessions = [f"chat-{number}-{n}" for n in range(SESSIONS_EACH)]
    world.sessions[0] += sessions
    made = Flooding(
        f"{where}{number}", f"ray:{world.name}@{nodes.address}", world.told_folder, sessions,
        "--ip", nodes.ip(where), "--calls", str(calls), "--deadline", str(DEADLINE_S),
        environment=nodes.environment(where),
    )  # fmt: skip
    world.writers.append(made)
    return made


def _tell(row: Row, found: Sequence[dict[str, Any]]) -> None:
    """How many calls went how."""
    outcomes: Counter[str] = Counter()
    for each in found:
        outcomes.update(each["outcomes"])
    seconds = max(each["seconds"] for each in found)
    slowest_s = max(each["slowest_s"] for each in found)
    calls = outcomes.total()
    row.notes.append(f"{calls} calls, {calls / seconds:.0f}/s, slowest {slowest_s:.1f} s")
    row.notes += [f"{count} x {kind}" for kind, count in outcomes.most_common()]
    if slowest_s > DEADLINE_S + LATE_S:
        row.problems.append(f"a call took {slowest_s:.0f} s")
    if outcomes["Unavailable (unknown)"] > outcomes["acknowledged"]:
        row.problems.append("more was done, and told too late, than was acknowledged")
    if calls == outcomes["acknowledged"]:
        row.problems.append("nobody was told that it was too much")


def _bound(row: Row, watch: Watch) -> None:
    """What a client has asked for at once it has as the caller's, encoded, and as a frame; what an
    owner takes at once, see ``actor_shell.CALLS_BYTES_MAX`` and ``connection.Bounds``."""
    bounds = {"client": 4 * SESSIONS_EACH * LARGE_BYTES_MEAN, "owner": 256 * MIB}
    for name, most in watch.most.items():
        grown = watch.growth(name)
        row.notes.append(f"{name} {most / MIB:.0f} MiB (+{grown / MIB:.0f})")
        if grown > bounds.get(name, grown):
            row.problems.append(f"{name} grew by {grown / MIB:.0f} MiB")
    row.notes.append(f"{watch.spilled / MIB:.0f} MiB spilled")
    if watch.spilled:
        row.problems.append("Ray wrote to disk what was said")


def through_ray(nodes: RayNodes, calls: int = CALLS) -> Row:
    """[28] Clients on another node than the owner."""
    return _flooded(nodes, "a", "overload through Ray, owner slowed ten times", calls)


def through_sockets(nodes: RayNodes, calls: int = CALLS) -> Row:
    """[28] Clients on the owner's node."""
    return _flooded(nodes, "b", "overload through sockets, owner slowed ten times", calls)
