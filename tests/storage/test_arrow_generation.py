"""Generations: what is written comes back, rows are told apart, merges keep to their bounds."""

from __future__ import annotations

import random
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neverforget.storage import arrow_writing
from neverforget.storage.arrow_generation import NONE, Generation
from neverforget.storage.arrow_rows import RowFormat, cells_of
from neverforget.storage.arrow_writing import Written, merge_generations, write_generation
from neverforget.storage.errors import Corrupt, InvalidArgument, OutOfSpace, UnsupportedFormat
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.memory_row import MEMORY_ROWS, MemoryRow
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem

FS = LocalFileSystem()


def memory(position: int, text: str = "", **changes: Any) -> MemoryRow:
    row = MemoryRow(
        position=position,
        id=position.to_bytes(16, "big"),
        version=1,
        record_crc=zlib.crc32(text.encode("utf-8", "surrogatepass")),
        text=text or f"memory at {position}",
        context=None,
        key=None,
        type="fact",
        status="active",
        tags=(),
        namespace=("user", "ann"),
        agent=None,
        speaker=None,
        source=None,
        importance=1.0,
        confidence=0.5,
        created_at_us=1_700_000_000_000_000 + position,
        occurred_at_us=None,
        valid_from_us=None,
        valid_to_us=None,
        metadata=b"\xa0",
        rest=b"",
    )
    return msgspec.structs.replace(row, **changes)


texts = st.text(st.characters(), max_size=20)
rows = st.builds(
    MemoryRow,
    position=st.integers(0, 2**63 - 1),
    id=st.binary(min_size=16, max_size=16),
    version=st.integers(1, 2**40),
    record_crc=st.integers(0, 2**32 - 1),
    text=st.text(st.characters(), max_size=500),
    context=st.none() | texts,
    key=st.none() | texts,
    type=texts,
    status=texts,
    tags=st.lists(texts, max_size=4).map(tuple),
    namespace=st.lists(texts, max_size=4).map(tuple),
    agent=st.none() | texts,
    speaker=st.none() | texts,
    source=st.none() | texts,
    importance=st.floats(0, 10),
    confidence=st.floats(0, 1),
    created_at_us=st.integers(-(2**62), 2**62),
    occurred_at_us=st.none() | st.integers(-(2**62), 2**62),
    valid_from_us=st.none() | st.integers(-(2**62), 2**62),
    valid_to_us=st.none() | st.integers(-(2**62), 2**62),
    metadata=st.binary(max_size=50),
    rest=st.binary(max_size=50),
)


def opened(written: Written) -> Generation[MemoryRow]:
    return Generation.open(FS, written.path, MEMORY_ROWS, written.seal, file_id=written.file_id)


@given(st.lists(rows, max_size=12, unique_by=lambda row: row.position))
def test_any_row_comes_back_equal(source: list[MemoryRow]) -> None:
    """NUL, lone surrogates, empty and None, the ends of the number ranges: over a file in memory,
    whose map this reads as it reads a real one.
    """
    fs = CrashFileSystem()
    source.sort(key=lambda row: row.position)
    written = write_generation(fs, ROOT / "rows.arrow", MEMORY_ROWS, source)
    generation = Generation.open(fs, written.path, MEMORY_ROWS, written.seal)
    assert [generation.row(n) for n in range(len(generation))] == source
    assert written.rows == len(source)
    if source:
        assert (written.first, written.last) == (source[0].position, source[-1].position)
    for number, row in enumerate(source):
        assert generation.find(row.position) == number
        missing = row.position + 1
        if missing not in [other.position for other in source]:
            assert generation.find(missing) is None


@pytest.fixture
def many(tmp_path: Path, monkeypatch: Any) -> Written:
    """A thousand rows in a dozen batches."""
    monkeypatch.setattr(arrow_writing, "BATCH_ROWS_MAX", 90)
    source = (
        memory(
            64 + 8 * n,
            f"number {n}",
            tags=("even",) if n % 2 == 0 else (),
            occurred_at_us=n if n % 3 else None,
            importance=n / 100,
        )
        for n in range(1_000)
    )
    return write_generation(FS, tmp_path / "many.arrow", MEMORY_ROWS, source)


def test_rows_are_found_across_batches(many: Written) -> None:
    generation = opened(many)
    assert len(generation) == 1_000 and len(generation._batches) == 12
    for number in (0, 1, 89, 90, 91, 539, 540, 998, 999):
        assert generation.row(number).text == f"number {number}"
        assert generation.find(64 + 8 * number) == number
    for position in (0, 63, 65, 71, 64 + 8 * 1_000, 2**62):
        assert generation.find(position) is None
    for number in (-1, 1_000):
        with pytest.raises(IndexError):
            generation.row(number)


def test_columns_are_what_any_arrow_reader_sees(many: Written) -> None:
    generation = opened(many)
    assert generation.column("position").tolist() == [64 + 8 * n for n in range(1_000)]
    assert generation.column("importance").tolist() == [n / 100 for n in range(1_000)]
    occurred = generation.column("occurred_at_us").tolist()
    assert occurred == [n if n % 3 else NONE for n in range(1_000)]
    seen = 0
    for first, batch in generation.scan(["tags", "text"]):
        assert first == seen
        assert batch.column(1)[0].as_py() == f"number {first}"
        assert batch.column(0)[0].as_py() == (["even"] if first % 2 == 0 else [])
        seen += batch.num_rows
    assert seen == 1_000
    with pa.memory_map(str(many.path)) as source:
        assert pa.ipc.open_file(source).read_all().num_rows == 1_000


def test_a_map_outlives_the_name_and_the_generation(many: Written) -> None:
    generation = opened(many)
    texts = [batch.column(0) for _, batch in generation.scan(["text"])]
    many.path.unlink()
    assert generation.row(500).text == "number 500"
    generation.close()
    generation.close()
    assert texts[-1][-1].as_py() == "number 999"


def test_positions_must_ascend(tmp_path: Path) -> None:
    path = tmp_path / "rows.arrow"
    written = write_generation(FS, path, MEMORY_ROWS, [memory(5)])
    for wrong in ([memory(2), memory(1)], [memory(3), memory(3)]):
        with pytest.raises(InvalidArgument, match="order"):
            write_generation(FS, path, MEMORY_ROWS, wrong)
    assert opened(written).row(0) == memory(5)  # what stood there stands there
    assert [p.name for p in tmp_path.iterdir()] == ["rows.arrow"]


def test_a_batch_is_bounded_in_bytes_too(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(arrow_writing, "BATCH_BYTES_MAX", 10_000)
    source = [memory(n, "x" * 3_000) for n in range(10)]
    written = write_generation(FS, tmp_path / "rows.arrow", MEMORY_ROWS, source)
    generation = opened(written)
    assert len(generation._batches) >= 3
    merged = merge_generations(FS, tmp_path / "merged.arrow", [generation])
    assert [opened(merged).row(n) for n in range(10)] == source
    assert max(batch.nbytes for batch in opened(merged)._batches) < 20_000


# ---- merging -------------------------------------------------------------------------------------


def test_a_merge_holds_what_its_sources_held(
    tmp_path: Path, rng: random.Random, monkeypatch: Any
) -> None:
    monkeypatch.setattr(arrow_writing, "BATCH_ROWS_MAX", 40)
    model: dict[int, MemoryRow] = {}
    sources, position = [], 0
    for number in range(6):
        batch = []
        for _ in range(rng.choice([0, 1, 30, 200])):
            position += rng.randint(1, 9)
            text = rng.choice([f"text {position}", "x\ud83dy", "", "ü" * 50])
            batch.append(memory(position, text, tags=("a", "b")[: rng.randint(0, 2)]))
        model.update((row.position, row) for row in batch)
        path = tmp_path / f"{number}.arrow"
        sources.append(opened(write_generation(FS, path, MEMORY_ROWS, batch)))
    gone = set(rng.sample(sorted(model), len(model) // 4))
    patched = {
        p: memory(p, f"patched {p}", status="archived") for p in rng.sample(sorted(model), 9)
    }
    merged = merge_generations(
        FS,
        tmp_path / "merged.arrow",
        sources,
        keep=lambda positions: ~np.isin(positions, sorted(gone)),
        patches=patched,
    )
    expected = [patched.get(p, row) for p, row in sorted(model.items()) if p not in gone]
    generation = opened(merged)
    assert [generation.row(n) for n in range(len(generation))] == expected
    assert max(batch.num_rows for batch in generation._batches) <= 40
    assert merged.seal.sha256 not in {source.seal.sha256 for source in sources}
    again = merge_generations(FS, tmp_path / "again.arrow", [generation])
    assert [opened(again).row(n) for n in range(again.rows)] == expected


def test_generations_out_of_order_are_not_merged(tmp_path: Path) -> None:
    sources = [
        opened(write_generation(FS, tmp_path / f"{n}.arrow", MEMORY_ROWS, [memory(n)]))
        for n in (7, 3)
    ]
    with pytest.raises(InvalidArgument, match="order"):
        merge_generations(FS, tmp_path / "merged.arrow", sources)
    assert not (tmp_path / "merged.arrow").exists()


def test_a_damaged_source_is_not_copied(tmp_path: Path) -> None:
    written = write_generation(FS, tmp_path / "rows.arrow", MEMORY_ROWS, [memory(1), memory(2)])
    generation = opened(written)
    data = bytearray(written.path.read_bytes())
    data[data.index(b"memory at 2")] ^= 1
    written.path.write_bytes(data)
    with pytest.raises(Corrupt):
        merge_generations(FS, tmp_path / "merged.arrow", [generation])
    assert not (tmp_path / "merged.arrow").exists()


def test_a_full_disk_keeps_what_stood_there() -> None:
    fs = CrashFileSystem(capacity_bytes=60_000)
    path = ROOT / "rows.arrow"
    written = write_generation(fs, path, MEMORY_ROWS, [memory(1)])
    with pytest.raises(OutOfSpace):
        write_generation(fs, path, MEMORY_ROWS, (memory(n, "x" * 100) for n in range(900)))
    assert fs.list_directory(ROOT) == ["rows.arrow"]
    assert Generation.open(fs, path, MEMORY_ROWS, written.seal).row(0) == memory(1)


# ---- damage --------------------------------------------------------------------------------------


def test_a_flipped_byte_anywhere_never_gives_another_row(
    tmp_path: Path, rng: random.Random
) -> None:
    """One byte in five, in turn, without looking at the file's digest first: a row comes back as it
    was written or not at all, and the process lives.
    """
    source = [
        memory(n, f"text of {n} ü", tags=("a:b", "c"), key=f"k{n}", occurred_at_us=n or None)
        for n in range(9)
    ]
    written = write_generation(FS, tmp_path / "rows.arrow", MEMORY_ROWS, source)
    whole = written.path.read_bytes()
    damaged_path = tmp_path / "damaged.arrow"
    refused = whole_files = 0
    for at in range(rng.randrange(5), len(whole), 5):
        damaged_path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        try:
            generation = Generation.open(FS, damaged_path, MEMORY_ROWS, written.seal)
        except (Corrupt, UnsupportedFormat):
            whole_files += 1
            continue
        for number in range(len(generation)):
            try:
                assert generation.row(number) == source[number], at
            except Corrupt:
                refused += 1
        with pytest.raises(Corrupt):
            generation.column("position")
        with pytest.raises(Corrupt):
            generation.find(3)
    assert refused and whole_files


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.99])
def test_a_file_cut_short_is_not_opened(many: Written, share: float) -> None:
    whole = many.path.read_bytes()
    many.path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(Corrupt, match="cut short"):
        opened(many)


def test_another_file_of_the_same_size_is_not_opened(tmp_path: Path) -> None:
    """Field report 17: an index file replaced by its neighbour, before the manifest knew."""
    one, other = (
        write_generation(FS, tmp_path / f"{n}.arrow", MEMORY_ROWS, [memory(n)]) for n in (1, 2)
    )
    assert one.seal.size == other.seal.size
    one.path.write_bytes(other.path.read_bytes())
    with pytest.raises(Corrupt, match="replaced"):
        opened(one)


class Narrow(msgspec.Struct, frozen=True, array_like=True):
    position: int
    name: str


def test_tables_and_versions_are_told_apart(tmp_path: Path) -> None:
    narrow, newer = RowFormat("narrow", 1, Narrow), RowFormat("narrow", 2, Narrow)
    written = write_generation(FS, tmp_path / "rows.arrow", newer, [Narrow(1, "a")])
    assert Generation.open(FS, written.path, newer, written.seal).row(0) == Narrow(1, "a")
    with pytest.raises(UnsupportedFormat, match="version 2"):
        Generation.open(FS, written.path, narrow, written.seal)
    with pytest.raises(UnsupportedFormat):
        Generation.open(FS, written.path, MEMORY_ROWS, written.seal)


def test_cells_never_look_outside_their_buffers() -> None:
    """Arrow itself trusts offsets inside a buffer; these are what a damaged file may hold."""
    data = pa.py_buffer(b"abcdef")
    for offsets in ([0, 99, 6], [0, -5, 6], [4, 2, 6], [0, 2**31 - 1, 6]):
        buffer = pa.py_buffer(np.array(offsets, "<i4").tobytes())
        column = pa.Array.from_buffers(pa.string(), 2, [None, buffer, data])
        (cell,) = cells_of(pa.RecordBatch.from_arrays([column], names=["text"]))
        with pytest.raises(ValueError):
            assert cell(0) and cell(1)
