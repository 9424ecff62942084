"""Sealed files: digests, and what stands there when writing fails at any point."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

import pytest
from crc32c import crc32c

from neverforget.storage.errors import Corrupt, OutOfSpace
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.sealed_file import Depth, Seal, Sink, check_seal, write_sealed
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem, Fault

FS = LocalFileSystem()
SIZE = 3 << 20


def test_the_digests_of_a_seal_are_those_of_the_file(tmp_path: Path) -> None:
    """Small and large writes, gathered or not, make the same bytes and the same digests."""
    pieces = [bytes([n % 251]) * n for n in (1, 5, 70_000, 3, 1 << 20, 2, (3 << 20) + 17, 0, 9)]
    seal = write_sealed(FS, tmp_path / "one", lambda sink: [sink.write(p) for p in pieces])
    whole = b"".join(pieces)
    assert (tmp_path / "one").read_bytes() == whole
    assert seal == Seal(len(whole), crc32c(whole), hashlib.sha256(whole).hexdigest())


def test_no_sync_has_much_to_write(tmp_path: Path) -> None:
    """An append's sync waited behind a whole generation: 260 ms for 700 MB."""
    fs = CrashFileSystem()
    write_sealed(fs, ROOT / "one", lambda sink: [sink.write(bytes(3 << 20)) for _ in range(5)])
    unsynced, most = 0, 0
    for call in fs.calls:
        unsynced = 0 if call.op == "fdatasync" else unsynced + (call.op == "pwrite")
        most = max(most, unsynced)
    assert most == 4, "pieces of 1 MiB"


def test_a_sealed_file_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "one"
    write_sealed(FS, path, lambda sink: sink.write(b"old"))

    def fails(sink: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_sealed(FS, path, fails)
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["one"]


def save(fs: CrashFileSystem, content: bytes) -> Seal:
    def produce(sink: Sink) -> None:
        for at in range(0, len(content), 1_000):
            sink.write(content[at : at + 1_000])

    return write_sealed(fs, ROOT / "one", produce)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault("create", error=errno.ENOSPC), OutOfSpace),
        (Fault("create", error=errno.EACCES), OSError),
        (Fault("allocate", nth=2, error=errno.ENOSPC), OutOfSpace),
        (Fault("allocate", nth=3, error=errno.EDQUOT), OutOfSpace),
        (Fault("pwrite", nth=2, error=errno.EIO), OSError),
        (Fault("pwrite", short=17), OSError),
        (Fault("fdatasync", error=errno.EIO), OSError),
        (Fault("rename", error=errno.EIO), OSError),
    ],
)
def test_a_disk_that_fails_leaves_the_old_file(fault: Fault, expected: type[OSError]) -> None:
    fs = CrashFileSystem()
    old = save(fs, b"old" * 1_000)
    fs.inject(fault)
    with pytest.raises(expected):
        save(fs, b"new!" * (SIZE // 4))
    assert fs.list_directory(ROOT) == ["one"]
    check_seal(fs, ROOT / "one", old, "sha")
    new = save(fs, b"new!" * (SIZE // 4))  # room, or a healthy disk, is all it takes
    after = fs.power_cut()
    check_seal(after, ROOT / "one", new, "sha")


def test_each_depth_sees_what_it_looks_at(tmp_path: Path) -> None:
    path = tmp_path / "one"
    seal = write_sealed(FS, path, lambda sink: sink.write(b"abc" * 1_000))
    check_seal(FS, path, seal, "sha")
    path.write_bytes(b"abd" + b"abc" * 999)
    check_seal(FS, path, seal, "size")
    deeper: tuple[Depth, ...] = ("crc", "sha")
    for depth in deeper:
        with pytest.raises(Corrupt, match="digest"):
            check_seal(FS, path, seal, depth)
    path.write_bytes(b"abc" * 999)
    with pytest.raises(Corrupt, match="cut short"):
        check_seal(FS, path, seal, "size")
    path.write_bytes(b"abc" * 1_001)
    with pytest.raises(Corrupt, match="longer"):
        check_seal(FS, path, seal, "size")
    path.unlink()
    with pytest.raises(Corrupt, match="missing") as missing:
        check_seal(FS, path, seal, "size")
    assert missing.value.file == str(path) and missing.value.bytes == seal.size
