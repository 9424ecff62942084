"""The file that says how far a log is known to be shipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from neverforget.storage.atomic_file import write_checked
from neverforget.storage.errors import UnsupportedFormat
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.shipping_mark import (
    SHIPPED_FILE,
    Mark,
    marked_term,
    read_mark,
    write_mark,
)
from neverforget.storage.shipping_start import LocalLog

FS = LocalFileSystem()


def test_it_is_one_line_of_json_and_a_checksum(tmp_path: Path) -> None:
    mark = Mark(place=9, position=4_096, number=17)
    write_mark(FS, tmp_path, mark)
    text = (tmp_path / SHIPPED_FILE).read_text()
    assert text == '{"place":9,"position":4096,"number":17,"term":0,"version":1}\ncrc32c d5611ad1\n'
    assert read_mark(FS, tmp_path, 1) == mark


def test_a_missing_or_damaged_one_is_made_anew_as_another_place(tmp_path: Path) -> None:
    assert read_mark(FS, tmp_path, 5) == Mark(5) == read_mark(FS, tmp_path, 6)
    path = tmp_path / SHIPPED_FILE
    path.write_bytes(path.read_bytes().replace(b"5", b"8"))
    assert read_mark(FS, tmp_path, 7) == Mark(7) == read_mark(FS, tmp_path, 8)


def test_objects_are_expected_by_who_knows_of_them() -> None:
    def expects(mark: Mark, told: bool) -> bool:
        return mark.local_log(64, expects=told, takes_over=False).expects

    assert not expects(Mark(1), False) and expects(Mark(1), True)
    assert expects(Mark(1, 64, 1), False)
    start = Mark(1, 64, 1).local_log(500, expects=False, takes_over=True)
    assert start == LocalLog(500, 64, 1, expects=True, takes_over=True)


def test_one_of_before_has_no_term(tmp_path: Path) -> None:
    write_checked(FS, tmp_path / SHIPPED_FILE, b'{"place":9,"number":17,"version":1}\n')
    assert marked_term(FS, tmp_path) == 0
    write_mark(FS, tmp_path, Mark(9, term=3))
    assert marked_term(FS, tmp_path) == 3
    assert marked_term(FS, tmp_path / "none") == 0


def test_a_newer_one_is_refused(tmp_path: Path) -> None:
    write_checked(FS, tmp_path / SHIPPED_FILE, b'{"version":2}\n')
    with pytest.raises(UnsupportedFormat):
        read_mark(FS, tmp_path, 1)
