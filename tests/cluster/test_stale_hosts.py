"""A host that is stopped as a whole, replaced, and comes back: it must not write a byte.

And owners that die between sync and reply, by a shim inside the actors, while a client goes on.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

import neverforget as nf
from neverforget.actors.greeting import greet
from neverforget.runtime.config import Config
from neverforget.runtime.host import Host
from neverforget.runtime.routing import partition_of
from neverforget.runtime.watchdog import HealthOptions
from neverforget.storage.digests import session_scope
from neverforget.storage.directory_lock import read_holder
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
    """1,000 numbered appends, retries on; the owner dies at every ninetieth sync of a log.

    The deaths used to be counted by the watchdog, once a second; between two of them an owner lives
    for 20 ms, and once it had seen none.
    """
    if reason := reason_not_to_run():
        pytest.skip(reason)
    shim = Shim(compile_shim(short_path), short_path / "table")
    host = Hosting(short_path / "store", short_path / "host.log", env=shim.environment)
    try:
        chat = host.store.session("numbers")
        partition = partition_of(session_scope((), "numbers"), host.store.config.partitions)
        log = f"/p{partition}/log/"
        rules = [
            shim.arm("fdatasync", Action.KILL_AFTER, path=log, first=90 * death)
            for death in range(1, 11)
        ]
        for number in range(1, 1001):
            assert chat.append("user", str(number)).seq == number - 1
        assert [rule.hits for rule in rules] == [1] * 10
        assert [turn.content for turn in chat] == [str(number) for number in range(1, 1001)]
        restarts = [owner.restarts for owner in host.store.status().owners]
        assert restarts[partition] == sum(restarts) == 10
    finally:
        shim.disarm_all()
        host.stop()
        shim.close()


def test_one_owners_death_leaves_the_other_alone(short_path: Path) -> None:
    host = Hosting(short_path / "store", short_path / "host.log")
    try:
        until(lambda: len(host.owners()) == 2, "both of them to serve")
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


def test_an_owner_stopped_before_anybody_greeted_it_is_replaced(
    ray_local: Any, short_path: Path
) -> None:
    """The watchdog knew the dead predecessor only, and Ray took the stopped one for alive: the
    partition stayed away for ever.
    """
    health = HealthOptions(interval_s=3600, answer_s=5.0, stopped_s=0.0, hung_s=3600, gone_s=3600)
    host = Host.start(short_path / "store", Config(), role="application", health=health)
    try:
        owner = host._watchdog.owners[0]
        until(lambda: served(host) != 0, "the owner to serve")
        host._watchdog.check(owner)
        first = owner.process
        assert first is not None
        region = Path(owner.spec.directory)
        os.kill(first.pid, signal.SIGKILL)
        until(lambda: successor(region, first.pid) != 0, "the next owner to have its lock")
        second = successor(region, first.pid)
        os.kill(second, signal.SIGSTOP)
        until(lambda: psutil.Process(second).status() == psutil.STATUS_STOPPED, "it to stop")
        host._watchdog.check(owner)
        until(lambda: dead(second), "the stopped one to be ended")
        until(lambda: served(host) not in (0, second), "the one after it to answer")
        until(lambda: successor(region, second) not in (0, first.pid), "it to have its lock")
        holder = read_holder(region)
        assert holder is not None and holder.restarts == 2
    finally:
        host.close()


def successor(region: Path, before: int) -> int:
    holder = read_holder(region)
    return 0 if holder is None or holder.process.pid == before else holder.process.pid


def served(host: Host) -> int:
    """The pid that answers for partition 0, 0 if nobody does."""
    try:
        connection, welcome = greet(host.endpoint.sockets[0], host.store.store_id, 5.0)
    except OSError:
        return 0
    connection.close()
    return welcome.pid
