"""Side files: their bytes, what they give back, finding ids, and that damage is noticed."""

from __future__ import annotations

import errno
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neverforget.storage import dedupe
from neverforget.storage.errors import Corrupt, UnsupportedFormat
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.format import HEADER_VERSION
from neverforget.storage.head_array import HEAD_DTYPE
from neverforget.storage.side_file import (
    SideFile,
    encode_side_file,
    load_side_file,
    side_path,
    write_side_file,
)
from tests.storage.small_log import FS, LOG_ID, PAGE, commit, create_log, open_log, turn
from tests.storage.small_region import bench


def id12(producer: int, seq: int) -> bytes:
    return producer.to_bytes(8, "little") + seq.to_bytes(4, "little")


def made(tmp_path: Path, ids: list[tuple[int, int]], **fields: Any) -> SideFile:
    heads = np.zeros(len(ids), dtype=HEAD_DTYPE)
    heads["sequence_id"] = np.arange(len(ids))
    heads["producer_id"] = [producer for producer, _ in ids]
    heads["producer_seq"] = [seq for _, seq in ids]
    parts: dict[str, Any] = {
        "log_id": LOG_ID,
        "base": PAGE,
        "size": PAGE * 4,
        "stop": PAGE + 64 + 72 * len(ids),
        "heads": heads,
        "positions": np.arange(len(ids), dtype="<u8") * 72 + PAGE + 64,
        "body_ok": np.ones(len(ids), dtype=bool),
        "gaps": [],
        **fields,
    }
    path = side_path(tmp_path, PAGE)
    write_side_file(FS, path, encode_side_file(**parts))
    return load_side_file(FS, path, LOG_ID)


def test_golden_bytes_of_a_side_file() -> None:
    heads = np.frombuffer(bytes(turn("hello")[:64]), dtype=HEAD_DTYPE)
    data = encode_side_file(
        log_id=0x0123456789ABCDEF,
        base=4096,
        size=8192,
        stop=4240,
        heads=heads,
        positions=np.array([4160], dtype="<u8"),
        body_ok=np.array([True]),
        gaps=[(4232, 4240)],
    )
    assert data.hex() == (
        "4e46484401000000efcdab896745230100100000000000000020000000000000"
        "9010000000000000010000000100000001000000b8df7862000000001c3bb466"
        "4e464731010100010000000000000000000000000800000000401e18240a0600"
        "03000000000000004d000000000000000100000021e023f5ffffffff00000000"
        "40100000000000004d0000000000000001000000000000000000000000000000"
        "010000000000000088100000000000009010000000000000"
    )


def test_columns_come_back(tmp_path: Path) -> None:
    side = made(
        tmp_path,
        [(5, 1), (0, 0), (9, 2)],
        body_ok=np.array([True, False, True]),
        gaps=[(10, 20), (2**40, 2**41)],
    )
    assert (side.base, side.size, side.stop) == (PAGE, 4 * PAGE, PAGE + 64 + 216)
    assert side.heads["sequence_id"].tolist() == [0, 1, 2]
    assert side.positions.tolist() == [PAGE + 64, PAGE + 136, PAGE + 208]
    assert side.body_ok.tolist() == [True, False, True]
    assert side.gaps == [(10, 20), (2**40, 2**41)]
    side.close()


def test_an_empty_side_file_finds_nothing(tmp_path: Path) -> None:
    side = made(tmp_path, [])
    assert len(side.heads) == 0 and side.find(id12(1, 1)) == []
    side.close()


def test_every_record_with_an_id_is_found_and_no_other(tmp_path: Path) -> None:
    ids = [
        (2**64 - 1, 2**32 - 1),
        (7, 3),
        (7, 2),
        (0, 0),
        (7, 3),
        (2**63, 5),
        (2**63 + 1, 5),
        (1, 0),
    ]
    side = made(tmp_path, ids)
    for wanted in {*ids, (7, 1), (7, 4), (6, 3), (8, 0), (2**53 + 1, 5), (2**63 - 1, 5)}:
        expected = [
            PAGE + 64 + 72 * n for n, found in enumerate(ids) if found == wanted and wanted[0]
        ]
        assert side.find(id12(*wanted)) == expected
    side.close()


def test_a_side_file_of_another_log_or_version_is_not_taken(tmp_path: Path) -> None:
    made(tmp_path, [(1, 1)]).close()
    with pytest.raises(Corrupt):
        load_side_file(FS, side_path(tmp_path, PAGE), LOG_ID + 1)


def test_one_that_describes_a_record_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    """A log that was closed in order is opened by its side files, and its records were not read."""
    heads = np.zeros(2, dtype=HEAD_DTYPE)
    heads["version"] = [HEADER_VERSION, HEADER_VERSION + 1]
    with pytest.raises(UnsupportedFormat, match=f"{PAGE + 64 + 72} is of version 2.*newer"):
        made(tmp_path, [(1, 1), (1, 2)], heads=heads)


def test_ids_are_found_across_sealed_segments_and_since_a_position(tmp_path: Path) -> None:
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    placed: list[int] = []
    while len(log.segments()) < 4:
        placed += commit(log, "x" * 500)
    covered = log.indexed_until
    assert covered <= log.segments()[-1].base
    wanted = id12(77, 1)
    assert log.find(wanted) == [p for p in placed if p < covered]
    assert log.find(wanted, since=placed[3]) == [p for p in placed[3:] if p < covered]
    assert log.find(id12(77, 2)) == []
    log.seal()
    assert log.find(wanted) == placed and log.indexed_until == log.durable
    log.close()


def test_a_missing_side_file_is_made_at_the_next_opening(tmp_path: Path) -> None:
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    while len(log.segments()) < 3:
        commit(log, "x" * 500)
    log.close()
    path = side_path(tmp_path / "log", PAGE)
    before = path.read_bytes()
    path.unlink()
    log, recovered = open_log(tmp_path)
    assert recovered.findings == [], "it had not been made yet: nothing is wrong"
    assert path.read_bytes() == before
    log.close()


class BadSpot(LocalFileSystem):
    """While ``armed``, the first segment's side file cannot be put in place; the others can."""

    armed = False

    def rename(self, source: Path, target: Path) -> None:
        if self.armed and target.name == side_path(target.parent, 0).name:
            raise OSError(errno.EIO, "passing")
        super().rename(source, target)


def test_a_key_is_not_forgotten_when_a_side_file_could_not_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that is closed in mid-segment has a side file of a part of it. When the whole one that
    follows at the roll failed and the next segment's was made, everything up to there passed for
    indexed, and keys between were accepted a second time."""
    monkeypatch.setattr(dedupe, "_GENERATION", 4)
    fs = BadSpot()
    with bench(tmp_path / "p0", fs=fs) as b:
        keys = iter(range(10_000))

        def fill(segments: int) -> list[str]:
            said = []
            while len(b.region._log.segments()) < segments:
                said.append(f"key {next(keys)}")
                b.client.say("chat", {"content": "x" * 500, "key": said[-1]})
            return said

        b.client.say("chat", "in a part that the side file covers")
        b.reopen(seal=True)
        fs.armed = True
        said = fill(3)
        first, second, _ = b.region._log.segments()
        assert b.region._log.indexed_until < first.base + first.size
        again = [b.client.append("chat", {"content": "x" * 500, "key": key}) for key in said]
        assert all(appended.existing for appended in again), "each of them is known"
        fs.armed = False
        said += fill(4)
        assert b.region._log.indexed_until > second.base, "it was tried again with the next one"
        again = [b.client.append("chat", {"content": "x" * 500, "key": key}) for key in said]
        assert all(appended.existing for appended in again)


def test_side_files_are_made_one_after_the_other_beside_the_spares(tmp_path: Path) -> None:
    """One worker thread built side files and spares in turn: the loop waited at a roll for a side
    file that nobody needed yet."""
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    while len(log.segments()) < 4:
        commit(log, "x" * 500)
    log.close()
    for path in (tmp_path / "log").glob("*.heads"):
        path.unlink()
    submitted: list[tuple[object, Future[object]]] = []

    def submit(work: object, /) -> Future[object]:
        submitted.append((work, Future()))
        return submitted[-1][1]

    log, _ = open_log(tmp_path, submit=submit)
    assert len(submitted) == 1, "three are to be made, by one worker"
    work, future = submitted[0]
    assert callable(work)
    future.set_result(work())
    assert log.segments()[2].base < log.indexed_until <= log.segments()[3].base
    log.close()
