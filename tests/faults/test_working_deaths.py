"""kill -9 of who works on working memories, before and after each write and sync.

What was acknowledged is there, and nothing else but the change that was under way. The next owner
is asked again for that one, under its request id, and lives on.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.crash_filesystem import ROOT, CrashFileSystem
from tests.faults.oracle import ROOT as CHECKOUT
from tests.faults.shim import Action, Shim
from tests.storage.small_longterm import LongTermBench
from tests.storage.working_life import Life, seen

LAST = 80
DEATHS = [
    pytest.param("pwrite", Action.KILL_BEFORE, id="before-write"),
    pytest.param("pwrite", Action.KILL_AFTER, id="between-write-and-sync"),
    pytest.param("fdatasync", Action.KILL_BEFORE, id="before-sync"),
    pytest.param("fdatasync", Action.KILL_AFTER, id="between-sync-and-reply"),
]


def live(directory: Path, first: int, shim: Shim) -> tuple[int, int]:
    """How it ended, and the last request that was done."""
    command = [sys.executable, "-m", "tests.faults.worker", str(directory), str(first), str(LAST)]
    run = subprocess.run(
        command, cwd=CHECKOUT, env=shim.environment, capture_output=True, text=True, check=False
    )
    said = [line.split() for line in run.stdout.split("\n")[:-1]]
    return run.returncode, int(said[-1][1]) if said else first - 1


@pytest.mark.parametrize(("call", "action"), DEATHS)
def test_a_death_at_an_exact_call_loses_and_doubles_nothing(
    shim: Shim, tmp_path: Path, long_run: bool, call: str, action: Action
) -> None:
    whole = Life()
    whole.live(LongTermBench(ROOT / "lt", fs=CrashFileSystem(), lock=False), LAST)
    done = 0
    for death in range(30 if long_run else 4):
        # The log's own file, and never the first write of a life: that may be recovery's.
        rule = shim.arm(call, action, path=".seg", first=4 + death * 5)
        ended, done = live(tmp_path / "lt", done + 1, shim)
        shim.disarm_all()
        if done == LAST:
            break
        assert (ended, rule.hits) == (-signal.SIGKILL, 1)
        b = LongTermBench(tmp_path / "lt")
        assert seen(b) in (whole.told.get(done), whole.told[done + 1]) or not done
        assert [f for f in b.region.verify() if f.severity == "error"] == []
        b.region.close()
    if done < LAST:
        assert live(tmp_path / "lt", done + 1, shim) == (0, LAST)
    b = LongTermBench(tmp_path / "lt")
    assert seen(b) == whole.told[LAST]
    b.region.close()
