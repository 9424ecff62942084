"""Claim: whatever dies, stops, is cut off or comes back wrong, no acknowledged turn is lost,
doubled, moved or altered; and it does not take long to go on.

    python -m bench.bench_cluster_faults [--only NAME ...] [--long] [--json FILE]

Each scenario is one of ``tests/cluster/fault_*.py`` or ``tests/faults/*_scenarios.py``: real
Ray nodes or owners in processes of their own, writers that note what they were told on another file
system, and a judge that was seen to find a removed, doubled, moved and altered turn. One row each;
that of the control must lose turns.
Exit code 1: something was wrong; 2: something could not run here. Nothing passes silently.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from bench.measure import environment
from tests.cluster import (
    fault_failover,
    fault_heads,
    fault_overload,
    fault_rolling,
    fault_scenarios,
    fault_splits,
)
from tests.cluster.cluster_nodes import RayNodes, reason_not_to_run
from tests.faults import clock_scenarios, replica_scenarios
from tests.faults.writing import NotRun, Row

# On one cluster, one after the other.
SHARED: dict[str, Callable[[RayNodes], Row]] = {
    "owner-killed": fault_scenarios.owner_killed,
    "owner-stopped": fault_scenarios.owner_stopped,
    "node-killed": fault_scenarios.node_killed,
    "node-stopped": fault_scenarios.node_stopped,
    "node-terminated": fault_scenarios.node_terminated,
    "disk-wiped": fault_scenarios.disk_wiped,
    "disk-of-another": fault_scenarios.disk_of_another,
    "failover-killed": fault_failover.node_killed,
    "failover-stopped": fault_failover.node_stopped,
    "failover-wiped": fault_failover.disk_wiped,
    "disk-rolled-back": fault_failover.disk_rolled_back,
    "control": partial(fault_failover.disk_rolled_back, control=True),
    "failover-auto": fault_failover.by_itself,
    "drained": fault_failover.drained,
    "overload-ray": fault_overload.through_ray,
    "overload-sockets": fault_overload.through_sockets,
}
# Each on one of its own, as what happens to it happens to everybody.
CLUSTERS: dict[str, Callable[[], Row]] = {
    "head-back": fault_heads.head_killed_and_back,
    "head-gone": fault_heads.head_killed_for_good,
    "cut-off": fault_splits.cut_off,
    "one-way": fault_splits.one_way,
    "lossy": fault_splits.lossy,
    "narrow": fault_splits.narrow,
    "rolling-restart": fault_rolling.rolling_restart,
    "failover-cut-off": fault_failover.cut_off,
}
# Without Ray.
REPLICAS: dict[str, Callable[[], Row]] = {
    "disk-lost-folder": partial(replica_scenarios.disk_lost, "folder"),
    "disk-lost-s3": partial(replica_scenarios.disk_lost, "s3"),
    "objects-misbehave": replica_scenarios.objects_misbehave,
    "taken-over-folder": partial(replica_scenarios.fenced_while_writing, "folder"),
    "taken-over-s3": partial(replica_scenarios.fenced_while_writing, "s3"),
    "create-only-race": replica_scenarios.create_only_race,
    "clocks-jump": clock_scenarios.clocks_jump,
}
OWN = {**CLUSTERS, **REPLICAS}
NAMES = [*SHARED, *OWN]
HEAD = (
    "| scenario | acknowledged | lost | doubled | out of order | altered | at risk, gone | noticed "
    "| next append | old owner's last byte | |\n|---|---|---|---|---|---|---|---|---|---|---|"
)


@dataclasses.dataclass
class Ran:
    """``failed``: why there is no row; ``not_run``: that it cannot be here."""

    name: str
    row: Row | None = None
    not_run: str = ""
    failed: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.row is not None and self.row.ok

    def line(self) -> str:
        if self.row is None:
            return f"| {self.name} |{' |' * 9} **{self.not_run or 'failed: ' + self.failed}** |"
        v, notes = self.row.verdict, list(self.row.notes)
        if v.unknown:
            notes.append(f"{v.unknown} unknown")
        if v.salvaged:
            notes.append(f"{v.salvaged} salvaged")
        if self.row.control and self.row.ok:
            notes.insert(0, "lost, as it must be")
        if not self.row.ok:
            notes.insert(0, f"**{self.row.why()}**")
        cells = [self.row.scenario, v.acknowledged, v.lost, v.doubled, v.disordered, v.altered]
        cells += [v.at_risk, shown(self.row.detected_s), shown(self.row.next_s)]
        cells += [shown(self.row.last_byte_s), "; ".join(notes)]
        return "| " + " | ".join(map(str, cells)) + " |"


def shown(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.2f} s"


def attempt(name: str, scenario: Callable[[], Row]) -> Ran:
    started = time.monotonic()
    ran = Ran(name)
    try:
        ran.row = scenario()
    except NotRun as reason:
        ran.not_run = str(reason)
    except Exception as error:
        traceback.print_exc()
        ran.failed = f"{type(error).__name__}: {error}"[:300]
    ran.seconds = round(time.monotonic() - started, 1)
    print(f"{ran.line()}  ({ran.seconds} s)", file=sys.stderr, flush=True)
    return ran


def run(names: list[str]) -> list[Ran]:
    found = []
    shared = [name for name in NAMES if name in names and name in SHARED]
    why = reason_not_to_run()
    if shared and why is None:
        nodes = RayNodes()
        try:
            for name in shared:
                found.append(attempt(name, partial(SHARED[name], nodes)))
        finally:
            nodes.close()
    elif shared:
        found += [Ran(name, not_run=str(why)) for name in shared]
    return found + [attempt(name, OWN[name]) for name in OWN if name in names]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=NAMES, action="append", help="these; default: all")
    parser.add_argument("--rounds", type=int, default=1, help="all of it so often")
    parser.add_argument("--json", type=Path, help="write the rows and the machine here as well")
    asked = parser.parse_args()
    found = [ran for _ in range(asked.rounds) for ran in run(asked.only or NAMES)]
    about = environment(Path("."))
    print("\n".join([HEAD, *(ran.line() for ran in found)]))
    print("\n" + "; ".join(f"{name}: {value}" for name, value in about.items()))
    if asked.json is not None:
        rows: list[Any] = msgspec.to_builtins(found)  # asdict makes nonsense of a Counter
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps({"rows": rows, "environment": about}, indent=1) + "\n")
    if any(ran.failed or (ran.row is not None and not ran.row.ok) for ran in found):
        return 1
    return 2 if any(ran.not_run for ran in found) else 0


if __name__ == "__main__":
    sys.exit(main())
