"""Opening after whatever happened, beyond single bytes: whole files, groups in any order, lies."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from neverforget.storage.errors import Corrupt, OutOfSpace, Poisoned, UnsupportedFormat
from neverforget.storage.log import Log, LogOptions
from neverforget.storage.record import body_of, decode_body, header_seed, log_seed, stamp
from neverforget.storage.recovery import Recovered
from neverforget.storage.segment import SegmentHeader, encode_segment_header
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem, Fault
from tests.storage.small_log import (
    LOG_ID,
    OPTIONS,
    PAGE,
    append,
    commit,
    create_log,
    layout,
    open_log,
    turn,
)

FIRST = "log/0000000000000000.seg"


def positions(recovered: Recovered) -> list[int]:
    return [p for s in recovered.segments for p in s.positions.tolist()]


def content(log: Log, position: int) -> Any:
    return decode_body(body_of(log.read(position)))[0]


def many(root: Path, segments: int) -> list[int]:
    create_log(root)
    log, _ = open_log(root)
    found: list[int] = []
    while len(log.segments()) < segments:
        found += commit(log, f"turn {len(found)} " + "x" * 900)
    log.close()
    return found


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


# ---- files that are gone, foreign, or newer ------------------------------------------------------


def test_a_missing_segment_costs_its_own_records_only(tmp_path: Path) -> None:
    placed = many(tmp_path, 4)
    (tmp_path / "log" / f"{PAGE:016x}.seg").unlink()
    for name in (f"{PAGE:016x}.heads", f"{2 * PAGE:016x}.heads"):
        (tmp_path / "log" / name).unlink(missing_ok=True)
    log, recovered = open_log(tmp_path)
    assert recovered.quarantined == [(PAGE, 2 * PAGE)]
    assert [f.kind for f in recovered.findings] == ["missing_segment"]
    assert positions(recovered) == [p for p in placed if not PAGE <= p < 2 * PAGE]
    with pytest.raises(Corrupt):
        log.read(PAGE + 64)
    assert [f.kind for f in log.verify()] == ["missing_segment"]
    log.close()


def test_a_missing_last_segment_is_never_taken_for_the_end(tmp_path: Path) -> None:
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    while len(log.segments()) < 2:
        commit(log, "x" * 900)
    log.seal()
    log.close()
    (tmp_path / "log" / f"{PAGE:016x}.seg").unlink()
    with pytest.raises(Corrupt, match="gone"):
        open_log(tmp_path)


def test_a_directory_without_segments_is_not_an_empty_log(tmp_path: Path) -> None:
    create_log(tmp_path)
    (tmp_path / FIRST).unlink()
    with pytest.raises(Corrupt, match="belongs there"):
        open_log(tmp_path)


def test_a_log_of_another_store_is_refused_untouched(tmp_path: Path) -> None:
    many(tmp_path, 2)
    before = snapshot(tmp_path)
    with pytest.raises(Corrupt, match="another log"):
        open_log(tmp_path, log_id=LOG_ID + 1)
    assert snapshot(tmp_path) == before


def test_a_renamed_segment_is_refused(tmp_path: Path) -> None:
    many(tmp_path, 2)
    log_directory = tmp_path / "log"
    (log_directory / f"{PAGE:016x}.seg").rename(log_directory / f"{5 * PAGE:016x}.seg")
    with pytest.raises(Corrupt):
        open_log(tmp_path)


def test_a_newer_version_refuses_to_open_and_is_left_alone(tmp_path: Path) -> None:
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    commit(log, "old")
    (newer,) = commit(log, "newer")
    log.close()
    path = tmp_path / FIRST
    sound = path.read_bytes()

    data = bytearray(sound)
    record = data[newer : newer + 80]
    record[7] = 2
    crc = crc32c(bytes(record[:60]), header_seed(log_seed(LOG_ID), newer))
    data[newer : newer + 60] = record[:60]
    data[newer + 60 : newer + 64] = crc.to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(UnsupportedFormat, match="version 2"):
        open_log(tmp_path)
    assert path.read_bytes() == data

    header = bytearray(encode_segment_header(SegmentHeader(LOG_ID, 0, PAGE, 0)))
    header[4] = 2
    header[60:64] = crc32c(bytes(header[:60])).to_bytes(4, "little")
    path.write_bytes(header + sound[64:])
    with pytest.raises(UnsupportedFormat, match="version 2"):
        open_log(tmp_path)


def test_a_damaged_segment_header_is_written_again(tmp_path: Path) -> None:
    placed = many(tmp_path, 3)
    path = tmp_path / FIRST
    data = path.read_bytes()
    path.write_bytes(bytes(64) + data[64:])
    log, recovered = open_log(tmp_path)
    log.close()
    assert [(f.kind, f.severity) for f in recovered.findings] == [("corrupt_header", "repaired")]
    assert positions(recovered) == placed
    log, recovered = open_log(tmp_path)
    log.close()
    assert recovered.findings == []


def test_leftovers_of_a_dead_maker_are_cleared(tmp_path: Path) -> None:
    placed = many(tmp_path, 2)
    for name in (f"{2 * PAGE:016x}.seg.tmp", f"{0:016x}.heads.tmp"):
        (tmp_path / "log" / name).write_bytes(b"half of it")
    log, recovered = open_log(tmp_path)
    log.close()
    assert positions(recovered) == placed and recovered.findings == []
    assert not list((tmp_path / "log").glob("*.tmp"))


# ---- torn tails ----------------------------------------------------------------------------------


def unsynced_group(root: Path) -> tuple[list[int], bytes]:
    """One durable record, then a group of three that was written and never synced."""
    create_log(root)
    log, _ = open_log(root)
    placed = commit(log, "durable")
    for n in range(3):
        placed += append(log, f"group {n}")
    log.write()
    log.close()
    return placed, (root / FIRST).read_bytes()


def test_a_group_that_reached_the_disk_in_another_order_is_torn_not_corrupt(
    tmp_path: Path,
) -> None:
    """Its first record lost, the others valid: it looks like rot, and is not. The durable mark in
    the headers says so. ("A valid record after a bad one means rot" lost unacknowledged groups.)"""
    placed, data = unsynced_group(tmp_path)
    (tmp_path / FIRST).write_bytes(
        data[: placed[1]] + bytes(placed[2] - placed[1]) + data[placed[2] :]
    )
    log, recovered = open_log(tmp_path)
    assert positions(recovered) == placed[:1] and recovered.tail == placed[1]
    assert recovered.quarantined == []
    assert [f.kind for f in recovered.findings] == ["torn_tail"]
    end = placed[3] + 64 + 8 + 8
    assert recovered.torn_bytes == end - placed[1]
    (copy,) = (tmp_path / "torn").iterdir()
    assert copy.read_bytes() == bytes(placed[2] - placed[1]) + data[placed[2] : end]
    assert not any((tmp_path / FIRST).read_bytes()[placed[1] :])
    log.close()


def test_a_batch_without_its_last_record_is_torn_as_a_whole(tmp_path: Path) -> None:
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    kept = commit(log, "durable")
    kept += append(log, "single, written")
    batch = append(log, "1 of 3", "2 of 3", "3 of 3")
    log.write()
    end = log.tail
    log.close()
    data = bytearray((tmp_path / FIRST).read_bytes())
    data[batch[2] + 70] ^= 1
    (tmp_path / FIRST).write_bytes(data)
    log, recovered = open_log(tmp_path)
    assert positions(recovered) == kept
    assert recovered.torn_bytes == end - batch[0]
    log.close()


def test_a_torn_tail_then_an_append_then_another_crash_keeps_the_append(tmp_path: Path) -> None:
    create_log(tmp_path)
    placed: list[int] = []
    path = tmp_path / FIRST
    for life in range(1, 6):
        log, recovered = open_log(tmp_path, epoch=life)
        assert positions(recovered) == placed
        assert [f.kind for f in recovered.findings] == ["torn_tail"] * (life > 1)
        placed += commit(log, f"life {life}")
        torn = append(log, "never complete")[0]
        log.write()
        log.close()
        data = path.read_bytes()
        path.write_bytes(data[: torn + 67 + life] + bytes(PAGE - torn - 67 - life))
    log, _ = open_log(tmp_path, epoch=9)
    assert [content(log, p) for p in placed] == [f"life {n}" for n in range(1, 6)]
    assert len(list((tmp_path / "torn").iterdir())) == 5
    log.close()


def test_stray_bytes_in_an_unused_spare_are_torn_and_the_spare_is_used(tmp_path: Path) -> None:
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    placed = commit(log, "x" * 3000)
    placed += commit(log, "y" * 3000)
    log.close()
    path = tmp_path / "log" / f"{PAGE:016x}.seg"
    data = bytearray(path.read_bytes())
    data[64:] = bytes(PAGE - 64)
    data[2000] = 1
    path.write_bytes(data)
    (tmp_path / "log" / f"{0:016x}.heads").unlink()
    log, recovered = open_log(tmp_path)
    assert positions(recovered) == placed[:1]
    assert recovered.torn_bytes == 2000 + 1 - 64
    assert commit(log, "z" * 3000) == [PAGE + 64]
    log.close()


# ---- corruption ----------------------------------------------------------------------------------


def test_corruption_is_copied_once_and_left_where_it_is(tmp_path: Path) -> None:
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    placed = [p for n in range(4) for p in commit(log, f"turn {n}")]
    stood = layout(log, placed)
    log.close()
    data = bytearray((tmp_path / FIRST).read_bytes())
    data[stood[1].start + 10] ^= 4
    (tmp_path / FIRST).write_bytes(data)
    for life in range(3):
        log, recovered = open_log(tmp_path, epoch=life + 2)
        assert recovered.quarantined == [(stood[1].start, stood[1].end)]
        assert positions(recovered) == [p for p in placed if p != placed[1]]
        log.close()
        (copy,) = (tmp_path / "quarantine").iterdir()
        assert copy.read_bytes() == data[stood[1].start : stood[1].end]
        assert (tmp_path / FIRST).read_bytes() == data


def test_a_side_file_remembers_what_was_corrupt(tmp_path: Path) -> None:
    """It is made from what a scan found: a later opening, which does not scan, must know as
    well."""
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    placed = [p for n in range(4) for p in commit(log, f"turn {n}")]
    log.close()
    data = bytearray((tmp_path / FIRST).read_bytes())
    data[placed[1] + 10] ^= 4
    data[placed[2] + 70] ^= 4
    (tmp_path / FIRST).write_bytes(data)
    log, scanned = open_log(tmp_path)
    log.seal()
    log.close()
    log, remembered = open_log(tmp_path)
    assert remembered.segments[0].side_file is not None
    assert remembered.quarantined == scanned.quarantined != []
    for found in (scanned, remembered):
        assert found.segments[0].body_ok.tolist() == [True, False, True]
    log.close()


def test_several_ranges_are_resynchronised_one_after_the_other(tmp_path: Path) -> None:
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    placed = [p for n in range(12) for p in commit(log, f"turn {n}")]
    stood = layout(log, placed)
    log.close()
    data = bytearray((tmp_path / FIRST).read_bytes())
    for number in (0, 3, 4, 8):
        data[stood[number].start : stood[number].end] = bytes(range(1, 81))
    (tmp_path / FIRST).write_bytes(data)
    log, recovered = open_log(tmp_path)
    assert recovered.quarantined == [
        (stood[0].start, stood[0].end),
        (stood[3].start, stood[4].end),
        (stood[8].start, stood[8].end),
    ]
    assert positions(recovered) == [p for n, p in enumerate(placed) if n not in (0, 3, 4, 8)]
    log.close()


def test_resynchronising_is_not_misled_by_bodies_full_of_magic(tmp_path: Path) -> None:
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    placed = commit(log, "NFG1" * 300)
    placed += commit(log, "after")
    placed += commit(log, "proof")
    log.close()
    data = bytearray((tmp_path / FIRST).read_bytes())
    data[placed[0]] = 0
    (tmp_path / FIRST).write_bytes(data)
    log, recovered = open_log(tmp_path)
    assert recovered.quarantined == [(placed[0], placed[1])]
    assert positions(recovered) == placed[1:]
    log.close()


# ---- lying disks ---------------------------------------------------------------------------------


def crash_log(fs: CrashFileSystem, epoch: int, **kw: Any) -> tuple[Log, Recovered]:
    options = kw.pop("options", OPTIONS)
    return Log.open(
        fs,
        ROOT / "log",
        log_id=LOG_ID,
        epoch=epoch,
        torn_directory=ROOT / "torn",
        quarantine_directory=ROOT / "quarantine",
        options=options,
        **kw,
    )


@pytest.mark.parametrize("seed", range(20))
def test_what_only_the_page_cache_holds_is_written_again_before_it_is_served(seed: int) -> None:
    """A sync failed; the next owner found the record in the page cache, a plain fdatasync said OK,
    it was served, and a power cut took it."""
    fs = CrashFileSystem(seed)
    Log.create(fs, ROOT / "log", log_id=LOG_ID, options=OPTIONS)
    log, _ = crash_log(fs, 1)
    kept = commit(log, "safe")
    (doubtful,) = append(log, "in the page cache only")
    log.write()
    fs.inject(Fault("fdatasync", error=errno.EIO))
    with pytest.raises(Poisoned):
        log.sync()
    fs = fs.process_death()
    log, recovered = crash_log(fs, 2)
    assert positions(recovered) == [*kept, doubtful]
    assert content(log, doubtful) == "in the page cache only"
    log, recovered = crash_log(fs.power_cut(), 3)
    assert positions(recovered) == [*kept, doubtful]
    assert content(log, doubtful) == "in the page cache only"


@pytest.mark.parametrize("operation", ["pwrite", "fdatasync"])
def test_a_log_that_cannot_be_made_durable_opens_for_reading_what_is_proven(
    operation: Any,
) -> None:
    fs = CrashFileSystem(3)
    Log.create(fs, ROOT / "log", log_id=LOG_ID, options=OPTIONS)
    log, _ = crash_log(fs, 1)
    proven = commit(log, "proven")
    commit(log, "durable, not proven")
    fs = fs.process_death()
    fs.inject(Fault(operation, error=errno.EIO, path=".seg", count=99))
    with pytest.raises(Poisoned, match="mend the disk"):
        crash_log(fs, 2)
    fs.calls.clear()
    log, recovered = crash_log(fs, 2, read_only=True)
    assert positions(recovered) == proven and content(log, proven[0]) == "proven"
    assert log.poisoned and recovered.tail == log.tail == recovered.proven
    for attempt in (log.write, log.sync, lambda: log.reserve(64)):
        with pytest.raises(Poisoned):
            attempt()
    assert {call.op for call in fs.calls} <= {"pread", "map"}
    log.close()


def test_no_room_to_set_a_torn_tail_aside_is_out_of_space_and_nothing_is_zeroed(
    tmp_path: Path,
) -> None:
    fs = CrashFileSystem(3)
    Log.create(fs, ROOT / "log", log_id=LOG_ID, options=OPTIONS)
    log, _ = crash_log(fs, 1)
    proven = commit(log, "proven")
    batch = turn("half a batch")
    at = log.reserve(len(batch))
    log.stamp(batch, 0, at, session_id=1, seq=1, flags_or=6)
    log.stage(batch)
    log.write()
    fs = fs.process_death()
    fs.inject(Fault("allocate", path="torn", error=errno.ENOSPC))
    with pytest.raises(OutOfSpace):
        crash_log(fs, 2)
    log, recovered = crash_log(fs, 2)
    assert positions(recovered) == proven and recovered.torn_bytes > 0
    log.close()


def test_read_only_changes_no_byte(tmp_path: Path) -> None:
    placed, data = unsynced_group(tmp_path)
    damaged = bytearray(data)
    damaged[placed[2]] ^= 1
    damaged[10] ^= 1
    (tmp_path / FIRST).write_bytes(damaged)
    (tmp_path / "log/0000000000000000.heads").write_bytes(b"rubbish")
    (tmp_path / "log/x.tmp").write_bytes(b"left over")
    before = snapshot(tmp_path)
    log, recovered = open_log(tmp_path, read_only=True)
    assert positions(recovered) == placed[:1]
    log.close()
    assert snapshot(tmp_path) == before


def fail_reads(fs: CrashFileSystem, start: int, stop: int) -> None:
    """From now on the disk cannot read [start, stop) of any segment."""
    real_open = fs.open

    def opened(path: Path, *, create: bool = False, read_only: bool = False) -> Any:
        file = real_open(path, create=create, read_only=read_only)
        real_pread = file.pread

        def pread(size: int, offset: int) -> bytes:
            if path.suffix == ".seg" and offset < stop and offset + size > start:
                raise OSError(errno.EIO, "bad sector", str(path))
            return real_pread(size, offset)

        file.pread = pread  # type: ignore[method-assign]
        return file

    fs.open = opened  # type: ignore[method-assign]


MEDIA_OPTIONS = LogOptions(segment_bytes=4 * PAGE, first_segment_bytes=4 * PAGE, read_by="pread")


def full_segment() -> tuple[CrashFileSystem, list[Any]]:
    """Twenty commits, the last not proven durable by any record; the owner was killed."""
    fs = CrashFileSystem(5)
    Log.create(fs, ROOT / "log", log_id=LOG_ID, options=MEDIA_OPTIONS)
    log, _ = crash_log(fs, 1, options=MEDIA_OPTIONS)
    placed = [p for n in range(20) for p in commit(log, f"{n} " + "x" * 600)]
    stood = layout(log, placed)
    log.close()
    return fs.process_death(), stood


def test_a_media_error_costs_the_records_on_its_page(tmp_path: Path) -> None:
    fs, stood = full_segment()
    fail_reads(fs, PAGE, 2 * PAGE)
    log, recovered = crash_log(fs, 2, options=MEDIA_OPTIONS)
    touched = [r for r in stood if r.start < 2 * PAGE and r.end > PAGE]
    untouched = [r.start for r in stood if r not in touched]
    assert "read_error" in {f.kind for f in recovered.findings}
    (part,) = recovered.segments
    assert part.positions[part.body_ok].tolist() == untouched
    for position in untouched:
        assert content(log, position).endswith("xxx")
    for record in touched:
        with pytest.raises(Corrupt):
            log.read(record.start)


def test_a_media_error_that_passes_leaves_nothing_behind() -> None:
    """A side file made while the disk could not read a page named its records lost for ever,
    though the log was whole again."""
    fs, stood = full_segment()
    whole_open = fs.open
    fail_reads(fs, PAGE, 2 * PAGE)
    log, _ = crash_log(fs, 2, options=MEDIA_OPTIONS)
    log.seal()
    log.close()
    fs.open = whole_open  # type: ignore[method-assign]
    fs = fs.process_death()
    log, recovered = crash_log(fs, 3, options=MEDIA_OPTIONS)
    (part,) = recovered.segments
    assert part.positions[part.body_ok].tolist() == [r.start for r in stood]
    assert recovered.quarantined == []


def test_an_unreadable_end_is_not_taken_for_a_torn_tail() -> None:
    """The last group is acknowledged and no record proves it yet. A page of it that cannot be read
    was taken for empty, and the next append would have been written over it."""
    fs, stood = full_segment()
    last_page = stood[-1].start // PAGE * PAGE
    whole_open = fs.open
    fail_reads(fs, last_page, last_page + PAGE)
    with pytest.raises(Poisoned):
        crash_log(fs, 2, options=MEDIA_OPTIONS)
    fs.open = whole_open  # type: ignore[method-assign]
    _, recovered = crash_log(fs, 3, options=MEDIA_OPTIONS)
    assert recovered.segments[0].positions.tolist() == [r.start for r in stood]


# ---- orderly ends --------------------------------------------------------------------------------


def test_a_sealed_log_opens_by_its_side_file_and_goes_on_in_the_same_segment(
    tmp_path: Path,
) -> None:
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    placed = commit(log, "one") + commit(log, "two")
    log.seal()
    placed += commit(log, "three, after sealing")
    log.close()
    log, recovered = open_log(tmp_path)
    assert positions(recovered) == placed and recovered.proven >= placed[2]
    assert recovered.segments[0].side_file is None, "it covers a part only"
    placed += commit(log, "four")
    log.seal()
    log.close()
    log, recovered = open_log(tmp_path)
    assert positions(recovered) == placed
    assert recovered.segments[0].side_file is not None
    assert recovered.proven == recovered.tail == log.indexed_until
    log.close()


def test_a_side_file_proves_the_last_group_of_a_closed_log(tmp_path: Path) -> None:
    """Rot in it is corruption then, where without the proof it would pass for a torn tail."""
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    placed = commit(log, "one") + commit(log, "two")
    log.seal()
    log.close()
    data = bytearray((tmp_path / FIRST).read_bytes())
    cut = placed[1]
    (tmp_path / FIRST).write_bytes(data[:cut])
    log, recovered = open_log(tmp_path)
    assert recovered.torn_bytes == 0
    assert recovered.quarantined == [(cut, cut + 72)]
    assert positions(recovered) == placed[:1] and recovered.tail == cut + 72
    log.close()


def test_a_stamp_for_another_place_is_not_accepted(tmp_path: Path) -> None:
    """A misdirected write: a valid record, at a position that is not its own."""
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    placed = commit(log, "one")
    record = turn("elsewhere")
    position = log.reserve(len(record))
    seed = header_seed(log_seed(LOG_ID), position + 8)
    stamp(record, 0, session_id=1, seq=1, epoch=1, flags_or=0, durable_back=0, seed=seed)
    log.stage(record)
    log.write()
    log.close()
    log, recovered = open_log(tmp_path)
    assert positions(recovered) == placed and recovered.torn_bytes > 0
    log.close()
