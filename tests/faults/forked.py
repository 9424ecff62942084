"""A process that carries out one thing after another, each in a child that may die.

On standard input a line for each: a child makes ready for it, says ``ready``, waits for a line, and
does it; then ``end STATUS``, negative for the signal that killed it. Forked, so that a death costs
no start of Python.
"""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.faults.shim import Shim

ROOT = Path(__file__).resolve().parent.parent.parent  # what runs here loads no pytest


class Forked:
    """``module`` runs ``main`` below."""

    def __init__(self, module: str, shim: Shim) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            env=shim.environment,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ready(self, line: str) -> None:
        self._say(line)
        assert self._hear() == "ready"

    def go(self) -> int:
        """The exit code; negative: killed by that signal."""
        self._say("go")
        return int(self._hear().removeprefix("end "))

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        assert self._process.wait(120) == 0
        self._process.stdout.close()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def main(prepare: Callable[[str], Callable[[], object]]) -> int:
    """``prepare`` makes ready for what a line says, and returns what is to be done then."""
    while line := sys.stdin.readline():
        pid = os.fork()
        if not pid:
            os._exit(_child(prepare, line.strip()))
        _, status = os.waitpid(pid, 0)
        _tell(f"end {os.waitstatus_to_exitcode(status)}")
    return 0


def _child(prepare: Callable[[str], Callable[[], object]], line: str) -> int:
    try:
        carry_out = prepare(line)
        _tell("ready")
        os.read(0, 100)
        carry_out()
        return 0
    except BaseException:
        traceback.print_exc()
        return 1


def _tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())
