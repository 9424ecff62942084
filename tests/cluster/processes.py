"""Hosts and clients as processes of their own, for tests with real Ray."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from neverforget.runtime.endpoint import Endpoint, read_endpoint
from neverforget.runtime.watchdog import HealthOptions
from neverforget.storage.directory_lock import ProcessId, is_alive, read_holder

PATIENCE_S = 150.0  # for what takes a second; a busy machine takes much longer, and nobody waits

# A watchdog that notices soon who is stopped or gone. Silence proves nothing where many wait for a
# processor, so an owner may be silent for as long as usual.
QUICK = HealthOptions(interval_s=0.1, answer_s=1.0, stopped_s=0.3, gone_s=0.5)


def until(condition: Callable[[], Any], what: str) -> Any:
    """Look again until ``condition`` is true; its value."""
    deadline = time.monotonic() + PATIENCE_S
    pause = threading.Event()
    while not (found := condition()):
        assert time.monotonic() < deadline, f"in vain: {what}"
        pause.wait(0.02)
    return found


def python(script: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """A process that runs ``script``, whose standard output can be read."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def told(process: subprocess.Popen[str]) -> Any:
    """What the process printed last, as JSON, when it has ended well."""
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, output
    return json.loads(output.splitlines()[-1])


ATTACH = """
import json, sys
from neverforget.runtime.opening import attach
attachment = attach(sys.argv[1], host=sys.argv[2], wait=120.0)
heavy = sorted({"ray", "numpy", "pyarrow", "faiss"} & set(sys.modules))
endpoint = attachment.endpoint
print(json.dumps({
    "pid": endpoint.pid, "kind": endpoint.kind, "store": endpoint.store_id, "heavy": heavy,
}))
"""


def attached(path: Path, host: str = "auto", **environment: str) -> dict[str, Any]:
    """What a process finds that attaches to ``path`` and ends."""
    found: dict[str, Any] = told(python(ATTACH, str(path), host, **environment))
    return found


def living(path: Path) -> Endpoint:
    """The endpoint of the host of ``path``, when it is up."""

    def look() -> Endpoint | None:
        found = read_endpoint(path)
        return found if found is not None and found.alive else None

    endpoint: Endpoint = until(look, f"a host of {path}")
    return endpoint


def end_host(path: Path, number: int = signal.SIGTERM) -> None:
    """End whatever process holds ``path``, if it is another one, and wait for that."""
    holder = read_holder(path)
    if holder is None or not is_alive(holder.process) or holder.process.pid == os.getpid():
        return
    os.kill(holder.process.pid, number)
    os.kill(holder.process.pid, signal.SIGCONT)
    until_gone(holder.process)


def until_gone(process: ProcessId) -> None:
    until(lambda: not is_alive(process), f"the end of process {process.pid}")
