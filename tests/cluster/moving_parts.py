"""Stores on two nodes whose parts move from one to the other, for tests with real Ray."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import neverforget as nf
from neverforget.actors.process_end import pid_exists
from neverforget.runtime.deployed_disk import read_disk
from neverforget.runtime.deployment import Description
from neverforget.storage.errors import NotFound
from tests.cluster.joined_nodes import Nodes
from tests.cluster.processes import PATIENCE_S, until

CONFIRMED = nf.CONFIRMED


def plan(nodes: Nodes, name: str, **more: Any) -> dict[str, Any]:
    settings = {"partitions": 2, "embedder": "none", "extractor": "none", "segment_bytes": 1 << 20}
    settings["replica"] = f"file://{nodes.folder}/replica-{name}"
    settings |= more.pop("settings", {})
    return {"path": f"$NF_DATA/{name}", "nodes": 2, "settings": settings, **more}


def folder_of(nodes: Nodes, node: str, name: str) -> Path:
    return nodes.folder / node / name


def described(nodes: Nodes, name: str) -> Description:
    """The newest description on any disk."""
    found = []
    for node in ("a", "b", "c"):
        try:
            found.append(read_disk(folder_of(nodes, node, name)).description)
        except NotFound:
            continue
    return max((each for each in found if each is not None), key=lambda each: each.version)


def node_of(nodes: Nodes, name: str, disk: str) -> str:
    for node in ("a", "b", "c"):
        path = folder_of(nodes, node, name)
        if path.exists() and read_disk(path).disk == disk:
            return node
    raise AssertionError(f"no node had disk {disk}")


def nodes_of(nodes: Nodes, name: str) -> list[str]:
    """Of the partitions, and of the memories."""
    found = described(nodes, name)
    return [node_of(nodes, name, disk) for disk in (*found.partitions, found.longterm)]


def other(node: str) -> str:
    return {"a": "b", "b": "a"}[node]


def chat_in(store: nf.Store, partition: int) -> nf.Session:
    """A session of that partition."""
    for n in range(64):
        chat = store.session(f"chat-{n}")
        if chat._place.partition == partition:
            return chat
    raise AssertionError("64 sessions, and none in it")


@contextmanager
def deployed(nodes: Nodes, name: str, **more: Any) -> Iterator[nf.Store]:
    nf.deploy(name, plan(nodes, name, **more), wait=PATIENCE_S)
    with nf.connect(name, deadline=PATIENCE_S) as store:
        yield store
    nf.undeploy(name)


def failover(name: str, partition: int | str, **more: Any) -> None:
    nf.failover(name, partition, confirm=CONFIRMED, wait=PATIENCE_S, **more)


def kill(nodes: Nodes, store: nf.Store, name: str, node: str) -> None:
    """As a power cut does; return when the owners there are gone."""
    where = nodes_of(nodes, name)
    there = [o.pid for o in store.status().owners if where[o.partition] == node]
    nodes.kill(node)
    until(lambda: not any(map(pid_exists, there)), "the owners to end with their node")
