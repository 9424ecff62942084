"""Partitions that are told to be served elsewhere. See ``fault_scenarios``.

The store has a replica, writers mix "disk" and "replica". Node "b" is lost in some way, its
partition goes to "c", and then "b" comes back with whatever it had acknowledged and not shipped:
that is brought back, once, at the end, each turn with the epoch and seq that it was told.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import Any

from tests.cluster.cluster_nodes import RayNodes, until
from tests.cluster.fault_scenarios import lives, ready
from tests.cluster.fault_splits import split_nodes
from tests.cluster.fault_world import World
from tests.faults.writing import Row

MIXED = ("--sync", "mixed")
DRAIN_S = 300  # until a drained node is to be gone


def shipped_world(nodes: RayNodes, name: str, **plan: Any) -> World:
    replica = nodes.folder / "objects"
    replica.mkdir(exist_ok=True)
    return World(nodes, name, settings={"replica": f"file://{replica}"}, plan=plan)


def move(world: World, partition: int, to: str = "c") -> float:
    """Have ``partition`` served by that node; seconds from the fault to when that is told."""
    tries = world.control("failover", name=world.name, partition=partition, to=world.nodes.ip(to))
    told = world.since()
    if tries > 1:
        world.notes.append(f"failover had to be told {tries} times")
    until(lambda: _serves(world, partition, to), f"partition {partition} to be served by {to}")
    return told


def _serves(world: World, partition: int, node: str) -> bool:
    owner = world.owners()[partition]
    return bool(owner["state"] == "serving" and owner["node"] == world.nodes.ip(node))


def node_killed(nodes: RayNodes) -> Row:
    """[25] A node is lost, its partition moved; the node comes back later with its disk."""
    ready(nodes, "a", "b", "c")
    with shipped_world(nodes, "failover-killed") as world:
        partition, sessions = world.partition_on("b"), world.sessions_on("b")
        here, there = world.write("a", None, *MIXED), world.write("b", None, *MIXED)
        world.progress()
        world.fault()
        nodes.kill("b")
        told = move(world, partition)
        world.progress(200, sessions, here)
        nodes.start("b")
        row = world.finish("node killed, failover, old disk back", killed=[there], salvage=True)
        row.detected_s, row.next_s = told, world.next_append(sessions, here)
        world.cold(row)
        return row


def node_stopped(nodes: RayNodes) -> Row:
    """[22] Everything on a node is stopped, its partition moved, then it is continued: its owner
    finds that it is none, and what it had not shipped comes back."""
    ready(nodes, "a", "b", "c")
    with shipped_world(nodes, "failover-stopped") as world:
        partition, sessions = world.partition_on("b"), world.sessions_on("b")
        here = world.write("a", None, *MIXED)
        there = world.write("b", sessions, *MIXED, "--deadline", "10")
        world.progress()
        old = world.owners()[partition]
        world.fault()
        stopped = nodes.stop("b")
        told = move(world, partition)
        world.progress(200, sessions, here)
        nodes.resume(stopped)
        until(lambda: not lives(old["pid"]), "the old owner to end")
        nodes.kill("b")
        nodes.start("b")
        row = world.finish("node stopped, failover, continued", killed=[there], salvage=True)
        row.detected_s, row.next_s = told, world.next_append(sessions, here)
        row.last_byte_s = world.last_byte("b", partition, old["epoch"])
        world.cold(row)
        return row


def disk_wiped(nodes: RayNodes) -> Row:
    """[25] A node and its disk are lost for good; another, empty one stands in its place."""
    ready(nodes, "a", "b", "c")
    with shipped_world(nodes, "failover-wiped") as world:
        partition, sessions = world.partition_on("b"), world.sessions_on("b")
        here = world.write("a", None, *MIXED)
        world.progress()
        world.fault()
        nodes.kill("b")
        shutil.rmtree(world.folder("b"))
        nodes.start("b")
        told = move(world, partition, "b")
        world.control("failover", name=world.name, partition="memories", to=nodes.ip("b"))
        world.progress(200, sessions, here)
        row = world.finish("disk lost for good, failover", disk_lost=True)
        row.detected_s, row.next_s = told, world.next_append(sessions, here)
        world.cold(row)
        return row


def disk_rolled_back(nodes: RayNodes, *, control: bool = False) -> Row:
    """[26] A node comes back with an older copy of its own disk. What it lacks is in the objects,
    but for what was not shipped. ``control``: there are none, and turns are lost."""
    ready(nodes, "a", "b", "c")
    name = "rolled-back-control" if control else "rolled-back"
    with World(nodes, name) if control else shipped_world(nodes, name) as world:
        sessions = world.sessions_on("b")
        here = world.write("a", None, *(() if control else MIXED))
        world.progress()
        nodes.kill("b")
        older, mine = nodes.folder / f"older-{name}", world.folder("b")
        shutil.copytree(mine, older, ignore=shutil.ignore_patterns("run"))
        nodes.start("b")
        world.progress(300, sessions, here)
        world.fault()
        nodes.kill("b")
        shutil.rmtree(mine)
        shutil.move(older, mine)
        nodes.start("b")
        world.progress(200, sessions, here)
        row = world.finish("node back with an older copy of its disk", disk_lost=not control)
        row.next_s = world.next_append(sessions, here)
        if control:
            row.scenario = f"control: {row.scenario}, no replica"
            row.control = True
        world.cold(row)
        return row


def by_itself(nodes: RayNodes) -> Row:
    """failover = "auto": nobody tells it to move."""
    ready(nodes, "a", "b", "c")
    with shipped_world(nodes, "failover-auto", failover="auto", failover_after_s=5) as world:
        partition, sessions = world.partition_on("b"), world.sessions_on("b")
        here = world.write("a", None, *MIXED)
        world.progress()
        world.fault()
        nodes.kill("b")
        until(lambda: _serves(world, partition, "c"), "the partition to be served elsewhere")
        served = world.since()
        world.progress(200, sessions, here)
        nodes.start("b")
        row = world.finish("node killed, failover by itself, disk back", salvage=True)
        row.detected_s, row.next_s = served, world.next_append(sessions, here)
        world.cold(row)
        return row


def drained(nodes: RayNodes) -> Row:
    """A node is drained as an autoscaler does it: its partition is elsewhere before it ends."""
    ready(nodes, "a", "b", "c")
    with shipped_world(nodes, "failover-drained", failover="auto", failover_after_s=5) as world:
        partition, sessions = world.partition_on("b"), world.sessions_on("b")
        here = world.write("a", None, *MIXED)
        world.progress()
        old = world.owners()[partition]
        world.fault()
        world.control("drain", ip=nodes.ip("b"), deadline_s=DRAIN_S)
        until(lambda: _serves(world, partition, "c"), "the partition to be served elsewhere")
        served = world.since()
        world.progress(200, sessions, here)
        nodes.kill("b")
        row = world.finish("node drained, failover by itself", salvage=True)
        row.detected_s, row.next_s = served, world.next_append(sessions, here)
        row.last_byte_s = world.last_byte("b", partition, old["epoch"])
        nodes.start("b")
        world.cold(row)
        return row


def cut_off() -> Row:
    """[23] A node is cut off with a writer on it and its partition moved to the majority. Its owner
    still reaches the objects, by a path of its own: it is fenced. Then the link heals."""
    with split_nodes() as (nodes, net):
        with shipped_world(nodes, "failover-split") as world:
            partition, sessions = world.partition_on("b"), world.sessions_on("b")
            here = world.write("a", None, *MIXED)
            there = world.write("b", sessions, *MIXED, "--deadline", "5")
            world.progress()
            old = world.owners()[partition]
            world.fault()
            net.cut("b")
            told = move(world, partition)
            world.progress(200, sessions, here)
            until(lambda: _refused(there.lines), "the owner that was cut off to be fenced")
            late = time.monotonic_ns()
            until(lambda: world.since() > 15, "the split to last")
            after = [n for n in there.lines() if n.word == "ack" and n.time_ns > late]
            net.heal()
            until(lambda: not nodes.lives("b"), "the raylet that was given up to end")
            nodes.kill("b")
            nodes.start("b")
            row = world.finish("node cut off, failover, healed", killed=[there], salvage=True)
            row.detected_s, row.next_s = told, world.next_append(sessions, here)
            row.last_byte_s = world.last_byte("b", partition, old["epoch"])
            if after:
                row.problems.append(f"{len(after)} acknowledged by an owner that was fenced")
            world.cold(row)
            return row


def _refused(lines: Callable[[], list[Any]]) -> bool:
    return bool({"OwnerFenced", "Unavailable"} & {line.digest for line in lines()})
