"""A deployed store on several nodes with writers on it, and what became of it."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.log_heads import heads_of
from neverforget.storage.region import Region
from tests.cluster.cluster_nodes import PATIENCE_S, RayNodes, until
from tests.cluster.fault_control import Control
from tests.faults.acknowledged import Verdict, judge, on_replica
from tests.faults.writing import Row, Writing, told_folder

SEGMENT_BYTES = 1 << 18  # small: owners roll and make side files all the time


class World:
    """Closed at the end of its ``with``. ``on``: the nodes that hold parts; there may be others."""

    def __init__(
        self,
        nodes: RayNodes,
        name: str,
        *,
        on: Sequence[str] = ("b", "c"),
        control: str = "a",
        partitions: int = 2,
        settings: dict[str, Any] | None = None,
        plan: dict[str, Any] | None = None,
        sessions_each: int = 1,
    ) -> None:
        self.nodes, self.name, self.on = nodes, name, list(on)
        self.told_folder = told_folder(nodes.folder)
        self.writers: list[Writing] = []
        self.notes: list[str] = []
        self.fault_ns = self.fault_us = 0
        self.control = Control(nodes, control)
        values = {"partitions": partitions, "embedder": "none", "segment_bytes": SEGMENT_BYTES}
        values |= {"reflect_every_turns": 0, **(settings or {})}
        self.plan = {"path": f"$NF_DATA/{name}", "nodes": len(on), "settings": values}
        self.plan |= plan or {}
        self.control("deploy", name=name, plan=self.plan)
        found = self.control("sessions", name=name, count=sessions_each)
        self.sessions: dict[int, list[str]] = {int(n): names for n, names in found.items()}
        self.deployed = self.owners()

    # ---- what is where ---------------------------------------------------------------------------

    @property
    def all_sessions(self) -> list[str]:
        return [name for names in self.sessions.values() for name in names]

    def owners(self, deadline: float = PATIENCE_S) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.control("owners", name=self.name, deadline=deadline)
        return found

    def partition_on(self, node: str) -> int:
        """One that was made there."""
        ip = self.nodes.ip(node)
        return next(n for n, owner in enumerate(self.deployed) if owner["node"] == ip)

    def sessions_on(self, node: str) -> list[str]:
        ip = self.nodes.ip(node)
        return [s for n, o in enumerate(self.deployed) if o["node"] == ip for s in self.sessions[n]]

    def folder(self, node: str) -> Path:
        return self.nodes.data(node) / self.name

    # ---- writing ---------------------------------------------------------------------------------

    def write(self, node: str, sessions: Sequence[str] | None = None, *options: str) -> Writing:
        chosen = self.all_sessions if sessions is None else sessions
        writing = Writing(
            f"{node}{len(self.writers)}",
            f"ray:{self.name}@{self.nodes.address}",
            self.told_folder,
            chosen,
            *("--ip", self.nodes.ip(node), *options),
            prefix=self.nodes.net.prefix(node),
            environment=self.nodes.environment(node),
        )
        self.writers.append(writing)
        return writing

    def progress(
        self,
        turns: int = 200,
        sessions: Sequence[str] | None = None,
        *writers: Writing,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """Wait until each of ``sessions`` was acknowledged so much more, by each of ``writers``;
        ``meanwhile`` is called again and again."""
        chosen = self.all_sessions if sessions is None else sessions
        asked = [(w, s) for w in writers or self.writers for s in chosen if s in w.sessions]
        before = {(w.name, s): len(w.acks(s)) for w, s in asked}

        def further() -> bool:
            meanwhile()
            for writer, session in asked:
                writer.check()
                if len(writer.acks(session)) - before[writer.name, session] < turns:
                    return False
            return True

        until(further, f"{turns} more turns in {chosen}")

    def fault(self) -> None:
        """Now it happens."""
        self.fault_ns, self.fault_us = time.monotonic_ns(), time.time_ns() // 1000

    def since(self) -> float:
        return (time.monotonic_ns() - self.fault_ns) / 1e9

    def detected(self, partition: int, says: Callable[[dict[str, Any]], bool]) -> float:
        until(lambda: says(self.owners()[partition]), f"the status of partition {partition}")
        return self.since()

    def replaced(self, partition: int, pid: int) -> float:
        """Until status shows another owner than this process."""
        return self.detected(partition, lambda owner: owner["pid"] not in (0, pid))

    def next_append(self, sessions: Sequence[str], *writers: Writing) -> float:
        """How long the next acknowledgement took, at worst: the longest silence since the fault."""
        longest = 0
        for writer in writers or self.writers:
            for session in sessions:
                times = [t for t in writer.acks(session) if t > self.fault_ns]
                if session in writer.sessions and times:
                    seen = [self.fault_ns, *times]
                    longest = max(longest, *(b - a for a, b in zip(seen, times, strict=False)))
        return longest / 1e9

    # ---- the end ---------------------------------------------------------------------------------

    def finish(
        self,
        scenario: str,
        *,
        killed: Sequence[Writing] = (),
        disk_lost: bool = False,
        salvage: bool = False,
    ) -> Row:
        """Writers end, a fresh client reads, the judge judges. ``killed``: died with a node.
        ``disk_lost``: for good; only what was said at "replica" is promised. ``salvage``: a disk
        came back, and what it had is waited for."""
        codes = {writer.name: writer.stop() for writer in self.writers}
        ended = {writer.name for writer in killed}
        verdict = self._judged(disk_lost)
        if salvage:
            until(lambda: not self._judged(disk_lost).lost, "what the old disk had to come back")
            verdict = self._judged(disk_lost)
        row = Row(scenario, verdict, notes=self.notes)
        bad = [name for name, code in codes.items() if code and name not in ended]
        row.problems += [f"writer {name} ended with {codes[name]}" for name in bad]
        row.problems += self.control("verify", name=self.name)
        return row

    def _judged(self, disk_lost: bool) -> Verdict:
        return judge(
            {writer.name: writer.lines() for writer in self.writers},
            self.control.read(self.name, self.all_sessions),
            lambda _, number: on_replica(number) or not disk_lost,
        )

    def cold(self, row: Row) -> None:
        """Undeploy; then what the disks say: no record of an older epoch behind a newer one."""
        self.control("undeploy", name=self.name)
        for node in self.on:
            for region in sorted((self.folder(node) / "regions").glob("p*")):
                epochs, _ = heads_on(region)
                if (np.diff(epochs.astype(np.int64)) < 0).any():
                    row.problems.append(f"{region.name} on {node}: an older epoch wrote later")

    def last_byte(self, node: str, partition: int, epoch: int) -> float | None:
        """When the owner with ``epoch`` wrote its last record there, in seconds from the fault."""
        region, *_ = sorted((self.folder(node) / "regions").glob(f"p{partition}*"))
        epochs, times = heads_on(region)  # it may have been brought back, and renamed
        mine = times[epochs == epoch]
        return None if not mine.size else float(mine.max() - self.fault_us) / 1e6

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for writer in self.writers:
            writer.kill()
        self.control.close()
        shutil.rmtree(self.told_folder, ignore_errors=True)


def heads_on(directory: Path) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Epoch and time (microseconds UTC) of every record of a region, in the log's order, from a
    copy: its owner may be living."""
    from neverforget.storage.identity import read_identity

    fs = LocalFileSystem()
    with tempfile.TemporaryDirectory(prefix="nfh-") as folder:
        copy = Path(folder) / directory.name
        shutil.copytree(directory, copy)
        identity = read_identity(fs, copy)
        region = Region.open(
            fs, copy, store_id=identity.store_id, partition=identity.partition, lock=False
        )
        try:
            state = region._state
            heads = [heads for heads, _ in heads_of(state.log, state.log_seed)]
            found = np.concatenate(heads)
            return found["epoch"], found["timestamp"]
        finally:
            region.close()
