"""Small files replaced as a whole, on the real file system. The crash points are in
test_crash_points.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from neverforget.storage.atomic_file import (
    TEMPORARY_SUFFIX,
    read_checked,
    read_whole,
    write_atomic,
    write_checked,
)
from neverforget.storage.errors import Corrupt, NotFound
from neverforget.storage.filesystem import LocalFileSystem

FS = LocalFileSystem()


@pytest.mark.parametrize("data", [b"", b"one", bytes(100_000)])
def test_new_and_replaced_content_comes_back(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "file"
    for content in (data, b"other", data):
        write_atomic(FS, path, content)
        assert read_whole(FS, path) == content
    assert FS.list_directory(tmp_path) == ["file"]


def test_a_temporary_left_by_a_crash_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.with_name("file" + TEMPORARY_SUFFIX).write_bytes(b"half a")
    write_atomic(FS, path, b"whole")
    assert read_whole(FS, path) == b"whole"
    assert FS.list_directory(tmp_path) == ["file"]


def test_a_failed_write_leaves_the_old_content_and_no_temporary(tmp_path: Path) -> None:
    path = tmp_path / "directory"
    path.mkdir()
    (path / "inside").write_bytes(b"")
    with pytest.raises(OSError):
        write_atomic(FS, path, b"a file over a directory")
    assert FS.list_directory(tmp_path) == ["directory"]


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    for read in (read_whole, read_checked):
        with pytest.raises(NotFound):
            read(FS, tmp_path / "none")


def test_a_checked_file_is_readable_for_a_person(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_checked(FS, path, b"name = value\n")
    assert path.read_text() == "name = value\ncrc32c f6b3466e\n"
    assert read_checked(FS, path) == b"name = value\n"


@pytest.mark.parametrize("content", [b"", b"\n", b"name = value\n", b"crc32c 00000000\n"])
def test_unchecked_content_is_corrupt(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(Corrupt) as corrupt:
        read_checked(FS, path)
    assert corrupt.value.file == str(path)
