"""Stores for the client's tests: inline, and attached over real sockets to a host without Ray."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.runtime.cli import run
from neverforget.runtime.cli_store import STORE_VARIABLE
from neverforget.runtime.config import Config
from tests.fakes.plain_host import PlainHost
from tests.runtime.cli_calls import Cli, Ran

# Nothing becomes a memory that a test has not remembered.
SMALL: dict[str, Any] = {
    "partitions": 2,
    "segment_bytes": 64 * 1024,
    "reflect_every_turns": 0,
}

Opener = Callable[..., nf.Store]


@pytest.fixture
def tmp_path(memory_path: Path) -> Path:
    """What the client makes of a disk's answers is tested here, not the disk."""
    path = memory_path / "tmp"
    path.mkdir()
    return path


@pytest.fixture
def short_path(memory_path: Path) -> Path:
    path = memory_path / "short"
    path.mkdir()
    return path


@pytest.fixture
def host(short_path: Path) -> Iterator[PlainHost]:
    """A host of an empty store, in this process; its path is ``host.store.path``."""
    running = PlainHost(short_path / "store", Config(**SMALL))
    yield running
    running.close()


@pytest.fixture
def inline(tmp_path: Path) -> Iterator[nf.Store]:
    """An inline store of two partitions."""
    with nf.open(tmp_path / "store", inline=True, agent="ada", **SMALL) as store:
        yield store


@pytest.fixture(params=["inline", "attached"])
def opener(request: pytest.FixtureRequest) -> Iterator[Opener]:
    """Opens one and the same store, in either mode; what it opened is closed afterwards."""
    opened: list[nf.Store] = []
    if request.param == "inline":
        path = request.getfixturevalue("tmp_path") / "store"
        mode: dict[str, Any] = {"inline": True, **SMALL}
    else:
        path, mode = request.getfixturevalue("host").store.path, {"host": "never"}

    def open_store(**arguments: Any) -> nf.Store:
        opened.append(nf.open(path, **{**mode, **arguments}))
        return opened[-1]

    yield open_store
    for store in opened:
        store.close()


@pytest.fixture
def store(opener: Opener) -> nf.Store:
    """A store in either mode, for the agent ada."""
    return opener(agent="ada")


@pytest.fixture
def chat(store: nf.Store) -> nf.Session:
    """An empty session, in either mode."""
    return store.session("chat")


def filled(chat: nf.Session, count: int) -> nf.Session:
    """``chat`` with ``count`` user turns whose content is their seq."""
    chat.append_many([{"role": "user", "content": str(n)} for n in range(count)])
    return chat


def seqs(turns: Any) -> list[int]:
    return [turn.seq for turn in turns]


@pytest.fixture
def cli(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.delenv(STORE_VARIABLE, raising=False)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: str | Path) -> Ran:
        capfdbinary.readouterr()
        code = run([str(each) for each in arguments])
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        return Ran(code, captured.out.decode(), captured.err.decode())

    return call
