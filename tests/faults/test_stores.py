"""Whole stores, opened inline as a user would: full disks, killed owners, deaths in creation."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import neverforget as nf
from tests.faults.conftest import Disks
from tests.faults.disks import MIB, LoopDisk
from tests.faults.shim import Action, Shim

_APPEND_FOR_EVER = """
import sys, neverforget as nf
store = nf.open(sys.argv[1], inline=True, reflect_every_turns=0)
chats = [store.session(f"chat-{i}") for i in range(4)]
turn = 0
while True:
    told = chats[turn % 4].append("user", f"turn {turn}")
    print(told.session, told.seq, told.content, flush=True)
    turn += 1
"""
# For every line a store, made in a process of its own: a fork, which need not import anything.
_CREATE = """
import os, sys, neverforget as nf
import neverforget.runtime.inline, neverforget.storage.longterm, neverforget.storage.region
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        with nf.open(line.rstrip("\\n"), inline=True) as store:
            store.session("first").append("user", "hello")
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.root
def test_twenty_mebibytes_filled_in_mid_append(disks: Disks) -> None:
    """OutOfSpace, reads go on, and after freeing space the same store, opened or not, goes on."""
    disk = disks.tmpfs(20 * MIB)
    path = disk.root / "store"
    said: dict[str, list[str]] = {f"chat-{i}": [] for i in range(6)}

    def talk(store: nf.Store, n_bytes: int) -> None:
        for turn in range(100_000):
            name = f"chat-{turn % 6}"
            text = f"{len(said[name])} ".ljust(n_bytes, "*")
            store.session(name).append("user", text)
            said[name].append(text)

    def check(store: nf.Store) -> None:
        for name, texts in said.items():
            assert [turn.content for turn in store.session(name)] == texts

    with nf.open(path, inline=True, reflect_every_turns=0) as store:
        with pytest.raises(nf.OutOfSpace, match="free"):
            talk(store, 20_000)
        assert sum(map(len, said.values())) > 100
        check(store)
        ballast = disk.fill()
        with pytest.raises(nf.OutOfSpace):
            talk(store, 20_000)
        check(store)
        assert store.session("chat-0").tail(1)[0].content == said["chat-0"][-1]
    with nf.open(path, inline=True) as store:  # opened on the full disk
        check(store)
        ballast.unlink()
        disk.remount(f"size={60 * MIB}")
        text = "and on it goes"
        store.session("chat-0").append("user", text)
        said["chat-0"].append(text)
        check(store)
        assert store.verify().ok


def test_a_killed_owner_needs_no_cleaning_up(tmp_path: Path) -> None:
    path = tmp_path / "store"
    owner = subprocess.Popen(
        [sys.executable, "-c", _APPEND_FOR_EVER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    lines = [owner.stdout.readline() for _ in range(300)]
    with pytest.raises(nf.StoreLocked) as locked:
        nf.open(path, inline=True)
    assert locked.value.pid == owner.pid
    owner.kill()
    rest, _ = owner.communicate()
    with nf.open(path, inline=True) as store:
        for line in [*lines, *rest.splitlines(keepends=True)]:
            if not line.endswith("\n"):  # killed while it printed it
                continue
            session, seq, content = line.strip().split(" ", 2)
            assert store.session(session).get(int(seq)).content == content
        assert store.verify().ok


@pytest.mark.root
def test_a_store_whose_creation_dies_anywhere_is_created_by_the_next(
    shim: Shim, disks: Disks, long_run: bool
) -> None:
    """kill -9 at a call of the first opening, then a power cut, then a second opening."""
    disk = disks.loop(128 * MIB)
    creator = subprocess.Popen(
        [sys.executable, "-c", _CREATE],
        env=shim.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with creator:
        deaths_in_creation(creator, shim, disk, long_run)


def deaths_in_creation(
    creator: subprocess.Popen[str], shim: Shim, disk: LoopDisk, long_run: bool
) -> None:
    counted = {call: shim.arm(call, Action.COUNT, ever_after=True) for call in CALLS}
    create(creator, disk.root / "counted", 0)
    totals = {call: rule.seen for call, rule in counted.items()}
    shim.disarm_all()
    assert totals["rename"] >= 5 and totals["fdatasync"] >= 10
    step = 1 if long_run else 7
    deaths = [(call, n) for call in CALLS for n in range(1, totals[call] + 1)][::step]
    for index, (call, number) in enumerate(deaths):
        path = disk.root / f"store{index}"
        shim.arm(call, Action.KILL_AFTER if index % 2 else Action.KILL_BEFORE, first=number)
        create(creator, path, -signal.SIGKILL)
        shim.disarm_all()
        disk.power_cut()
        disk.boot()
        with nf.open(path, inline=True) as store:
            chat = store.session("first")
            assert len(chat) in (0, 1)
            chat.append("user", "again")
            assert chat[-1].content == "again"
            assert store.verify().ok
        shutil.rmtree(path)


CALLS = ("fdatasync", "fsync", "rename", "allocate")


def create(creator: subprocess.Popen[str], path: Path, code: int) -> None:
    assert creator.stdin is not None and creator.stdout is not None
    creator.stdin.write(f"{path}\n")
    creator.stdin.flush()
    assert creator.stdout.readline() == f"{code}\n"
