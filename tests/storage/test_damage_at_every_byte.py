"""A small log, cut and bit-flipped at every byte, with the exact outcome for each.

Before the durable mark: corruption, quarantined and reported, the rest readable. Beyond it: a torn
tail, reported in bytes. Never wrong bytes, never a silent drop. See ``small_log.expect``.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from neverforget.storage.errors import Corrupt
from neverforget.storage.log import Log
from neverforget.storage.record import read_header
from neverforget.storage.recovery import Recovered
from tests.storage.small_log import (
    PAGE,
    Expected,
    Placed,
    append,
    commit,
    create_log,
    expect,
    layout,
    open_log,
)

FIRST = "log/0000000000000000.seg"


@pytest.fixture
def root(memory_path: Path) -> Path:
    return memory_path


def build(root: Path, *, proven: bool) -> list[Placed]:
    """Four synced groups, the third a batch; then a group that was written and not synced, unless
    ``proven``: a no-op says that all is durable."""
    create_log(root)
    log, _ = open_log(root)
    positions = commit(log, "the first turn")
    positions += commit(log, "a second one, longer than the first!")
    positions += commit(log, "batch 1 of 3", "batch 2 of 3.", "batch 3 of 3..")
    positions += commit(log, "x")
    if proven:
        log.noop(1)
        log.write()
        log.sync()
        positions.append(log.tail - 64)
    else:
        positions += append(log, "unsynced, alone")
        positions += append(log, "unsynced 1 of 2", "unsynced 2 of 2")
        log.write()
    placed = layout(log, positions)
    log.close()
    return placed


def check(root: Path, expected: Expected, where: str) -> None:
    log, recovered = open_log(root)
    try:
        assert outcome(log, recovered) == (
            sorted(expected.kinds),
            expected.quarantined,
            expected.torn_bytes,
            expected.tail,
            [r.start for r in expected.kept],
            [r.start for r in expected.unreadable],
        ), where
        for record in expected.kept:
            assert bytes(log.read(record.start)) == record.data, where
        for record in expected.unreadable:
            assert log.header(record.start) == read_header(record.data), where
            with pytest.raises(Corrupt):
                log.read(record.start)
    finally:
        log.close()


def outcome(log: Log, recovered: Recovered) -> tuple[object, ...]:
    """Everything that opening said. Reported torn and quarantined bytes are those of its
    findings."""
    torn = sum(f.bytes for f in recovered.findings if f.kind == "torn_tail")
    assert torn == recovered.torn_bytes
    positions: dict[int, bool] = {}
    for part in recovered.segments:
        positions |= dict(zip(part.positions.tolist(), part.body_ok.tolist()))
    assert log.tail == log.durable == recovered.tail
    return (
        sorted(f.kind for f in recovered.findings),
        recovered.quarantined,
        recovered.torn_bytes,
        recovered.tail,
        [p for p, ok in positions.items() if ok],
        [p for p, ok in positions.items() if not ok],
    )


def flipped(records: list[Placed], offset: int) -> Expected:
    """The outcome of one flipped bit at ``offset`` of the only segment."""
    if offset < 64:
        return expect(records, kinds=["corrupt_header"])
    hit = next((r for r in records if r.start <= offset < r.end), None)
    if hit is None:
        return expect(records, last_byte=offset + 1)
    if offset < hit.body:
        end = max(hit.body_end, *(r.end for r in records if r is not hit))
        return expect(records, bad_header=hit, last_byte=end)
    if offset < hit.body_end:
        return expect(records, bad_body=hit)
    return expect(records, kinds=["corrupt_padding"])


def every_byte(end: int, *, proven: bool, long_run: bool) -> Iterator[int]:
    """The places to damage; under --long all of them. The zeros behind the last record, which ends
    at ``end``, are alike, where that is proven wholly so: some will do, and few of them then."""
    yield from range(end + 64)
    yield from range(end + 64, PAGE, 61 if proven else 1 if long_run else 13)


@pytest.mark.parametrize("proven", [True, False])
def test_every_flipped_bit_has_its_exact_outcome(root: Path, proven: bool, long_run: bool) -> None:
    """Each bit of the header of a record that is alone, of one in a batch, and of one that was not
    synced; else one of each byte."""
    records = build(root, proven=proven)
    path = root / FIRST
    sound = bytearray(path.read_bytes())
    end = records[-1].end
    headers = {
        offset
        for record in (records if long_run else (records[0], records[3], records[-1]))
        for offset in range(record.start, record.end if long_run else record.body)
    }
    for offset in every_byte(end, proven=proven, long_run=long_run):
        # What is proven is the smaller part of the other case.
        for bit in range(8) if offset in headers and not proven else [offset % 8]:
            sound[offset] ^= 1 << bit
            path.write_bytes(sound)
            sound[offset] ^= 1 << bit
            check(root, flipped(records, offset), f"bit {bit} of byte {offset}")
    shutil.rmtree(root / "torn", ignore_errors=True)


@pytest.mark.parametrize("proven", [True, False])
def test_every_cut_has_its_exact_outcome(root: Path, proven: bool, long_run: bool) -> None:
    records = build(root, proven=proven)
    path = root / FIRST
    sound = path.read_bytes()
    for length in every_byte(records[-1].end, proven=proven, long_run=long_run):
        path.write_bytes(sound[:length])
        if length < 64:
            with pytest.raises(Corrupt):
                open_log(root)
            continue
        last_byte = len(sound[:length].rstrip(b"\0"))
        expected = expect(records, gone_from=length, last_byte=last_byte, kinds=["short_segment"])
        check(root, expected, f"cut at {length}")


@pytest.mark.parametrize("proven", [True, False])
def test_after_recovery_a_second_opening_finds_nothing_new_and_appending_goes_on(
    root: Path, proven: bool, long_run: bool
) -> None:
    """Corruption before the mark stays where it is and is found again; a torn tail is gone."""
    records = build(root, proven=proven)
    path = root / FIRST
    sound = bytearray(path.read_bytes())
    for offset in range(64, records[-1].end + 64, 1 if long_run else 3):
        sound[offset] ^= 0x10
        path.write_bytes(sound)
        sound[offset] ^= 0x10
        log, first = open_log(root)
        log.close()
        log, second = open_log(root, epoch=2)
        assert second.torn_bytes == 0
        assert second.tail == first.tail
        assert second.quarantined == first.quarantined
        # What was torn may have been the proof of some of what was accepted; never the reverse.
        kept = [p for s in second.segments for p in s.positions.tolist()]
        assert kept == [p for s in first.segments for p in s.positions.tolist()]
        (position,) = commit(log, "after it all")
        log.close()
        log, third = open_log(root, epoch=3)
        assert third.tail > position
        assert [p for s in third.segments for p in s.positions.tolist()] == [*kept, position]
        log.close()


def sealed(root: Path) -> tuple[list[Placed], list[Placed]]:
    """Two segments: the first full and sealed, the second with one record. No side file."""
    create_log(root)
    log, _ = open_log(root)
    positions: list[int] = []
    while len(log.segments()) == 1:
        positions += commit(log, f"turn {len(positions)} " + "." * 300)
    placed = layout(log, positions)
    log.close()
    return placed[:-1], placed[-1:]


def places(first: list[Placed], long_run: bool) -> list[int]:
    """Every place of the first segment. Its records are alike, but for their position, and a body
    is text: where nothing changes every 17th byte will do.
    """
    alike = {
        *range(first[0].body + 16, first[0].body_end - 8),
        *range(first[1].body + 16, first[-1].start),
        *range(first[-1].body + 16, first[-1].body_end - 8),
        *range(first[-1].end + 8, PAGE - 8),
    }
    return [place for place in range(PAGE) if long_run or place not in alike or place % 17 == 0]


def test_every_flipped_byte_of_a_sealed_segment_is_corruption_and_costs_one_record(
    root: Path, long_run: bool
) -> None:
    first, second = sealed(root)
    path = root / FIRST
    sound = bytearray(path.read_bytes())
    for offset in places(first, long_run):
        for side_file in (root / "log").glob("*.heads"):
            side_file.unlink()
        sound[offset] ^= 1 << offset % 8
        path.write_bytes(sound)
        sound[offset] ^= 1 << offset % 8
        hit = next((r for r in first if r.start <= offset < r.end), None)
        kept, unreadable, quarantined, kinds = [*first, *second], [], [], []
        if hit is None:
            kinds = ["corrupt_header" if offset < 64 else "corrupt_padding"]
        elif offset < hit.body:
            kept.remove(hit)
            quarantined, kinds = [(hit.start, hit.end)], ["corrupt_header"]
        elif offset < hit.body_end:
            kept.remove(hit)
            unreadable = [hit]
        else:
            kinds = ["corrupt_padding"]
        expected = Expected(kept, unreadable, quarantined, 0, second[0].end, kinds)
        check(root, expected, f"byte {offset}")


def test_every_cut_of_a_sealed_segment_is_corruption_up_to_where_its_data_ended(
    root: Path, long_run: bool
) -> None:
    first, second = sealed(root)
    path = root / FIRST
    sound = path.read_bytes()
    for length in places(first, long_run):
        for side_file in (root / "log").glob("*.heads"):
            side_file.unlink()
        path.write_bytes(sound[:length])
        kept = [r for r in first if r.body_end <= length] + second
        unreadable = [r for r in first if r.body <= length < r.body_end]
        lost_from = max([64, *(r.end for r in first if r.body <= length)])
        kinds = ["short_segment"] + ["corrupt_header"] * (length < 64)
        quarantined = []
        if lost_from < PAGE:
            quarantined = [(lost_from, PAGE)]
            kinds.append("corrupt_header")
        if any(r.body_end <= length < r.end for r in first):
            kinds.append("corrupt_padding")
        expected = Expected(kept, unreadable, quarantined, 0, second[0].end, kinds)
        check(root, expected, f"cut at {length}")


def test_with_side_files_every_flipped_byte_is_found_by_verify_and_never_read(
    root: Path, long_run: bool
) -> None:
    """Opening does not look at sealed bodies then; whoever reads or verifies does."""
    first, second = sealed(root)
    assert (root / "log/0000000000000000.heads").exists()
    path = root / FIRST
    sound = bytearray(path.read_bytes())
    for offset in places(first, long_run):
        sound[offset] ^= 1 << offset % 8
        path.write_bytes(sound)
        sound[offset] ^= 1 << offset % 8
        log, recovered = open_log(root)
        hit = next((r for r in first if r.start <= offset < r.body_end), None)
        for record in [*first, *second]:
            if record is hit:
                with pytest.raises(Corrupt):
                    log.read(record.start)
            else:
                assert bytes(log.read(record.start)) == record.data
        findings = list(log.verify())
        at_header = [f for f in recovered.findings if f.kind == "corrupt_header"]
        assert findings or (offset < 64 and at_header), f"nobody says that byte {offset} is rotten"
        log.close()
        path.write_bytes(sound)


def test_every_flipped_or_cut_byte_of_a_side_file_only_costs_a_scan(root: Path) -> None:
    first, second = sealed(root)
    path = root / "log/0000000000000000.heads"
    sound = bytearray(path.read_bytes())
    damaged = [bytes(sound[:length]) for length in range(0, len(sound), 7)]
    for offset in range(len(sound)):
        sound[offset] ^= 1 << offset % 8
        damaged.append(bytes(sound))
        sound[offset] ^= 1 << offset % 8
    expected = Expected([*first, *second], [], [], 0, second[0].end, ["bad_side_file"])
    for number, data in enumerate(damaged):
        path.write_bytes(data)
        check(root, expected, f"damage {number}")
        assert path.read_bytes() == sound, "it was made again"
