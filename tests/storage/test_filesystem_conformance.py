"""One suite for the seam, run over the real file system and the one that crashes."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from neverforget.storage.errors import OutOfSpace
from neverforget.storage.filesystem import FileSystem, LocalFileSystem
from tests.fakes.crash_filesystem import CrashFileSystem, Fault

Disk = tuple[FileSystem, Path]


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the machine's disk: it is what the others stand for."""
    return tmp_path_factory.mktemp("disk")


@pytest.fixture(params=["local", "crash"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    if request.param == "local":
        yield LocalFileSystem(), tmp_path
    else:
        fake = CrashFileSystem()
        yield fake, fake.root


def write(disk: Disk, name: str, data: bytes) -> Path:
    fs, root = disk
    with closing(fs.open(root / name, create=True)) as file:
        file.pwrite([data], 0)
    return root / name


def read(disk: Disk, name: str) -> bytes:
    fs, root = disk
    with closing(fs.open(root / name, read_only=True)) as file:
        return file.pread(file.size(), 0)


def test_create_refuses_what_exists(disk: Disk) -> None:
    fs, root = disk
    write(disk, "file", b"first")
    with pytest.raises(FileExistsError):
        fs.open(root / "file", create=True)
    assert read(disk, "file") == b"first"


def test_what_is_missing_is_not_found(disk: Disk) -> None:
    fs, root = disk
    for attempt in (
        lambda: fs.open(root / "none"),
        lambda: fs.open(root / "none", read_only=True),
        lambda: fs.open(root / "none" / "file", create=True),
        lambda: fs.rename(root / "none", root / "other"),
        lambda: fs.link(root / "none", root / "other"),
        lambda: fs.unlink(root / "none"),
        lambda: fs.sync_directory(root / "none"),
        lambda: fs.list_directory(root / "none"),
    ):
        with pytest.raises(FileNotFoundError):
            attempt()
    assert not fs.exists(root / "none")
    assert fs.list_directory(root) == []


def test_a_link_is_a_second_name_and_refuses_one_that_is_taken(disk: Disk) -> None:
    fs, root = disk
    write(disk, "file", b"first")
    write(disk, "other", b"second")
    fs.link(root / "file", root / "name")
    with pytest.raises(FileExistsError):
        fs.link(root / "other", root / "name")
    fs.unlink(root / "file")
    assert (read(disk, "name"), read(disk, "other")) == (b"first", b"second")


def test_a_new_file_is_empty(disk: Disk) -> None:
    fs, root = disk
    with closing(fs.open(root / "file", create=True)) as file:
        assert file.path == root / "file"
        assert file.size() == 0
        assert file.pread(10, 0) == b""
        file.fdatasync()
    assert fs.exists(root / "file")


def test_buffers_are_written_one_after_the_other(disk: Disk) -> None:
    fs, root = disk
    with closing(fs.open(root / "file", create=True)) as file:
        file.pwrite([b"one ", bytearray(b"two "), memoryview(b"three")], 3)
        assert file.pread(100, 0) == b"\0\0\0one two three"
        file.pwrite([b"ONE"], 3)
        file.pwrite([], 0)
        assert file.pread(7, 3) == b"ONE two"
        assert file.size() == 16


def test_more_buffers_than_one_system_call_takes(disk: Disk) -> None:
    fs, root = disk
    buffers = [b"%04d" % i for i in range(3000)]
    with closing(fs.open(root / "file", create=True)) as file:
        file.pwrite(buffers, 8)
    assert read(disk, "file") == bytes(8) + b"".join(buffers)


def test_reads_are_short_only_at_the_end(disk: Disk) -> None:
    fs, _ = disk
    path = write(disk, "file", b"0123456789")
    with closing(fs.open(path, read_only=True)) as file:
        assert file.pread(4, 8) == b"89"
        assert file.pread(4, 10) == b""
        assert file.pread(4, 5000) == b""
        assert file.pread(0, 0) == b""


def test_allocated_bytes_are_zero_and_written_ones_stay(disk: Disk) -> None:
    fs, root = disk
    with closing(fs.open(root / "file", create=True)) as file:
        file.pwrite([b"here"], 0)
        file.allocate(10_000)
        assert file.size() == 10_000
        assert file.pread(10_000, 0) == b"here" + bytes(9_996)
        file.allocate(100)  # never shrinks
        assert file.size() == 10_000


def test_a_file_opened_read_only_cannot_be_written(disk: Disk) -> None:
    fs, _ = disk
    path = write(disk, "file", b"data")
    with closing(fs.open(path, read_only=True)) as file:
        attempts: list[Callable[[], None]] = [
            lambda: file.pwrite([b"x"], 0),
            lambda: file.allocate(100),
        ]
        for attempt in attempts:
            with pytest.raises(OSError) as refused:
                attempt()
            assert refused.value.errno == errno.EBADF
        file.fdatasync()
    assert read(disk, "file") == b"data"


def test_a_map_shows_later_writes(disk: Disk) -> None:
    fs, root = disk
    with closing(fs.open(root / "file", create=True)) as file:
        file.allocate(8192)
        view = file.map()
        assert len(view) == 8192
        assert view.readonly
        file.pwrite([b"later"], 5000)
        assert bytes(view[5000:5005]) == b"later"
        with closing(fs.open(root / "file")) as other:
            other.pwrite([b"other"], 0)
        assert bytes(view[:5]) == b"other"
        assert bytes(file.map()[:5]) == b"other"


def test_a_map_of_nothing_is_refused(disk: Disk) -> None:
    fs, root = disk
    with closing(fs.open(root / "file", create=True)) as file:
        with pytest.raises(ValueError, match="empty"):
            file.map()


def test_a_view_outlives_its_file(disk: Disk) -> None:
    fs, _ = disk
    path = write(disk, "file", b"still here")
    file = fs.open(path, read_only=True)
    view = file.map()[6:]
    file.close()
    file.close()
    fs.unlink(path)
    assert bytes(view) == b"here"
    view.release()


def test_a_closed_file_answers_nothing(disk: Disk) -> None:
    fs, _ = disk
    file = fs.open(write(disk, "file", b"data"))
    file.close()
    for attempt in (
        file.size,
        file.fdatasync,
        lambda: file.pread(1, 0),
        lambda: file.pwrite([b"x"], 0),
        lambda: file.allocate(10),
    ):
        with pytest.raises((OSError, ValueError)):
            attempt()


def test_rename_replaces(disk: Disk) -> None:
    fs, root = disk
    write(disk, "new", b"new")
    write(disk, "old", b"old")
    with closing(fs.open(root / "old", read_only=True)) as opened:
        fs.rename(root / "new", root / "old")
        fs.sync_directory(root)
        assert opened.pread(10, 0) == b"old"
    assert fs.list_directory(root) == ["old"]
    assert read(disk, "old") == b"new"


def test_rename_moves_between_directories(disk: Disk) -> None:
    fs, root = disk
    fs.make_directory(root / "a")
    fs.make_directory(root / "b")
    write(disk, "a/file", b"data")
    fs.rename(root / "a" / "file", root / "b" / "other")
    assert fs.list_directory(root / "a") == []
    assert read(disk, "b/other") == b"data"


def test_unlink_takes_the_name_and_leaves_open_files(disk: Disk) -> None:
    fs, _ = disk
    path = write(disk, "file", b"data")
    with closing(fs.open(path)) as file:
        fs.unlink(path)
        assert not fs.exists(path)
        assert file.pread(10, 0) == b"data"
        write(disk, "file", b"another")
        assert file.pread(10, 0) == b"data"


def test_directories_are_made_with_parents_and_listed_in_order(disk: Disk) -> None:
    fs, root = disk
    fs.make_directory(root / "x" / "y" / "z")
    fs.make_directory(root / "x" / "y")
    for name in ("b", "c", "a"):
        write(disk, f"x/{name}", b"")
    assert fs.list_directory(root / "x") == ["a", "b", "c", "y"]
    assert fs.exists(root / "x" / "y" / "z")
    with pytest.raises(FileExistsError):
        fs.make_directory(root / "x" / "a")


def test_a_full_disk_refuses_the_allocation_and_keeps_the_size() -> None:
    """The real one is met in tests/faults with a full file system; both must look like this."""
    fs = CrashFileSystem(capacity_bytes=10_000)
    with closing(fs.open(fs.root / "file", create=True)) as file:
        file.allocate(8_000)
        with pytest.raises(OutOfSpace):
            file.allocate(12_000)
        assert file.size() == 8_000
        fs.capacity_bytes = 20_000
        file.allocate(12_000)


def test_a_failed_allocation_is_out_of_space_by_its_errno() -> None:
    fs = CrashFileSystem()
    fs.inject(Fault("allocate", error=errno.EDQUOT))
    fs.inject(Fault("allocate", nth=2, error=errno.EIO))
    with closing(fs.open(fs.root / "file", create=True)) as file:
        with pytest.raises(OutOfSpace):
            file.allocate(10)
        with pytest.raises(OSError) as broken:
            file.allocate(10)
        assert broken.value.errno == errno.EIO
        assert not isinstance(broken.value, OutOfSpace)


def test_a_directory_is_removed_when_it_is_empty(disk: Disk) -> None:
    fs, root = disk
    fs.make_directory(root / "folder")
    write(disk, "folder/file", b"x")
    assert fs.is_directory(root / "folder")
    assert not fs.is_directory(root / "folder/file")
    assert not fs.is_directory(root / "none")
    with pytest.raises(OSError) as refused:
        fs.remove_directory(root / "folder")
    assert refused.value.errno == errno.ENOTEMPTY
    fs.unlink(root / "folder/file")
    fs.remove_directory(root / "folder")
    assert not fs.exists(root / "folder")
    with pytest.raises(FileNotFoundError):
        fs.remove_directory(root / "folder")
