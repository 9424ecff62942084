"""The README's example runs as printed and prints what the README says; its commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def fenced(language: str) -> list[str]:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```\n", README, re.MULTILINE | re.DOTALL)
    return [text for word, text in blocks if word == language]


def test_the_example_runs_as_printed(tmp_path: Path) -> None:
    (example,) = fenced("python")
    (printed,) = fenced("")
    assert 18 <= len([line for line in example.splitlines() if line.strip()]) <= 24
    script = tmp_path / "example.py"
    script.write_text(example)
    run = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path,
        env={"PATH": "", "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.stderr == ""
    assert run.stdout == printed


def test_every_make_command_it_names_is_a_target() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z]+)", README))
    assert named and named <= targets


def test_every_file_it_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README) + re.findall(r"`([\w./]+\.(?:md|yaml))`", README)
    assert [link for link in links if not (ROOT / link).exists()] == []
