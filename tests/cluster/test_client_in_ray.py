"""The client in a process that uses Ray: it hosts there, and its handles travel into tasks."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import neverforget as nf
from neverforget.runtime.address import StoreAddress
from tests.cluster.processes import PATIENCE_S


@pytest.fixture
def store(ray_local: Any, short_path: Path) -> Iterator[nf.Store]:
    settings: dict[str, Any] = {"partitions": 2, "deadline_s": PATIENCE_S}
    with nf.open(short_path / "store", agent="driver", **settings) as opened:
        yield opened


def test_a_ray_driver_hosts_and_its_handles_work_in_tasks_and_actors(
    ray_local: Any, store: nf.Store
) -> None:
    @ray_local.remote(num_cpus=0)  # type: ignore[untyped-decorator]
    def task(chat: nf.Session, n: int) -> int:
        with chat:
            return chat.append("user", n, key=f"task-{n}").seq

    class Agent:
        def __init__(self, store: nf.Store) -> None:
            self.chat = store.scoped(agent="actor").session("chat")

        def say(self, text: str) -> str | None:
            return self.chat.append("assistant", text).agent

    assert store.status().host is not None
    chat = store.session("chat")
    seqs = ray_local.get([task.remote(chat, n) for n in range(10)])
    assert sorted(seqs) == list(range(10)) and len(chat) == 10
    agent = ray_local.remote(num_cpus=0)(Agent).remote(store)
    assert ray_local.get(agent.say.remote("hello")) == "actor"
    assert chat[-1].content == "hello"
    ray_local.kill(agent)


def test_a_handle_on_another_node_reaches_the_owners_as_actors(
    ray_local: Any, store: nf.Store
) -> None:
    """The path exists here, not there: the address is given a path that is nowhere."""
    chat = store.session("chat")
    chat.append("user", "here", key="k")
    address = msgspec.structs.replace(store._pickled(), path="/nowhere/store")
    assert address.named.partitions and address.hosted["partitions"] == 2

    @ray_local.remote(num_cpus=0)  # type: ignore[untyped-decorator]
    def elsewhere(address: StoreAddress) -> list[Any]:
        remote = nf.Store(*address.attach())
        with remote:
            session = remote.session("chat")
            again = session.append("user", "here", key="k").seq
            session.append_many([{"role": "user", "content": n} for n in range(3)])
            with pytest.raises(nf.Conflict):
                session.append("user", "other", key="k")
            copied = pickle.loads(pickle.dumps(session))
            assert remote.status().host is None and len(copied) == 4

            async def on_loop() -> int:
                async with nf.aio.AsyncStore(*address.attach()) as twin:
                    await twin.session("chat").append("user", "async")
                    return await twin.session("chat").count()

            said = asyncio.run(on_loop()), [turn.content for turn in session.tail(2)]
            return [again, *said, remote.reflect().turns]

    # Nobody has needed the reflector yet: it is started from there.
    assert ray_local.get(elsewhere.remote(address)) == [0, 5, [2, "async"], 5]
    assert len(chat) == 5


def test_killed_owners_lose_nothing_that_was_acknowledged(store: nf.Store) -> None:
    """Eight threads append while every owner is killed; each turn is there once, in order."""
    acknowledged: dict[str, list[int]] = {f"chat-{n}": [] for n in range(8)}
    stop = threading.Event()

    def write(name: str) -> None:
        chat = store.session(name)
        n = 0
        while not stop.is_set():
            acknowledged[name].append(chat.append("user", n).seq)
            n += 1

    writers = [threading.Thread(target=write, args=(name,)) for name in acknowledged]
    for writer in writers:
        writer.start()
    for _ in range(2):
        for owner in store.status().owners:
            os.kill(owner.pid, signal.SIGKILL)
        marks = {name: len(seqs) for name, seqs in acknowledged.items()}
        for name in acknowledged:  # answers only when its owner is back
            store.session(name).append("user", "back", key=f"back-{marks[name]}")
    stop.set()
    for writer in writers:
        writer.join()
    for name, seqs in acknowledged.items():
        own = [turn for turn in store.session(name) if turn.content != "back"]
        assert [turn.seq for turn in own] == seqs
        assert [turn.content for turn in own] == list(range(len(seqs)))
    assert store.verify().ok
