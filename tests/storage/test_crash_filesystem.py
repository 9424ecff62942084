"""The fault model of the crash file system: everything it may do happens, and nothing else."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.fakes.crash_filesystem import ROOT, CrashFileSystem, Fault, Killed
from tests.fakes.crash_media import PAGE_BYTES, SECTOR_BYTES
from tests.fakes.deaths import deaths

FILE = ROOT / "file"
OLD, NEW = b"o" * PAGE_BYTES, b"n" * PAGE_BYTES


def durable_file(fs: CrashFileSystem, content: bytes, path: Path = FILE) -> None:
    with closing(fs.open(path, create=True)) as file:
        file.pwrite([content], 0)
        file.fdatasync()
    fs.sync_directory(path.parent)


def outcomes(prepare: Callable[[CrashFileSystem], None], seeds: int = 200) -> set[bytes | None]:
    """What a power cut after ``prepare`` may leave in FILE; None: no such file."""
    found: set[bytes | None] = set()
    for seed in range(seeds):
        fs = CrashFileSystem(seed)
        prepare(fs)
        after = fs.power_cut()
        found.add(after.content(FILE) if after.exists(FILE) else None)
    return found


def overwrite(fs: CrashFileSystem, *contents: bytes, sync: bool = False) -> None:
    durable_file(fs, OLD)
    with closing(fs.open(FILE)) as file:
        for content in contents:
            file.pwrite([content], 0)
        if sync:
            file.fdatasync()


def test_what_was_synced_stays() -> None:
    assert outcomes(lambda fs: overwrite(fs, NEW, sync=True)) == {NEW}


def test_an_unsynced_page_is_old_new_or_torn_at_sectors() -> None:
    found = outcomes(lambda fs: overwrite(fs, NEW))
    assert {OLD, NEW} < found
    for content in found:
        assert content is not None
        sectors = {content[i : i + SECTOR_BYTES] for i in range(0, PAGE_BYTES, SECTOR_BYTES)}
        assert sectors <= {OLD[:SECTOR_BYTES], NEW[:SECTOR_BYTES]}


def test_an_unsynced_page_may_be_found_as_it_was_between_two_writes() -> None:
    assert {OLD, NEW, b"m" * PAGE_BYTES} < outcomes(
        lambda fs: overwrite(fs, b"m" * PAGE_BYTES, NEW)
    )


def test_pages_are_lost_in_any_order() -> None:
    def two_pages(fs: CrashFileSystem) -> None:
        durable_file(fs, OLD + OLD)
        with closing(fs.open(FILE)) as file:
            file.pwrite([NEW], 0)
            file.pwrite([NEW], PAGE_BYTES)

    assert {OLD + NEW, NEW + OLD, OLD + OLD, NEW + NEW} <= outcomes(two_pages)


def test_an_unsynced_size_is_lost_or_kept_without_its_data() -> None:
    def grow(fs: CrashFileSystem) -> None:
        durable_file(fs, OLD)
        with closing(fs.open(FILE)) as file:
            file.pwrite([NEW], PAGE_BYTES)

    assert {OLD, OLD + NEW, OLD + bytes(PAGE_BYTES)} <= outcomes(grow)


def test_a_name_is_durable_only_with_its_directory() -> None:
    def unsynced(fs: CrashFileSystem) -> None:
        with closing(fs.open(FILE, create=True)) as file:
            file.pwrite([NEW], 0)
            file.fdatasync()

    assert outcomes(unsynced) == {None, NEW}


def test_a_rename_is_atomic_and_lost_or_kept() -> None:
    def rename(fs: CrashFileSystem) -> None:
        durable_file(fs, OLD)
        durable_file(fs, NEW, ROOT / "new")
        fs.rename(ROOT / "new", FILE)

    assert outcomes(rename) == {OLD, NEW}


def test_a_link_is_lost_or_kept() -> None:
    def link(fs: CrashFileSystem) -> None:
        durable_file(fs, NEW, ROOT / "new")
        fs.link(ROOT / "new", FILE)

    assert outcomes(link) == {None, NEW}


def test_an_unlink_is_lost_or_kept() -> None:
    def unlink(fs: CrashFileSystem) -> None:
        durable_file(fs, OLD)
        fs.unlink(FILE)

    assert outcomes(unlink) == {None, OLD}


def test_a_lost_directory_takes_its_files_along() -> None:
    path = ROOT / "folder" / "file"
    found = set()
    for seed in range(50):
        fs = CrashFileSystem(seed)
        fs.make_directory(path.parent)
        durable_file(fs, NEW, path)
        after = fs.power_cut()
        found.add((after.exists(path.parent), after.exists(path)))
    assert found == {(False, False), (True, True)}


def test_a_killed_process_loses_nothing_and_syncs_nothing() -> None:
    fs = CrashFileSystem(3)
    overwrite(fs, NEW)
    after = fs.process_death()
    assert after.content(FILE) == NEW
    assert after.durable_content(FILE) == OLD
    with pytest.raises(Killed):
        fs.exists(FILE)
    with closing(after.open(FILE)) as file:
        file.fdatasync()
    assert after.power_cut().content(FILE) == NEW


def test_a_failed_sync_is_followed_by_a_false_success() -> None:
    """fsyncgate: EIO once, then OK, the cache shows the data, and the disk does not hold it."""

    def fail_then_lie(fs: CrashFileSystem) -> None:
        overwrite(fs)
        fs.inject(Fault("fdatasync", error=errno.EIO))
        with closing(fs.open(FILE)) as file:
            file.pwrite([NEW], 0)
            with pytest.raises(OSError):
                file.fdatasync()
            file.fdatasync()
            assert file.pread(PAGE_BYTES, 0) == NEW

    assert OLD in outcomes(fail_then_lie)

    def fail_then_write_again(fs: CrashFileSystem) -> None:
        fail_then_lie(fs)
        with closing(fs.open(FILE)) as file:
            file.pwrite([NEW], 0)
            file.fdatasync()

    assert outcomes(fail_then_write_again) == {NEW}


def test_a_lying_device_keeps_nothing_for_sure() -> None:
    fs = CrashFileSystem(1, syncs_lie=True)
    durable_file(fs, NEW)
    assert fs.durable_content(FILE) is None


def test_faults_hit_the_call_they_name() -> None:
    fs = CrashFileSystem()
    durable_file(fs, OLD)
    fs.inject(Fault("pwrite", nth=2, error=errno.EIO, count=2))
    fs.inject(Fault("pwrite", nth=4, short=3))
    fs.inject(Fault("pread", path="another", error=errno.EIO))
    with closing(fs.open(FILE)) as file:
        file.pwrite([b"1"], 0)
        for _ in range(2):
            with pytest.raises(OSError):
                file.pwrite([b"no"], 0)
        with pytest.raises(OSError, match="short write: 3 of 6"):
            file.pwrite([b"abcdef"], 0)
        assert file.pread(4, 0) == b"abco"


@pytest.mark.parametrize("kill", ["before", "after"])
def test_a_kill_is_final(kill: str) -> None:
    fs = CrashFileSystem()
    durable_file(fs, OLD)
    syncs = fs.syncs()
    assert [fs.calls[i].op for i in syncs] == ["fdatasync", "sync_directory"]
    fs.kill_at(len(fs.calls) + 1, after=kill == "after")
    file = fs.open(FILE)
    file.pwrite([NEW], 0)
    with pytest.raises(Killed):
        file.fdatasync()
    with pytest.raises(Killed):
        file.pread(1, 0)
    file.close()
    after = fs.process_death()
    assert after.durable_content(FILE) == (NEW if kill == "after" else OLD)


@pytest.mark.parametrize("death", ["power_cut", "process_death"])
def test_deaths_leave_what_kills_at_the_same_calls_leave(death: str) -> None:
    """And what the next process writes there changes nothing for the others."""

    def work(fs: CrashFileSystem) -> None:
        overwrite(fs, NEW, OLD, NEW)
        fs.rename(FILE, ROOT / "other")
        durable_file(fs, NEW)
        fs.unlink(ROOT / "other")
        fs.sync_directory(ROOT)

    def everything(fs: CrashFileSystem) -> list[tuple[str, bytes, bytes | None]]:
        paths = [ROOT / name for name in fs.list_directory(ROOT)]
        return [(path.name, fs.content(path), fs.durable_content(path)) for path in paths]

    whole = CrashFileSystem()
    found = deaths(whole, lambda: work(whole), lambda: None)
    assert len(found) > 10
    for died in found[:-1]:
        fs = CrashFileSystem(died.call)
        fs.kill_at(died.call)
        with pytest.raises(Killed):
            work(fs)
        left = died.found(death)
        after = fs.power_cut() if death == "power_cut" else fs.process_death()
        assert everything(left) == everything(after)
        for each in (left, after):
            if each.exists(FILE):
                with closing(each.open(FILE)) as file:
                    file.pwrite([b"m" * PAGE_BYTES], 0)
        assert everything(left.power_cut()) == everything(after.power_cut())


def test_the_same_seed_gives_the_same_disk() -> None:
    def disk(seed: int) -> bytes:
        fs = CrashFileSystem(seed)
        overwrite(fs, *(bytes([i]) * PAGE_BYTES for i in range(20)))
        return fs.power_cut().content(FILE)

    assert disk(7) == disk(7)
    assert len({disk(seed) for seed in range(20)}) > 5


def test_a_flipped_bit_is_seen_and_stays() -> None:
    fs = CrashFileSystem()
    durable_file(fs, OLD)
    fs.flip_bit(FILE, 8 * 100 + 3)
    rotten = bytearray(OLD)
    rotten[100] ^= 8
    assert fs.content(FILE) == rotten
    assert fs.power_cut().content(FILE) == rotten
