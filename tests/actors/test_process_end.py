"""Processes that are told to end, with real ones."""

from __future__ import annotations

import subprocess
import sys

from neverforget.actors.process_end import terminate
from neverforget.storage.directory_lock import ProcessId, is_alive, start_time

_WAIT = "print(flush=True); input()"
_REFUSE = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {_WAIT}"


def test_who_does_not_end_when_told_is_named() -> None:
    """One that has ended already is no error, and holds nobody up."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for script in (_WAIT, _REFUSE, _WAIT)
    ]
    try:
        for process in running:
            assert process.stdout is not None
            process.stdout.readline()
        ids = [ProcessId(each.pid, start_time(each.pid)) for each in running]
        running[2].kill()
        running[2].wait()
        assert terminate(ids[:1], 60.0) == []
        assert not is_alive(ids[0])
        assert terminate(ids, 0.5) == ids[1:2]
    finally:
        for process in running:
            process.kill()
            process.communicate()
