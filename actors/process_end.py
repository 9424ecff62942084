"""To be told when another process has ended."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable

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
