"""The scan for chunks that stand alone: it finds each fault, and none where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from neverforget.storage.errors import InvalidArgument
from neverforget.storage.format import Kind
from neverforget.storage.longterm_fields import Id, M, MemoryField, id_of, parse_id
from neverforget.storage.longterm_orphans import orphans
from neverforget.storage.longterm_results import MemoryView, Status
from neverforget.storage.longterm_staging import Planned, Staging
from neverforget.storage.memory_table import NO_ROW
from tests.storage.small_longterm import LongTermBench, longterm

TEXT = "one two three four"


@pytest.fixture
def b(tmp_path: Path) -> Iterator[LongTermBench]:
    with longterm(tmp_path / "lt") as opened:
        yield opened


def chunked(b: LongTermBench) -> tuple[MemoryView, list[MemoryView]]:
    told = b.remember(TEXT)
    return told, b.derive(told, 4, 9, summary="numbers").memories


def found(b: LongTermBench) -> list[str]:
    """What the scan says, without whom it says it of."""
    messages = [f.message for f in b.region.verify() if f.kind == "orphan_chunk"]
    return [message.split(": ", 1)[1] for message in messages]


def set_row(b: LongTermBench, memory_id: str, **values: object) -> None:
    b.region.state.table.set(b.region.row(memory_id, include_forgotten=True), **values)


def test_there_is_none_whatever_is_done(b: LongTermBench) -> None:
    told, _ = chunked(b)
    other, _ = chunked(b)
    assert found(b) == []
    for step in (
        lambda: b.archive(told.id),
        lambda: b.unarchive(told.id),
        lambda: b.forget(told.id),
        lambda: b.undo(told.id),
        lambda: b.revise(told.id, text="five six"),
        lambda: b.derive(b.region.get(told.id), 5),
        lambda: b.erase(other.id),
        lambda: b.forget(told.id),
        lambda: b.purge(10**18),
    ):
        step()
        assert b.findings() == []
        b.reopen()
        assert b.findings() == []


FAULTS: dict[str, Callable[[LongTermBench, MemoryView, MemoryView], None]] = {
    "its original is in another status": lambda b, told, _: set_row(
        b, told.id, status=Status.FORGOTTEN
    ),
    "its original is not there": lambda b, _, chunk: set_row(b, chunk.id, original=NO_ROW),
    "it is of another version of its original": lambda b, told, _: set_row(b, told.id, version=2),
    "the chunks of its original do not fit at 4": lambda b, _, chunk: set_row(
        b, chunk.id, status=Status.FORGOTTEN
    ),
    "the chunks of its original do not fit at 18": lambda b, told, _: set_row(
        b, told.id, characters=19
    ),
}


@pytest.mark.parametrize("said", FAULTS)
def test_each_fault_is_found(b: LongTermBench, said: str) -> None:
    told, parts = chunked(b)
    FAULTS[said](b, told, parts[1])
    assert set(found(b)) == {said}


@pytest.mark.parametrize(
    ("at", "to", "kind"),
    [(0, None, "chunk-of"), (3, None, "summarizes"), (0, 1, "part-of-sequence")],
)
def test_a_relation_that_is_missing_is_found(
    b: LongTermBench, at: int, to: int | None, kind: str
) -> None:
    told, parts = chunked(b)
    table = b.region.state.table
    target = told if to is None else parts[to]
    source_row, target_row = (table.find(parse_id_of(m)) for m in (parts[at], target))
    assert source_row is not None and target_row is not None
    assert b.region.state.relations.drop(source_row, target_row, kind)
    assert found(b) == [f"its relation {kind} is not there"]


def parse_id_of(memory: MemoryView) -> Id:
    return id_of(bytes.fromhex(memory.id.replace("-", "")))


def test_a_chunk_whose_original_was_never_there_is_found_in_the_log(b: LongTermBench) -> None:
    _, parts = chunked(b)
    _, body = b.region.state.bodies.read(parts[0].position)
    lonely = parse_id("12345678-0000-8000-8000-000000000001", derived=True)
    body = body | {M[MemoryField.ORIGINAL]: bytes(16)}
    Staging(b.region.state).stage([Planned(Kind.REMEMBERED, lonely, body)], (0, 0), b"")
    assert found(b) == [], "not durable yet: nothing is said of it"
    b.commit()
    for _ in range(2):
        assert found(b) == ["its original is not there"]
        b.reopen()


def test_half_a_change_is_no_fault(b: LongTermBench) -> None:
    """A revision sets the version and retires the chunks one after the other; a scan in between
    read both, and took it for a fault.
    """
    told, _ = chunked(b)
    state, row = b.region.state, b.region.row(told.id)
    looked = 0

    def go_on(seconds: float) -> None:
        nonlocal looked
        looked += bool(seconds)
        if looked == 2:
            state.table.set(row, version=1)
            state.turns += 1
            looked += 1

    state.turns += 1
    state.table.set(row, version=2)
    assert list(orphans(state, state.log.durable, go_on)) == []
    assert looked == 3


def test_what_cannot_be_read_is_reported_as_that_alone(b: LongTermBench) -> None:
    _, parts = chunked(b)
    segment = next(b.directory.glob("log/*.seg"))
    with segment.open("r+b") as file:
        file.seek(parts[1].position + 64 + 5)
        file.write(b"\x00\x00")
    assert set(b.findings()) == {"corrupt_body"}


def test_nobody_takes_a_chunk_from_its_original(b: LongTermBench) -> None:
    told, parts = chunked(b)
    for source, target, kind in (
        (parts[0], told, "chunk-of"),
        (parts[3], told, "summarizes"),
        (parts[0], parts[1], "part-of-sequence"),
    ):
        with pytest.raises(InvalidArgument):
            b.unrelate(source.id, target.id, kind)
    assert found(b) == []
