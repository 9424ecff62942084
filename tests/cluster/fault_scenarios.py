"""What happens to a deployed store, one function a scenario; each is given a cluster whose node "a"
is its head and offers nothing, and returns a ``Row``. Numbers in brackets are those of the list of
fault tests that every storage system on Ray should pass.
"""

from __future__ import annotations

import os
import shutil
import signal
from typing import Any

from tests.cluster.cluster_nodes import RayNodes, until
from tests.cluster.fault_control import Raised
from tests.cluster.fault_world import World
from tests.faults.writing import Row


def is_away(owner: dict[str, Any]) -> bool:
    return bool(owner["state"] == "away")


def ready(nodes: RayNodes, *names: str) -> None:
    """These nodes run."""
    for name in names:
        if not nodes.runs(name):
            nodes.start(name, offers=name != nodes.head)


def owner_killed(nodes: RayNodes, rounds: int = 3) -> Row:
    """[1] kill -9 of the owner of a partition, again and again, under writers on two nodes."""
    ready(nodes, "a", "b", "c")
    with World(nodes, "owner-killed") as world:
        partition, sessions = world.partition_on("b"), world.sessions_on("b")
        world.write("a")
        world.write("b")
        world.progress()
        detected, waited = [], []
        for _ in range(rounds):
            pid = world.owners()[partition]["pid"]
            world.fault()
            os.kill(pid, signal.SIGKILL)
            detected.append(world.replaced(partition, pid))
            world.progress(100)
            waited.append(world.next_append(sessions))
        row = world.finish("owner killed (kill -9)")
        row.detected_s, row.next_s = max(detected), max(waited)
        row.notes.append(f"{rounds} kills")
        world.cold(row)
        return row


def owner_stopped(nodes: RayNodes) -> Row:
    """[22] SIGSTOP of an owner, past the time after which its host ends it; then SIGCONT."""
    ready(nodes, "a", "b", "c")
    with World(nodes, "owner-stopped") as world:
        partition, sessions = world.partition_on("b"), world.sessions_on("b")
        world.write("a")
        world.write("b")
        world.progress()
        owner = world.owners()[partition]
        world.fault()
        os.kill(owner["pid"], signal.SIGSTOP)
        detected = world.replaced(partition, owner["pid"])
        try:
            os.kill(owner["pid"], signal.SIGCONT)
        except ProcessLookupError:
            pass  # it was ended, as it should be
        world.progress(200)
        row = world.finish("owner stopped (SIGSTOP), then continued")
        row.detected_s, row.next_s = detected, world.next_append(sessions)
        row.last_byte_s = world.last_byte("b", partition, owner["epoch"])
        world.cold(row)
        return row


def node_killed(nodes: RayNodes) -> Row:
    """[25] A node loses power with a writer on it, stays away, and comes back with its folder."""
    ready(nodes, "a", "b", "c")
    with World(nodes, "node-killed") as world:
        partition, sessions = world.partition_on("b"), world.sessions_on("b")
        others = world.sessions_on("c")
        here, there = world.write("a"), world.write("b")
        world.progress()
        epoch = world.owners()[partition]["epoch"]
        world.fault()
        nodes.kill("b")
        detected = world.detected(partition, is_away)
        world.progress(200, others, here)  # whose disk is not away goes on
        away = world.since()
        nodes.start("b")
        joined = world.since()
        world.progress(200, sessions, here)
        row = world.finish("node killed, back with its disk", killed=[there])
        row.detected_s, row.next_s = detected, world.next_append(sessions, here)
        row.last_byte_s = world.last_byte("b", partition, epoch)
        row.notes.append(f"away for {away:.1f} s; joined again at {joined:.1f} s")
        world.cold(row)
        return row


def node_terminated(nodes: RayNodes) -> Row:
    """[29] SIGTERM to ``ray start --block``, as an init system or Kubernetes ends a node."""
    ready(nodes, "a", "b", "c")
    with World(nodes, "node-terminated") as world:
        partition, sessions = world.partition_on("b"), world.sessions_on("b")
        here = world.write("a")
        world.progress()
        owner = world.owners()[partition]
        world.fault()
        nodes.terminate("b")
        until(lambda: not nodes.runs("b"), "the node to end")
        ended = world.since()
        nodes.kill("b")
        nodes.start("b")
        world.progress(200, sessions, here)
        row = world.finish("SIGTERM to a node, started again")
        row.detected_s, row.next_s = None, world.next_append(sessions, here)
        row.last_byte_s = world.last_byte("b", partition, owner["epoch"])
        row.notes.append(f"it ended after {ended:.1f} s")
        world.cold(row)
        return row


def node_stopped(nodes: RayNodes) -> Row:
    """[22] Everything on a node is stopped past the health timeout. Another node starts with the
    same folder; then the old one is continued."""
    ready(nodes, "a", "b", "c")
    with World(nodes, "node-stopped") as world:
        partition, sessions = world.partition_on("b"), world.sessions_on("b")
        here = world.write("a")
        world.progress()
        owner = world.owners()[partition]
        world.fault()
        stopped = nodes.stop("b")
        detected = world.detected(partition, is_away)
        nodes.forget("b")
        nodes.start("b", address_of="d")  # the disk is attached to another machine
        world.progress(200, sessions, here)
        served = world.owners()[partition]
        nodes.resume(stopped)
        until(lambda: not lives(owner["pid"]), "the end of the old owner")
        world.progress(200, sessions, here)
        row = world.finish("raylet and owner stopped, disk on another node, continued")
        row.detected_s, row.next_s = detected, world.next_append(sessions, here)
        row.last_byte_s = world.last_byte("b", partition, owner["epoch"])
        if served["epoch"] <= owner["epoch"] or served["pid"] == owner["pid"]:
            row.problems.append(f"no new owner: {served}")
        world.cold(row)
        nodes.kill("b")
        return row


def disk_wiped(nodes: RayNodes) -> Row:
    """[25] A node comes back with an empty folder: its partitions stay away, and nothing is made
    anew; when the disk is found again they resume."""
    ready(nodes, "a", "b", "c")
    with World(nodes, "disk-wiped") as world:
        partition, sessions = world.partition_on("b"), world.sessions_on("b")
        others = world.sessions_on("c")
        here = world.write("a")
        world.progress()
        world.fault()
        nodes.kill("b")
        kept = nodes.folder / "kept"
        shutil.move(world.folder("b"), kept)
        nodes.start("b")
        detected = world.detected(partition, is_away)
        world.progress(300, others, here)
        row_problems = _fresh_start(world, partition, sessions[0])
        nodes.kill("b")
        shutil.rmtree(world.folder("b"))
        shutil.move(kept, world.folder("b"))
        nodes.start("b")
        world.progress(200, sessions, here)
        row = world.finish("node back with an empty disk: away; then its own disk")
        row.detected_s, row.next_s = detected, world.next_append(sessions, here)
        row.problems += row_problems
        world.cold(row)
        return row


def _fresh_start(world: World, partition: int, session: str) -> list[str]:
    """Does a partition whose disk is not there take an append?"""
    try:
        world.control(
            "append", name=world.name, session=session, text="to a disk that is gone", deadline=3
        )
    except Raised as error:
        if error.kind != "Unavailable":
            return [f"an append to a lost disk raised {error}"]
    else:
        return ["an append to a lost disk was acknowledged"]
    state = world.owners()[partition]["state"]
    return [] if state == "away" else [f"a partition whose disk is lost is {state}"]


def disk_of_another(nodes: RayNodes) -> Row:
    """[26] A node comes back with a copy of another node's disk, then with that of another store;
    both are refused, and the right one is taken."""
    ready(nodes, "a", "b", "c")
    with World(nodes, "disk-wrong") as world, World(nodes, "another", on=("b", "c")) as other:
        partition, sessions = world.partition_on("b"), world.sessions_on("b")
        here = world.write("a")
        world.progress()
        world.fault()
        nodes.kill("b")
        kept, mine = nodes.folder / "kept-wrong", world.folder("b")
        shutil.move(mine, kept)
        problems = []
        for wrong in (world.folder("c"), other.folder("c")):
            shutil.copytree(wrong, mine, ignore=shutil.ignore_patterns("run"))
            epochs = [owner["epoch"] for owner in world.owners()]
            nodes.start("b")
            detected = world.detected(partition, is_away)
            world.progress(200, world.sessions_on("c"), here)
            problems += _fresh_start(world, partition, sessions[0])
            now = [owner["epoch"] for owner in world.owners()]
            if now[1 - partition] != epochs[1 - partition]:
                problems.append(f"a copied disk made its partition move: {epochs} {now}")
            nodes.kill("b")
            shutil.rmtree(mine)
        shutil.move(kept, mine)
        nodes.start("b")
        world.progress(200, sessions, here)
        row = world.finish("node back with another's disk: refused; then its own")
        row.detected_s, row.next_s = detected, world.next_append(sessions, here)
        row.problems += problems
        other.control("undeploy", name=other.name)
        world.cold(row)
        return row


def lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
