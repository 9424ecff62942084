"""A directory that is not what it should be: the owner lives, says so, and never starts afresh."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from neverforget.actors.messages import Failure
from neverforget.runtime.retrying import Retrying
from neverforget.storage.errors import Unavailable
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.region import Region
from neverforget.storage.region_options import RegionOptions
from tests.faults.appender import append_request
from tests.faults.oracle import SEGMENT_BYTES, STORE_ID, Appender, Oracle, Owner, create_region


def another(directory: Path, store_id: str, partition: int) -> None:
    shutil.rmtree(directory)
    options = RegionOptions(segment_bytes=SEGMENT_BYTES)
    Region.create(
        LocalFileSystem(), directory, store_id=store_id, partition=partition, options=options
    )


def emptied(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.mkdir()


def flipped(directory: Path) -> None:
    path = directory / "IDENTITY"
    data = bytearray(path.read_bytes())
    data[10] ^= 4
    path.write_bytes(data)


def rotten_epoch(directory: Path) -> None:
    (directory / "EPOCH").write_bytes(b"\x01" * 8192)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "directory missing": shutil.rmtree,
    "directory empty, as an unmounted disk leaves it": emptied,
    "identity missing": lambda d: (d / "IDENTITY").unlink(),
    "identity rotten": flipped,
    "another store's region": lambda d: another(d, "0193a7c0-0000-7000-8000-0000000000ff", 0),
    "another partition": lambda d: another(d, STORE_ID, 1),
    "log missing": lambda d: shutil.rmtree(d / "log"),
    "log emptied": lambda d: emptied(d / "log"),
    "epoch rotten": rotten_epoch,
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Oracle]:
    """A region with 20 turns. Not to be touched."""
    folder = tmp_path_factory.mktemp("written")
    create_region(folder / "p0")
    writer = Appender(folder / "p0", folder / "acks", "--count", 20)
    assert writer.wait() == 0
    return folder / "p0", writer.heard_by(Oracle())


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_wrong_directory_is_quarantined_and_never_a_fresh_start(
    tmp_path: Path, written: tuple[Path, Oracle], damage: Callable[[Path], None]
) -> None:
    region = tmp_path / "p0"
    good, oracle = written
    shutil.copytree(good, region)
    damage(region)
    before = everything(region)
    for _ in range(2):  # also the second time: the first must not have made it look right
        with Owner(region) as owner:
            assert owner.state == "quarantined", owner.partition.reason
            assert owner.partition.reason
            reply = owner.ask(append_request(21))
            assert isinstance(reply, Failure)
            assert reply.code in ("corrupt", "unsupported_format"), reply
        assert everything(region) == before
    shutil.rmtree(region, ignore_errors=True)
    shutil.copytree(good, region)
    with Owner(region) as owner:
        assert owner.check(oracle) == 20


def everything(directory: Path) -> dict[str, bytes]:
    """All files but those that say who looked last."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name not in ("LOCK", "EPOCH")
    }


def test_a_directory_without_permission_is_said_so(tmp_path: Path) -> None:
    """Clients were told that it is poisoned, and asked again until their deadline."""
    region = tmp_path / "p0"
    create_region(region)
    root = os.geteuid() == 0
    if root:
        os.chmod(tmp_path.parent, 0o755)
        os.seteuid(65534)  # nobody: permissions do not bind root
    else:
        region.chmod(0)
    try:
        with Owner(region) as owner:
            assert owner.state == "quarantined", owner.partition.reason
            assert "ermission" in str(owner.partition.reason)
            request = append_request(1)
            reply = owner.ask(request)
            assert isinstance(reply, Failure)
            assert f"let user {os.geteuid()} read and write there" in reply.message
            with pytest.raises(Unavailable) as refused:
                Retrying(request, math.inf).refused(reply)
            assert refused.value.outcome == "not_applied"
    finally:
        if root:
            os.seteuid(0)
        region.chmod(0o700)
    with Owner(region) as owner:
        assert owner.state == "serving"
