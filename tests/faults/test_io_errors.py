"""Writes and syncs that fail: nothing is acknowledged, nothing retried in place, nothing lost.

After a failed sync the kernel answers the next one with a false success. The owner must not believe
it: it opens its log anew, writes again what it accepts, and only then goes on.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path

import pytest

import neverforget as nf
from tests.faults.conftest import Disks
from tests.faults.disks import MIB, NbdDisk, ThinDisk, run, until
from tests.faults.oracle import Appender, Oracle, Owner, create_region
from tests.faults.shim import Action, Shim

Failing = tuple[Action, int]  # ... and its argument


def failed_in_turn(shim: Shim, directory: Path, call: str, rules: Iterable[Failing]) -> None:
    """One owner meets one failure after the other: the request that it hits has an unknown outcome,
    the owner recovers by itself, the same request is asked again and answered.
    """
    region = directory / "p0"
    create_region(region, 64 * MIB)  # far from half full: no call but the appends' own is hit
    writer = Appender(region, directory / "acks", "--turns", 2, "--persist", env=shim.environment)
    writer.wait_for("ack", 5)
    met = 0
    for action, argument in rules:
        rule = shim.arm(call, action, path=".seg", argument=argument, first=2)
        met += 1
        writer.wait_for("error", met)
        answered = sum(line.startswith("ack") for line in writer.lines())
        writer.wait_for("ack", answered + 5)
        assert rule.hits == 1
    writer.kill()
    oracle = writer.heard_by(Oracle(turns=2))
    assert [code for _, code in oracle.errors] == ["poisoned"] * met
    for failed, _ in oracle.errors:
        assert failed in oracle.acked_at_ns, "the same request was asked again, and answered"
    with Owner(region) as owner:
        owner.check(oracle)
        assert owner.verify() == []


def test_a_short_write_is_never_acknowledged(shim: Shim, tmp_path: Path) -> None:
    shorts = [0, 1, 63, 64, 65, 128, 200]
    failed_in_turn(shim, tmp_path, "pwrite", [(Action.SHORT, short) for short in shorts])


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_a_failed_call_is_an_unknown_outcome_and_the_owner_recovers_by_itself(
    shim: Shim, tmp_path: Path, call: str
) -> None:
    numbers = [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS]
    failed_in_turn(shim, tmp_path, call, [(Action.FAIL, number) for number in numbers])


@pytest.mark.root
def test_a_failed_sync_is_never_followed_by_another_of_the_same_pages(
    shim: Shim, disks: Disks, tmp_path: Path
) -> None:
    """EIO once on real pages that the kernel then takes for clean. The shim fails the call without
    syncing, and swallows the owner's next syncs too: what is acknowledged after it must come from
    being written again, as the power cut shows.
    """
    disk = disks.loop()
    region = disk.root / "p0"
    create_region(region)
    shim.arm("fdatasync", Action.FAIL, path=".seg", argument=errno.EIO, first=8)
    writer = Appender(region, tmp_path / "acks", "--persist", env=shim.environment)
    writer.wait_for("error", 1)
    writer.wait_for("ack", 12)
    disk.power_cut()
    writer.kill()
    oracle = writer.heard_by(Oracle())
    disk.boot()
    with Owner(region) as owner:
        owner.check(oracle)


@pytest.mark.root
def test_a_thin_disk_that_fills_loses_nothing_acknowledged(disks: Disks, tmp_path: Path) -> None:
    """Allocating does not help where the storage behind the file system runs out. It was noticed
    at a sync then, or not at all: a side file and a group waited for one commit of the journal, the
    side file's sync said EIO, the group's said OK, and its turns were zero after the boot.
    """
    disk = disks.thin(14 * MIB)
    region = disk.root / "p0"
    create_region(region)
    oracle = Oracle(turns=20)
    writer = Appender(
        region, tmp_path / "acks", "--turns", 20, "--group", 10, "--persist",
        "--segment-bytes", 4 * MIB,
    )  # fmt: skip
    writer.wait_for("error", 2)
    assert writer.process.poll() is None, "it refuses, and lives"
    writer.kill()
    writer.heard_by(oracle)
    assert len(oracle.acked) > 50
    grow(disk)
    with Owner(region) as owner:
        owner.check(oracle)
        print(f"{len(oracle.acked)} acknowledged, {len(oracle.errors)} refused, 0 lost")


def grow(disk: ThinDisk) -> None:
    """Storage is added, and the machine boots."""
    run("mount", "-o", f"remount,size={96 * MIB}", disk.image.parent)
    disk.boot()


@pytest.mark.root
def test_a_device_that_fails_for_a_while_loses_nothing_acknowledged(
    disks: Disks, tmp_path: Path
) -> None:
    """Every write to the device fails for a time, on a real block device of our own."""
    disk, switch = failing_device(disks, tmp_path)
    region = disk.root / "p0"
    create_region(region)
    oracle = Oracle(turns=3)
    writer = Appender(region, tmp_path / "acks", "--turns", 3, "--persist")
    writer.wait_for("ack", 50)
    switch.touch()
    writer.wait_for("error", 1)
    switch.unlink()
    until(
        lambda: (
            len([x for x in writer.lines() if x.startswith("error")]) >= 3
            or writer.lines()[-1].startswith("ack")
        ),
        "the owner to go on, or to say that it cannot",
    )
    writer.kill()
    writer.heard_by(oracle)
    disk.boot()
    with Owner(region) as owner:
        owner.check(oracle)


def failing_device(disks: Disks, tmp_path: Path) -> tuple[NbdDisk, Path]:
    """A block device whose writes fail while the file that is returned exists."""
    image = disks.formatted(tmp_path / "failing.img", 48 * MIB)
    switch = tmp_path / "fail-now"
    disk = disks.nbd(
        "--filter=error", "file", str(image), "error=EIO", "error-pwrite-rate=100%",
        f"error-file={switch}",
    )  # fmt: skip
    return disk, switch


@pytest.mark.root
def test_a_read_only_disk_is_a_state_not_a_crash(disks: Disks, tmp_path: Path) -> None:
    disk = disks.loop(32 * MIB)
    region = disk.root / "p0"
    create_region(region)
    writer = Appender(region, tmp_path / "acks", "--count", 30)
    assert writer.wait() == 0
    oracle = writer.heard_by(Oracle())
    disk.remount("ro")
    with Owner(region) as owner:
        assert owner.state == "readonly", owner.partition.reason
        assert "Read-only" in str(owner.partition.reason)
        disk.remount("rw")
        until(lambda: owner.turn() == "serving", "the owner to try again")
        owner.check(oracle)


@pytest.mark.root
def test_a_store_on_a_disk_that_is_mounted_read_only_is_unavailable(disks: Disks) -> None:
    """It was a bare OSError; the remedy is to mount it otherwise."""
    disk = disks.tmpfs(8 * MIB)
    path = disk.root / "store"
    nf.open(path, inline=True, partitions=1).close()
    disk.remount("ro")
    for place in (path, disk.root / "another"):
        with pytest.raises(nf.Unavailable, match="mount it writable"):
            nf.open(place, inline=True)
    disk.remount("rw")
    nf.open(path, inline=True).close()
