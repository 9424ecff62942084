"""kill -9 of a hosted owner around the put to its replica, and then the loss of its whole disk."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import neverforget as nf
from neverforget.runtime.config import Config
from neverforget.runtime.restoring import restore
from tests.fakes.plain_host import PlainHost, end

PATIENCE_S = 60.0
ROUNDS = 2


class Hosted:
    """A store and the process that hosts it, started again whenever it was killed."""

    def __init__(self, directory: Path) -> None:
        self.path, self.away = directory / "store", directory / "away"
        self.told = directory / "told"
        self.deaths = 0
        self.process: subprocess.Popen[bytes] | None = None
        config = Config(
            partitions=1, segment_bytes=64 * 1024, embedder="none", replica=f"file://{self.away}"
        )
        PlainHost(self.path, config).close()
        self._ended = threading.Event()
        self._serving = threading.Event()
        self._keeper = threading.Thread(target=self._keep)
        self._keeper.start()
        assert self._serving.wait(PATIENCE_S)

    def _keep(self) -> None:
        while not self._ended.is_set():
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.replica_host", str(self.path), str(self.told)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            assert self.process.stdout is not None
            if self.process.stdout.readline() == b"serving\n":
                self._serving.set()
            code = self.process.wait()
            end(self.process)
            if code == -9:
                self.deaths += 1
                self.told.unlink()

    def close(self) -> None:
        self._ended.set()
        assert self.process is not None and self.process.stdin is not None
        self.process.stdin.close()
        self._keeper.join(PATIENCE_S)


@pytest.fixture
def hosted(short_path: Path) -> Iterator[Hosted]:
    found = Hosted(short_path)
    yield found
    if not found._ended.is_set():
        found.close()


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.long), "after"])
def test_what_was_acknowledged_at_replica_is_there_once_and_in_order(
    hosted: Hosted, when: str, short_path: Path
) -> None:
    said = []
    with nf.open(hosted.path, host="never", wait=PATIENCE_S, deadline_s=PATIENCE_S) as store:
        chat = store.session("chat")
        for number in range(ROUNDS):
            said.append(f"{number}: calm")
            chat.append("user", said[-1], sync="replica")
            hosted.told.write_text(when)
            said.append(f"{number}: around a death")
            turn = chat.append("user", said[-1], sync="replica", key=f"k{number}")
            assert turn.seq == len(said) - 1 and hosted.deaths == number + 1
        assert [turn.content for turn in chat] == said
    hosted.close()
    shutil.rmtree(hosted.path)
    restore(short_path / "new", f"file://{hosted.away}")
    with nf.open(short_path / "new", inline=True) as store:
        assert [turn.content for turn in store.session("chat")] == said
        assert store.verify().ok
