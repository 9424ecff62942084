"""Memories in a hosted store: their owner and its embedder die, are stopped, and come back. Clients
get their answers, and conversations notice nothing.

One store in this process's Ray, with an embedder object of a module that its workers can import.
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

import msgspec
import pytest

import neverforget as nf
from neverforget.actors.embedding_client import PoolEmbedding
from neverforget.actors.greeting import ask, greet
from neverforget.actors.handles import OwnerHandle
from neverforget.actors.host_messages import HostReply, HostStatus
from neverforget.runtime.address import StoreAddress
from neverforget.runtime.config import Config
from neverforget.runtime.host import Host
from tests.cluster.processes import PATIENCE_S, QUICK, python, told, until
from tests.fakes.embedders import Plain


@pytest.fixture(scope="module")
def host(ray_local: Any) -> Iterator[Host]:
    folder = Path(tempfile.mkdtemp(prefix="nf-"))
    config = Config(partitions=1, embedder=Plain(64))
    found = Host.start(folder / "store", config, role="application", health=QUICK)
    yield found
    found.close()
    shutil.rmtree(folder)


@pytest.fixture
def store(host: Host) -> Iterator[nf.Store]:
    with nf.open(host.store.path, host="never", deadline_s=PATIENCE_S) as opened:
        yield opened


def pid_at(host: Host, socket: str, *, other_than: int = 0) -> int:
    """The process that serves there, once it does."""

    def look() -> int | None:
        try:
            connection, welcome = greet(socket, host.store.store_id, 1.0)
        except OSError:
            return None
        connection.close()
        return welcome.pid if welcome.pid != other_than else None

    pid: int = until(look, f"somebody at {socket}")
    return pid


def watched(host: Host) -> list[int]:
    connection, _ = greet(host.endpoint.control, host.store.store_id, 5.0)
    with connection:
        reply = ask(connection, HostStatus(1), 5.0)
    assert isinstance(reply, HostReply)
    return [owner.pid for owner in reply.owners]


def found_by_vector(store: nf.Store, memory: nf.Memory) -> bool:
    hits = store.recall(memory.text, wait=5.0)
    return any(hit.memory.id == memory.id and "vector" in hit.sources for hit in hits)


def is_well(store: nf.Store) -> bool:
    longterm = store.status().longterm
    return longterm.embedder_state == "ok" and longterm.waiting == 0


def test_an_attached_process_remembers_and_recalls_without_anything_heavy(host: Host) -> None:
    script = """
import json, sys
import neverforget as nf
with nf.open(sys.argv[1], host="never") as store:
    id = store.remember("the cat sat on the mat", tags=["pets"], key="cat").id
    hits = store.recall("cat on mat", timeframe="last 2 days", tags="pets", wait=120)
    assert hits[0].memory.id == id and store.get(key="cat").id == id, hits
    legs, embedder = hits[0].sources, store.config.embedder
heavy = {"ray", "faiss", "pyarrow", "tantivy", "onnxruntime", "numpy", "asyncio"}
print(json.dumps([sorted(legs), hits.complete, embedder, sorted(heavy & set(sys.modules))]))
"""
    assert told(python(script, str(host.store.path))) == [
        ["text", "vector"],
        True,
        "object:plain-64",
        [],
    ]


def test_an_owner_killed_in_the_middle_of_remembers_loses_and_doubles_none(
    host: Host, store: nf.Store
) -> None:
    socket = host.endpoint.longterm
    first = pid_at(host, socket)
    made: list[str] = []
    begun = threading.Semaphore(0)

    def write(name: str) -> None:
        for number in range(60):
            made.append(store.remember(f"{name} {number}", namespace=("killed",)).text)
            begun.release()

    writers = [threading.Thread(target=write, args=[f"w{n}"]) for n in range(3)]
    for writer in writers:
        writer.start()
    for _ in range(20):
        assert begun.acquire(timeout=PATIENCE_S)
    os.kill(first, signal.SIGKILL)
    store.session("chat").append("user", "meanwhile")  # another owner, which was not asked
    for writer in writers:
        writer.join()
    assert pid_at(host, socket) != first
    kept: list[str] = []
    after = None
    while True:
        page = store.memories(namespace=("killed",), after=after)
        kept += [memory.text for memory in page]
        if not page.has_more:
            break
        after = page.next
    assert sorted(kept) == sorted(made) and len(made) == 180
    assert store.recall("w0 59", wait=PATIENCE_S)[0].memory.text == "w0 59"


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_without_its_embedder_a_store_goes_on_by_words_and_vectors_come_back(
    host: Host, store: nf.Store, blow: signal.Signals
) -> None:
    [socket] = host.endpoint.embedders
    first = pid_at(host, socket)
    until(lambda: first in watched(host), "the watchdog to know the embedder")
    assert OwnerHandle(host._specs.embedder(0).name).pid() == first
    os.kill(first, blow)
    word = f"zebra{blow.value}"
    memory = store.remember(f"a {word} in the garden")
    assert [hit.memory.id for hit in store.recall(word, strategy="text")] == [memory.id]
    assert pid_at(host, socket, other_than=first)
    until(lambda: found_by_vector(store, memory), "vectors again")
    until(lambda: is_well(store), "it to say so")


def test_a_handle_on_another_node_reaches_the_memories_as_an_actor(
    host: Host, store: nf.Store, ray_local: Any
) -> None:
    address = msgspec.structs.replace(store._pickled(), path="/nowhere/store")

    @ray_local.remote(num_cpus=0)  # type: ignore[untyped-decorator]
    def elsewhere(address: StoreAddress) -> list[str]:
        with nf.Store(*address.attach()) as remote:
            remote.remember("an elephant in the room", key="far")
            return [hit.memory.text for hit in remote.recall("elephant", wait=120, limit=1)]

    assert ray_local.get(elsewhere.remote(address)) == ["an elephant in the room"]
    assert store.get(key="far").text == "an elephant in the room"


def test_a_second_embedder_object_can_be_lent_while_the_host_runs(host: Host) -> None:
    """As reindex needs it. Whoever asks then is never answered by the process that was there, which
    lives on for a moment and has not been given that object."""
    [socket] = host.endpoint.embedders
    embedding = PoolEmbedding([socket], host.store.store_id)
    try:
        for size in (32, 16, 8):
            assert host.lend_embedder(Plain(size)) == f"object:plain-{size}"
            assert embedding.describe(f"object:plain-{size}") == (f"plain-{size}", size)
        assert embedding.describe("object:plain-64") == ("plain-64", 64)
    finally:
        embedding.close()


def test_a_process_that_would_need_a_host_of_its_own_is_told_that_objects_do_not_travel(
    short_path: Path,
) -> None:
    script = """
import json, sys
import neverforget as nf
from tests.fakes.embedders import Plain
try:
    nf.open(sys.argv[1], embedder=Plain())
except nf.InvalidArgument as error:
    print(json.dumps("ray.init" in str(error)))
"""
    assert told(python(script, str(short_path / "store"))) is True
    assert not (short_path / "store" / "regions").exists()
