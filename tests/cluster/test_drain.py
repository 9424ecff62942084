"""Processes and nodes that are told to end do so in order: what they had is synced, sealed and
given back, and others go on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from neverforget.storage.directory_lock import is_alive, read_holder
from tests.cluster.cluster_nodes import RayNodes, reason_not_to_run, until
from tests.cluster.fault_control import Control, Raised
from tests.cluster.fault_rolling import PATIENT, keepers

NAME = "graceful"
PLAN = {
    "path": f"$NF_DATA/{NAME}",
    "nodes": 2,
    "settings": {"partitions": 2, "embedder": "none", "segment_bytes": 1 << 20},
}


class Deployed:
    """A store on the nodes "b" and "c"; the head "a" has no part of it."""

    def __init__(self, nodes: RayNodes) -> None:
        self.nodes = nodes
        self.control = Control(nodes, "a")
        self.control("deploy", name=NAME, plan=PLAN)
        sessions = self.control("sessions", name=NAME)
        self.session = {int(n): names[0] for n, names in sessions.items()}
        self.said = dict.fromkeys(self.session, 0)

    def append(self, partition: int) -> None:
        """The next turn of its session has the next seq: nothing is missing, nothing is double."""
        session, text = self.session[partition], str(self.said[partition])
        seq = self.control("append", name=NAME, session=session, text=text)
        assert seq == self.said[partition]
        self.said[partition] += 1

    def owners(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.control("owners", name=NAME)
        return found

    def partition_on(self, node: str) -> int:
        owners = self.owners()
        return next(n for n in self.session if owners[n]["node"] == self.nodes.ip(node))

    def folder(self, node: str) -> Path:
        return self.nodes.data(node) / NAME

    def given_back(self, node: str) -> bool:
        """Nobody holds its folder, and its owners have sealed what was in it and taken their
        sockets away, which no process does that is killed."""
        holder = read_holder(self.folder(node))
        assert holder is None or not is_alive(holder.process)
        for region in (self.folder(node) / "regions").glob("p*"):
            names = [path.name for path in (region / "log").iterdir()]
            segments = [name for name in names if name.endswith(".seg")]
            assert segments
            if any(f"{name.removesuffix('.seg')}.heads" not in names for name in segments):
                return False
        return not list((self.folder(node) / "run").glob("*.sock"))


@pytest.fixture(scope="module")
def store() -> Iterator[Deployed]:
    why = reason_not_to_run()
    if why is not None:
        pytest.skip(why)
    # Ray's own patience: nobody is killed here, and a busy machine makes nodes look dead.
    with RayNodes(environment=PATIENT) as nodes:
        nodes.start("a", offers=False)
        nodes.start("b")
        nodes.start("c")
        made = Deployed(nodes)
        yield made
        made.control.close()


def test_every_process_that_gets_sigterm_is_started_again(store: Deployed) -> None:
    """An owner, the host of a node, the keeper. Ray starts the next one; a client sees a pause."""
    mine, other = store.partition_on("b"), store.partition_on("c")
    for partition in (mine, other):
        store.append(partition)
    before = store.owners()[mine]
    os.kill(before["pid"], signal.SIGTERM)
    until(lambda: not psutil.pid_exists(before["pid"]), "the owner to end")
    store.append(mine)
    after = store.owners()[mine]
    assert after["epoch"] > before["epoch"]

    holder = read_holder(store.folder("b"))
    assert holder is not None
    os.kill(holder.process.pid, signal.SIGTERM)
    until(lambda: not is_alive(holder.process), "the host to end")
    store.append(mine)
    store.append(other)
    assert store.owners()[mine]["epoch"] > after["epoch"]

    keeper = until(lambda: keepers(store.nodes), "the keeper")[0]
    keeper.terminate()
    until(lambda: not keeper.is_running(), "the keeper to end")
    store.append(mine)
    until(
        lambda: {owner["state"] for owner in store.owners()} == {"serving"},
        "the next keeper to know of everybody",
    )


def drain(store: Deployed, node: str) -> None:
    """Have Ray drain it, as ``ray drain-node`` does."""
    from ray import _raylet
    from ray.core.generated import autoscaler_pb2

    raylet: Any = _raylet
    reasons: Any = autoscaler_pb2
    head = raylet.GcsClient(address=store.nodes.address)
    (id,) = [
        id.hex()
        for id, each in head.get_all_node_info(timeout=60).items()
        if each.node_manager_address == store.nodes.ip(node) and each.state == 0
    ]
    reason = reasons.DrainNodeReason.DRAIN_NODE_REASON_PREEMPTION
    until_ms = int((time.time() + 600) * 1000)
    accepted, why = head.drain_node(id, reason, "a test", until_ms)
    assert accepted, why


@pytest.mark.long
def test_a_node_that_is_drained_gives_its_part_back_and_ends(store: Deployed) -> None:
    """Ray ends a drained node as soon as nothing runs on it, and would otherwise kill what does.
    The partitions of others go on; when the node is started again its own are there."""
    mine, other = store.partition_on("b"), store.partition_on("c")
    for partition in (mine, other):
        store.append(partition)
    drain(store, "b")
    until(lambda: not store.nodes.lives("b"), "the drained node to end")
    assert store.given_back("b")
    store.append(other)
    until(lambda: store.owners()[mine]["state"] == "away", "the keeper to say that it is away")
    with pytest.raises(Raised, match="Unavailable"):
        session = store.session[mine]
        store.control("append", name=NAME, session=session, text="lost?", deadline=1.0)
    store.nodes.kill("b")
    store.nodes.start("b")
    store.append(mine)


@pytest.mark.long
def test_sigterm_to_a_node_ends_it_before_ray_kills_what_runs_there(store: Deployed) -> None:
    """``ray start --block`` drains its node for 30 s and then kills what is left of it."""
    mine, other = store.partition_on("c"), store.partition_on("b")
    for partition in (mine, other):
        store.append(partition)
    process = store.nodes.terminate("c")
    process.wait()
    assert store.given_back("c")
    printed = "".join(path.read_text() for path in store.nodes.folder.glob("c-*.out"))
    assert "did not finish draining" not in printed
    store.append(other)
    store.nodes.kill("c")
    store.nodes.start("c")
    store.append(mine)
    assert store.control("verify", name=NAME) == []
