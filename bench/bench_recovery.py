"""Claim: after kill -9 of the process that owns a partition, appends go on by themselves.

The client is attached and appends durable turns; its owner is killed; the time runs from the
signal to the next acknowledged append, through Ray's restart, recovery of the log and
reconnection. The peer is an empty Ray actor under the same kill; the limit is the start of a bare
Python process. Afterwards every acknowledged turn must be there once, in order.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack

import neverforget as nf
from bench import ours
from bench.measure import Options, Row, Table, main, quantile, scratch
from bench.peers import RayCall

TURNS_BEFORE = 20_000


def run(options: Options) -> Table:
    rounds, turns = (1, 100) if options.quick else (9, TURNS_BEFORE)
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(options, "recovery"))
        store = stack.enter_context(ours.hosted(folder / "store", deadline_s=120))
        peer = RayCall()
        stack.callback(peer.close)
        ours.fill(store, "chat", turns)
        chat = store.session("chat")
        samples: dict[str, list[float]] = {"ours": [], "ray": [], "python": []}
        for number in range(rounds):
            samples["ours"].append(kill_and_append(store, chat, f"after kill {number}"))
            samples["ray"].append(peer.restart())
            samples["python"].append(start_python())
        check(chat, turns, rounds)
    m = statistics.median
    slowest = {name: quantile(values, 1.0) for name, values in samples.items()}
    return Table(
        "recovery",
        "Kill -9 of the owner to the first acknowledged append",
        [
            f"{rounds} interleaved kills; the partition held {turns:,} turns of 300 characters",
            "every acknowledged turn was counted afterwards: none lost, none twice",
        ],
        [
            Row(
                "first append, median", "ms", 1e3 * m(samples["ours"]), "empty Ray actor",
                1e3 * m(samples["ray"]), "start of Python", 1e3 * m(samples["python"]),
                m(samples["ours"]) / m(samples["ray"]),
            ),
            Row(
                "first append, slowest", "ms", 1e3 * slowest["ours"], "empty Ray actor",
                1e3 * slowest["ray"], "start of Python", 1e3 * slowest["python"],
                slowest["ours"] / slowest["ray"],
            ),
        ],
    )  # fmt: skip


def kill_and_append(store: nf.Store, chat: nf.Session, text: str) -> float:
    """Kill every owner, so that the session's own is among them; seconds to the next append."""
    owners = [owner for owner in store.status().owners if owner.pid != os.getpid()]
    assert owners, "no owner to kill"
    start = time.perf_counter()
    for pid in {owner.pid for owner in owners}:
        os.kill(pid, signal.SIGKILL)
    chat.append("user", text)
    return time.perf_counter() - start


def start_python() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - start


def check(chat: nf.Session, turns: int, rounds: int) -> None:
    assert len(chat) == turns + rounds, f"{len(chat)} turns, {turns + rounds} were acknowledged"
    last = chat.tail(rounds)
    assert [t.content for t in last] == [f"after kill {n}" for n in range(rounds)]
    assert [t.seq for t in last] == list(range(turns, turns + rounds))


if __name__ == "__main__":
    main(run)
