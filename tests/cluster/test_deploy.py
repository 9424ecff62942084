"""A store deployed on a Ray cluster: nodes with folders of their own, clients that connect."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import neverforget as nf
from neverforget.actors.process_end import pid_exists
from neverforget.storage.directory_lock import read_holder
from tests.cluster.joined_nodes import Nodes, joined
from tests.cluster.processes import PATIENCE_S, until


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """A head that offers nothing and one node, "a"; this process is a driver on the head."""
    with joined("a") as made:
        yield made


def plan(partitions: int = 2, **more: Any) -> dict[str, Any]:
    settings = {"partitions": partitions, "embedder": "none", "segment_bytes": 1 << 20}
    return {"path": "$NF_DATA/memory", "settings": settings, **more}


def test_a_deployed_store_is_found_by_its_name_and_keeps_what_was_said(nodes: Nodes) -> None:
    nf.deploy("one", plan(path="$NF_DATA/one"), wait=PATIENCE_S)
    nf.deploy("one", plan(path="$NF_DATA/one"), wait=PATIENCE_S)  # changes nothing
    with nf.connect("one", deadline=PATIENCE_S) as store:
        assert store.session("chat").append("user", "hello", key="k").seq == 0
        store.remember("The parcel is late", key="parcel")
        status = store.status()
        assert status.host is not None and status.host.role == "keeper"
        assert {owner.through for owner in status.owners} == {"ray"}
        assert {owner.state for owner in status.owners} == {"serving"}
        epochs = [owner.epoch for owner in status.owners]
    with pytest.raises(nf.InvalidArgument, match="partitions = 2"):
        nf.deploy("one", plan(3, path="$NF_DATA/one"))

    def here() -> tuple[set[str], str]:
        with nf.connect("one", deadline=PATIENCE_S) as store:
            chat = store.session("chat")
            chat.append("user", "hello", key="k")
            return {owner.through for owner in store.status().owners}, str(chat[0].content)

    assert nodes.on("a", here) == ({"socket"}, "hello")
    nf.undeploy("one")
    with pytest.raises(nf.NotFound, match="neverforget deploy"):
        nf.connect("one")
    nf.deploy("one", plan(path="$NF_DATA/one"), wait=PATIENCE_S)
    with nf.connect("one", deadline=PATIENCE_S) as store:
        assert [turn.content for turn in store.session("chat")] == ["hello"]
        assert store.get(key="parcel").text == "The parcel is late"
        assert all(o.epoch > e for o, e in zip(store.status().owners, epochs, strict=True))
    nf.undeploy("one")


def test_a_handle_on_a_store_that_was_undeployed_finds_nobody_and_never_another_store(
    nodes: Nodes,
) -> None:
    """What the keeper's name stands for was believed, whatever it was: without a keeper ``default``
    was answered for a memory that is there, and a handle wrote into the next store of its name."""
    nf.deploy("name", plan(path="$NF_DATA/name"), wait=PATIENCE_S)
    with nf.connect("name", deadline=PATIENCE_S) as store:
        store.remember("The parcel is late", key="parcel")
        store_id, late = store.status().store_id, store.scoped(deadline=2.0)
        nf.undeploy("name")
        with pytest.raises(nf.Unavailable):
            late.get(key="parcel", default=None)
        nf.deploy("name", plan(path="$NF_DATA/other-name"), wait=PATIENCE_S)
        with pytest.raises(nf.Unavailable):
            late.session("chat").append("user", "for the store that was")
        with nf.connect("name", deadline=PATIENCE_S) as other:
            assert other.status().store_id != store_id and len(other.session("chat")) == 0
    nf.undeploy("name")


def chats(store: nf.Store, disk: dict[int, str]) -> dict[str, nf.Session]:
    """A session in a partition of each disk, by the disk."""
    found: dict[str, nf.Session] = {}
    for n in range(64):
        chat = store.session(f"chat-{n}")
        found.setdefault(disk[chat._place.partition], chat)
    return found


def test_a_node_that_is_away_takes_only_its_own_sessions_with_it(nodes: Nodes) -> None:
    """Two nodes: each reaches its own partitions through sockets and the other's through Ray. One
    is killed with its processes: its sessions are Unavailable within the deadline, the others go
    on. It comes back, another node to Ray, with its folder: every acknowledged turn is there."""
    nodes.start("b")
    nodes.cluster.wait_for_nodes()
    nf.deploy("two", plan(4, nodes=2), wait=PATIENCE_S)

    def through() -> list[tuple[str, str]]:
        with nf.connect("two", deadline=PATIENCE_S) as store:
            store.session("chat-0").append("user", "x", key=f"from-{os.getpid()}")
            return [(owner.node, owner.through) for owner in store.status().owners]

    here = {name: [how for _, how in nodes.on(name, through)] for name in ("a", "b")}
    assert sorted(here["a"]) == ["ray", "ray", "socket", "socket"]
    assert {"ray": "socket", "socket": "ray"}[here["a"][0]] == here["b"][0]
    disk = {n: "a" if how == "socket" else "b" for n, how in enumerate(here["a"])}

    with nf.connect("two", deadline=PATIENCE_S) as store:
        chat = chats(store, disk)
        said: dict[str, list[int]] = {"a": [], "b": []}
        for name, session in chat.items():
            said[name] = [session.append("user", n).seq for n in range(20)]
        pids = [owner.pid for owner in store.status().owners]
        os.kill(pids[0], signal.SIGKILL)  # Ray starts it again, on its node
        until(lambda: store.status().owners[0].pid != pids[0], "the next owner of partition 0")

        there = [o.pid for o in store.status().owners if disk[o.partition] == "b"]
        nodes.kill("b")
        until(lambda: not any(map(pid_exists, there)), "the owners to end with their node")
        quick = store.scoped(deadline=3.0)
        with pytest.raises(nf.Unavailable):
            quick.session(chat["b"].name).append("user", "lost?", key="lost")
        chat["a"].append("user", 20)
        until(lambda: "away" in {o.state for o in store.status().owners}, "the keeper to see it")
        states = [owner.state for owner in store.status().owners]
        assert [disk[n] for n, state in enumerate(states) if state == "away"] == ["b", "b"]

        nodes.start("b")
        chat["b"].append("user", 20, key="back")
        assert [turn.seq for turn in chat["a"]][:21] == list(range(len(chat["a"])))[:21]
        back = [t.content for t in chat["b"] if t.key not in ("lost",) and t.key is None]
        assert [c for c in back if c != "x"] == list(range(20))
        nf.deploy("two", plan(4, nodes=2), wait=PATIENCE_S)
        assert store.verify().ok
    nf.undeploy("two")


def test_two_hundred_connect_at_once(nodes: Nodes) -> None:
    from neverforget.runtime import deployed_cluster

    nf.deploy("many", plan(path="$NF_DATA/many"), wait=PATIENCE_S)
    failed: list[BaseException] = []
    barrier = threading.Barrier(200)

    def one(n: int) -> None:
        barrier.wait()
        try:
            deployed_cluster.ask_keeper("many", PATIENCE_S)
            with nf.connect("many", deadline=PATIENCE_S) as store:
                store.session(f"chat-{n}").append("user", n)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    with nf.connect("many", deadline=PATIENCE_S) as store:
        assert len(store.sessions(limit=300)) == 200
    nf.undeploy("many")


@pytest.mark.long
def test_only_nodes_of_a_label_have_parts_where_that_was_asked_for(nodes: Nodes) -> None:
    if "b" not in nodes.nodes:
        nodes.start("b")
        nodes.cluster.wait_for_nodes()
    labelled = plan(path="$NF_DATA/labelled", label={"folder": "b"})
    nf.deploy("labelled", labelled, wait=PATIENCE_S)
    with nf.connect("labelled", deadline=PATIENCE_S) as store:
        assert store.session("chat").append("user", "hello").seq == 0
    regions = nodes.folder / "b" / "labelled" / "regions"
    assert sorted(path.name for path in regions.iterdir()) == ["p0", "p1"]
    assert not (nodes.folder / "a" / "labelled").exists()
    nf.undeploy("labelled")
    with pytest.raises(nf.Unavailable, match="the label folder=nowhere"):
        nf.deploy("nowhere", {**labelled, "label": {"folder": "nowhere"}}, wait=1.0)
    nf.undeploy("nowhere")


def test_keeper_and_hosts_come_back_and_all_of_a_store_is_reached_from_each_node(
    nodes: Nodes,
) -> None:
    """Memories, reflection, handles that travel, and a loop's client; then the keeper and the
    node's host are killed, and nothing that was acknowledged is missing."""
    nf.deploy("all", plan(4, path="$NF_DATA/all"), wait=PATIENCE_S)
    with nf.connect("all", deadline=PATIENCE_S) as store:
        chat = store.session("chat-7")
        for n in range(8):
            store.session(f"chat-{n}").append(
                "user", f"I live in Lisbon and my dog is called Pipo {n}."
            )
        assert store.reflect().turns == 8
        store.remember("The parcel is late", key="parcel")

        def elsewhere(chat: nf.Session) -> tuple[int, str]:
            async def on_loop() -> int:
                async with await nf.aio.connect("all", deadline=PATIENCE_S) as twin:
                    await twin.session("loop").append("user", "async")
                    return await twin.session("loop").count()

            with nf.connect("all", deadline=PATIENCE_S) as there:
                hits = there.recall("parcel late", strategy="text", wait=PATIENCE_S)
                chat.append("user", "from a task")
                return asyncio.run(on_loop()), hits[0].memory.text

        assert nodes.on("a", elsewhere, chat) == (1, "The parcel is late")
        assert chat[-1].content == "from a task"

        status = store.status()
        assert status.host is not None
        os.kill(status.host.pid, signal.SIGKILL)
        before = status.host.pid
        assert store.session("loop").append("user", "without a keeper").seq == 1
        until(lambda: keeper_pid(store) not in (0, before), "the next keeper")
        held = read_holder(nodes.folder / "a" / "all")
        assert held is not None and held.role == "serve"
        os.kill(held.process.pid, signal.SIGKILL)
        until(lambda: not pid_exists(held.process.pid), "the host to end")
        assert store.session("loop").append("user", "again").seq == 2
        assert len(chat) == 2 and store.get(key="parcel").text == "The parcel is late"
        assert store.verify().ok
    nf.undeploy("all")


def test_two_nodes_never_share_one_folder(nodes: Nodes) -> None:
    """A copied folder, or one on a network disk that both nodes mount, would make the partitions
    jump from node to node."""
    nf.deploy("twin", plan(path="$NF_DATA/twin"), wait=PATIENCE_S)
    with nf.connect("twin", deadline=PATIENCE_S) as store:
        epochs = [owner.epoch for owner in store.status().owners]
        unused = shutil.ignore_patterns("run", "LOCK")
        made, copy = nodes.folder / "a" / "twin", nodes.folder / "c" / "twin"
        shutil.copytree(made, copy, ignore=unused)
        nodes.start("c")
        nodes.cluster.wait_for_nodes()
        for _ in range(3):  # the keeper looks each time
            nf.deploy("twin", plan(path="$NF_DATA/twin"), wait=PATIENCE_S)
        assert [owner.epoch for owner in store.status().owners] == epochs
        assert not list(copy.rglob("LOCK")), "nobody ever hosted it"
        with pytest.raises(nf.Unavailable, match="is a part of the deployed store 'twin'"):
            nf.deploy("other", plan(path="$NF_DATA/twin"), wait=1.0)
    nf.undeploy("other")
    nf.undeploy("twin")
    nodes.kill("c")


def keeper_pid(store: nf.Store) -> int:
    try:
        host = store.scoped(deadline=2.0).status().host
    except nf.Unavailable:
        return 0
    return 0 if host is None else host.pid
