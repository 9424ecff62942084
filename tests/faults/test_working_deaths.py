"""kill -9 of who works on working memories, before and after each write and sync.

What was acknowledged is there, and nothing else but the change that was under way. The next owner
is asked again for that one, under its request id, and lives on.
"""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path

import pytest

from tests.fakes.crash_filesystem import ROOT, CrashFileSystem
from tests.faults.forked import Forked
from tests.faults.shim import Action, Shim
from tests.storage.small_longterm import LongTermBench
from tests.storage.working_life import Life, seen

LAST = 80
DEATHS = [
    pytest.param("pwrite", Action.KILL_BEFORE, id="before-write", marks=pytest.mark.long),
    pytest.param("pwrite", Action.KILL_AFTER, id="between-write-and-sync"),
    pytest.param("fdatasync", Action.KILL_BEFORE, id="before-sync", marks=pytest.mark.long),
    pytest.param("fdatasync", Action.KILL_AFTER, id="between-sync-and-reply"),
]


@pytest.mark.parametrize(("call", "action"), DEATHS)
def test_a_death_at_an_exact_call_loses_and_doubles_nothing(
    shim: Shim, tmp_path: Path, long_run: bool, call: str, action: Action
) -> None:
    whole = Life()
    whole.live(LongTermBench(ROOT / "lt", fs=CrashFileSystem(), lock=False), LAST)
    told, directory = tmp_path / "told", tmp_path / "lt"

    def live(worker: Forked) -> int:
        """How it ended."""
        worker.ready(f"{told} {directory} {done() + 1} {LAST}")
        return worker.go()

    def done() -> int:
        """The last request that was."""
        said = told.read_text().split() if told.exists() else []
        return int(said[-1]) if said else 0

    with closing(Forked("tests.faults.worker", shim)) as worker:
        for death in range(30 if long_run else 4):
            # The log's own file, and never the first write of a life: that may be recovery's.
            rule = shim.arm(call, action, path=".seg", first=4 + death * 5)
            ended = live(worker)
            shim.disarm_all()
            if done() == LAST:
                break
            assert (ended, rule.hits) == (-signal.SIGKILL, 1)
            b = LongTermBench(directory)
            assert seen(b) in (whole.told.get(done()), whole.told[done() + 1]) or not done()
            assert [f for f in b.region.verify() if f.severity == "error"] == []
            b.region.close()
        if done() < LAST:
            assert (live(worker), done()) == (0, LAST)
    b = LongTermBench(directory)
    assert seen(b) == whole.told[LAST]
    b.region.close()
