"""Everything that a deployed store consists of is ended in order and started again, under writers.

A cluster of its own: nobody is killed here, so Ray has its own patience with nodes that are slow.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import psutil

from neverforget.storage.directory_lock import is_alive, read_holder
from tests.cluster.cluster_nodes import RayNodes, until
from tests.cluster.fault_scenarios import ready
from tests.cluster.fault_world import World
from tests.faults.writing import Row

PARTS = ("b", "c", "d")
PATIENT = {"RAY_raylet_start_wait_time_s": "150"}


def rolling_restart() -> Row:
    """[29] Three nodes with a part each, one after the other: SIGTERM to ``ray start --block``, and
    started again with their folders. Then the hosts on them, one by one, and the keeper."""
    with RayNodes(environment=PATIENT) as nodes:
        ready(nodes, "a", *PARTS)
        with World(nodes, "rolling", on=PARTS, partitions=len(PARTS), sessions_each=2) as world:
            for _ in range(2):
                world.write("a")
            world.progress()
            before = world.owners()
            away = {node: _silence(world, node, lambda at: _node(nodes, at)) for node in PARTS}
            hosts = {node: _silence(world, node, lambda at: _host(world, at)) for node in PARTS}
            keeper = _silence(world, PARTS[0], lambda _: _keeper(nodes))
            until(lambda: _serves_all(world), "the next keeper to know of everybody")
            after = world.owners()
            row = world.finish("rolling restart: nodes, hosts, keeper (SIGTERM)")
            row.next_s = max(*away.values(), *hosts.values(), keeper)
            row.notes += [
                f"appends to a part paused for {_said(away)} while its node was started again, "
                f"{_said(hosts)} for its host, {keeper:.1f} s for the keeper",
            ]
            if not all(
                new["epoch"] > old["epoch"] + 1 for new, old in zip(after, before, strict=True)
            ):
                row.problems.append(f"an owner was not started twice: {before} {after}")
            world.cold(row)
            return row


def _silence(world: World, node: str, end: Callable[[str], None]) -> float:
    """The longest pause of appends to the part of ``node`` while something of it is ended and comes
    back. Everybody else's is noted where it is longer."""
    world.fault()
    end(node)
    sessions = world.sessions_on(node)
    world.progress(100)
    mine = world.next_append(sessions)
    others = world.next_append([s for s in world.all_sessions if s not in sessions])
    if others > mine:
        world.notes.append(f"others paused for {others:.1f} s")
    return mine


def _node(nodes: RayNodes, node: str) -> None:
    nodes.terminate(node).wait()
    nodes.kill(node)  # what it may have left
    nodes.start(node)


def _host(world: World, node: str) -> None:
    holder = read_holder(world.folder(node))
    assert holder is not None, f"nobody has {world.folder(node)}"
    os.kill(holder.process.pid, signal.SIGTERM)
    until(lambda: not is_alive(holder.process), "the host to end")


def _keeper(nodes: RayNodes) -> None:
    keeper = until(lambda: keepers(nodes), "the keeper")[0]
    keeper.terminate()
    until(lambda: not keeper.is_running(), "the keeper to end")


def _serves_all(world: World) -> bool:
    return {owner["state"] for owner in world.owners()} == {"serving"}


def _said(seconds: dict[str, float]) -> str:
    return " / ".join(f"{each:.1f}" for each in seconds.values()) + " s"


def keepers(nodes: RayNodes) -> list[psutil.Process]:
    """On the nodes that run; while one ends there may be two."""
    running = [node for node in "abcd" if nodes.runs(node)]
    return [each for node in running for each in nodes.processes(node) if _is_keeper(each)]


def _is_keeper(process: psutil.Process) -> bool:
    try:
        # While it answers, its title names the method, too.
        return process.cmdline()[0].startswith("ray::Keeper")
    except (psutil.Error, IndexError):
        return False
