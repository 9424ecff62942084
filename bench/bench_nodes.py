"""Claim: a store that is spread over nodes costs a client on an owner's node nothing, and any other
one little more than the call of a Ray actor.

One local Ray cluster of four nodes. Stores of four partitions each lie on one, two and four of
them, with and without a replica (a folder on the same disk). All nodes share this machine's
processors and disk, so that more nodes cannot be faster here: the figures show what it costs to
spread a store. SQLite and a bare Ray call take turns with them in the same rounds.
"""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.measure import Options, Rounds, Row, Table, main, quantile, scratch
from bench.node_clients import CLIENTS, SESSIONS_EACH, Cluster, Job
from tests.cluster.cluster_nodes import RayNodes

NODES = ("a", "b", "c", "d")
MEMORIES = 1_000
PARTITIONS = 4

# Of one client on node a: store "four" has a partition on each node, "one" has all of it on a.
NEAR = {
    "append, disk": Job("four", "disk", "here"),
    "append, process": Job("four", "process", "here"),
    "append, replica": Job("four-replica", "replica", "here"),
    "recall by words": Job("one", "recall", "here"),
    "recall, hybrid": Job("one", "known", "here"),
}
FAR = {what: Job(job.store, job.how, "away") for what, job in NEAR.items()}
CALL, AWAY_CALL = Job("", "call", "here"), Job("", "call", "away")
SQLITE = Job("sqlite", "disk", "any")
FAR_NODE = "d"  # from where the memories on a are asked for


def spread(nodes: int) -> dict[str, int]:
    return dict.fromkeys(NODES[:nodes], CLIENTS // nodes)


FLEETS = {
    "disk, 1 node": (1, Job("one", "disk", "here")),
    "disk, 2 nodes": (2, Job("two", "disk", "any")),
    "disk, 4 nodes": (4, Job("four", "disk", "any")),
    "disk, 4 nodes, sessions of the client's node": (4, Job("four", "disk", "here")),
    "replica, 1 node": (1, Job("one-replica", "replica", "here")),
    "replica, 4 nodes": (4, Job("four-replica", "replica", "any")),
    "SQLite": (4, SQLITE),
}


def run(options: Options) -> Table:
    rounds, calls, seconds = (1, 20, 0.5) if options.quick else (6, 300, 2.0)
    memories = 100 if options.quick else MEMORIES
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(options, "nodes"))
        cluster = started(stack, folder, memories)
        latencies, fleets = prepared(cluster)
        samples: dict[str, list[list[int]]] = {name: [] for name in latencies}
        rates: dict[str, list[float]] = {name: [] for name in fleets}
        waits: dict[str, list[float]] = {name: [] for name in fleets}
        for number in range(rounds):
            order = list(latencies.items())
            for name, (node, job) in order if number % 2 == 0 else reversed(order):
                samples[name].append(cluster.ask("calls", node, job, calls))
            for name, (nodes, job) in fleets.items():
                found = cluster.ask("run", spread(nodes), job, seconds)
                rates[name].append(len(found) / seconds)
                waits[name].append(quantile(found, 0.5) / 1000)
        cluster.close()
    return Table(
        "nodes",
        "Stores on 1, 2 and 4 local Ray nodes",
        [
            f"{rounds} interleaved rounds: {calls} calls of one client each, then {seconds} s of "
            f"{CLIENTS} clients each, which sit on the nodes that hold the store",
            "same node: through the owner's socket; other node: as a call of its actor; peer: an "
            "empty coroutine of an actor there; limit: SQLite in the client's process, durable",
            f"{PARTITIONS} partitions each; {SESSIONS_EACH} sessions of each client in turn, "
            "anywhere or as said",
            "replica: a folder on the same disk; sync='replica' waits for its object",
            f"recall: over {memories:,} memories, queries whose vectors are known",
            "all nodes share this machine: it shows what spreading costs, not what it gains",
        ],
        [*latency_rows(Rounds(samples)), *rate_rows(rates, waits)],
    )


def started(stack: ExitStack, folder: Path, memories: int) -> Cluster:
    """Stores are made while as many nodes are there as they are to lie on."""
    nodes = RayNodes()
    stack.callback(nodes.close)
    data = folder / "data"
    nodes.data = lambda node: data / node  # type: ignore[method-assign]  # on the disk to measure
    nodes.start("a")
    cluster = Cluster(nodes.address, nodes.ip("a"), folder, nodes.environment("a"))
    stack.callback(cluster.close)
    plain = {"partitions": PARTITIONS, "reflect_every_turns": 0, "embedder": "none"}
    (folder / "objects").mkdir()
    replica = {**plain, "replica": (folder / "objects").as_uri()}
    embedded: dict[str, Any] = {"partitions": PARTITIONS, "reflect_every_turns": 0}
    cluster.ask("deploy", "one", 1, embedded)
    cluster.ask("remember", "one", memories)
    cluster.ask("deploy", "one-replica", 1, replica)
    nodes.start("b")
    cluster.ask("deploy", "two", 2, plain)
    nodes.start("c")
    nodes.start("d")
    cluster.ask("deploy", "four", 4, plain)
    cluster.ask("deploy", "four-replica", 4, replica)
    for node in NODES:
        cluster.ask("clients", node, max(s.get(node, 0) for s in map(spread, (1, 2, 4))))
    cluster.ask("echo", "echo-here", "a")
    cluster.ask("echo", "echo-away", FAR_NODE)
    return cluster


def prepared(cluster: Cluster) -> tuple[dict[str, tuple[str, Job]], dict[str, tuple[int, Job]]]:
    """What is measured, by name: node and job of one client; nodes and job of a fleet."""
    latencies = {f"near {what}": ("a", job) for what, job in NEAR.items()}
    for what, job in FAR.items():
        latencies[f"far {what}"] = (FAR_NODE if what.startswith("recall") else "a", job)
    latencies |= {"call": ("a", CALL), "away call": ("a", AWAY_CALL), "SQLite": ("a", SQLITE)}
    for node, job in latencies.values():
        cluster.ask("prepare", {node: 1}, job)
    for nodes, job in FLEETS.values():
        cluster.ask("prepare", spread(nodes), job)
    return latencies, FLEETS


def latency_rows(m: Rounds) -> list[Row]:
    rows = []
    for what in NEAR:
        for place, call, said in (
            ("near", "call", "same node"),
            ("far", "away call", "other node"),
        ):
            ours = f"{place} {what}"
            row = Row(f"{what}, {said}, p50", "us", m.us(ours), "Ray actor call", m.us(call))
            row.ratio = m.ratio(ours, call)
            if what.startswith("append"):
                row.limit, row.limit_value = "SQLite", m.us("SQLite")
            rows.append(row)
    return rows


def rate_rows(rates: dict[str, list[float]], waits: dict[str, list[float]]) -> list[Row]:
    rows = []
    for name in rates:
        for what, unit, found in (
            (f"{CLIENTS} clients, {name}", "1/s", rates),
            (f"one of these appends, {name}, p50", "us", waits),
        ):
            ours, peer = found[name], found["SQLite"]
            row = Row(what, unit, statistics.median(ours), f"SQLite, {CLIENTS} processes")
            row.peer_value = statistics.median(peer)
            row.ratio = statistics.median(a / b for a, b in zip(ours, peer, strict=True))
            rows.append(row)
    return [row for row in rows if "SQLite" not in row.what]


if __name__ == "__main__":
    main(run)
