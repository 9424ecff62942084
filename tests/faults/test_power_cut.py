"""Real power cuts: an ext4 on a loop device is shut down under a writing owner and mounted again.

Every promise is tested together with an owner that breaks it (it never syncs): that one must be
seen to lose, or the cut cuts nothing.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.faults.conftest import Disks
from tests.faults.disks import run
from tests.faults.oracle import Appender, Oracle, Owner, create_region

pytestmark = pytest.mark.root
ROUND = 1_000_000  # request numbers of a round: what failed in one is not repeated in the next


def settle(path: Path) -> None:
    """Everything so far is durable: what follows is what the test is about."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    run("sync", "--file-system", path)  # of no other: beside this one another test loses its own


@pytest.mark.parametrize(("turns", "group"), [(1, 1), (3, 5)])
def test_acknowledged_turns_survive_power_cuts(
    disks: Disks, tmp_path: Path, rng: random.Random, long_run: bool, turns: int, group: int
) -> None:
    disk = disks.loop()
    region = disk.root / "p0"
    create_region(region)
    oracle = Oracle(turns=turns)
    for cut in range(20 if long_run else 2):
        writer = Appender(
            region, tmp_path / f"acks{cut}",
            "--first", cut * ROUND + 1, "--turns", turns, "--group", group,
        )  # fmt: skip
        writer.wait_for("ack", rng.randrange(20, 400))
        began_ns = disk.power_cut()
        writer.kill()
        writer.heard_by(oracle).forget_since(began_ns)
        disk.boot()
        with Owner(region) as owner:
            owner.check(oracle)
            assert [f for f in owner.verify() if "error" in f] == []
    print(f"{len(oracle.acked)} acknowledged, 0 lost")


def test_an_owner_that_never_syncs_is_seen_to_lose(disks: Disks, tmp_path: Path) -> None:
    disk = disks.loop()
    region = disk.root / "p0"
    create_region(region)
    settle(disk.root)
    oracle = Oracle()
    writer = Appender(region, tmp_path / "acks", "--unsynced")
    writer.wait_for("ack", 200)
    disk.power_cut()
    writer.kill()
    writer.heard_by(oracle)
    disk.boot()
    with Owner(region) as owner:
        lost = owner.lost(oracle)
    print(f"{len(oracle.acked)} acknowledged, {lost} lost")
    assert lost > 0


def repeat_after_kill_then_cut(disks: Disks, tmp_path: Path, *options: str) -> tuple[int, int]:
    """Turns reach the page cache only; the owner is killed; the next one is asked the same again
    at sync="disk" and says yes; power fails. Returns (acknowledged, lost).
    """
    disk = disks.loop()
    region = disk.root / "p0"
    create_region(region)
    settle(disk.root)
    first = Appender(region, tmp_path / "first", "--sync", "process", "--count", 50, "--linger")
    first.wait_for("idle")
    first.kill()
    second = Appender(region, tmp_path / "second", "--count", 50, "--linger", *options)
    second.wait_for("idle")
    disk.power_cut()
    second.kill()
    oracle = second.heard_by(first.heard_by(Oracle()))
    assert len(oracle.acked_at_ns) == 50
    disk.boot()
    with Owner(region) as owner:
        lost = owner.lost(oracle)
        if lost == 0:
            owner.check(oracle)
    return len(oracle.acked), lost


def test_what_a_killed_owner_left_in_the_page_cache_is_durable_once_served(
    disks: Disks, tmp_path: Path
) -> None:
    acknowledged, lost = repeat_after_kill_then_cut(disks, tmp_path)
    assert (acknowledged, lost) == (50, 0)


def test_a_recovery_that_does_not_sync_is_seen_to_lose(disks: Disks, tmp_path: Path) -> None:
    acknowledged, lost = repeat_after_kill_then_cut(disks, tmp_path, "--unsynced")
    assert acknowledged == 50
    assert lost > 0


def test_a_process_sync_survives_kill_9(disks: Disks, tmp_path: Path) -> None:
    """What sync="process" promises: the death of any process, not of the machine."""
    region = tmp_path / "p0"
    create_region(region)
    writer = Appender(region, tmp_path / "acks", "--sync", "process", "--turns", 2)
    writer.wait_for("ack", 500)
    writer.kill()
    oracle = writer.heard_by(Oracle(turns=2))
    with Owner(region) as owner:
        owner.check(oracle)
