"""Parts of a deployed store that move to other disks: told to, or by themselves, while whoever
takes part in it dies."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.actors.process_end import pid_exists
from neverforget.runtime.deployed_disk import read_disk
from neverforget.runtime.deployment import Description
from neverforget.storage.errors import NotFound
from tests.cluster.processes import PATIENCE_S, until
from tests.cluster.test_deploy import Nodes
from tests.conftest import gone, processes_of

CONFIRMED = nf.CONFIRMED


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """A head that offers nothing, and "a" and "b"; this process is a driver on the head."""
    ray = pytest.importorskip("ray")
    folder = Path(tempfile.mkdtemp(prefix="nff-"))
    made = Nodes(ray, folder)
    made.start("a")
    made.start("b")
    made.cluster.wait_for_nodes()
    ray.init(address=made.address, namespace="neverforget-tests", log_to_driver=False)
    yield made
    ray.shutdown()
    made.cluster.shutdown()
    left = gone(lambda: processes_of(folder))
    shutil.rmtree(folder, ignore_errors=True)
    assert not left, f"Ray left processes behind: {left}"


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


def test_a_planned_move_loses_nothing_and_leaves_the_others_alone(nodes: Nodes) -> None:
    """Appends go on through the same handles, sync and async, under their request ids."""
    with deployed(nodes, "planned") as store:
        moving, staying = chat_in(store, 0), chat_in(store, 1)
        said = [moving.append("user", n).seq for n in range(100)]
        staying.append("user", "here")
        store.remember("The parcel is late", key="parcel")
        before = store.status().owners[1]
        was, _, memories = nodes_of(nodes, "planned")
        on = nodes.nodes[other(was)].node_id
        acknowledged: list[int] = []
        stop = threading.Event()

        def write() -> None:
            with nf.connect("planned", deadline=PATIENCE_S) as own:
                chat = own.session(moving.name)
                while not stop.is_set():
                    acknowledged.append(chat.append("user", 100 + len(acknowledged)).seq)

        async def write_on_loop() -> None:
            async with await nf.aio.connect("planned", deadline=PATIENCE_S) as own:
                while not stop.is_set():
                    await own.session(f"{moving.name}").info()

        threads = [threading.Thread(target=write)]
        threads.append(threading.Thread(target=lambda: asyncio.run(write_on_loop())))
        for thread in threads:
            thread.start()
        until(lambda: len(acknowledged) > 20, "appends before")
        failover("planned", 0, to=on)
        count = len(acknowledged)
        until(lambda: len(acknowledged) > count + 20, "appends behind")
        stop.set()
        for thread in threads:
            thread.join()
        assert said + acknowledged == list(range(100 + len(acknowledged)))
        assert [turn.content for turn in moving] == list(range(100 + len(acknowledged)))
        after = store.status().owners[1]
        assert (after.pid, after.epoch) == (before.pid, before.epoch)
        assert nodes_of(nodes, "planned")[0] == other(was)

        failover("planned", "memories")
        assert nodes_of(nodes, "planned")[2] == other(memories)
        assert store.get(key="parcel").text == "The parcel is late"
        hits = store.recall("late parcel", strategy="text", wait=PATIENCE_S)
        assert hits[0].memory.key == "parcel"
        store.remember("It arrived", key="arrived", sync="replica")
        assert store.verify().ok


def test_what_cannot_be_moved_is_refused_and_nothing_changes(nodes: Nodes) -> None:
    with deployed(nodes, "refused", settings={"replica": None}) as store:
        with pytest.raises(nf.ConfirmationRequired, match="CONFIRMED"):
            nf.failover("refused", 0, confirm=None)
        with pytest.raises(nf.InvalidArgument, match="no replica"):
            failover("refused", 0)
        with pytest.raises(nf.NotFound, match="deploy"):
            failover("unheard-of", 0)
        chat = chat_in(store, 0)
        chat.append("user", "before it was shipped")

        # The replica comes later, also for what is there already; a wrong one changes nothing.
        with pytest.raises(nf.InvalidArgument, match="s3"):
            nf.deploy("refused", plan(nodes, "refused", settings={"replica": "s3://"}))
        nf.deploy("refused", plan(nodes, "refused"), wait=PATIENCE_S)
        assert chat.append("user", "shipped", sync="replica").seq == 1
        with pytest.raises(nf.InvalidArgument, match="partitions 0 to 1"):
            failover("refused", 7)
        with pytest.raises(nf.InvalidArgument, match="no node"):
            failover("refused", 0, to="nobody")
        (nodes.folder / "elsewhere").mkdir()
        elsewhere = {"replica": f"file://{nodes.folder}/elsewhere"}
        with pytest.raises(nf.InvalidArgument, match="nothing of it"):
            nf.deploy("refused", plan(nodes, "refused", settings=elsewhere))
        before = described(nodes, "refused")
        shutil.rmtree(nodes.folder / "replica-refused")
        with pytest.raises(nf.Unavailable):
            failover("refused", 0)
        assert described(nodes, "refused") == before


def kill(nodes: Nodes, store: nf.Store, name: str, node: str) -> None:
    """As a power cut does; return when the owners there are gone."""
    where = nodes_of(nodes, name)
    there = [o.pid for o in store.status().owners if where[o.partition] == node]
    nodes.kill(node)
    until(lambda: not any(map(pid_exists, there)), "the owners to end with their node")


def test_a_lost_disk_is_replaced_from_the_replica_and_what_it_still_had_comes_back(
    nodes: Nodes,
) -> None:
    """Nothing that was acknowledged at "replica" is missing after the failover; what was at "disk"
    only is there once the old disk is back, once each."""
    with deployed(nodes, "lost") as store:
        where = nodes_of(nodes, "lost")
        gone_node = where[0]
        number = next(n for n in (0, 1) if where[n] == gone_node)
        moving, staying = chat_in(store, number), chat_in(store, 1 - number)
        epoch = store.status().owners[1 - number].epoch
        sure = [moving.append("user", f"sure {n}", sync="replica").content for n in range(5)]
        replica = nodes.folder / "replica-lost"
        replica.rename(nodes.folder / "not mounted")
        lag = [moving.append("user", f"lag {n}", key=f"lag {n}").content for n in range(20)]
        kill(nodes, store, "lost", gone_node)
        (nodes.folder / "not mounted").rename(replica)
        with pytest.raises(nf.Unavailable):
            store.scoped(deadline=2.0).session(moving.name).append("user", "not applied")
        assert staying.append("user", "untouched").seq == 0
        failover("lost", number)
        assert [turn.content for turn in moving] == sure
        moving.append("user", "later", sync="replica")
        assert store.status().owners[1 - number].epoch == epoch

        nodes.start(gone_node)
        until(lambda: set(lag) <= {t.content for t in moving}, "what had not been shipped")
        assert [turn.seq for turn in moving] == list(range(len(sure) + 1 + len(lag)))
        assert [turn.content for turn in moving] == [*sure, "later", *lag]
        assert moving[-1].salvaged_from is not None
        until(
            lambda: "salvaged" in {finding.kind for finding in store.status().findings},
            "the old disk to be done",
        )
        kept = folder_of(nodes, gone_node, "lost") / "regions"
        assert [path.name for path in kept.glob("p*")] == [f"p{number}.salvaged-1"]
        assert store.verify().ok


def test_a_disk_that_stays_away_is_replaced_by_itself_where_that_was_asked_for(
    nodes: Nodes,
) -> None:
    with deployed(nodes, "auto", failover="auto", failover_after_s=2) as store:
        chats = [chat_in(store, 0), chat_in(store, 1)]
        store.remember("The parcel is late", key="parcel", sync="replica")
        for n in range(10):
            for chat in chats:
                chat.append("user", n, sync="replica")
        gone_node = nodes_of(nodes, "auto")[0]
        kill(nodes, store, "auto", gone_node)
        for chat in chats:  # nobody says a word
            assert chat.append("user", 10, key="last").seq == 10
            assert [turn.content for turn in chat] == list(range(11))
        assert store.get(key="parcel").text == "The parcel is late"
        assert set(nodes_of(nodes, "auto")) == {other(gone_node)}
        nodes.start(gone_node)
        nodes.cluster.wait_for_nodes()
        assert chats[0].append("user", 11).seq == 11
        assert set(nodes_of(nodes, "auto")) == {other(gone_node)}
