"""Segment files: their header's bytes, their names, being born complete or not at all."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from crc32c import crc32c

from neverforget.storage.errors import OutOfSpace, UnsupportedFormat
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.log_options import MIB, LogOptions
from neverforget.storage.segment import (
    PAGE_BYTES,
    SegmentHeader,
    base_of,
    create_segment,
    decode_segment_header,
    encode_segment_header,
    segment_path,
    whole_pages,
)
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem, Fault, Killed

HEADER = SegmentHeader(log_id=0x0123456789ABCDEF, base=0x300000, size=0x400000, epoch=7)


def test_golden_bytes_of_a_segment_header() -> None:
    assert encode_segment_header(HEADER).hex() == (
        "4e465347" "01000000" "efcdab8967452301" "0000300000000000" "0000400000000000"
        "07000000" "000000000000000000000000000000000000000000000000" "119fb796"
    )  # fmt: skip


def test_a_header_survives_encoding_and_any_flipped_bit_is_noticed() -> None:
    data = bytearray(encode_segment_header(HEADER))
    assert decode_segment_header(bytes(data), Path("x")) == HEADER
    for offset in range(64):
        for bit in range(8):
            data[offset] ^= 1 << bit
            assert decode_segment_header(bytes(data), Path("x")) is None
            data[offset] ^= 1 << bit
    assert decode_segment_header(bytes(data[:63]), Path("x")) is None
    assert decode_segment_header(bytes(64), Path("x")) is None


def test_a_newer_version_is_refused_by_name() -> None:
    data = bytearray(encode_segment_header(HEADER))
    data[4] = 2
    data[60:64] = crc32c(bytes(data[:60])).to_bytes(4, "little")
    with pytest.raises(UnsupportedFormat, match="version 2"):
        decode_segment_header(bytes(data), Path("x"))


def test_names_are_bases_and_nothing_else_is_a_segment() -> None:
    assert segment_path(Path("d"), 0x300000).name == "0000000000300000.seg"
    assert base_of("0000000000300000.seg") == 0x300000
    for name in (
        "0000000000300000.seg.tmp",
        "300000.seg",
        "0000000000300000.heads",
        "x" * 16 + ".seg",
    ):
        assert base_of(name) is None


def test_sizes_double_up_to_the_limit_in_whole_pages() -> None:
    options = LogOptions()
    assert options.size_after(0) == MIB
    assert options.size_after(MIB) == 2 * MIB
    assert options.size_after(64 * MIB) == options.size_after(500 * MIB) == 64 * MIB
    assert LogOptions(segment_bytes=5000, first_segment_bytes=1).size_after(0) == PAGE_BYTES
    assert LogOptions(segment_bytes=5000).size_after(0) == whole_pages(5000) == 2 * PAGE_BYTES


def test_a_new_segment_is_allocated_and_reads_as_zero(tmp_path: Path) -> None:
    segment = create_segment(LocalFileSystem(), tmp_path, HEADER._replace(size=8192), "map")
    assert segment.path.stat().st_size == 8192 == segment.length
    assert segment.path.stat().st_blocks * 512 >= 8192
    assert bytes(segment.slice(64, 8128)) == bytes(8128)
    assert [p.name for p in tmp_path.iterdir()] == ["0000000000300000.seg"]
    segment.close()


def test_a_segment_that_was_made_survives_a_power_cut() -> None:
    for seed in range(20):
        fs = CrashFileSystem(seed)
        create_segment(fs, ROOT, HEADER._replace(size=8192), "pread")
        after = fs.power_cut()
        data = after.open(segment_path(ROOT, HEADER.base)).pread(9000, 0)
        assert data == encode_segment_header(HEADER._replace(size=8192)) + bytes(8128)


def test_dying_while_a_segment_is_made_leaves_it_whole_or_absent() -> None:
    header = HEADER._replace(size=8192)
    for seed in range(5):
        calls = CrashFileSystem(seed)
        create_segment(calls, ROOT, header, "pread")
        for call in range(len(calls.calls)):
            fs = CrashFileSystem(seed)
            fs.kill_at(call)
            with pytest.raises(Killed):
                create_segment(fs, ROOT, header, "pread")
            after = fs.power_cut()
            if after.exists(segment_path(ROOT, header.base)):
                file = after.open(segment_path(ROOT, header.base))
                assert decode_segment_header(file.pread(64, 0), file.path) == header
                assert file.size() == 8192
            create_segment(after, ROOT, header, "pread", replace_spare=True).close()


@pytest.mark.parametrize("step", ["create", "allocate", "pwrite", "fdatasync", "rename"])
def test_no_space_at_any_step_is_out_of_space_and_leaves_nothing(step: str) -> None:
    fs = CrashFileSystem(1)
    fs.inject(Fault(step, error=errno.ENOSPC))  # type: ignore[arg-type]
    with pytest.raises(OutOfSpace):
        create_segment(fs, ROOT, HEADER._replace(size=8192), "pread")
    assert fs.list_directory(ROOT) == []
    create_segment(fs, ROOT, HEADER._replace(size=8192), "pread")


def test_a_segment_of_that_name_is_never_replaced_unless_it_is_an_empty_spare(
    tmp_path: Path,
) -> None:
    """A spare that was made late took the name of the segment in use, and its acknowledged turns
    with it."""
    fs, header = LocalFileSystem(), HEADER._replace(size=8192)
    used = create_segment(fs, tmp_path, header, "pread")
    used.file.pwrite([b"acknowledged"], 64)
    with pytest.raises(FileExistsError):
        create_segment(fs, tmp_path, header, "pread")
    assert used.file.pread(12, 64) == segment_path(tmp_path, header.base).read_bytes()[64:76]
    create_segment(fs, tmp_path, header, "pread", replace_spare=True).close()
    used.close()
