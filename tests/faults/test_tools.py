"""The tools themselves: a fault that does not happen would prove anything."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.faults.conftest import Disks
from tests.faults.disks import MIB
from tests.faults.shim import Action, Shim

_VICTIM = """
import os, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR, 0o600)
for line in sys.stdin:
    call = line.split()[0]
    try:
        if call == "pwrite":
            print(os.pwritev(fd, [b"01234", b"56789"], 0), flush=True)
        elif call == "fdatasync":
            print(os.fdatasync(fd), flush=True)
        elif call == "allocate":
            print(os.posix_fallocate(fd, 0, 4096), flush=True)
        elif call == "pread":
            print(os.pread(fd, 20, 0), flush=True)
    except OSError as error:
        print(error.errno, flush=True)
"""


class Victim:
    def __init__(self, shim: Shim, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _VICTIM, str(path)],
            env=shim.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def call(self, name: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self) -> int:
        self.process.communicate()
        return self.process.returncode


def test_the_shim_fails_the_calls_it_was_told_to(shim: Shim, tmp_path: Path) -> None:
    victim = Victim(shim, tmp_path / "log")
    assert victim.call("pwrite") == "10"
    failing = shim.arm("pwrite", Action.FAIL, path="log", argument=errno.ENOSPC, first=2, last=3)
    assert [victim.call("pwrite") for _ in range(4)] == ["10", "28", "28", "10"]
    assert (failing.seen, failing.hits) == (4, 2)
    shim.arm("pwrite", Action.SHORT, argument=7)
    assert victim.call("pwrite") == "7"
    shim.arm("fdatasync", Action.FAIL, argument=errno.EIO)
    assert [victim.call("fdatasync") for _ in range(2)] == ["5", "None"]
    shim.arm("allocate", Action.FAIL, argument=errno.ENOSPC, ever_after=True)
    assert [victim.call("allocate") for _ in range(2)] == ["28", "28"]
    shim.arm("pread", Action.FAIL, path="another file")
    assert victim.call("pread") == "b'0123456789'"
    shim.disarm_all()
    assert victim.call("allocate") == "None"
    assert victim.end() == 0


def test_the_shim_lies(shim: Shim, tmp_path: Path) -> None:
    victim = Victim(shim, tmp_path / "log")
    shim.arm("pwrite", Action.LIE)
    assert victim.call("pwrite") == "10"
    assert victim.call("pread") == "b''"
    assert victim.end() == 0


@pytest.mark.parametrize(("action", "size"), [(Action.KILL_BEFORE, 0), (Action.KILL_AFTER, 10)])
def test_the_shim_kills(shim: Shim, tmp_path: Path, action: Action, size: int) -> None:
    victim = Victim(shim, tmp_path / "log")
    shim.arm("pwrite", action)
    assert victim.call("pwrite") == ""
    assert victim.end() == -signal.SIGKILL
    assert (tmp_path / "log").stat().st_size == size


def test_the_shim_stops_and_blocks(shim: Shim, tmp_path: Path) -> None:
    victim = Victim(shim, tmp_path / "log")
    assert victim.process.stdin is not None and victim.process.stdout is not None
    shim.arm("fdatasync", Action.STOP)
    blocking = shim.arm("pwrite", Action.BLOCK)
    victim.process.stdin.write("fdatasync\npwrite\n")
    victim.process.stdin.flush()
    os.waitid(os.P_PID, victim.process.pid, os.WSTOPPED | os.WNOWAIT)
    assert blocking.hits == 0
    victim.process.send_signal(signal.SIGCONT)
    assert victim.process.stdout.readline() == "None\n"
    blocking.disarm()
    assert victim.process.stdout.readline() == "10\n"
    assert victim.end() == 0


@pytest.mark.root
def test_a_power_cut_takes_what_was_not_synced(disks: Disks) -> None:
    disk = disks.loop(32 * MIB)
    for name, synced in (("kept", True), ("lost", False)):
        with (disk.root / name).open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 8192)
            os.fsync(file.fileno())
            os.pwrite(file.fileno(), b"here", 0)
            if synced:
                os.fdatasync(file.fileno())
    directory = os.open(disk.root, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)
    with (disk.root / "lost").open("r+b") as file:
        os.pwrite(file.fileno(), b"unsynced", 4096)
        disk.power_cut()
        with pytest.raises(OSError) as dead:
            os.fdatasync(file.fileno())
    assert dead.value.errno == errno.EIO
    disk.boot()
    assert (disk.root / "kept").read_bytes()[:4] == b"here"
    assert not any((disk.root / "lost").read_bytes()[4096:])


@pytest.mark.root
def test_a_thin_disk_fails_at_the_sync_and_then_lies(disks: Disks) -> None:
    """Why a failed sync is never repeated: EIO once, then success, and the data is not there."""
    disk = disks.thin(6 * MIB)
    with (disk.root / "log").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 16 * MIB)
        os.fsync(file.fileno())
        outcomes: list[int | None] = []
        for index in range(16):
            os.pwrite(file.fileno(), b"z" * MIB, index * MIB)
            try:
                os.fdatasync(file.fileno())
            except OSError as error:
                outcomes = [error.errno]
                break
        os.fdatasync(file.fileno())
    assert outcomes == [errno.EIO]


@pytest.mark.root
def test_a_filled_disk_has_no_room_for_one_block(disks: Disks) -> None:
    for disk in (disks.tmpfs(4 * MIB), disks.loop(16 * MIB)):
        ballast = disk.fill()
        with (disk.root / "more").open("wb") as file:
            with pytest.raises(OSError) as full:
                os.posix_fallocate(file.fileno(), 0, 4096)
        assert full.value.errno == errno.ENOSPC
        ballast.unlink()
        with (disk.root / "more").open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, 4096)


@pytest.mark.root
def test_a_disk_that_stays_in_use_is_not_left_mounted(disks: Disks) -> None:
    """The traceback of a test that failed held files of its disk, which then stayed mounted: every
    later run warned of a folder that it could not remove.
    """
    for disk in (disks.tmpfs(4 * MIB), disks.loop(16 * MIB)):
        disk.patience_s = 0.05
        with (disk.root / "held").open("wb"):
            with pytest.raises(TimeoutError):
                disk.close()
            assert not disk.root.is_mount()
            disk.close()  # nothing any more


@pytest.mark.root
def test_a_disk_is_unmounted_when_its_process_is_killed(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, signal, sys\n"
        "from tests.faults.disks import TmpfsDisk, keep_mounts_private\n"
        "keep_mounts_private()\n"
        "disk = TmpfsDisk(pathlib.Path(sys.argv[1]), 1 << 20)\n"
        "print(disk.root.is_mount(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "disk")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if "Unusable" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "True\n")
    assert not (tmp_path / "disk").is_mount()
