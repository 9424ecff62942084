"""Starting ``neverforget serve`` as a process of its own, once, however many want it at a time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neverforget.runtime.process_environment import python_path
from neverforget.runtime.start_report import ReportPipe
from neverforget.runtime.store_directory import HOST_LOG, START_LOCK, make_directory
from neverforget.storage.directory_lock import boot_id, is_alive, may_end, read_holder
from neverforget.storage.errors import StoreLocked, Unavailable

LINGER_S = 60
_LOG_BYTES_MAX = 1024 * 1024
_SHELL_S = 60.0

# The shell starts the host in the background and ends: the host is nobody's child. It leaves no
# zombie, and Ray, which kills the children of its workers, lets it live.
_DETACH = '"$@" &'


def start_host(path: Path, settings: Mapping[str, Any], deadline: float, *, create: bool) -> bool:
    """Start a host and wait until it serves.

    False: somebody else is at it, or has the store already; look again in a moment. Raises what
    went wrong: the host's own error, or Unavailable with the last line of its log.
    """
    make_directory(path, create=create)
    with contextlib.ExitStack() as stack:
        descriptor = os.open(path / START_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        stack.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if is_held(path):
            return False
        pipe = ReportPipe()
        stack.callback(pipe.close)
        _launch(path, settings, pipe)
        try:
            if pipe.wait(deadline):
                return True
        except StoreLocked:
            return False  # one that came another way was faster
        except TimeoutError:
            raise Unavailable(
                f"the host of {path} is still starting; see {path / HOST_LOG}, or wait longer",
                outcome="not_applied",
            ) from None
        raise Unavailable(
            f"the host of {path} did not start: {_last_line(path / HOST_LOG)}",
            outcome="not_applied",
        )


def is_held(path: Path) -> bool:
    """Somebody alive has the store, and the next host could not take it from him."""
    holder = read_holder(path)
    if holder is None or holder.boot != boot_id():
        return False
    return is_alive(holder.process) and not may_end(holder)


def _launch(path: Path, settings: Mapping[str, Any], pipe: ReportPipe) -> None:
    # -P: whatever stands in the caller's directory is not imported in place of what is meant.
    command = [sys.executable, "-P", "-m", "neverforget", "serve", str(path)]
    command += ["--linger", str(LINGER_S)]
    for name, value in settings.items():
        command += ["--set", f"{name}={json.dumps(value)}"]
    log = path / HOST_LOG
    if log.exists() and log.stat().st_size > _LOG_BYTES_MAX:
        log.replace(log.with_suffix(".log.old"))
    with open(log, "ab", opener=_private) as output:
        try:
            shell = subprocess.Popen(
                ["/bin/sh", "-c", _DETACH, "sh", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                start_new_session=True,
                pass_fds=[pipe.descriptor],
                env={**os.environ, **pipe.environment, "PYTHONPATH": python_path()},
            )
        finally:
            pipe.started()
        shell.wait(timeout=_SHELL_S)


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def _last_line(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError as error:
        return f"(no log: {error})"
    return next((line.strip() for line in reversed(lines) if line.strip()), "(it said nothing)")


def pause(attempt: int, deadline: float) -> None:
    """Between two looks: 10 ms, growing to 100."""
    time.sleep(max(0.0, min(0.01 * 1.5 ** min(attempt, 6), 0.1, deadline - time.monotonic())))
