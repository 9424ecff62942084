"""Each guide is one program; it runs as printed and prints what the guide says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GUIDES = [ROOT / "docs" / name for name in ("memories.md", "working-memory.md", "extractors.md")]


def fenced(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w*)\n(.*?)^```\n", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_guide_prints_what_it_says(guide: Path, tmp_path: Path) -> None:
    """Every block of Python is run after the one before; a bare block is what that one printed."""
    program, expected = [], []
    for number, (language, text) in enumerate(fenced(guide.read_text())):
        if language == "python":
            program.append(f"{text}\nprint('--- after {number}')\n")
            expected.append([f"--- after {number}\n"])
        elif not language:
            expected[-1].insert(0, text)
    script = tmp_path / "guide.py"
    script.write_text("\n".join(program))
    run = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path,
        env={"PATH": "", "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.stderr == ""
    printed = re.split(r"(?<=^)(--- after \d+\n)", run.stdout, flags=re.MULTILINE)
    shown = [text + mark for text, mark in zip(printed[::2], printed[1::2])]
    assert len(shown) == len(expected)
    for said, block in zip(shown, expected):
        if len(block) == 2:  # what is not printed in the guide may be anything
            assert said == "".join(block)


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_every_file_it_links_to_is_there(guide: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", guide.read_text()):
        assert (guide.parent / link).exists(), link
