"""Two hundred tasks connect at once, each in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, gone, processes_of

TASKS = 200  # 45 MB each


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="nfc-"))
    yield made
    left = gone(lambda: processes_of(made))
    shutil.rmtree(made, ignore_errors=True)
    assert not left, f"Ray left processes behind: {left}"


@pytest.mark.long
def test_two_hundred_tasks_connect_and_all_of_them_get_a_live_handle(folder: Path) -> None:
    """None ends before all have appended through its handle; then they do it again in the same
    processes, and twenty processes that are no tasks do it as well."""
    run = subprocess.run(
        [sys.executable, "-m", "bench.connecting", "connect", f"{TASKS}", "1", str(folder / "one")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.returncode == 0, run.stdout
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["reused"] and found["again_s"]
