"""Writers as processes of their own, and what is reported of a scenario: a row."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import ROOT
from tests.faults.acknowledged import PATIENCE_S, Line, Verdict, hear


class NotRun(Exception):
    """The machine lacks what a scenario needs."""


@dataclass
class Row:
    """Seconds from the fault; None where a scenario has no such moment. ``detected_s``: until the
    store's status says so, or a failover is told. ``next_s``: how long the next acknowledgement of
    a client that could reach an owner took, at worst. ``last_byte_s``: when the owner that was
    replaced wrote its last record; negative: before the fault."""

    scenario: str
    verdict: Verdict
    detected_s: float | None = None
    next_s: float | None = None
    last_byte_s: float | None = None
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    control: bool = False  # it must lose turns, or nothing is proven by the others

    @property
    def ok(self) -> bool:
        if self.control:
            return self.verdict.lost > 0
        return not (self.verdict.wrong or self.verdict.untyped or self.problems)

    def why(self) -> str:
        wrong = f"{self.verdict.wrong} {dict(self.verdict.untyped)} {self.problems}"
        return f"{self.scenario}: {wrong} {self.verdict.examples}"


class Writing:
    """A writer process. ``told``: where it notes what it was told, on another file system than the
    store's. ``prefix``: of its command, where it runs in a namespace."""

    module = "tests.faults.acknowledged"

    def __init__(
        self,
        name: str,
        store: str,
        told_folder: Path,
        sessions: Sequence[str],
        *options: str,
        prefix: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name, self.sessions = name, list(sessions)
        self.told = told_folder / name
        self.told.touch()
        self._stop = told_folder / f"{name}.stop"
        self._output = told_folder / f"{name}.out"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [
                    *prefix, sys.executable, "-m", self.module,
                    "--store", store, "--told", str(self.told), "--stop", str(self._stop),
                    "--name", name, *options, *self.sessions,
                ],
                cwd=ROOT,
                env=None if environment is None else dict(environment),
                stdout=output,
                stderr=subprocess.STDOUT,
            )  # fmt: skip

    def lines(self, session: str | None = None) -> list[Line]:
        return [line for line in hear(self.told) if session in (None, line.session)]

    def acks(self, session: str) -> list[int]:
        """When turns of ``session`` were acknowledged, in nanoseconds."""
        return [line.time_ns for line in self.lines(session) if line.word == "ack"]

    def check(self) -> None:
        """It runs."""
        code = self.process.poll()
        assert code is None, f"writer {self.name} has ended with {code}: {self.said()}"

    def ends(self) -> str:
        """How it ended, for people."""
        errors = sorted({n.digest for n in self.lines() if n.word in ("unknown", "untyped")})
        return f"ended with {self.process.poll()}, was told {', '.join(errors) or 'no error'}"

    def said(self) -> str:
        return self._output.read_text(errors="replace")[-2000:]

    def stop(self) -> int:
        """Let it end; its exit code."""
        self._stop.touch()
        try:
            return self.process.wait(PATIENCE_S * 2)
        finally:
            self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def told_folder(beside: Path) -> Path:
    """A new folder on another file system than that of ``beside``, for what writers are told."""
    for folder in (Path("/dev/shm"), Path(tempfile.gettempdir())):
        if folder.is_dir() and os.stat(folder).st_dev != os.stat(beside).st_dev:
            return Path(tempfile.mkdtemp(prefix="nft-", dir=folder))
    raise NotRun("not run: there is no second file system for what writers are told")
