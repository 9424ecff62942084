"""What a host's watchdog says and does, over owners without Ray."""

from __future__ import annotations

import logging
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from neverforget.actors.embedder_spec import EmbedderSpec
from neverforget.actors.owner_spec import PartitionSpec
from neverforget.runtime.watchdog import HealthOptions, Owner, Watchdog
from neverforget.storage.directory_lock import (
    DirectoryLock,
    ProcessId,
    process_state,
    start_time,
    this_process,
    ticks_run,
)
from tests.cluster.processes import until
from tests.fakes.plain_host import PlainHost


def watched(host: PlainHost) -> Owner:
    spec = PartitionSpec(
        directory=str(host.store.region(0)),
        store_id=host.store.store_id,
        partition=0,
        role="application",
        socket=host.endpoint.sockets[0],
    )
    handle: Any = SimpleNamespace(name="p0", pid=lambda: None)
    return Owner(spec, handle, lambda: handle)


def test_a_change_of_state_is_logged_with_its_reason_if_it_has_one(
    host: PlainHost, caplog: pytest.LogCaptureFixture
) -> None:
    """The line of an owner that was well again ended in "p0 is serving: "."""
    owner = watched(host)
    cluster: Any = SimpleNamespace(lost=lambda: None)
    dog = Watchdog([owner], cluster, lambda why: None)
    dog.check(owner)
    assert owner.welcome is not None and owner.welcome.state == "serving"
    with caplog.at_level(logging.INFO, "neverforget.runtime.watchdog"):
        owner.welcome = replace(owner.welcome, state="recovering")
        dog.check(owner)
    assert [record.getMessage() for record in caplog.records] == ["p0 is serving"]


def silent(tmp_path: Path, pid: int, *, stopped_s: float) -> tuple[Watchdog, Owner]:
    """An owner that has never answered; its process is what Ray says it is."""
    spec = EmbedderSpec(directory="", store_id="s", role="worker", socket=str(tmp_path / "e0.sock"))
    handle: Any = SimpleNamespace(name="e0", pid=lambda: pid)
    cluster: Any = SimpleNamespace(lost=lambda: None)
    owner = Owner(spec, handle, lambda: handle)
    return Watchdog([owner], cluster, lambda why: None, HealthOptions(stopped_s=stopped_s)), owner


def test_one_that_is_stopped_before_it_ever_answered_is_killed_at_once(tmp_path: Path) -> None:
    """Only Ray knew its process, and was asked after two minutes."""
    process = subprocess.Popen(["sleep", "3600"])
    try:
        os.kill(process.pid, signal.SIGSTOP)
        dog, owner = silent(tmp_path, process.pid, stopped_s=0.0)
        while process.poll() is None:
            dog.check(owner)
        assert process.returncode == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()


def test_one_that_is_slowed_is_not_taken_for_stopped(tmp_path: Path) -> None:
    """What limits a process's time stops and continues it many times a second: three looks in a row
    saw it stopped, and it was killed."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        dog, owner = silent(tmp_path, process.pid, stopped_s=1000)
        found = ProcessId(process.pid, start_time(process.pid))
        for _ in range(3):
            ran = ticks_run(found)
            os.kill(process.pid, signal.SIGCONT)
            until(lambda: ticks_run(found) > ran, "it to run")  # noqa: B023
            os.kill(process.pid, signal.SIGSTOP)
            until(lambda: process_state(found) == "T", "it to stop")
            dog.check(owner)
            assert process.poll() is None
            assert owner.stopped_at is not None
            owner.stopped_at -= 1001
        dog.check(owner)  # it has not run since
        assert process.wait() == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()


class LookedAt(list[Owner]):
    """Calls ``meanwhile`` when somebody begins to copy it."""

    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    def __iter__(self) -> Iterator[Owner]:
        call, self.meanwhile = self.meanwhile, lambda: None
        call()
        return super().__iter__()


def test_an_owner_that_comes_while_another_goes_is_watched(host: PlainHost) -> None:
    """A bell started an embedder while a partition was moved away: one of the two was lost from the
    list, or the one that had left stood in it again, and its host waited for it without end."""
    leaving, coming = watched(host), watched(host)
    cluster: Any = SimpleNamespace(lost=lambda: None)
    owners = LookedAt([leaving])
    dog = Watchdog(owners, cluster, lambda why: None)
    thread = threading.Thread(target=dog.watch, args=(coming,), daemon=True)

    def come() -> None:
        thread.start()
        thread.join(0.2)  # where nothing keeps it from ending

    owners.meanwhile = come
    dog.leave(leaving)
    thread.join()
    assert [owner is coming for owner in dog.owners] == [True]


HOLD = """
import sys
from pathlib import Path
from neverforget.storage.directory_lock import DirectoryLock, ProcessId
host = ProcessId(int(sys.argv[2]), int(sys.argv[3]))
lock = DirectoryLock.acquire(Path(sys.argv[1]), role="worker", host=host)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_new_owner_is_not_killed_for_the_silence_of_the_one_before(tmp_path: Path) -> None:
    """On a slow machine the next owner had been away for too long when it took its lock: it was
    killed before it could answer, and so was the one after it.
    """
    me = this_process()
    command = [sys.executable, "-c", HOLD, str(tmp_path), str(me.pid), str(me.start)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None and process.stdout.readline()
        spec = PartitionSpec(
            directory=str(tmp_path),
            store_id="s",
            partition=0,
            role="worker",
            socket=str(tmp_path / "p0.sock"),  # nobody listens there yet
            host=me,
        )
        handle: Any = SimpleNamespace(name="p0", pid=lambda: None)
        cluster: Any = SimpleNamespace(lost=lambda: None)
        owner = Owner(spec, handle, lambda: handle)
        dog = Watchdog([owner], cluster, lambda why: None, HealthOptions(hung_s=1000))
        owner.answered_at -= 1001
        dog.check(owner)
        assert owner.process is not None and owner.process.pid == process.pid
        assert process.poll() is None
        owner.answered_at -= 1001  # its own silence counts
        dog.check(owner)
        assert process.wait() == -signal.SIGKILL


def test_a_host_whose_directory_is_gone_is_told_so_once(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    lock = DirectoryLock.acquire(tmp_path / "store", role="serve")
    lost: queue.Queue[str] = queue.Queue()
    cluster: Any = SimpleNamespace(lost=lambda: None)
    dog = Watchdog([], cluster, lost.put, HealthOptions(interval_s=0.01), lock.displaced)
    dog.start()
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    assert "is gone" in lost.get(timeout=30)
    dog.stop()
    assert lost.empty()
    lock.release()
