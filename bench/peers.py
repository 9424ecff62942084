"""What neverforget is measured against: SQLite, one Ray actor call, and the bare primitives.

SQLite is used as a careful user would: WAL, synchronous=FULL, one prepared statement, one
transaction an append, rows keyed by (session, seq). It runs inside the measuring process, which
saves it the hop that an owner process costs.
"""

from __future__ import annotations

import json
import mmap
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.measure import TEXT, timed

RECORD_BYTES = 376  # a 300-byte text turn as it stands in the log: header, body, padding


class SQLite:
    """One durable INSERT a call."""

    name = "SQLite"

    def __init__(self, path: Path, *, batch: int = 1, session: str = "chat") -> None:
        self._rows = batch
        self._session = session
        self.connection = connect(path)
        row = self.connection.execute(
            "SELECT coalesce(max(seq), -1) FROM turns WHERE session = ?", (session,)
        ).fetchone()
        self._seq = int(row[0])
        if batch > 1:
            self.name = f"SQLite, {batch} a transaction"

    def append(self) -> None:
        rows = []
        for _ in range(self._rows):
            self._seq += 1
            rows.append((self._session, self._seq, "user", TEXT, time.time_ns() // 1000))
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany("INSERT INTO turns VALUES (?, ?, ?, ?, ?)", rows)
        self.connection.execute("COMMIT")

    def round(self, calls: int) -> list[int]:
        return timed(self.append, calls)

    def close(self) -> None:
        self.connection.close()


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=60)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS turns (session TEXT, seq INTEGER, role TEXT, content TEXT,"
        " at INTEGER, PRIMARY KEY (session, seq)) WITHOUT ROWID"
    )
    return connection


class BareSync:
    """pwrite of one record into preallocated space, then fdatasync: nothing durable is faster."""

    def __init__(self, path: Path, *, size: int = RECORD_BYTES, sync: bool = True) -> None:
        self.name = "pwrite + fdatasync" if sync else "pwrite"
        self._record = os.urandom(size)
        self._sync = sync
        self._room = 256 * 1024 * 1024
        self._at = 0
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.posix_fallocate(self._file, 0, self._room)
        os.fsync(self._file)

    def append(self) -> None:
        os.pwrite(self._file, self._record, self._at)
        if self._sync:
            os.fdatasync(self._file)
        self._at = (self._at + len(self._record)) % (self._room - len(self._record))

    def round(self, calls: int) -> list[int]:
        return timed(self.append, calls)

    def close(self) -> None:
        os.close(self._file)


class BareMap:
    """memcpy of one record into a memory map: nothing that survives the process is faster."""

    name = "memcpy into a map"

    def __init__(self, path: Path, *, size: int = RECORD_BYTES) -> None:
        self._record = os.urandom(size)
        self._room = 64 * 1024 * 1024
        with path.open("w+b") as file:
            os.posix_fallocate(file.fileno(), 0, self._room)
            self._map = mmap.mmap(file.fileno(), self._room)
        self._at = 0

    def append(self) -> None:
        self._map[self._at : self._at + len(self._record)] = self._record
        self._at = (self._at + len(self._record)) % (self._room - len(self._record))

    def round(self, calls: int) -> list[int]:
        return timed(self.append, calls)

    def close(self) -> None:
        self._map.close()


class SocketEcho:
    """A round trip to another process through a blocking Unix socket; ``size`` bytes come back."""

    name = "socket round trip"

    def __init__(self, size: int) -> None:
        self._size = size
        self._socket, other = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-c", ECHO.format(fd=other.fileno(), size=size)],
            pass_fds=[other.fileno()],
        )
        other.close()

    def call(self) -> None:
        self._socket.sendall(b"x" * 64)
        missing = self._size
        while missing:
            missing -= len(self._socket.recv(missing))

    def round(self, calls: int) -> list[int]:
        return timed(self.call, calls)

    def close(self) -> None:
        self._socket.close()
        self._process.wait(30)


ECHO = """
import socket
peer = socket.socket(fileno={fd})
answer = bytes({size})
while peer.recv(64):
    peer.sendall(answer)
"""


class RayCall:
    """One call of an empty actor method with the same bytes, from a driver on the same node.

    ``round`` is of the cheapest kind, a plain method. The driver is a process of its own, so that
    the measuring process stays without Ray.
    """

    name = "Ray actor call"

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.peers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._ask("ready") == "ready", "the Ray peer did not start"

    def _ask(self, line: str) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the Ray peer ended with {self._process.wait()}")
        return json.loads(answer)

    def round(self, calls: int) -> list[int]:
        return list(self._ask(f"call {calls}"))

    def round_async(self, calls: int) -> list[int]:
        """The same of an actor whose methods are coroutines, as an owner's have to be."""
        return list(self._ask(f"async {calls}"))

    def restart(self) -> float:
        """Kill -9 the actor; seconds until a call is answered by its successor."""
        return float(self._ask("restart"))

    def attach(self) -> float:
        """Seconds for another process to join this Ray and get one answer from the actor."""
        return float(self._ask("attach"))

    def close(self) -> None:
        self._process.communicate("end\n", timeout=60)


def serve_ray() -> None:
    """The other end of RayCall: a Ray driver that obeys lines on stdin and answers in JSON."""
    import ray

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ray prints about dead actors on stdout, which is for answers here
    folder = tempfile.mkdtemp(prefix="nfb-")  # short: Ray puts its sockets there
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        _temp_dir=folder,
    )
    options = {"max_restarts": -1, "max_task_retries": 0, "num_cpus": 0, "name": "echo"}
    remote: Any = ray.remote  # its types know decorated classes only
    actor = remote(Echo).options(**options, namespace="bench").remote()
    coroutines = remote(AsyncEcho).options(num_cpus=0, max_concurrency=1000).remote()
    record = os.urandom(RECORD_BYTES)
    for line in sys.stdin:
        word, *rest = line.split()
        answer: Any = "ready"
        if word == "ready":
            ray.get(actor.call.remote(record))
        elif word == "call":
            answer = timed(lambda: ray.get(actor.call.remote(record)), int(rest[0]))
        elif word == "async":
            answer = timed(lambda: ray.get(coroutines.call.remote(record)), int(rest[0]))
        elif word == "restart":
            answer = restart_once(ray, actor)
        elif word == "attach":
            answer = attach_once(ray.get_runtime_context().gcs_address)
        elif word == "end":
            break
        print(json.dumps(answer), file=answers, flush=True)
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


class Echo:
    """The peer's actor: it answers, and does nothing."""

    def call(self, record: bytes) -> int:
        return len(record)

    def pid(self) -> int:
        return os.getpid()


class AsyncEcho:
    """The same as a coroutine."""

    async def call(self, record: bytes) -> int:
        return len(record)


def restart_once(ray: Any, actor: Any) -> float:
    """Seconds from SIGKILL of the actor's process to the first answered call."""
    pid = ray.get(actor.pid.remote())
    start = time.perf_counter()
    os.kill(pid, 9)
    while True:
        try:
            if ray.get(actor.pid.remote()) != pid:
                return time.perf_counter() - start
        except ray.exceptions.RayError:
            time.sleep(0.005)


def attach_once(address: str) -> float:
    code = (
        "import time; start = time.perf_counter(); import ray; "
        f"ray.init(address={address!r}, log_to_driver=False, namespace='bench'); "
        "ray.get(ray.get_actor('echo').pid.remote()); print(time.perf_counter() - start)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(run.stdout.split()[-1])


if __name__ == "__main__":
    serve_ray()
