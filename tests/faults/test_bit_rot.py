"""Rot while nobody looks: every bit of one record, with the owner down.

Whatever bit it is, a wrong byte is never returned, the turns around it are all there, nothing that
was acknowledged later is cut off, the seq is not given out again, and the damage is reported.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from neverforget.actors.messages import SYNC_DISK
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.format import BodyField
from neverforget.storage.record import decode_records
from neverforget.storage.region import Region
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.results import TurnFlag, Window
from tests.faults.appender import NAMESPACE, PRODUCER, SESSION, append_request, content_of
from tests.faults.oracle import STORE_ID

TURNS, ROTTEN = 13, 10  # the record of turn 10 is a short one
OPTIONS = RegionOptions(segment_bytes=1 << 14, first_segment_bytes=1 << 14)


@pytest.fixture
def root() -> Iterator[Path]:
    """In memory where that can be: a region is opened thousands of times here."""
    shared = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(prefix="nf-rot-", dir=shared if shared.is_dir() else None))
    yield path
    shutil.rmtree(path)


def opened(directory: Path) -> Region:
    return Region.open(
        LocalFileSystem(), directory, store_id=STORE_ID, partition=0, role="worker", options=OPTIONS
    )


def append(region: Region, number: int) -> tuple[int, int]:
    """(seq, where its record ends in the log)."""
    request = append_request(number, sync=SYNC_DISK)
    told = region.append(
        NAMESPACE, SESSION, None, PRODUCER, number, request.expect_seq, request.records
    )
    region.write()
    region.sync()
    return told.first_seq, told.end


@dataclass
class Rotten:
    """A region directory, where the record of turn ROTTEN lies in its only segment."""

    directory: Path
    segment: Path
    start: int
    stop: int


def build(root: Path, *, sealed: bool, proven: bool = True, rotten: int = ROTTEN) -> Rotten:
    directory = root / "p0"
    Region.create(LocalFileSystem(), directory, store_id=STORE_ID, partition=0, options=OPTIONS)
    region = opened(directory)
    ends = [0]
    for number in range(TURNS):
        seq, end = append(region, number + 1)
        assert seq == number
        ends.append(end)
    if proven:
        assert region.noop_if_idle()
    if sealed:
        region.seal()
    region.close()
    (segment,) = (directory / "log").glob("*.seg")
    # The first batch holds the session's name as well; the others are one record each.
    return Rotten(directory, segment, ends[rotten], ends[rotten + 1])


def readable(window: Window) -> dict[int, str | None]:
    bad = {
        seq
        for first, last, flag in window.flags
        if flag & TurnFlag.UNREADABLE
        for seq in range(first, last + 1)
    }
    found: dict[int, str | None] = {}
    for index, (_, body) in enumerate(decode_records(window.records)):
        found[index] = None if index in bad or body is None else body[BodyField.CONTENT]
    return found


def flip(path: Path, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


@pytest.mark.parametrize("sealed", [False, True], ids=["unsealed", "sealed"])
def test_any_flipped_bit_of_a_record_costs_that_turn_at_most(
    root: Path, sealed: bool, long_run: bool
) -> None:
    rotten = build(root, sealed=sealed)
    pristine = root / "pristine"
    shutil.copytree(rotten.directory, pristine)
    expected = {seq: content_of(seq + 1) for seq in range(TURNS)}
    intact = 0
    # Three and five have no divisor in common with eight: every bit of a byte has its turn.
    step = 1 if long_run else 5 if sealed else 3
    for bit in range(rotten.start * 8, rotten.stop * 8, step):
        flip(rotten.segment, bit)
        region = opened(rotten.directory)
        where = f"bit {bit % 8} of byte {bit // 8 - rotten.start}"
        window = region.page(NAMESPACE, SESSION, None, None, False, 100, True)
        found = readable(window)
        if found == expected:
            # Padding, or a header that the side file has too: it must be said all the same.
            intact += 1
        else:
            assert found == expected | {ROTTEN: None}, where
        findings = [f.kind for f in region.verify()]
        assert findings, f"{where}: nobody noticed"
        assert append(region, TURNS + 1)[0] == TURNS, where
        region.close()
        shutil.rmtree(rotten.directory)
        shutil.copytree(pristine, rotten.directory)
    print(f"{(rotten.stop - rotten.start) * 8} bits, {intact} without loss")


@pytest.mark.parametrize("proven", [False, True], ids=["unproven", "proven"])
def test_rot_in_the_last_group_is_told_from_a_torn_tail_once_an_idle_owner_proved_it(
    root: Path, proven: bool
) -> None:
    """Without a later record nobody can know that the last group was ever whole: it is torn, and
    the loss is that one group. The no-op that an idle owner writes closes the window.
    """
    rotten = build(root, sealed=False, proven=proven, rotten=TURNS - 1)
    flip(rotten.segment, rotten.start * 8 + 70 * 8)  # in the body
    region = opened(rotten.directory)
    found = readable(region.page(NAMESPACE, SESSION, None, None, False, 100, True))
    kinds = {f.kind for f in region.verify()}
    before = {seq: content_of(seq + 1) for seq in range(TURNS - 1)}
    if proven:
        assert found == before | {TURNS - 1: None}
        assert append(region, TURNS + 1)[0] == TURNS
        assert kinds == {"corrupt_body"}
    else:
        assert found == before
        assert kinds == {"torn_tail"}
        (aside,) = (rotten.directory / "torn").iterdir()
        assert aside.stat().st_size >= rotten.stop - rotten.start, "the evidence is kept"
    region.close()
