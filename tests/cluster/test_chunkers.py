"""The chunker pool of a hosted store: processes that come and go, are killed at work, and die with
their owner. What they leave is whole or nothing, and everything is chunked in the end.

One store in this process's Ray, with a summarizer of a module that its workers can import.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

import neverforget as nf
from neverforget.runtime.config import Config
from neverforget.runtime.host import Host
from tests.actors.chunkers import long_text
from tests.cluster.processes import PATIENCE_S, QUICK, until
from tests.fakes.summarizers import DEADLY, HELD, Trying


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Where the summarizer says what it does, and is told to go on."""
    path = Path(tempfile.mkdtemp(prefix="nf-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def host(ray_local: Any, folder: Path) -> Iterator[Host]:
    config = Config(partitions=1, embedder="none", summarizer=Trying(folder))
    found = Host.start(folder / "store", config, role="application", health=QUICK)
    yield found
    found.close()


@pytest.fixture
def store(host: Host) -> Iterator[nf.Store]:
    with nf.open(host.store.path, host="never", deadline_s=PATIENCE_S) as opened:
        yield opened


@pytest.fixture(autouse=True)
def nobody_at_work(folder: Path) -> Iterator[None]:
    """Before each test; what it held goes on after it, however it ended."""
    for path in folder.glob("held-*"):
        path.unlink()
    (folder / "go").unlink(missing_ok=True)
    yield
    (folder / "go").touch()


def chunkers() -> set[int]:
    """The processes of the pool, of this test's Ray only."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        try:
            if any(word.startswith("ray::ChunkerActor") for word in process.cmdline()):
                found.add(process.pid)
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found


def nices() -> list[int]:
    """Of these processes that live still."""
    found = []
    for pid in chunkers():
        with suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(pid).nice())
    return found


def at_work(folder: Path) -> int:
    """The chunker that a held text keeps."""
    (path,) = until(lambda: list(folder.glob("held-*")), "a chunker at work")
    return int(path.name.removeprefix("held-"))


def is_whole(store: nf.Store, memory: nf.Memory) -> bool:
    chunks = store.chunks(memory.id)
    assert not chunks or "".join(chunk.text for chunk in chunks) == memory.text
    return bool(chunks)


def summaries(store: nf.Store, memory: nf.Memory) -> list[str]:
    found = store.relations(memory.id, kind="summarizes")
    return [store.get(relation.source).text for relation in found]


def test_long_memories_are_chunked_in_processes_of_their_own(store: nf.Store) -> None:
    memories = store.remember_many([{"text": long_text(f"number{n}")} for n in range(30)])
    # Ray names the process before it has begun.
    until(lambda: (found := nices()) and min(found) > psutil.Process().nice(), "chunkers, niced")
    store.settle()
    assert all(is_whole(store, memory) for memory in memories)
    assert summaries(store, memories[7]) == ["In short."]
    assert store.status().longterm.chunks_waiting == 0 and store.verify().ok
    until(lambda: store.status().longterm.chunkers == 0, "the end of the pool")
    until(lambda: not chunkers(), "the end of its processes")


def test_a_chunker_killed_at_work_loses_nothing(store: nf.Store, folder: Path) -> None:
    held, other = store.remember_many([{"text": long_text(HELD)}, {"text": long_text("other")}])
    first = at_work(folder)
    assert not store.chunks(held.id)  # the other may have gone to another chunker
    (folder / f"held-{first}").unlink()
    os.kill(first, signal.SIGKILL)
    assert at_work(folder) != first
    (folder / "go").touch()  # at once: a summarizer that takes half a minute is given up
    store.settle()
    assert is_whole(store, held) and is_whole(store, other)
    assert summaries(store, held) == ["In short."]
    status = store.status().longterm
    assert status.chunks_failed == 0 and store.verify().ok


def test_a_text_that_kills_its_summarizer_gets_its_chunks_and_the_others_theirs(
    store: nf.Store,
) -> None:
    before = store.status().longterm.summaries_failed
    *others, deadly = store.remember_many(
        [{"text": long_text(word)} for word in ("one", "two", "three", DEADLY)]
    )
    store.settle()
    assert all(is_whole(store, memory) for memory in (*others, deadly))
    assert all(summaries(store, memory) == ["In short."] for memory in others)
    assert summaries(store, deadly) == []
    assert store.status().longterm.summaries_failed == before + 1


def test_an_owner_killed_while_a_chunker_works_takes_it_along_and_the_next_begins_anew(
    host: Host, store: nf.Store, folder: Path
) -> None:
    held, other = store.remember_many([{"text": long_text(HELD)}, {"text": long_text("other")}])
    first = at_work(folder)
    (folder / f"held-{first}").unlink()
    owner = store.status().longterm.pid
    os.kill(owner, signal.SIGKILL)
    until(lambda: not psutil.pid_exists(first), "the end of its chunker")
    assert store.get(held.id).text == held.text  # of the next owner
    assert at_work(folder) != first
    (folder / "go").touch()
    store.settle()
    assert is_whole(store, held) and is_whole(store, other) and store.verify().ok
    assert store.status().longterm.pid != owner
