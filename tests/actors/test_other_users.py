"""Sockets and other users of the machine: who gets through the private folder, or puts a socket of
its own where an owner's was, is still not talked to.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from neverforget.actors.frames import frame
from neverforget.actors.greeting import greet
from neverforget.actors.messages import Hello
from neverforget.actors.server import SocketServer
from neverforget.runtime.connection import Connection
from neverforget.storage.errors import Unavailable, UnsupportedFormat
from tests.actors.echo import PATIENCE_S, STORE_ID, Echo

NOBODY = 65534
ASKS = """
import os, socket, sys
os.setuid(int(sys.argv[1]))
with socket.socket(socket.AF_UNIX) as asking:
    asking.connect(sys.argv[2])
    try:
        asking.sendall(bytes.fromhex(sys.argv[3]))
        print(len(asking.recv(1000)))
    except (BrokenPipeError, ConnectionResetError):
        print(0)
"""
WAITS = """
import os, socket, sys
os.setuid(int(sys.argv[1]))
with socket.socket(socket.AF_UNIX) as waiting:
    waiting.bind(sys.argv[2])
    waiting.listen()
    print("ready", flush=True)
    sys.stdin.read()
"""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="not run: needs root")


@pytest.fixture
def open_folder(short_path: Path) -> Path:
    """Unlike that of an owner's sockets anybody may enter it."""
    short_path.chmod(0o777)
    return short_path


@contextmanager
def listening(path: Path, user: int) -> Iterator[None]:
    command = [sys.executable, "-c", WAITS, str(user), str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        yield
        process.communicate()


@pytest.mark.parametrize("user", [0, NOBODY])
def test_an_owner_answers_its_own_user_only(open_folder: Path, user: int) -> None:
    path = open_folder / "p0.sock"
    server = SocketServer(path, Echo(), store_id=STORE_ID)
    server.start("server under test")
    try:
        path.chmod(0o666)
        command = [
            sys.executable,
            "-c",
            ASKS,
            f"{user}",
            str(path),
            frame(Hello(0, STORE_ID)).hex(),
        ]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
    finally:
        server.stop()
    assert (int(ran.stdout) > 0) == (user == 0)


def test_a_client_talks_to_nobody_of_another_user(open_folder: Path) -> None:
    path = open_folder / "p0.sock"
    with listening(path, NOBODY):
        with pytest.raises(Unavailable, match="another user"):
            greet(path, STORE_ID, PATIENCE_S)
        with pytest.raises(UnsupportedFormat, match="another user"):
            Connection(str(path), STORE_ID, 0, time.monotonic() + PATIENCE_S)
    mine = open_folder / "p1.sock"
    with listening(mine, 0), pytest.raises(TimeoutError):
        greet(mine, STORE_ID, 0.1)
