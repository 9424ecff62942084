"""A host that is stopped as a whole, replaced, and comes back: it must not write a byte.

And owners that die between sync and reply, by a shim inside the actors, while a client goes on.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

import neverforget as nf
from tests.faults.disks import until
from tests.faults.kill_rounds import Hosting
from tests.faults.shim import Action, Shim, compile_shim, reason_not_to_run

pytestmark = pytest.mark.faults


def log_bytes(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(path.glob("regions/*/log/*.seg")))


def stop_tree(root: psutil.Process) -> list[psutil.Process]:
    """SIGSTOP the host, its raylet and owners; those that it stopped."""
    tree = [root, *root.children(recursive=True)]
    for process in tree:
        process.send_signal(signal.SIGSTOP)
    until(
        lambda: all(p.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE) for p in tree),
        "all of them to be stopped",
    )
    return tree


def test_a_stopped_host_is_replaced_and_never_writes_again(short_path: Path) -> None:
    path = short_path / "store"
    old = Hosting(path, short_path / "old.log")
    chats = [old.store.session(f"chat-{i}") for i in range(6)]
    for turn in range(20):
        for chat in chats:
            assert chat.append("user", f"old {turn}").seq == turn
    owners = sorted(old.owners().values())
    assert len(owners) == 2
    old.store.close()  # or this process would go on through the handle it has
    tree = stop_tree(psutil.Process(old.pid))
    new = Hosting(path, short_path / "new.log")
    try:
        assert old.poll() == -signal.SIGKILL
        until(lambda: all(map(dead, owners)), "the old owners to be dead")
        for i in range(6):
            assert new.store.session(f"chat-{i}").append("user", "new").seq == 20
        before = log_bytes(path)
        for process in tree:
            if process.is_running():
                process.send_signal(signal.SIGCONT)
        assert all(map(dead, owners))
        for i in range(6):
            texts = [turn.content for turn in new.store.session(f"chat-{i}")]
            assert texts == [f"old {turn}" for turn in range(20)] + ["new"]
        after = log_bytes(path)
        assert len(after) == len(before)
        assert new.store.verify().ok
    finally:
        new.stop()
        old.stop()
        for process in tree:  # Ray's agents take a minute to notice that they are alone
            if process.is_running():
                process.kill()


def dead(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_thousand_appends_through_ten_deaths_between_sync_and_reply(short_path: Path) -> None:
    """1,000 numbered appends, retries on; the owner dies after the sync of every hundredth."""
    if reason := reason_not_to_run():
        pytest.skip(reason)
    shim = Shim(compile_shim(short_path), short_path / "table")
    host = Hosting(short_path / "store", short_path / "host.log", env=shim.environment)
    try:
        chat = host.store.session("numbers")
        rules = [
            shim.arm("fdatasync", Action.KILL_AFTER, path="/log/", first=90 * death)
            for death in range(1, 11)
        ]
        for number in range(1, 1001):
            assert chat.append("user", str(number)).seq == number - 1
        assert [rule.hits for rule in rules] == [1] * 10
        assert [turn.content for turn in chat] == [str(number) for number in range(1, 1001)]
        assert sum(owner.restarts for owner in host.store.status().owners) > 0
    finally:
        shim.disarm_all()
        host.stop()
        shim.close()


def test_one_owners_death_leaves_the_other_alone(short_path: Path) -> None:
    host = Hosting(short_path / "store", short_path / "host.log")
    try:
        owners = host.owners()
        before = {o.partition: o.epoch for o in host.store.status().owners}
        os.kill(owners[0], signal.SIGKILL)
        for i in range(20):
            host.store.session(f"chat-{i}").append("user", "still here")
        after = {o.partition: (o.pid, o.epoch) for o in host.store.status().owners}
        assert after[1] == (owners[1], before[1])
        assert after[0][0] != owners[0] and after[0][1] == before[0] + 1
        assert isinstance(host.store, nf.Store)
    finally:
        host.stop()
