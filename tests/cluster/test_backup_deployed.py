"""One command gathers the copy of a deployed store from all of its nodes."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import neverforget as nf
from tests.cluster.joined_nodes import Nodes
from tests.cluster.processes import PATIENCE_S
from tests.cluster.test_deploy import nodes
from tests.runtime.cli_calls import Cli
from tests.runtime.conftest import cli

__all__ = ["cli", "nodes"]  # fixtures


def test_a_deployed_store_is_gathered_into_one_that_opens_by_itself(
    nodes: Nodes, tmp_path: Path, cli: Cli
) -> None:
    """Two nodes; this process is on neither. While it is copied somebody appends. It is reflected
    from here as well, through Ray, and what it ships is checked, and restored as of a time."""
    url = f"file://{tmp_path / 'away'}"
    nodes.start("b")
    nodes.cluster.wait_for_nodes()
    settings = {"partitions": 4, "embedder": "none", "segment_bytes": 1 << 20, "replica": url}
    where = {"path": "$NF_DATA/copied", "nodes": 2}
    nf.deploy("copied", {**where, "settings": settings}, wait=PATIENCE_S)
    with nf.connect("copied", deadline=PATIENCE_S) as store:
        for number in range(12):
            store.session(f"chat-{number}").append_many(
                [
                    {"role": "user", "content": f"I live in town {number}, number {n}."}
                    for n in range(9)
                ]
            )
        memory = store.remember("The parcel is late")
        assert store.reflect().turns == 108
        assert {owner.through for owner in store.status().owners} == {"ray"}
        ending = threading.Event()

        def talk() -> None:
            while not ending.is_set():
                store.session("talk").append("user", "meanwhile")

        talking = threading.Thread(target=talk)
        talking.start()
        steps: list[tuple[int, int]] = []
        try:
            store.backup(tmp_path / "plain", progress=lambda *step: steps.append(step))
        finally:
            ending.set()
            talking.join()
        assert steps == [(n, 5) for n in range(1, 6)]

        async def on_loop() -> None:
            async with await nf.aio.connect("copied", deadline=PATIENCE_S) as twin:
                await twin.backup(tmp_path / "async")

        asyncio.run(on_loop())
        store_id = store.status().store_id
        # An append that waits for the replica waits for what its own partition wrote before it.
        for number in range(12):
            store.session(f"chat-{number}").append("user", "shipped", sync="replica")
        point = nf.restore_points(url).points[-1]
        # What was on its way when they were listed may be of that time, too.
        assert nf.restore(tmp_path / "then", url, at=point.at).turns >= point.turns > 108
        store.session("chat-0").append("user", "not fenced", sync="replica")
        report = store.verify(remote=True)
        assert report.ok and report.objects >= 10
    ran = cli("backup", f"ray:copied@{nodes.address}", tmp_path / "cli")
    assert ran.code == 0, ran
    nf.undeploy("copied")
    assert [Path(info.path).name for info in nf.backups(tmp_path)] == ["plain", "async", "cli"]
    for name in ("plain", "async", "cli"):
        assert nf.verify_backup(tmp_path / name).ok
        with nf.open(tmp_path / name, inline=True) as copy:
            assert copy.status().store_id == store_id and copy.config.replica is None
            for number in range(12):
                chat = copy.session(f"chat-{number}")
                assert [t.content for t in chat][8] == f"I live in town {number}, number 8."
            assert copy.get(memory.id).text == "The parcel is late"
            assert len(copy.memories(derived=False)) > 1, "what was reflected"
            talk_turns = list(copy.session("talk"))
            assert [turn.seq for turn in talk_turns] == list(range(len(talk_turns)))
            assert copy.verify().ok
            assert copy.session("chat-0").append("user", "on").seq == (11 if name == "cli" else 9)
