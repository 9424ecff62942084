"""A directory says whose it is; every bit of that is checked, and nothing else passes for it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from neverforget.storage.atomic_file import write_checked
from neverforget.storage.errors import Corrupt, NotFound, UnsupportedFormat
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.identity import (
    FORMAT_VERSION,
    IDENTITY_FILE,
    check_identity,
    read_identity,
    region_identity,
    store_identity,
    write_identity,
)

FS = LocalFileSystem()
STORE = "0190c3d2-0000-7000-8000-000000000001"


def test_it_comes_back(tmp_path: Path) -> None:
    for identity in (store_identity(STORE), region_identity(STORE, 3)):
        write_identity(FS, tmp_path, identity)
        assert read_identity(FS, tmp_path) == identity
    assert check_identity(FS, tmp_path, store_id=STORE, what="region", partition=3) == identity
    assert check_identity(FS, tmp_path, what="region", partition=3) == identity
    assert 0 < identity.log_id < 2**64


def test_regions_get_different_log_ids() -> None:
    assert region_identity(STORE, 0).log_id != region_identity(STORE, 0).log_id


def test_an_empty_directory_is_not_a_fresh_start(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="not mounted"):
        read_identity(FS, tmp_path)
    with pytest.raises(NotFound):
        check_identity(FS, tmp_path / "missing", what="store")


@pytest.mark.parametrize(
    ("store_id", "partition"), [(STORE, 1), ("another store", 0), ("another store", 1)]
)
def test_a_foreign_directory_is_refused(tmp_path: Path, store_id: str, partition: int) -> None:
    write_identity(FS, tmp_path, region_identity(STORE, 0))
    with pytest.raises(UnsupportedFormat, match="belongs to partition 0"):
        check_identity(FS, tmp_path, store_id=store_id, what="region", partition=partition)
    with pytest.raises(UnsupportedFormat):
        check_identity(FS, tmp_path, store_id=STORE, what="store")


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    write_identity(FS, tmp_path, region_identity(STORE, 0))
    path = tmp_path / IDENTITY_FILE
    good = path.read_bytes()
    for bit in range(len(good) * 8):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bad)
        with pytest.raises(Corrupt):
            read_identity(FS, tmp_path)


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    write_identity(FS, tmp_path, region_identity(STORE, 0))
    path = tmp_path / IDENTITY_FILE
    good = path.read_bytes()
    for length in range(len(good)):
        path.write_bytes(good[:length])
        with pytest.raises(Corrupt):
            read_identity(FS, tmp_path)


def test_a_newer_version_is_refused_by_its_number(tmp_path: Path) -> None:
    newer = {"format_version": FORMAT_VERSION + 1, "what": "galaxy"}
    write_checked(FS, tmp_path / IDENTITY_FILE, msgspec.json.encode(newer) + b"\n")
    with pytest.raises(UnsupportedFormat, match=f"version {FORMAT_VERSION + 1}"):
        read_identity(FS, tmp_path)


def test_a_checked_file_of_another_kind_is_corrupt(tmp_path: Path) -> None:
    write_checked(FS, tmp_path / IDENTITY_FILE, b"hello\n")
    with pytest.raises(Corrupt, match="not an identity"):
        read_identity(FS, tmp_path)
