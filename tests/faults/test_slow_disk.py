"""A disk that hangs, and one that is slow: no acknowledgement without its sync, and no harm."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.faults.conftest import Disks
from tests.faults.disks import need, run, until
from tests.faults.oracle import Appender, Oracle, Owner, create_region
from tests.faults.shim import Action, Shim


@pytest.mark.root
def test_a_frozen_disk_acknowledges_nothing_and_thaws(disks: Disks, tmp_path: Path) -> None:
    disk = disks.loop()
    need("fsfreeze")
    region = disk.root / "p0"
    create_region(region)
    writer = Appender(region, tmp_path / "acks")
    writer.wait_for("ack", 20)
    run("fsfreeze", "-f", disk.root)
    try:
        frozen = time.monotonic_ns()
        until(lambda: state_of(writer.process.pid) == "D", "the owner to hang in its write")
        acknowledged = len(writer.lines())
        hung = time.monotonic_ns()
    finally:
        run("fsfreeze", "-u", disk.root)
    writer.wait_for("ack", acknowledged + 50)
    writer.kill()
    oracle = writer.heard_by(Oracle())
    within = [n for n, at in oracle.acked_at_ns.items() if frozen < at < hung]
    assert len(within) <= 1, "one may have been synced by the freezing itself"
    with Owner(region) as owner:
        owner.check(oracle)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_sync_that_hangs_acknowledges_nothing(shim: Shim, tmp_path: Path) -> None:
    region = tmp_path / "p0"
    create_region(region)
    writer = Appender(region, tmp_path / "acks", env=shim.environment)
    writer.wait_for("ack", 5)
    hangs = shim.arm("fdatasync", Action.BLOCK, path=".seg", ever_after=True)
    until(lambda: hangs.hits == 1, "a sync to hang")
    acknowledged = len(writer.lines())
    writer.kill()
    assert len(writer.lines()) == acknowledged
    with Owner(region) as owner:
        owner.check(writer.heard_by(Oracle()))


def test_a_group_shares_one_slow_sync(shim: Shim, tmp_path: Path) -> None:
    """Every sync takes 50 ms: a group of 20 requests waits for one of them, not for 20."""
    region = tmp_path / "p0"
    create_region(region)
    syncs = shim.arm("fdatasync", Action.DELAY_MS, path=".seg", argument=50, ever_after=True)
    writer = Appender(
        region, tmp_path / "acks", "--group", 20, "--count", 100, env=shim.environment
    )
    assert writer.wait() == 0
    oracle = writer.heard_by(Oracle())
    assert len(oracle.acked) == 100
    assert syncs.hits <= 5 + 8, "five groups, opening and closing"
