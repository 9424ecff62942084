"""Reflection in a hosted store: what clients say becomes memories by itself; the reflector, the
owner of the memories and partitions die under way, and the memories are the same.

One store in this process's Ray, with an extractor that tests can hold.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.actors.greeting import greet
from neverforget.runtime.config import Config
from neverforget.runtime.host import Host
from tests.cluster.processes import PATIENCE_S, QUICK, python, told, until
from tests.fakes.extractors import BEGUN, HOLD, Deadly, Noting


def started(folder: Path, path: Path, **settings: Any) -> Host:
    config = Config(partitions=2, embedder="none", extractor=Noting(folder), **settings)
    return Host.start(path, config, role="application", health=QUICK)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="nf-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def host(ray_local: Any, folder: Path) -> Iterator[Host]:
    found = started(folder, folder / "store")
    yield found
    found.close()


@pytest.fixture
def store(host: Host) -> Iterator[nf.Store]:
    with nf.open(host.store.path, host="never", deadline_s=PATIENCE_S) as opened:
        yield opened


@pytest.fixture
def held(folder: Path) -> Iterator[None]:
    """The extractor answers nobody; ``released`` lets it."""
    (folder / BEGUN).unlink(missing_ok=True)
    (folder / HOLD).touch()
    yield
    released(folder)


def released(folder: Path) -> None:
    (folder / HOLD).unlink(missing_ok=True)


def until_begun(folder: Path) -> None:
    until((folder / BEGUN).exists, "an extraction")


def pid_at(host: Host, socket: str) -> int:
    connection, welcome = greet(socket, host.store.store_id, PATIENCE_S)
    connection.close()
    return welcome.pid


def say(store: nf.Store, name: str, count: int) -> list[str]:
    """``count`` turns of one session; the memories that are to come of them."""
    chat = store.session(name, namespace=(name,))
    chat.append_many([{"role": "user", "content": f"{name} {n}"} for n in range(count)])
    return [f"user: {name} {n}" for n in range(count)]


def learned(store: nf.Store, name: str) -> list[str]:
    return sorted(memory.text for memory in store.memories(namespace=(name,), limit=1000))


def test_what_a_client_says_becomes_memories_by_itself(host: Host) -> None:
    """Who says it and leaves has loaded nothing for it, and needs not stay."""
    script = """
import json, sys
import neverforget as nf
with nf.open(sys.argv[1], host="never") as store:
    chat = store.session("by itself", namespace=("by itself",))
    for n in range(100):
        chat.append("user", f"by itself {n}")
    before = store.status().reflection
    print(json.dumps([before.extractor, before.turns]))
heavy = {"ray", "faiss", "pyarrow", "tantivy", "onnxruntime", "numpy", "asyncio"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    assert told(python(script, str(host.store.path)))[0] == "object:noting-1"
    expected = sorted(f"user: by itself {n}" for n in range(100))
    with nf.open(host.store.path, host="never", deadline_s=PATIENCE_S) as store:
        until(lambda: learned(store, "by itself") == expected, "a hundred memories")
        until(lambda: not store.status().reflection.turns, "the last done mark")
        found = store.status().reflection
        assert (found.state, found.turns_reflected, found.facts) == ("running", 100, 100)
        memory = store.memories(namespace=("by itself",), limit=1)[0]
        assert store.provenance(memory.id) == [nf.TurnRef(("by itself",), "by itself", 0, 0)]
        assert store.session("by itself", namespace=("by itself",)).get(99).consolidated


@pytest.mark.parametrize("victim", ["reflector", "longterm", "partition"])
def test_who_dies_during_a_run_costs_no_memory_and_doubles_none(
    host: Host, store: nf.Store, folder: Path, held: None, victim: str
) -> None:
    expected = say(store, victim, 150)
    reports: list[nf.ReflectionReport] = []
    chat = store.session(victim, namespace=(victim,))
    asking = threading.Thread(target=lambda: reports.append(store.reflect(chat)))
    asking.start()
    until_begun(folder)
    sockets = {
        "reflector": host.endpoint.reflector,
        "longterm": host.endpoint.longterm,
        "partition": host.endpoint.sockets[chat._place.partition],
    }
    os.kill(pid_at(host, sockets[victim]), signal.SIGKILL)
    released(folder)
    asking.join()
    assert learned(store, victim) == sorted(expected)
    assert not reports[0].failed
    assert store.settle(timeout=PATIENCE_S).reflection.turns == 0
    assert all(turn.consolidated for turn in chat)


def test_an_extractor_that_ends_its_process_is_given_up_and_the_rest_goes_on(
    ray_local: Any, folder: Path
) -> None:
    path = folder / "deadly"
    config = Config(partitions=1, embedder="none", extractor=Deadly(), reflect_every_turns=62)
    host = Host.start(path, config, role="application", health=QUICK)
    try:
        with nf.open(path, host="never", deadline_s=PATIENCE_S) as store:
            texts = [f"deadly {n}" for n in range(60)] + ["one", "two"]
            store.session("s").append_many([{"role": "user", "content": t} for t in texts])
            until(lambda: not store.status().reflection.turns, "the end of the session")
            (failed,) = store.status().reflection.failed
            assert (failed.first, failed.last, failed.tries) == (0, 59, 5)
            assert "process ended" in failed.error
            assert sorted(m.text for m in store.memories()) == ["user: one", "user: two"]
    finally:
        host.close()


def test_settling_waits_for_sessions_that_are_due(store: nf.Store) -> None:
    expected = say(store, "settled", 100)
    store.settle(timeout=PATIENCE_S)
    assert learned(store, "settled") == sorted(expected)


def test_a_host_that_ends_leaves_the_rest_of_a_run_to_the_next(
    ray_local: Any, folder: Path, held: None
) -> None:
    path = folder / "ends"
    first = started(folder, path)
    with nf.open(path, host="never", deadline_s=PATIENCE_S) as store:
        expected = say(store, "ends", 100)
        until_begun(folder)
        processes = [pid_at(first, first.endpoint.reflector), *map(_pid, store.status().owners)]
    first.close()  # the extractor hangs, and nobody waits for it
    until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in processes), "their end")
    released(folder)
    second = started(folder, path)
    try:
        with nf.open(path, host="never", deadline_s=PATIENCE_S) as store:
            until(lambda: learned(store, "ends") == sorted(expected), "the memories")
    finally:
        second.close()


def _pid(owner: nf.OwnerInfo) -> int:
    return owner.pid
