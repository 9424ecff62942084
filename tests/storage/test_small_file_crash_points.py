"""Identity, epoch and every other small file, with a power cut at each call that changes something.

Two passes: the first counts the calls, the second dies before and after each of them. After each
death several disks are looked at, since a cut leaves one of many.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator

import pytest

from neverforget.storage.atomic_file import read_whole, write_atomic
from neverforget.storage.embedder_file import EmbedderFile, read_embedder, write_embedder
from neverforget.storage.epoch import EPOCH_FILE, next_epoch
from neverforget.storage.errors import NotFound, OutOfSpace
from neverforget.storage.identity import read_identity, region_identity, write_identity
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem, Fault, Killed, Op

FILE = ROOT / "file"
OLD, NEW = b"old content" * 1000, b"new content" * 900
CUTS = 6

Workload = Callable[[CrashFileSystem], None]


def deaths(prepare: Workload, workload: Workload) -> Iterator[CrashFileSystem]:
    """The file system after a power cut at every call of ``workload``, several times each, and
    after a kill that is followed by nothing.
    """
    counted = CrashFileSystem()
    prepare(counted)
    first = len(counted.calls)
    workload(counted)
    for call in range(first, len(counted.calls)):
        for after in (False, True):
            for cut in range(CUTS):
                fs = CrashFileSystem(cut)
                prepare(fs)
                fs.kill_at(call, after=after)
                with pytest.raises(Killed):
                    workload(fs)
                yield fs.process_death() if cut == 0 else fs.power_cut()


def nothing(fs: CrashFileSystem) -> None:
    """The disk is empty before."""


def test_an_atomic_file_is_old_or_new_after_any_crash() -> None:
    found = set()
    for fs in deaths(
        lambda fs: write_atomic(fs, FILE, OLD), lambda fs: write_atomic(fs, FILE, NEW)
    ):
        found.add(read_whole(fs, FILE))
        write_atomic(fs, FILE, NEW)  # whatever was left lies in nobody's way
        assert fs.power_cut().content(FILE) == NEW
    assert found == {OLD, NEW}


def test_a_new_atomic_file_is_whole_or_missing_after_any_crash() -> None:
    found: set[bytes | None] = set()
    for fs in deaths(nothing, lambda fs: write_atomic(fs, FILE, NEW)):
        found.add(read_whole(fs, FILE) if fs.exists(FILE) else None)
    assert found == {None, NEW}


def test_a_written_atomic_file_survives_every_power_cut() -> None:
    for seed in range(50):
        fs = CrashFileSystem(seed)
        write_atomic(fs, FILE, OLD)
        write_atomic(fs, FILE, NEW)
        assert fs.power_cut().content(FILE) == NEW


def test_a_device_that_lies_about_syncs_loses_it() -> None:
    """The control: without syncs the same writes must be seen to get lost."""
    lost = 0
    for seed in range(50):
        fs = CrashFileSystem(seed, syncs_lie=True)
        write_atomic(fs, FILE, NEW)
        after = fs.power_cut()
        lost += not after.exists(FILE) or after.content(FILE) != NEW
    assert lost > 20


WRITES: list[Op] = ["create", "allocate", "pwrite", "fdatasync", "rename"]


@pytest.mark.parametrize("op", WRITES)
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_failed_write_leaves_the_old_content(op: Op, number: int) -> None:
    fs = CrashFileSystem()
    write_atomic(fs, FILE, OLD)
    fs.inject(Fault(op, error=number))
    with pytest.raises(OutOfSpace if (op, number) == ("allocate", errno.ENOSPC) else OSError):
        write_atomic(fs, FILE, NEW)
    assert fs.content(FILE) == OLD
    assert fs.list_directory(ROOT) == ["file"]
    assert fs.power_cut().content(FILE) == OLD


def test_an_epoch_is_never_given_out_twice() -> None:
    """The one before was used; whatever the crash, the next owner's is higher."""

    def two(fs: CrashFileSystem) -> None:
        assert [next_epoch(fs, ROOT / EPOCH_FILE) for _ in range(2)] == [1, 2]

    def third(fs: CrashFileSystem) -> None:
        assert next_epoch(fs, ROOT / EPOCH_FILE) == 3

    for fs in deaths(two, third):
        epoch = next_epoch(fs, ROOT / EPOCH_FILE)
        assert epoch in (3, 4)
        after = fs.power_cut()
        assert next_epoch(after, ROOT / EPOCH_FILE) == epoch + 1


def test_the_first_epoch_survives_any_crash_of_its_making() -> None:
    """Its maker was killed before it synced the new name; the second owner found the file, trusted
    the name, and a power cut took it: the epoch began anew.
    """

    def first(fs: CrashFileSystem) -> None:
        assert next_epoch(fs, ROOT / EPOCH_FILE) == 1

    for fs in deaths(nothing, first):
        assert next_epoch(fs, ROOT / EPOCH_FILE) in (1, 2)
        assert next_epoch(fs.power_cut(), ROOT / EPOCH_FILE) in (2, 3)


def test_a_new_epoch_needs_no_space() -> None:
    """A region on a full disk can still be taken over and read."""
    fs = CrashFileSystem()
    next_epoch(fs, ROOT / EPOCH_FILE)
    fs.capacity_bytes = 0
    assert next_epoch(fs, ROOT / EPOCH_FILE) == 2


def test_an_identity_is_whole_or_missing_after_any_crash() -> None:
    identity = region_identity("store", 0)
    for fs in deaths(nothing, lambda fs: write_identity(fs, ROOT, identity)):
        try:
            assert read_identity(fs, ROOT) == identity
        except NotFound:
            write_identity(fs, ROOT, identity)
            assert read_identity(fs.power_cut(), ROOT) == identity


def test_a_store_has_the_old_embedder_or_the_new_one_after_any_crash() -> None:
    old = EmbedderFile("minilm", "all-MiniLM-L6-v2", 384)
    new = EmbedderFile("hash", "hash-64", 64, "derived-2")
    for fs in deaths(
        lambda fs: write_embedder(fs, ROOT, old), lambda fs: write_embedder(fs, ROOT, new)
    ):
        assert read_embedder(fs, ROOT) in (old, new)
