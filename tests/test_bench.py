"""The arithmetic of the benchmark tables, and (long) that every script runs and reports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.compare import compare
from bench.measure import Rounds, Row, Table, interleave, quantile
from bench.report import SCRIPTS, render

ROOT = Path(__file__).resolve().parent.parent


class Scripted:
    """A contender that takes what it is told to take and notes when it was asked."""

    def __init__(self, name: str, times: list[int], asked: list[str]) -> None:
        self.name = name
        self._times = iter(times)
        self._asked = asked

    def round(self, calls: int) -> list[int]:
        self._asked.append(self.name)
        return [next(self._times)] * calls

    def close(self) -> None:
        self._asked.append(f"{self.name} closed")


def row(ours: float, ratio: float, met: bool | None = True) -> Row:
    return Row("append", "us", ours, "SQLite", 100.0, "sync", 80.0, ratio, "<= 1.25", met)


def test_contenders_take_turns_and_the_first_round_does_not_count() -> None:
    asked: list[str] = []
    a = Scripted("a", [9, 10, 40], asked)
    b = Scripted("b", [9, 20, 20], asked)
    measured = interleave([a, b], rounds=2, calls=3)
    assert asked == ["a", "b", "a", "b", "b", "a"]
    assert measured.samples == {"a": [[10] * 3, [40] * 3], "b": [[20] * 3, [20] * 3]}


def test_a_ratio_is_the_median_of_ratios_within_a_round() -> None:
    """A slow minute hits both sides of a round; it must not show in the ratio."""
    measured = Rounds({"ours": [[10], [1000], [12]], "peer": [[20], [2000], [24]]})
    assert measured.ratio("ours", "peer") == 0.5
    assert measured.us("ours") == 0.012


def test_a_quantile_is_one_of_the_samples() -> None:
    assert quantile([3, 1, 2], 0.5) == 2
    assert quantile([3, 1, 2], 1.0) == 3


def test_a_missed_target_stands_out() -> None:
    text = Table("append", "Append", [], [row(150, 1.5, met=False)]).render()
    assert "**no**" in text and "150" in text and "<= 1.25" in text


def test_a_comparison_shows_the_change_of_the_ratio() -> None:
    (line,) = compare([row(100, 1.0)], [row(150, 1.1)])
    assert "100 -> 150 (+50 %)" in line and "1 -> 1.1 (+10 %)" in line


def test_a_quick_run_is_marked_in_the_report(tmp_path: Path) -> None:
    path = tmp_path / "append.json"
    result = {
        "claim": "append",
        "title": "Append",
        "notes": [],
        "rows": [vars(row(100, 1.0))],
        "environment": {"when": "today", "load": "0", "cores": "2"},
        "quick": True,
        "seconds": 1,
    }
    path.write_text(json.dumps(result))
    text = render([path])
    assert "figures mean nothing" in text and "cores: 2" in text


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_runs_and_reports(name: str, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", f"bench.bench_{name}", "--quick", "--json", str(result)]
    run = subprocess.run(
        [*command, "--directory", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-3000:]
    if run.stdout.startswith("skipped"):
        pytest.skip(run.stdout)
    found = json.loads(result.read_text())
    assert found["rows"] or found["text"]
    assert "|---" in run.stdout
