"""One owner per directory, with real processes: who is refused, who is ended, and that the lock
ends with its life.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from neverforget.storage.directory_lock import (
    LOCK_FILE,
    DirectoryLock,
    ProcessId,
    is_alive,
    may_end,
    read_holder,
    start_time,
    this_process,
)
from neverforget.storage.errors import StoreLocked

_HOLD = """
    import os, sys
    from pathlib import Path
    from neverforget.storage.directory_lock import DirectoryLock, ProcessId
    host = ProcessId(int(sys.argv[3]), int(sys.argv[4])) if len(sys.argv) > 3 else None
    lock = DirectoryLock.acquire(Path(sys.argv[1]), role=sys.argv[2], host=host)
    print("held", flush=True)
    for line in sys.stdin:
        if line == "release\\n":
            lock.release()
        elif line == "fork\\n":
            if os.fork() == 0:
                assert not lock.held
                lock.release()
                print("forked", os.getpid(), flush=True)
                sys.stdin.readline()
                os._exit(0)
            continue
        print("done", flush=True)
"""


class Holding:
    """A process that holds a lock until it is told otherwise."""

    def __init__(self, directory: Path, role: str, host: ProcessId | None = None) -> None:
        arguments = [str(directory), role]
        if host is not None:
            arguments += [str(host.pid), str(host.start)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(_HOLD), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "held\n"

    def tell(self, word: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def holding(tmp_path: Path) -> Iterator[list[Holding]]:
    started: list[Holding] = []
    yield started
    for one in started:
        one.end()


def hold(
    started: list[Holding], directory: Path, role: str, host: ProcessId | None = None
) -> Holding:
    started.append(Holding(directory, role, host))
    return started[-1]


def gone_process() -> ProcessId:
    """A process that was there and is not any more."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        return ProcessId(child.pid, start_time(child.pid))


def test_a_second_process_is_refused_with_pid_role_and_remedy(
    tmp_path: Path, holding: list[Holding]
) -> None:
    first = hold(holding, tmp_path, "serve")
    with pytest.raises(StoreLocked) as refused:
        DirectoryLock.acquire(tmp_path, role="worker")
    assert refused.value.pid == first.process.pid
    assert refused.value.role == "serve"
    assert os.uname().nodename in str(refused.value)
    assert "nf.open(path)" in str(refused.value)
    assert first.process.poll() is None


def test_the_same_process_is_refused_too(tmp_path: Path) -> None:
    lock = DirectoryLock.acquire(tmp_path, role="worker", host=gone_process())
    with pytest.raises(StoreLocked, match="this process"):
        DirectoryLock.acquire(tmp_path, role="worker")
    lock.release()
    DirectoryLock.acquire(tmp_path, role="application").release()


def test_release_frees_the_lock_and_clears_the_record(
    tmp_path: Path, holding: list[Holding]
) -> None:
    first = hold(holding, tmp_path, "worker")
    assert first.tell("release") == "done\n"
    assert read_holder(tmp_path) is None
    lock = DirectoryLock.acquire(tmp_path, role="serve")
    assert lock.taken_from is None
    assert read_holder(tmp_path) == lock.holder
    assert lock.holder.process == this_process()
    lock.release()
    lock.release()
    assert not lock.held


@pytest.mark.parametrize("role", ["serve", "worker", "application"])
def test_the_lock_of_a_killed_process_is_free_without_cleaning_up(
    tmp_path: Path, holding: list[Holding], role: str
) -> None:
    first = hold(holding, tmp_path, role)
    first.end()
    lock = DirectoryLock.acquire(tmp_path, role="serve")
    assert lock.taken_from is not None
    assert lock.taken_from.process.pid == first.process.pid
    lock.release()
    lock = DirectoryLock.acquire(tmp_path, role="serve")
    assert lock.taken_from is None
    lock.release()


@pytest.mark.parametrize("role", ["serve", "worker"])
def test_a_stopped_owner_is_ended(tmp_path: Path, holding: list[Holding], role: str) -> None:
    first = hold(holding, tmp_path, role)
    first.stop()
    lock = DirectoryLock.acquire(tmp_path, role="worker")
    assert first.process.wait() == -signal.SIGKILL
    lock.release()


def test_a_stopped_application_is_never_ended(tmp_path: Path, holding: list[Holding]) -> None:
    first = hold(holding, tmp_path, "application", gone_process())
    first.stop()
    with pytest.raises(StoreLocked) as refused:
        DirectoryLock.acquire(tmp_path, role="serve")
    assert refused.value.role == "application"
    first.process.send_signal(signal.SIGCONT)
    assert first.tell("release") == "done\n"


def test_a_worker_whose_host_is_gone_is_ended(tmp_path: Path, holding: list[Holding]) -> None:
    first = hold(holding, tmp_path, "worker", gone_process())
    lock = DirectoryLock.acquire(tmp_path, role="worker")
    assert first.process.wait() == -signal.SIGKILL
    lock.release()


def test_a_worker_whose_host_is_a_zombie_is_ended(tmp_path: Path, holding: list[Holding]) -> None:
    """A host that died and was not reaped (no init in a container) must not keep its workers for
    ever.
    """
    host = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = ProcessId(host.pid, start_time(host.pid))
    first = hold(holding, tmp_path, "worker", identity)
    assert is_alive(identity)
    host.kill()
    os.waitid(os.P_PID, host.pid, os.WEXITED | os.WNOWAIT)  # dead, not reaped
    lock = DirectoryLock.acquire(tmp_path, role="worker")
    assert first.process.wait() == -signal.SIGKILL
    lock.release()
    host.communicate()


def test_a_worker_whose_host_lives_is_not_ended(tmp_path: Path, holding: list[Holding]) -> None:
    first = hold(holding, tmp_path, "worker", this_process())
    with pytest.raises(StoreLocked):
        DirectoryLock.acquire(tmp_path, role="worker")
    assert first.process.poll() is None


def test_the_record_counts_the_processes_of_one_host(
    tmp_path: Path, holding: list[Holding]
) -> None:
    """Whether they died or let go; one that takes it again is no other process."""
    host = this_process()
    for restarts in range(3):
        first = hold(holding, tmp_path, "worker", host)
        holder = read_holder(tmp_path)
        assert holder is not None and holder.restarts == restarts
        if restarts:
            first.end()
        else:
            first.tell("release")
    for _ in range(2):
        lock = DirectoryLock.acquire(tmp_path, role="worker", host=host)
        assert lock.holder.restarts == 3
        lock.release()
    lock = DirectoryLock.acquire(tmp_path, role="worker", host=gone_process())
    assert lock.holder.restarts == 0
    lock.release()
    lock = DirectoryLock.acquire(tmp_path, role="application")
    assert lock.holder.restarts == 0
    lock.release()


def test_a_record_with_a_recycled_pid_ends_nobody(tmp_path: Path, holding: list[Holding]) -> None:
    """The pid lives, but its start time says that it is another process."""
    first = hold(holding, tmp_path, "worker", gone_process())
    holder = read_holder(tmp_path)
    assert holder is not None and may_end(holder)
    other = type(holder)(
        ProcessId(holder.process.pid, holder.process.start - 1),
        holder.role,
        holder.boot,
        holder.node,
        holder.host,
    )
    assert not may_end(other)
    assert not may_end(
        type(holder)(holder.process, "worker", "another boot", holder.node, holder.host)
    )
    assert first.process.poll() is None


def test_waiting_gets_the_lock_when_the_holder_ends(tmp_path: Path, holding: list[Holding]) -> None:
    first = hold(holding, tmp_path, "application")
    assert first.process.stdin is not None
    first.process.stdin.close()  # it comes to the end of its input and exits
    first.process.stdin = None
    DirectoryLock.acquire(tmp_path, role="serve", wait_s=30.0).release()


def test_a_forked_child_does_not_hold_the_lock(tmp_path: Path, holding: list[Holding]) -> None:
    first = hold(holding, tmp_path, "application")
    word, pid = first.tell("fork").split()
    assert word == "forked"
    assert not [
        link
        for link in Path(f"/proc/{pid}/fd").iterdir()
        if os.readlink(link) == str(tmp_path / LOCK_FILE)
    ]
    first.process.kill()
    first.process.wait()  # the child of it still runs
    DirectoryLock.acquire(tmp_path, role="serve").release()


def test_a_subprocess_does_not_hold_the_lock(tmp_path: Path) -> None:
    lock = DirectoryLock.acquire(tmp_path, role="application")
    child = subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        close_fds=False,
    )
    assert child.stdout is not None and child.stdout.readline() == b"up\n"
    lock.release()
    DirectoryLock.acquire(tmp_path, role="serve").release()
    child.communicate(b"\n")


def test_a_lock_file_that_was_replaced_is_not_mistaken_for_the_lock(tmp_path: Path) -> None:
    lock = DirectoryLock.acquire(tmp_path, role="application")
    (tmp_path / LOCK_FILE).unlink()
    other = DirectoryLock.acquire(tmp_path, role="application")
    assert (tmp_path / LOCK_FILE).stat().st_ino == os.fstat(other._descriptor).st_ino
    lock.release()
    other.release()


@pytest.mark.parametrize("junk", [b"", b"{", b"\0" * 1024, b'{"process": 3}', b"\xff\xfe"])
def test_a_free_lock_with_a_broken_record_is_taken(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / LOCK_FILE).write_bytes(junk)
    assert read_holder(tmp_path) is None
    lock = DirectoryLock.acquire(tmp_path, role="serve")
    assert read_holder(tmp_path) == lock.holder
    lock.release()


def test_of_many_successors_of_a_stopped_owner_one_wins(
    tmp_path: Path, holding: list[Holding]
) -> None:
    first = hold(holding, tmp_path, "worker")
    first.stop()
    racer = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from neverforget.storage.directory_lock import DirectoryLock
        from neverforget.storage.errors import StoreLocked
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            # A busy machine may let the winner wait before it has written that it is the one.
            lock = DirectoryLock.acquire(Path(sys.argv[1]), role="worker", wait_s=1.5)
            print("won", flush=True)
        except StoreLocked as error:
            print("lost", error.pid, flush=True)
        sys.stdin.readline()
        """
    )
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", racer, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for one in racers:
        assert one.stdout is not None and one.stdout.readline() == "ready\n"
    for one in racers:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    answers = [one.stdout.readline() for one in racers if one.stdout is not None]
    for one in racers:
        one.communicate("\n")
    winner = racers[[a.split()[0] for a in answers].index("won")]
    assert answers.count("won\n") == 1
    assert sorted(answers)[:3] == [f"lost {winner.pid}\n"] * 3
    assert first.process.wait() == -signal.SIGKILL


# ---- the directory itself ------------------------------------------------------------------------


def test_a_holder_learns_that_its_directory_was_deleted_renamed_or_replaced(tmp_path: Path) -> None:
    """The lock is on the file, not on its name: holding it says nothing about what stands there."""
    directory, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    directory.mkdir()
    lock = DirectoryLock.acquire(directory, role="application")
    assert lock.displaced() is None
    directory.rename(elsewhere)
    assert "gone" in (lock.displaced() or "")
    directory.mkdir()
    assert "gone" in (lock.displaced() or "")
    other = DirectoryLock.acquire(directory, role="application")
    assert "another file" in (lock.displaced() or "")
    assert other.displaced() is None
    other.release()
    shutil.rmtree(directory)
    elsewhere.rename(directory)
    assert lock.displaced() is None
    lock.release()
