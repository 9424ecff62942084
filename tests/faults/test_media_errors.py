"""Sectors that cannot be read. Under a map that is the owner's death; the next one must live with
it.

A real block device of our own refuses every read while a switch is on. The first owner maps the
log: it dies of SIGBUS, once. The second finds that its predecessor died, reads with pread, and
answers that one turn is unreadable. No loop of deaths, and the other turns are served.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.record import decode_records
from neverforget.storage.region import Region
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.results import TurnFlag
from tests.faults.appender import NAMESPACE, SESSION
from tests.faults.conftest import Disks
from tests.faults.disks import MIB, NbdDisk
from tests.faults.oracle import SEGMENT_BYTES, STORE_ID, Appender, Oracle, Owner, create_region

pytestmark = pytest.mark.root


def device(disks: Disks, tmp_path: Path) -> tuple[NbdDisk, Path]:
    """Unreadable while the file that is returned exists."""
    image = disks.formatted(tmp_path / "disk.img", 48 * MIB)
    switch = tmp_path / "fail-now"
    disk = disks.nbd(
        "--filter=error", "file", str(image), "error=EIO", "error-pread-rate=100%",
        f"error-file={switch}",
    )  # fmt: skip
    return disk, switch


def drop_caches() -> None:
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


def filled(disk: NbdDisk, tmp_path: Path) -> tuple[Path, Oracle]:
    directory = disk.root / "p0"
    create_region(directory)
    writer = Appender(directory, tmp_path / "acks", "--count", 300)
    assert writer.wait() == 0
    disk.boot()  # nothing is cached any more
    return directory, writer.heard_by(Oracle())


def test_a_read_error_makes_a_turn_unreadable_for_as_long_as_it_lasts(
    disks: Disks, tmp_path: Path
) -> None:
    disk, switch = device(disks, tmp_path)
    directory, oracle = filled(disk, tmp_path)
    options = RegionOptions(segment_bytes=SEGMENT_BYTES, read_by="pread")
    region = Region.open(
        LocalFileSystem(), directory, store_id=STORE_ID, partition=0, options=options
    )
    try:
        drop_caches()
        switch.touch()
        window = region.get(NAMESPACE, SESSION, 200, 201)
        assert window.flags == [(200, 200, TurnFlag.UNREADABLE)]  # `get` raises Corrupt for that
        switch.unlink()
        window = region.get(NAMESPACE, SESSION, 200, 201)
        assert window.flags == []
        assert next(decode_records(window.records))[1] is not None
    finally:
        region.close()
    with Owner(directory) as owner:
        owner.check(oracle)


def test_an_owner_that_died_of_a_read_is_followed_by_one_that_does_not(
    disks: Disks, tmp_path: Path
) -> None:
    disk, switch = device(disks, tmp_path)
    directory, oracle = filled(disk, tmp_path)
    reader = Appender(directory, tmp_path / "first", "--count", 0, "--read-at", 200)
    reader.wait_for("ready")
    drop_caches()
    switch.touch()
    reader.tell("read")
    assert reader.wait() == -signal.SIGBUS
    switch.unlink()
    second = Appender(directory, tmp_path / "second", "--count", 0, "--read-at", 200)
    second.wait_for("ready")
    drop_caches()
    switch.touch()
    second.tell("read")
    second.wait_for("read ")
    switch.unlink()
    assert second.wait() == 0
    assert "read unreadable" in second.lines()
    with Owner(directory) as owner:
        owner.check(oracle)
