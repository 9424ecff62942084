"""The epoch grows with every owner and survives a bad copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from neverforget.storage.epoch import EPOCH_FILE, next_epoch, read_epoch
from neverforget.storage.errors import Corrupt
from neverforget.storage.filesystem import LocalFileSystem

FS = LocalFileSystem()


def test_it_grows_by_one(tmp_path: Path) -> None:
    path = tmp_path / EPOCH_FILE
    assert read_epoch(FS, path) == 0
    assert [next_epoch(FS, path) for _ in range(3)] == [1, 2, 3]
    assert read_epoch(FS, path) == 3


def test_it_passes_what_was_seen_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / EPOCH_FILE
    assert next_epoch(FS, path, at_least=41) == 42
    assert next_epoch(FS, path, at_least=7) == 43


@pytest.mark.parametrize("offset", [0, 4096])
def test_any_rot_in_one_copy_is_harmless(tmp_path: Path, offset: int) -> None:
    path = tmp_path / EPOCH_FILE
    next_epoch(FS, path, at_least=98)
    good = path.read_bytes()
    for bit in range(12 * 8):
        bad = bytearray(good)
        bad[offset + bit // 8] ^= 1 << bit % 8
        path.write_bytes(bad)
        assert read_epoch(FS, path) == 99
        assert next_epoch(FS, path) == 100
    path.write_bytes(good[:offset])  # torn off before this copy
    assert read_epoch(FS, path) == (99 if offset else 0)


def test_rot_in_both_copies_is_reported(tmp_path: Path) -> None:
    path = tmp_path / EPOCH_FILE
    next_epoch(FS, path)
    bad = bytearray(path.read_bytes())
    bad[5] ^= 1
    bad[4096 + 5] ^= 1
    path.write_bytes(bad)
    for read in (read_epoch, next_epoch):
        with pytest.raises(Corrupt, match="EPOCH"):
            read(FS, path)
    assert path.read_bytes() == bad


def test_a_file_whose_maker_died_before_writing_counts_as_none(tmp_path: Path) -> None:
    path = tmp_path / EPOCH_FILE
    for length in (0, 100, 8192):
        path.write_bytes(bytes(length))
        assert next_epoch(FS, path) == 1
