"""Bells at the sockets of owners that nobody has needed yet."""

from __future__ import annotations

import queue
import socket
from functools import partial
from pathlib import Path

import pytest

from neverforget.actors.doorbell import Doorbells
from neverforget.actors.listener import Listener


def connect(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(60)
    try:
        client.connect(str(path))
    except BaseException:
        client.close()
        raise
    return client


def test_the_first_visitor_rings_and_is_sent_away(short_path: Path) -> None:
    rung: queue.Queue[str] = queue.Queue()
    bells = Doorbells()
    for name in ("one", "two"):
        bells.hang(short_path / name, partial(rung.put, name))
    bells.start()
    with connect(short_path / "two") as client:
        assert client.recv(1) == b""
    assert rung.get(timeout=60) == "two"
    with pytest.raises(ConnectionRefusedError):
        connect(short_path / "two")
    owner = Listener(short_path / "two")
    with connect(short_path / "two"), connect(short_path / "one") as client:
        assert client.recv(1) == b""
    assert rung.get(timeout=60) == "one"
    bells.close()
    owner.close(unlink=True)
    assert rung.empty()


def test_a_bell_that_was_taken_down_rings_no_more(short_path: Path) -> None:
    bells = Doorbells()
    bells.hang(short_path / "one", lambda: pytest.fail("nobody was there"))
    bells.start()
    bells.close()
    assert not (short_path / "one").exists()


def test_an_owner_that_cannot_be_started_leaves_the_other_bells(short_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("no")

    rung: queue.Queue[None] = queue.Queue()
    bells = Doorbells()
    bells.hang(short_path / "one", fail)
    bells.hang(short_path / "two", lambda: rung.put(None))
    bells.start()
    for name in ("one", "two"):
        with connect(short_path / name) as client:
            assert client.recv(1) == b""
    rung.get(timeout=60)
    bells.close()
