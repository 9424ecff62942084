"""The command line on a store that a process hosts: everything attaches, nothing starts Ray."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.cluster.processes import PATIENCE_S

NEVERFORGET = [sys.executable, "-m", "neverforget"]


def cli(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*NEVERFORGET, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


class Serving:
    """``neverforget serve`` in the background, once it serves."""

    def __init__(self, path: Path) -> None:
        command = [*NEVERFORGET, "serve", str(path), "--json"]
        command = ["sh", "-c", 'ulimit -S -n 256; exec "$@"', "-", *command]  # a system's default
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.out: IO[str] = self.process.stdout
        self.told = json.loads(self.out.readline())

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        with self.out:
            return self.process.wait(timeout=PATIENCE_S)


@pytest.fixture
def serving(short_path: Path) -> Iterator[Serving]:
    made = Serving(short_path / "memory")
    yield made
    if made.process.poll() is None:
        made.end()


def test_commands_attach_to_the_host_and_a_tail_follows_it(
    serving: Serving, short_path: Path
) -> None:
    memory = short_path / "memory"
    assert serving.told["ready"] is True
    assert cli("append", memory, "s", "user", "first").stdout == "s #0\n"
    command = [*NEVERFORGET, "tail", "-f", str(memory), "s", "--json"]
    tail = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with tail:
        assert tail.stdout is not None
        assert json.loads(tail.stdout.readline())["content"] == "first"
        assert cli("append", memory, "s", "user", "second").returncode == 0
        assert json.loads(tail.stdout.readline())["content"] == "second"
        tail.send_signal(signal.SIGINT)
        assert tail.wait(timeout=PATIENCE_S) == 130
    name = cli("remember", memory, "the cat sat on the mat", "--tag", "pets").stdout.strip()
    found = json.loads(cli("recall", memory, "feline", "--json", "--wait", "120").stdout)
    assert [(item["memory"]["id"], set(item["sources"])) for item in found["items"]] == [
        (name, {"vector"})
    ]
    assert cli("forget", memory, name).returncode == 5
    assert cli("forget", memory, name, "--confirm", "confirmed").returncode == 0
    assert cli("get", memory, name).returncode == 3
    assert cli("undo-forget", memory, name).returncode == 0
    audit = json.loads(cli("audit", memory, "--json").stdout)["items"]
    assert [e["operation"] for e in audit] == ["forget-refused", "forget", "undo-forget"]
    status = json.loads(cli("status", memory, "--json").stdout)
    for pid in (serving.process.pid, *(owner["pid"] for owner in status["owners"])):
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        assert soft == hard > 256, "descriptors for thousands of segments"
    assert status["host"]["pid"] == serving.process.pid
    assert all(owner["pid"] != serving.process.pid for owner in status["owners"])
    assert (status["turns"], status["memories"], status["healthy"]) == (2, 1, True)
    assert cli("verify", memory).returncode == 0
    assert len(cli("export", memory).stdout.splitlines()) == 3
    assert cli("backup", memory, short_path / "copy").returncode == 0


def test_a_second_host_is_refused_and_the_first_ends_in_order(
    serving: Serving, short_path: Path
) -> None:
    memory = short_path / "memory"
    second = cli("serve", memory)
    assert second.returncode == 4
    assert str(serving.process.pid) in second.stderr
    assert "Traceback" not in second.stderr
    assert cli("append", memory, "s", "user", "kept").returncode == 0
    assert serving.end() == 0
    # Nobody hosts it now: the same command opens it by itself.
    assert '"kept"' in cli("tail", memory, "s", "--json").stdout


def test_a_copy_of_a_hosted_store_is_a_store_of_its_own(serving: Serving, short_path: Path) -> None:
    """``cp -a`` takes ENDPOINT along, and what was said to the copy went to the original."""
    memory, copy = short_path / "memory", short_path / "copied"
    assert cli("append", memory, "s", "user", "before").returncode == 0
    subprocess.run(["cp", "-a", memory, copy], check=True)
    assert cli("append", copy, "s", "user", "to the copy").stdout == "s #1\n"
    assert cli("append", memory, "s", "user", "to the original").stdout == "s #1\n"
    for store, last in ((copy, "to the copy"), (memory, "to the original")):
        lines = cli("tail", store, "s", "--json").stdout.splitlines()
        assert [json.loads(line)["content"] for line in lines] == ["before", last]
    other = Serving(copy)
    assert other.told["sockets"] != serving.told["sockets"]
    assert cli("append", copy, "s", "user", "hosted").stdout == "s #2\n"
    assert other.end() == 0
    assert len(cli("tail", memory, "s", "--json").stdout.splitlines()) == 2


def test_a_host_says_at_once_that_it_serves_also_into_a_pipe(short_path: Path) -> None:
    command = [*NEVERFORGET, "serve", str(short_path / "memory")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if line.startswith("serving "))
        assert f"process {process.pid}, until interrupted" in said
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait(timeout=PATIENCE_S) == 0
