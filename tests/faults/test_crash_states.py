"""Every write and flush that reached a block device, and the disks that a cut at any of them
leaves.

ext4 stands on a device of our own (nbdkit) that writes down what it is asked. Afterwards images are
built as a power cut could have left them, with lost and torn writes behind the last flush, mounted,
recovered, and held to what was acknowledged before the moment of the cut.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.faults.block_recording import Recording
from tests.faults.conftest import Disks
from tests.faults.disks import MIB
from tests.faults.oracle import Appender, Oracle, Owner, create_region

SMALL_SEGMENT_BYTES = 1 << 14  # so that segments are made, renamed and rolled on the way
PLUGIN = Path(__file__).with_name("recording_device.py")
pytestmark = pytest.mark.root


def record(disks: Disks, tmp_path: Path, *options: str | int) -> tuple[Recording, Oracle]:
    image, base, journal = (tmp_path / name for name in ("disk.img", "base.img", "journal"))
    disks.formatted(image, 24 * MIB, "-J", "size=4")
    disk = disks.image(image)
    create_region(disk.root / "p0", SMALL_SEGMENT_BYTES)
    disk.close()
    shutil.copyfile(image, base)
    device = disks.nbd("python", str(PLUGIN), f"image={image}", f"journal={journal}")
    writer = Appender(
        device.root / "p0", tmp_path / "acks", "--turns", 3,
        "--segment-bytes", SMALL_SEGMENT_BYTES, *options,
    )  # fmt: skip
    assert writer.wait() == 0
    oracle = writer.heard_by(Oracle(turns=3))
    assert len(list(device.root.glob("p0/log/*.seg"))) > 2
    device.close()
    return Recording.load(base, journal), oracle


def before(oracle: Oracle, at_ns: int) -> Oracle:
    """What had been acknowledged when power failed."""
    known = {n: at for n, at in oracle.acked_at_ns.items() if at < at_ns}
    return Oracle(oracle.turns, {n: oracle.acked[n] for n in known if n in oracle.acked}, known)


def test_every_crash_state_holds_what_was_acknowledged(
    disks: Disks, tmp_path: Path, rng: random.Random, long_run: bool
) -> None:
    recording, oracle = record(disks, tmp_path, "--count", 60, "--group", 2)
    assert oracle.errors == [] and recording.flushes() > 20
    first = recording.first_after(min(oracle.acked_at_ns.values()))
    states = 200 if long_run else 10
    for state in range(states):
        cut = rng.randrange(first, len(recording.events) + 1)
        image = tmp_path / "state.img"
        at_ns = recording.crash_state(cut, image, rng)
        disk = disks.image(image)
        try:
            with Owner(disk.root / "p0") as owner:
                owner.check(before(oracle, at_ns))
        except AssertionError as error:
            raise AssertionError(f"state {state}, cut at event {cut}: {error}") from error
        finally:
            disk.close()
    print(f"{len(oracle.acked)} acknowledged, {states} states, all whole")


def test_an_owner_that_never_syncs_fails_some_of_them(
    disks: Disks, tmp_path: Path, rng: random.Random
) -> None:
    recording, oracle = record(disks, tmp_path, "--count", 60, "--unsynced")
    # The kernel writes when it pleases, at the latest when the disk is unmounted.
    first = recording.first_after(max(oracle.acked_at_ns.values()))
    lost = 0
    for _ in range(10):
        image = tmp_path / "state.img"
        cut = rng.randrange(first, len(recording.events))
        at_ns = recording.crash_state(cut, image, rng)
        disk = disks.image(image)
        try:
            with Owner(disk.root / "p0") as owner:
                lost += owner.lost(before(oracle, at_ns)) > 0
        finally:
            disk.close()
    assert lost > 0
