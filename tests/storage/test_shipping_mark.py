"""The file that says how far a log is known to be shipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from neverforget.storage.atomic_file import write_checked
from neverforget.storage.errors import UnsupportedFormat
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.shipping_mark import SHIPPED_FILE, local_log, write_shipped
from neverforget.storage.shipping_start import LocalLog

FS = LocalFileSystem()


def test_it_is_one_line_of_json_and_a_checksum(tmp_path: Path) -> None:
    write_shipped(FS, tmp_path, 4_096, 17)
    text = (tmp_path / SHIPPED_FILE).read_text()
    assert text == '{"position":4096,"number":17,"version":1}\ncrc32c 08583b68\n'
    assert local_log(FS, tmp_path, 5_000, expects=False) == LocalLog(5_000, 4_096, 17, True)


def test_without_it_the_opener_knows_whether_objects_must_be_there(tmp_path: Path) -> None:
    for expects in (False, True):
        assert local_log(FS, tmp_path, 64, expects=expects) == LocalLog(64, 0, 0, expects)


def test_a_damaged_one_says_only_that_the_log_was_shipped(tmp_path: Path) -> None:
    write_shipped(FS, tmp_path, 4_096, 17)
    path = tmp_path / SHIPPED_FILE
    path.write_bytes(path.read_bytes().replace(b"17", b"18"))
    assert local_log(FS, tmp_path, 5_000, expects=False) == LocalLog(5_000, 0, 0, True)


def test_a_newer_one_is_refused(tmp_path: Path) -> None:
    write_checked(FS, tmp_path / SHIPPED_FILE, b'{"version":2}\n')
    with pytest.raises(UnsupportedFormat):
        local_log(FS, tmp_path, 64, expects=False)
