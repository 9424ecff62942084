"""Claim: eight clients together append at least twice as fast as eight processes on one SQLite
file.

Each client is a process with a session of its own; an append returns when it is durable. They
start together, run for a fixed time, and their appends are added up. One owner gathers what waits
into one write and one fdatasync; SQLite's writers take turns at its lock.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from typing import Any

import neverforget as nf
from bench import ours
from bench.measure import Options, Row, Table, main, quantile, scratch
from bench.memories import Corpus
from bench.peers import BareSync, SQLite

CLIENTS = 8
QUERIES = 32  # of each client that recalls


class Fleet:
    """Eight processes that append for a while when told to."""

    def __init__(self, kind: str, path: Path) -> None:
        self._members = [
            subprocess.Popen(
                [sys.executable, "-m", "bench.bench_clients", "member", kind, str(path), str(n)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for n in range(CLIENTS)
        ]
        for member in self._members:
            assert member.stdout and member.stdout.readline() == "ready\n", f"{kind} did not start"

    def run(self, seconds: float) -> tuple[float, float]:
        """Appends a second of all together, and the median latency of one in microseconds."""
        start_at = time.time() + 0.1
        for member in self._members:
            assert member.stdin
            member.stdin.write(f"{start_at} {seconds}\n")
            member.stdin.flush()
        samples: list[int] = []
        for member in self._members:
            assert member.stdout
            samples += json.loads(member.stdout.readline())
        return len(samples) / seconds, quantile(samples, 0.5) / 1000

    def close(self) -> None:
        for member in self._members:
            member.communicate(timeout=60)


def member(kind: str, path: Path, number: int) -> None:
    """One process of a fleet: a line names a round's start and length, the answer its samples."""
    with ExitStack() as stack:
        call = call_of(kind, path, number, stack)
        call()
        print("ready", flush=True)
        for line in sys.stdin:
            start_at, seconds = map(float, line.split())
            time.sleep(max(0.0, start_at - time.time()))
            samples = []
            while time.time() < start_at + seconds:
                start = time.perf_counter_ns()
                call()
                samples.append(time.perf_counter_ns() - start)
            print(json.dumps(samples), flush=True)


def call_of(kind: str, path: Path, number: int, stack: ExitStack) -> Callable[[], object]:
    """What a member does again and again: "sqlite", a sync level of appends, "tail" of 20, or
    "recall" by words, "known" by vectors, too, whose query was embedded before."""
    if kind == "sqlite":
        peer = SQLite(path, session=f"client-{number}")
        stack.callback(peer.close)
        return peer.append
    store = stack.enter_context(nf.open(path, host="never"))
    if kind == "tail":
        chat = store.session("chat")
        return lambda: chat.tail(20)
    if kind in ("recall", "known"):
        store.recall("anything", wait=60)  # until then nobody has opened the memories
        corpus = Corpus(store.status().longterm.memories, seed=number)
        queries = cycle([text for text, _ in corpus.queries(QUERIES)])
        strategy: Any = "text" if kind == "recall" else "hybrid"
        for _ in range(QUERIES):
            store.recall(next(queries), strategy=strategy, wait=60)
        return lambda: store.recall(next(queries), strategy=strategy)
    return ours.Append(store, sync=kind, session=f"client-{number}").append


def run(options: Options) -> Table:
    rounds, seconds = (1, 0.3) if options.quick else (6, 2.0)
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(options, "clients"))
        stack.enter_context(ours.serving(folder / "store"))
        bare = BareSync(folder / "bare.bin")
        stack.callback(bare.close)
        fleets = {
            "disk": Fleet("disk", folder / "store"),
            "process": Fleet("process", folder / "store"),
            "sqlite": Fleet("sqlite", folder / "peer.db"),
        }
        for fleet in fleets.values():
            stack.callback(fleet.close)
        rates: dict[str, list[float]] = {name: [] for name in (*fleets, "bare")}
        waits: dict[str, list[float]] = {name: [] for name in fleets}
        for _ in range(rounds):
            for name, fleet in fleets.items():
                rate, wait = fleet.run(seconds)
                rates[name].append(rate)
                waits[name].append(wait)
            rates["bare"].append(1e9 / quantile(bare.round(200), 0.5))
    return Table(
        "clients",
        f"{CLIENTS} client processes append at once",
        [
            f"{rounds} interleaved rounds of {seconds} s",
            "the limit is one process that does nothing but pwrite and fdatasync of one record",
        ],
        rows_of(rates, waits),
    )


def rows_of(rates: dict[str, list[float]], waits: dict[str, list[float]]) -> list[Row]:
    m = statistics.median
    peer, limit = f"SQLite, {CLIENTS} processes", "pwrite + fdatasync"
    disk = m(a / b for a, b in zip(rates["disk"], rates["sqlite"], strict=True))
    process = m(a / b for a, b in zip(rates["process"], rates["sqlite"], strict=True))
    wait = m(a / b for a, b in zip(waits["disk"], waits["sqlite"], strict=True))
    return [
        Row(
            "durable appends, all clients", "1/s", m(rates["disk"]), peer, m(rates["sqlite"]),
            limit, m(rates["bare"]), disk, ">= 2 x SQLite", disk >= 2,
        ),
        Row(
            "sync=process, all clients", "1/s", m(rates["process"]), peer, m(rates["sqlite"]),
            ratio=process,
        ),
        Row(
            "one durable append, p50", "us", m(waits["disk"]), peer, m(waits["sqlite"]),
            limit, 1e6 / m(rates["bare"]), wait,
        ),
    ]  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["member"]:
        member(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main(run)
