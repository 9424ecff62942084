"""Claim: two hundred tasks connect to a deployed store at once, in little more than Ray takes to
start the processes of two hundred tasks that do nothing.

Each task is held until all have connected, so that each is in a process of its own. They connect
and append one turn durably; the peer finds an actor by its name and calls it once, which is the
least that any of it takes through Ray; the limit does nothing. Each runs in a Ray of its own, one
after the other. Then the same in the processes that are there, and from processes that are no
tasks.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.connecting import PROCESSES
from bench.measure import Options, Row, Table, main

ROOT = Path(__file__).resolve().parent.parent
TASKS = 200
KINDS = ("nothing", "call", "connect")


def run(options: Options) -> Table:
    (tasks,) = options.sizes or ((8,) if options.quick else (TASKS,))
    rounds, again = (1, 1) if options.quick else (2, 5)
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for number in range(rounds):
        for kind in KINDS if number % 2 == 0 else reversed(KINDS):
            found[kind].append(one(kind, tasks, again))
    reused = min(min(each["reused"]) for kind in KINDS for each in found[kind])
    return Table(
        "connects",
        f"{tasks} tasks connect at once",
        [
            f"medians of {rounds} Rays each, in turn; {again} times again in each",
            "a task connects, appends a turn durably and is held until all have; peer: get_actor "
            "and one call of an empty coroutine; limit: a task that does nothing",
            f"in the same processes: at least {reused} of {tasks} were those of before",
            "processor time: of one task, without the start of its process",
        ],
        rows_of(found, tasks),
    )


def one(kind: str, tasks: int, again: int) -> dict[str, Any]:
    """In a Ray of its own; its folder has a short name, for Ray's sockets."""
    folder = Path(tempfile.mkdtemp(prefix="nfb-"))
    command = [sys.executable, "-m", "bench.connecting", kind, f"{tasks}", f"{again}"]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "RAY_USAGE_STATS_ENABLED": "0"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # every task would compile the package
    try:
        ran = subprocess.run(
            [*command, str(folder / "one")],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def rows_of(found: dict[str, list[dict[str, Any]]], tasks: int) -> list[Row]:
    def median(kind: str, what: str) -> float:
        values: list[float] = []
        for each in found[kind]:
            values += each[what] if isinstance(each[what], list) else [each[what]]
        return statistics.median(values)

    def row(what: str, unit: str, key: str, scale: float, target: float | None = None) -> Row:
        ours, peer, limit = (scale * median(k, key) for k in ("connect", "call", "nothing"))
        met = None if target is None else ours <= target * limit
        said = "" if target is None else f"<= {target} x nothing"
        return Row(what, unit, ours, "one Ray call", peer, "nothing", limit, ours / peer, said, met)

    return [
        row(f"{tasks} tasks, each in a new process", "s", "new_s", 1, 1.25),
        row("of it processor time of one task", "ms", "processor_s", 1000),
        row(f"{tasks} tasks, in the same processes", "ms", "again_s", 1000),
        row("the longest of these tasks", "ms", "longest_s", 1000),
        row(f"{PROCESSES} processes that are no tasks", "s", "processes_s", 1),
    ]


if __name__ == "__main__":
    main(run, sized=True)
