"""The demo as its user runs it: a Ray of its own, a fleet, a SIGKILL, and a check that holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.runtime.conversation_files import locomo_sample


def demo(temporary: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``temporary``: where it makes what it removes at the end."""
    command = [sys.executable, "-m", "neverforget", "demo", "--seconds", "3", "--agents", "2"]
    return subprocess.run(
        [*command, *arguments],
        capture_output=True,
        text=True,
        timeout=500,
        env={**os.environ, "TMPDIR": str(temporary)},
    )


def test_the_demo_loses_nothing_and_leaves_nothing(short_path: Path) -> None:
    done = demo(short_path, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["ok"] and told["faults"] == [] and told["failures"] == []
    assert told["acknowledged"] >= 386
    assert told["killed"]["back_in_s"] > 0
    memories = told["memories"]
    assert memories["faults"] == []
    assert memories["kept"] == memories["learned"] >= 100
    assert memories["killed"]["pid"] > 0
    assert set(memories["recalled"]) == {"by meaning", "by words", "by time"}
    assert "13 April" in memories["changed"]["now"]
    assert memories["context"]["tokens"] <= memories["context"]["max_tokens"]
    assert {"ada", "bruno", "operator"} <= set(memories["agents"])
    assert memories["audit"] == ["forget-refused", "forget", "undo-forget"]
    assert list(short_path.glob("nf-demo-*")) == []


def test_the_demo_runs_on_a_file_and_keeps_its_store_where_it_is_told(short_path: Path) -> None:
    file = short_path / "locomo.json"
    file.write_text(json.dumps([locomo_sample("s", sessions=4)]))
    done = demo(short_path, str(file), "--store", str(short_path / "store"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing was lost" in done.stdout
    assert "memories made of" in done.stdout and "<recalled-memories>" in done.stdout
    assert (short_path / "store" / "IDENTITY").exists()
