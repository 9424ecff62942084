"""Directories that things begin with, and a power cut right after they were made."""

from __future__ import annotations

from pathlib import Path

import pytest

from neverforget.storage.durable_directory import make_durable_directory
from neverforget.storage.filesystem import LocalFileSystem
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem


@pytest.mark.parametrize("seed", range(8))
def test_a_directory_and_its_new_parents_survive_a_power_cut(seed: int) -> None:
    """Whoever made a store, or a backup, synced all that was in its folder, but not its name."""
    fs = CrashFileSystem(seed)
    for path in (ROOT / "a" / "b" / "store", ROOT / "a" / "b" / "other"):
        make_durable_directory(fs, path)
        make_durable_directory(fs, path)
        fs = fs.power_cut()
        assert fs.is_directory(path)


def test_what_is_no_directory_cannot_become_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileExistsError):
        make_durable_directory(LocalFileSystem(), tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        make_durable_directory(LocalFileSystem(), tmp_path / "file" / "store")
