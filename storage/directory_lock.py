"""One owner per directory: a flock held for life, and a way to end an owner that is stopped or
orphaned.

The flock decides who owns; nothing else does. The record inside the LOCK file says who holds it, so
that a successor can name the holder, or end it. It is written in place at a fixed size, because
taking over must work on a full disk.

A successor ends the holder (SIGKILL through a pidfd, which cannot hit a recycled pid and works on a
stopped process) only when all of this is true:

* the record is of this boot, and the process it names lives, with that start time, and is not this
  process;
* its role is "serve" or "worker"; an "application" (inline mode, a notebook) is never ended;
* it is stopped (state T), or it has a host and that host is gone.

After that it waits for the flock, so the old owner has written its last byte before the new one
reads its first.

The descriptor is closed on exec and in forked children: the lock lives exactly as long as the
process that took it. A fork that Python does not see (a C library that forks and goes on without
exec) would prolong it.

Only Linux has pidfds and /proc; elsewhere a holder is never ended.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import socket
import time
import weakref
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec
from msgspec.structs import replace

from neverforget.storage.errors import StoreLocked

LOCK_FILE = "LOCK"
Role = Literal["serve", "worker", "application"]

_RECORD_BYTES = 1024
_POLL_S = 0.01
# Nobody is refused sooner: a record may still name a dying process while its successor, which holds
# the flock, has yet to write its own.
_GRACE_S = 0.25
_DEATH_WAIT_S = 10.0  # a process in an uninterruptible read or write dies only when that ends


class ProcessId(msgspec.Struct, frozen=True):
    """A process of this boot that cannot be confused with a later one of the same pid. ``start`` is
    in clock ticks since boot; -1 where the system does not tell.
    """

    pid: int
    start: int


class Holder(msgspec.Struct, frozen=True):
    """The record in a LOCK file. ``host``: the process without which this one has no reason to
    live. ``restarts``: how many processes of that same host have held the lock before this one.
    ``released``: it holds it no longer; only the next holder wants to know.
    """

    process: ProcessId
    role: Role
    boot: str
    node: str
    host: ProcessId | None = None
    restarts: int = 0
    released: bool = False


class DirectoryLock:
    """A held lock. Make it with ``acquire``.

    ``taken_from``: who held it before and never released it, but died; None after an orderly end.
    """

    def __init__(
        self, directory: Path, descriptor: int, holder: Holder, taken_from: Holder | None
    ) -> None:
        self.directory = directory
        self.holder = holder
        self.taken_from = taken_from
        self._descriptor = descriptor
        self._path = os.fspath(directory / LOCK_FILE)
        self._inode = _inode(os.fstat(descriptor))
        _held.add(self)

    @classmethod
    def acquire(
        cls, directory: Path, *, role: Role, host: ProcessId | None = None, wait_s: float = 0.0
    ) -> DirectoryLock:
        """Take ``directory`` (which exists), ending its holder where that is allowed, waiting
        ``wait_s`` otherwise.

        StoreLocked names the holder and the remedy. Also raised when this same process holds it
        already.
        """
        assert role in get_args(Role), role
        holder = Holder(this_process(), role, boot_id(), socket.gethostname(), host)
        path = directory / LOCK_FILE
        started = time.monotonic()
        while True:
            descriptor = _try_lock(path)
            if descriptor is not None:
                last = _read_record(directory)
                holder = replace(holder, restarts=_restarts(holder, last))
                _write_record(descriptor, holder)
                return cls(directory, descriptor, holder, _unreleased(last))
            other = read_holder(directory)
            if other is not None and may_end(other) and end_process(other.process):
                started = time.monotonic()  # that was not waiting for a living owner
                continue
            if time.monotonic() - started >= max(wait_s, _GRACE_S):
                raise _locked(directory, other)
            time.sleep(_POLL_S)

    @property
    def held(self) -> bool:
        """False after ``release``, and in a forked child."""
        return self._descriptor >= 0

    def displaced(self) -> str | None:
        """What has become of ``directory`` if it is no longer the one that was locked: it was
        deleted, renamed or replaced. None: it is in its place, or that cannot be told now. One
        system call.
        """
        try:
            found = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return f"{self._path} is gone: it, or its directory, was deleted, renamed or replaced"
        except OSError:
            return None
        if _inode(found) == self._inode:
            return None
        return f"{self._path} is another file now: it, or its directory, was replaced"

    def release(self) -> None:
        """Idempotent. In a forked child it does nothing: the lock is the parent's."""
        if self._descriptor < 0:
            return
        # The record goes first: it must never name a living process that no longer holds the lock.
        _write_record(self._descriptor, replace(self.holder, released=True))
        self._forget()

    def _forget(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        _held.discard(self)
        if descriptor >= 0:
            os.close(descriptor)


_held: weakref.WeakSet[DirectoryLock] = weakref.WeakSet()


def _close_in_child() -> None:
    for lock in list(_held):
        lock._forget()


os.register_at_fork(after_in_child=_close_in_child)


def read_holder(directory: Path) -> Holder | None:
    """Who last wrote the LOCK record of ``directory``: None when nobody did, it was released, or it
    is half written. That the holder is named does not mean that it lives: ask ``is_alive``.
    """
    return _unreleased(_read_record(directory))


def _unreleased(holder: Holder | None) -> Holder | None:
    return None if holder is None or holder.released else holder


def _restarts(holder: Holder, last: Holder | None) -> int:
    if holder.host is None or last is None or (last.host, last.boot) != (holder.host, holder.boot):
        return 0
    return last.restarts + (last.process != holder.process)


def _read_record(directory: Path) -> Holder | None:
    try:
        raw = (directory / LOCK_FILE).read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(raw.rstrip(b" \n\0"), type=Holder)
    except msgspec.MsgspecError:
        return None


def lock_inode(directory: Path) -> tuple[int, int] | None:
    """Device and inode of the LOCK file that stands in ``directory``; None when there is none."""
    try:
        return _inode(os.stat(directory / LOCK_FILE))
    except (FileNotFoundError, NotADirectoryError):
        return None


def may_end(holder: Holder) -> bool:
    """Whether a successor may kill this holder of a lock that it waits for. See the module's
    docstring.
    """
    if holder.role == "application" or holder.boot != boot_id():
        return False
    if holder.process == this_process() or holder.process.start < 0:
        return False
    state = process_state(holder.process)
    if state is None:
        return False  # gone, or in another pid namespace
    return state == "T" or (holder.host is not None and not is_alive(holder.host))


def is_alive(process: ProcessId) -> bool:
    """Whether that very process still runs (stopped counts, a zombie does not)."""
    return process_state(process) is not None


def this_process() -> ProcessId:
    pid = os.getpid()
    return ProcessId(pid, start_time(pid))


def start_time(pid: int) -> int:
    """In clock ticks since boot; -1 if there is no such process or the system does not tell."""
    stat = _stat(pid)
    return -1 if stat is None else int(stat[19])


def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except FileNotFoundError:
        return ""


def process_state(process: ProcessId) -> str | None:
    """The state letter of /proc, None when the process is gone or dead and not yet reaped."""
    stat = _stat(process.pid)
    if stat is None or int(stat[19]) != process.start or stat[0] in "ZXx":
        return None
    return stat[0]


def ticks_run(process: ProcessId) -> int:
    """For how long it has had a processor, in clock ticks; 0 when it is gone."""
    stat = _stat(process.pid)
    return 0 if stat is None or int(stat[19]) != process.start else int(stat[11]) + int(stat[12])


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third on; the second may hold blanks and brackets."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
        return None
    return text.rpartition(")")[2].split()


def _inode(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _try_lock(path: Path) -> int | None:
    """A descriptor that holds the flock of the file that stands at ``path``, or None when another
    holds it.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # a lock without a record
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass  # held; or the file was replaced under us, then look again
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _write_record(descriptor: int, holder: Holder) -> None:
    record = msgspec.json.encode(holder)
    assert len(record) < _RECORD_BYTES, "host names are at most 64 bytes"
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        return
    try:
        os.pwrite(descriptor, record.ljust(_RECORD_BYTES - 1) + b"\n", 0)
    except OSError as error:
        # The flock is what counts. Without a record nobody can be told who we are, nor end us.
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO):
            raise


def end_process(process: ProcessId) -> bool:
    """SIGKILL ``process``; whether it is gone now. Gone already is fine."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        # Checked again now that the pidfd pins this pid to one process.
        if start_time(process.pid) != process.start:
            return True
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(_DEATH_WAIT_S * 1000))
    except ProcessLookupError:
        return True  # it died between the two calls
    finally:
        os.close(pidfd)


_REMEDY: Final[dict[Role, str]] = {
    "serve": "attach with nf.open(path), or stop that process",
    "worker": "attach with nf.open(path), or stop its host",
    "application": "close the store there, or use it from that process",
}


def _locked(directory: Path, holder: Holder | None) -> StoreLocked:
    if holder is None:
        return StoreLocked(
            f"{directory} is locked by a process that left no record; find it with: "
            f"fuser -v {directory / LOCK_FILE}",
            pid=None,
            role=None,
        )
    process = holder.process
    if process == this_process():
        who = "this process"
    else:
        place = "" if holder.boot == boot_id() else f" on {holder.node}"
        who = f"process {process.pid}{place} (role {holder.role}, host name {holder.node})"
    return StoreLocked(
        f"{directory} is in use by {who}; {_REMEDY[holder.role]}", pid=process.pid, role=holder.role
    )
