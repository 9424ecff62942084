"""What one partition, one machine and one long-term store carry: docs/capacity.md goes by it.

Eight client processes ask one hosted store as fast as they can; beside it stands what the same
eight do with one SQLite file, or one process with the bare disk. Clients and owners share the
machine's processors. A store is restored from a folder that it was shipped to; and an idle one is
looked at.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

import neverforget as nf
from bench import ours
from bench.bench_clients import CLIENTS, Fleet
from bench.bench_memory import private_bytes
from bench.bench_recall_attached import prepared
from bench.measure import TEXT, Options, Row, Table, main, quantile, scratch
from bench.memories import Corpus
from bench.peers import BareSync

PARTITIONS = (1, 2, 4)
MEMORIES = (10_000, 100_000)
TURNS = 200_000
READ_TURNS = 20_000
IDLE_S = 20.0


def run(options: Options) -> Table:
    """``sizes``: how many memories."""
    sizes = options.sizes or ((1_000,) if options.quick else MEMORIES)
    turns = 5_000 if options.quick else TURNS
    with scratch(options, "capacity") as folder:
        rows = [*appends(folder, options), *reads(folder, options)]
        for size in sizes:
            rows += recalls(folder, size, options)
        rows += restored(folder, turns)
        rows += idle(folder, 1.0 if options.quick else IDLE_S)
    return Table(
        "capacity",
        "What one partition, one machine and one long-term store carry",
        [
            f"{CLIENTS} client processes, as fast as they can, in interleaved rounds; turns of 300 "
            "characters",
            "known: the vector of the query is known; one that is not has to be embedded first",
            f"restore: {turns:,} turns, shipped to a folder on the same disk as they were "
            "appended, 1,000 at a time; limit: those objects copied and synced",
            "idle: private memory of the processes of a store of 4 partitions with the default "
            f"embedder, and processor time of all of them over {IDLE_S:.0f} s, in processors",
        ],
        rows,
    )


def appends(folder: Path, options: Options) -> list[Row]:
    """Durable appends of stores with more and more partitions, and SQLite."""
    with ExitStack() as stack:
        fleets = {}
        for partitions in PARTITIONS:
            path = folder / f"p{partitions}"
            nf.open(path, inline=True, partitions=partitions, embedder="none").close()
            stack.enter_context(ours.serving(path))
            fleets[f"{partitions}"] = closed_by(stack, Fleet("disk", path))
        fleets["process"] = closed_by(stack, Fleet("process", folder / "p1"))
        fleets["sqlite"] = closed_by(stack, Fleet("sqlite", folder / "peer.db"))
        bare = BareSync(folder / "bare.bin")
        stack.callback(bare.close)
        rates = rated(fleets, options)
        limit = 1e9 / quantile(bare.round(500), 0.5)
    peer = statistics.median(rates["sqlite"])
    rows = []
    for name in ("1", "2", "4", "process"):
        what = f"durable appends, partitions: {name}"
        if name == "process":
            what = "appends with sync=process, partitions: 1"
        row = Row(what, "1/s", statistics.median(rates[name]), "SQLite", peer)
        row.limit, row.limit_value = "pwrite + fdatasync", limit
        row.ratio = ratio(rates[name], rates["sqlite"])
        rows.append(row)
    return rows


def reads(folder: Path, options: Options) -> list[Row]:
    with ExitStack() as stack:
        store = stack.enter_context(ours.hosted(folder / "p1"))
        ours.fill(store, "chat", READ_TURNS)
        rates = rated({"tail": closed_by(stack, Fleet("tail", folder / "p1"))}, options)
    return [Row("tail(20), partitions: 1", "1/s", statistics.median(rates["tail"]))]


def recalls(folder: Path, size: int, options: Options) -> list[Row]:
    path = folder / f"m{size}"
    prepared(path, Corpus(size))
    with ExitStack() as stack:
        stack.enter_context(ours.hosted(path))
        fleets = {k: closed_by(stack, Fleet(k, path)) for k in ("recall", "known")}
        rates = rated(fleets, options)
    shutil.rmtree(path)
    words, hybrid = (statistics.median(rates[kind]) for kind in ("recall", "known"))
    return [
        Row(f"recall by words, {size:,} memories", "1/s", words),
        Row(f"recall, hybrid, known, {size:,} memories", "1/s", hybrid),
    ]


def rated(fleets: dict[str, Fleet], options: Options) -> dict[str, list[float]]:
    rounds, seconds = (1, 0.5) if options.quick else (5, 2.0)
    rates: dict[str, list[float]] = {name: [] for name in fleets}
    for _ in range(rounds):
        for name, fleet in fleets.items():
            rates[name].append(fleet.run(seconds)[0])
    return rates


def closed_by(stack: ExitStack, fleet: Fleet) -> Fleet:
    stack.callback(fleet.close)
    return fleet


def ratio(ours: Sequence[float], peer: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(ours, peer, strict=True))


def restored(folder: Path, turns: int) -> list[Row]:
    objects = folder / "objects"
    objects.mkdir()
    path = folder / "shipped"
    settings: Any = {"partitions": 1, "embedder": "none", "reflect_every_turns": 0}
    with nf.open(path, inline=True, replica=objects.as_uri(), **settings) as store:
        chat = store.session("chat")
        for at in range(0, turns, 1_000):
            level: Any = "replica" if at + 1_000 >= turns else "process"
            chat.append_many([{"role": "user", "content": TEXT}] * 1_000, sync=level)
    size = sum(file.stat().st_size for file in objects.rglob("*") if file.is_file())
    start = time.perf_counter()
    nf.restore(folder / "restored", objects.as_uri())
    took = time.perf_counter() - start
    start = time.perf_counter()
    with nf.open(folder / "restored", inline=True) as store:
        opened = time.perf_counter() - start
        assert len(store.session("chat")) == turns
    start = time.perf_counter()
    shutil.copytree(objects, folder / "copied")
    subprocess.run(["sync", "-f", str(folder / "copied")], check=True)
    copied = time.perf_counter() - start
    limit = ("copy of the objects", turns / copied)
    return [
        Row("restore from a folder", "turns/s", turns / took, "", None, *limit, copied / took),
        Row("the same", "MB/s", size / took / 1e6, "", None, limit[0], size / copied / 1e6),
        Row("open what was restored", "s", opened),
        Row("objects, for a turn", "bytes", size / turns),
    ]


def idle(folder: Path, seconds: float) -> list[Row]:
    path = folder / "idle"
    nf.open(path, inline=True, partitions=4).close()
    with ours.serving(path) as process, nf.open(path, host="never") as store:
        store.session("chat").append("user", TEXT)
        store.remember("one")
        store.settle(timeout=120)
        status = store.status()
        partition = statistics.median(private_bytes(owner.pid) for owner in status.owners)
        memories = private_bytes(status.longterm.pid)
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(True)]
        known = {status.longterm.pid, *(owner.pid for owner in status.owners)}
        embedders = [p.pid for p in family if "Embedder" in " ".join(p.cmdline())]
        others = sum(private_bytes(p.pid) for p in family if p.pid not in {*known, *embedders})
        embedder = max(private_bytes(pid) for pid in embedders)
        before = spent(family)
        time.sleep(seconds)
        share = (spent(family) - before) / seconds
    mib = 2**20
    return [
        Row("idle, a partition", "MiB", partition / mib),
        Row("idle, the long-term owner", "MiB", memories / mib),
        Row("idle, an embedder", "MiB", embedder / mib),
        Row("idle, host, reflector and Ray", "MiB", others / mib),
        Row("idle, all of it", "processors", share),
    ]


def spent(family: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in family if process.is_running()]
    return sum(each.user + each.system for each in times)


if __name__ == "__main__":
    main(run, sized=True)
