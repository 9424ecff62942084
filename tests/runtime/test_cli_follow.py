"""``tail -f`` goes on over hosts that come and go, and says so."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import neverforget as nf
from neverforget.runtime import cli_follow
from tests.fakes import plain_host


@contextmanager
def killed_at_the_end(process: subprocess.Popen[str]) -> Iterator[None]:
    """Leaving a ``Popen`` waits for it: a failed assertion would wait for ever."""
    try:
        yield
    finally:
        process.kill()


def test_a_follower_says_at_once_that_its_host_is_gone_and_goes_on_with_the_next(
    short_path: Path,
) -> None:
    """After a `kill -9` of the host it said nothing for most of a minute."""
    path = short_path / "store"
    first = plain_host.spawn(path)
    with nf.open(path, host="never") as store:
        store.session("chat").append("user", "one")
    tail = subprocess.Popen(
        [sys.executable, "-m", "neverforget", "tail", "-f", str(path), "chat", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert tail.stdout is not None and tail.stderr is not None
    with tail, killed_at_the_end(tail):
        assert json.loads(tail.stdout.readline())["content"] == "one"
        first.kill()
        plain_host.end(first)
        assert "nobody hosts this store now; waiting" in tail.stderr.readline()
        second = plain_host.spawn(path)
        with nf.open(path, host="never") as store:
            store.session("chat").append("user", "two")
        assert json.loads(tail.stdout.readline())["content"] == "two"
        plain_host.end(second)
        assert "nobody hosts this store now; waiting" in tail.stderr.readline()
        tail.send_signal(signal.SIGINT)
        assert tail.wait(timeout=60) == 130


def test_a_follower_does_not_wait_for_rights_that_it_has_lost(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody gives them back by hosting the store."""
    refused = nf.Unavailable("closed to you", outcome="not_applied")
    refused.__cause__ = PermissionError(errno.EACCES, "Permission denied")

    def is_hosted(path: Path) -> bool:
        raise refused

    monkeypatch.setattr(cli_follow, "is_hosted", is_hosted)
    with pytest.raises(nf.Unavailable, match="closed to you"):
        next(cli_follow.follow_session(short_path, (), "chat", after=-1))
