"""Parts of a deployed store that move to other disks: told to, or by themselves."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import neverforget as nf
from tests.cluster.joined_nodes import Nodes, joined
from tests.cluster.moving_parts import (
    chat_in,
    deployed,
    described,
    failover,
    folder_of,
    kill,
    nodes_of,
    other,
    plan,
)
from tests.cluster.processes import PATIENCE_S, until


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with joined("a", "b") as made:
        yield made


def test_a_planned_move_loses_nothing_and_leaves_the_others_alone(nodes: Nodes) -> None:
    """Appends go on through the same handles, sync and async, under their request ids."""
    with deployed(nodes, "planned") as store:
        moving, staying = chat_in(store, 0), chat_in(store, 1)
        for n in range(100):
            moving.append("user", n)
        staying.append("user", "here")
        store.remember("The parcel is late", key="parcel")
        before = store.status().owners[1]
        was, _, memories = nodes_of(nodes, "planned")
        on = nodes.nodes[other(was)].node_id
        acknowledged = 0
        stop = threading.Event()

        def write() -> None:
            nonlocal acknowledged
            with nf.connect("planned", deadline=PATIENCE_S) as own:
                chat = own.session(moving.name)
                while not stop.is_set():
                    chat.append("user", 100 + acknowledged)
                    acknowledged += 1

        async def write_on_loop() -> None:
            async with await nf.aio.connect("planned", deadline=PATIENCE_S) as own:
                while not stop.is_set():
                    await own.session(f"{moving.name}").info()

        threads = [threading.Thread(target=write)]
        threads.append(threading.Thread(target=lambda: asyncio.run(write_on_loop())))
        for thread in threads:
            thread.start()
        until(lambda: acknowledged > 20, "appends before")
        failover("planned", 0, to=on)
        count = acknowledged
        until(lambda: acknowledged > count + 20, "appends behind")
        stop.set()
        for thread in threads:
            thread.join()
        # What an owner cannot ship in the seconds that it has for that comes back from its disk.
        every = set(range(100 + acknowledged))
        until(lambda: {turn.content for turn in moving} == every, "everything")
        turns = list(moving)
        assert len(turns) == len(every)
        in_place = [turn.content for turn in turns if turn.salvaged_from is None]
        assert in_place == [n for n in range(len(every)) if n in in_place], "and in order"
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


@pytest.mark.long
def test_disks_of_two_stores_of_one_name_are_told_and_neither_is_served(nodes: Nodes) -> None:
    """As after a restore beside the old disks. Ray knows of neither: they came from elsewhere."""
    for node in ("a", "b"):
        one = plan(nodes, "mixed") | {"path": f"$NF_DATA/mixed-{node}", "nodes": 1}
        nf.deploy("mixed", one, wait=PATIENCE_S)
        nf.undeploy("mixed")
        made, unused = (
            folder_of(nodes, node, f"mixed-{node}"),
            shutil.ignore_patterns("run", "LOCK"),
        )
        shutil.copytree(made, folder_of(nodes, node, "mixed"), ignore=unused)
    with pytest.raises(nf.UnsupportedFormat, match="parts of 2 stores called mixed"):
        nf.deploy("mixed", plan(nodes, "mixed"), wait=PATIENCE_S)
    with pytest.raises(nf.Unavailable, match="parts of 2 stores"):
        nf.connect("mixed", deadline=2.0)
    assert not list(nodes.folder.glob("*/mixed/**/LOCK")), "nobody hosts any of it"
    nf.undeploy("mixed")


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


def drain(nodes: Nodes, node: str) -> None:
    """As ``ray drain-node`` does."""
    from ray import _raylet
    from ray.core.generated import autoscaler_pb2

    raylet: Any = _raylet
    reasons: Any = autoscaler_pb2
    until_ms = int((time.time() + 600) * 1000)
    accepted, why = raylet.GcsClient(address=nodes.address).drain_node(
        nodes.nodes[node].node_id,
        reasons.DrainNodeReason.DRAIN_NODE_REASON_PREEMPTION,
        "a test",
        until_ms,
    )
    assert accepted, why


@pytest.mark.long
def test_what_a_drained_node_has_is_moved_by_itself(nodes: Nodes) -> None:
    """At the latest after ``failover_after_s``, where the keeper was there, too, and ended before
    it saw that."""
    with deployed(nodes, "drained", failover="auto", failover_after_s=20) as store:
        chats = [chat_in(store, 0), chat_in(store, 1)]
        for n in range(20):
            for chat in chats:
                chat.append("user", n)
        leaves = nodes_of(nodes, "drained")[0]
        drain(nodes, leaves)
        until(lambda: set(nodes_of(nodes, "drained")) == {other(leaves)}, "all to be moved")
        for chat in chats:
            assert chat.append("user", 20).content == 20
        nodes.kill(leaves)
        nodes.start(leaves)
        for chat in chats:  # what was not shipped in the time that there was comes back
            until(lambda: {t.content for t in chat} == set(range(21)), "everything")  # noqa: B023
            assert len(chat) == 21
