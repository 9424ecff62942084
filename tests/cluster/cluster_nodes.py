"""Several Ray nodes on this machine, each with processes, an address and a folder of its own.

Each is what ``ray start --block`` is on a machine: a node can be killed as by a power cut, stopped
with everything on it, ended in order, and started again with the folder that it had, or with
another. Its address is one of the loopback's, or that of a network namespace that can be cut off.
Nobody here is a driver: ``fault_control`` and the writers are, each in a process of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import psutil

from tests.conftest import ROOT, gone, processes_of

PATIENCE_S = 300.0  # for what takes seconds; a busy machine takes much longer
# A raylet that does not answer is given up after about 3 s instead of a minute.
QUICK = {
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "4",
    "RAY_raylet_start_wait_time_s": "150",  # Ray's own 30 are too few where many want a processor
}
_STORE_BYTES = 80 * 1024 * 1024


def reason_not_to_run() -> str | None:
    """Why there can be no such nodes here."""
    if not sys.platform.startswith("linux"):
        return "not run: nodes need loopback addresses of their own, as Linux has them"
    return None


def until(condition: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> Any:
    """Look again until ``condition`` is true; its value."""
    deadline = time.monotonic() + patience_s
    pause = threading.Event()
    while not (found := condition()):
        assert time.monotonic() < deadline, f"in vain: {what}"
        pause.wait(0.02)
    return found


class Net:
    """Addresses of nodes; this one is the loopback. ``prefix``: of a command that is to run where
    that node is."""

    def address(self, node: str) -> str:
        return f"127.0.1.{ord(node[0]) - ord('a') + 1}"

    def prefix(self, node: str) -> list[str]:
        return []


class RayNodes:
    """``start("a")`` is the head where no other node has been started before. Folders are called as
    the nodes. ``close`` leaves nothing behind."""

    def __init__(
        self,
        net: Net | None = None,
        environment: Mapping[str, str] = QUICK,
        *,
        persistent: bool = False,
    ) -> None:
        """``persistent``: the head keeps what it knows in a RocksDB of its own."""
        self.folder = Path(tempfile.mkdtemp(prefix="nff-"))
        self.net = net or Net()
        self.head = "a"
        self.port = _free_port(self.net.address("a")) if net is None else 6399
        self.settings = dict(environment)  # of Ray, for nodes that start from now on
        if persistent:
            self.settings["RAY_gcs_storage"] = "rocksdb"
            self.settings["RAY_gcs_storage_path"] = str(self.folder / "gcs")
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._known: dict[str, dict[int, psutil.Process]] = {}

    @property
    def address(self) -> str:
        return f"{self.ip(self.head)}:{self.port}"

    def ip(self, node: str) -> str:
        return self.net.address(node)

    def data(self, node: str) -> Path:
        return self.folder / "data" / node

    def environment(self, node: str) -> dict[str, str]:
        # Where none may keep bytecode, each of its workers would compile the package anew.
        mine = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        return {
            **mine,
            "RAY_AUTH_MODE": "disabled",
            "RAY_USAGE_STATS_ENABLED": "0",
            "NF_DATA": str(self.data(node)),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            **self.settings,
        }

    def runs(self, node: str) -> bool:
        return node in self._nodes and self._nodes[node].poll() is None

    def lives(self, node: str) -> bool:
        """Its raylet is there."""
        return any(_state(p) not in ("", psutil.STATUS_ZOMBIE) for p in self._raylets(node))

    def _raylets(self, node: str) -> list[psutil.Process]:
        return [each for each in self.processes(node) if _name(each).startswith("raylet")]

    def start(self, node: str, *, offers: bool = True, address_of: str = "") -> None:
        """Start it and wait until it has joined. ``offers``: a folder for stores. ``address_of``:
        another node's, where processes of this one are still there."""
        name = f"{node}-{time.monotonic_ns()}"
        ray = str(Path(sys.executable).with_name("ray"))
        where = address_of or node
        command = [*self.net.prefix(where), ray, "start", "--block", "--disable-usage-stats"]
        command += ["--node-ip-address", self.ip(where), "--num-cpus", "4"]
        command += ["--object-store-memory", str(_STORE_BYTES)]
        command += ["--min-worker-port", "0", "--max-worker-port", "0"]
        command += ["--dashboard-agent-listen-port", "0", "--include-log-monitor=false"]
        resources = {node: 1, **({"neverforget": 1} if offers else {})}
        command += ["--resources", json.dumps(resources)]
        if node == self.head:
            command += ["--head", "--port", str(self.port), "--include-dashboard=false"]
            command += ["--temp-dir", str(self.folder / "ray")]
        else:
            command += ["--address", self.address]
        output = self.folder / f"{name}.out"
        with output.open("wb") as file:
            process = subprocess.Popen(
                command, env=self.environment(node), stdout=file, stderr=subprocess.STDOUT
            )
        self._nodes[node] = process

        def joined() -> bool:
            assert process.poll() is None, output.read_text()[-3000:]
            self.processes(node)
            return b"Ray runtime started" in output.read_bytes()

        try:
            until(joined, f"node {node} to start")
        except AssertionError:
            self.kill(node)  # the next one is to start it anew
            raise

    def processes(self, node: str) -> list[psutil.Process]:
        """Of a node: all of them, raylet and workers included, also those whose parent has ended
        since somebody asked here."""
        known = self._known.setdefault(node, {})
        with contextlib.suppress(psutil.NoSuchProcess):
            started = psutil.Process(self._nodes[node].pid)
            for process in (started, *started.children(recursive=True)):
                known[process.pid] = process
        return [process for process in known.values() if process.is_running()]

    def kill(self, node: str) -> None:
        """All of it at once, as when the power goes."""
        killed = self.processes(node)
        _signal(killed, signal.SIGSTOP)  # nobody sees another one end
        _signal(killed, signal.SIGKILL)
        self._nodes.pop(node).wait()
        del self._known[node]

    def stop(self, node: str) -> list[psutil.Process]:
        """SIGSTOP for all of it; what ``resume`` takes."""
        stopped = self.processes(node)
        _signal(stopped, signal.SIGSTOP)
        return stopped

    def resume(self, stopped: list[psutil.Process]) -> None:
        _signal(stopped, signal.SIGCONT)

    def terminate(self, node: str) -> subprocess.Popen[bytes]:
        """SIGTERM, as an init system ends ``ray start --block``."""
        process = self._nodes[node]
        process.terminate()
        return process

    def forget(self, node: str) -> None:
        """Its processes are somebody else's to end from now on: ``close`` does."""
        other = f"{node}-{self._nodes[node].pid}"
        self._nodes[other] = self._nodes.pop(node)
        self._known[other] = self._known.pop(node, {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for node in list(self._nodes):
            self.kill(node)
        left = gone(lambda: processes_of(self.folder))
        assert not left, f"Ray left processes behind: {left}"
        shutil.rmtree(self.folder, ignore_errors=True)


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return ""


def _state(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return ""


def _signal(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue


def _free_port(address: str) -> int:
    with socket.socket() as one:
        one.bind((address, 0))
        port: int = one.getsockname()[1]
        return port
