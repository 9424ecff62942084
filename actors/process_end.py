"""To be told when another process has ended."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Sequence

from neverforget.storage.directory_lock import ProcessId, is_alive, start_time

_POLL_S = 0.5


def when_ended(process: ProcessId, callback: Callable[[], None]) -> None:
    """Call ``callback`` on a thread of its own as soon as ``process`` has ended, also when it is
    not reaped yet, or has ended already."""
    descriptor = -1
    if hasattr(os, "pidfd_open"):
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            callback()
            return
        if start_time(process.pid) != process.start:  # another process has got its pid
            os.close(descriptor)
            callback()
            return

    def watch() -> None:
        if descriptor >= 0:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            poll.poll()
            os.close(descriptor)
        else:
            pause = threading.Event()
            while _exists(process):
                pause.wait(_POLL_S)
        callback()

    threading.Thread(target=watch, name=f"end-of-{process.pid}", daemon=True).start()


def terminate(processes: Sequence[ProcessId], within_s: float) -> list[ProcessId]:
    """SIGTERM for each, and wait. Those that are still there after ``within_s``."""
    for process in processes:
        if is_alive(process):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
    give_up_at = time.monotonic() + within_s
    pause = threading.Event()
    while left := [process for process in processes if is_alive(process)]:
        if time.monotonic() >= give_up_at:
            break
        pause.wait(0.02)
    return left


def pid_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True


def _exists(process: ProcessId) -> bool:
    return is_alive(process) if process.start >= 0 else pid_exists(process.pid)
