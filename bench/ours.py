"""neverforget as a user runs it: a host process, and clients that attach to its sockets without
Ray.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import neverforget as nf
from bench.measure import TEXT, timed

STARTED_WITHIN_S = 90.0
# No memories are made of what is appended, while something else is measured.
UNDISTURBED = ("--set", "reflect_every_turns=0")


@contextmanager
def hosted(path: Path, **config: Any) -> Iterator[nf.Store]:
    """A store that ``neverforget serve`` hosts in its own process; yields an attached handle."""
    with serving(path), nf.open(path, host="never", wait=STARTED_WITHIN_S, **config) as store:
        yield store
    assert "ray" not in sys.modules, "an attached process must not load Ray"


@contextmanager
def serving(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    log = path.with_name(path.name + ".serve.log")
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "neverforget", "serve", str(path), *UNDISTURBED],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
        )
    try:
        wait_until_served(path, process, log)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_served(path: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + STARTED_WITHIN_S
    while not (path / "ENDPOINT").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the host did not start; its log:\n{log.read_text()[-2000:]}")
        time.sleep(0.05)


class Append:
    """One ``append`` of a 300-character text turn a call, by an attached client."""

    def __init__(self, store: nf.Store, *, sync: str, session: str = "chat") -> None:
        self.name = f"append, sync={sync}"
        self._sync: Any = sync  # a word of a command line
        self._chat = store.session(session)

    def append(self) -> None:
        self._chat.append("user", TEXT, sync=self._sync)

    def round(self, calls: int) -> list[int]:
        return timed(self.append, calls)

    def close(self) -> None:
        pass


class AppendMany:
    """One ``append_many`` of 100 turns a call, durable."""

    name = "append_many"

    def __init__(self, store: nf.Store, *, batch: int = 100) -> None:
        self._turns = [{"role": "user", "content": TEXT}] * batch
        self._chat = store.session("batches")

    def append(self) -> None:
        self._chat.append_many(self._turns)

    def round(self, calls: int) -> list[int]:
        return timed(self.append, calls)

    def close(self) -> None:
        pass


class Call:
    """Any call of an attached client, under a name."""

    def __init__(self, name: str, call: Callable[[], object]) -> None:
        self.name = name
        self._call = call

    def round(self, calls: int) -> list[int]:
        return timed(self._call, calls)

    def close(self) -> None:
        pass


def fill(store: nf.Store, session: str, turns: int, *, batch: int = 1000) -> None:
    """Bring ``session`` to ``turns`` turns."""
    chat = store.session(session)
    missing = turns - len(chat)
    while missing > 0:
        chat.append_many([{"role": "user", "content": TEXT}] * min(batch, missing), sync="process")
        missing -= batch
