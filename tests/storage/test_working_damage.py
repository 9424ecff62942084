"""Records of working memories that cannot be read, or that say something else than they should."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from neverforget.storage.errors import Corrupt
from neverforget.storage.format import HEADER_BYTES, Kind
from neverforget.storage.log_heads import heads_of
from neverforget.storage.longterm_staging import Planned
from neverforget.storage.working_bodies import Change, place_id, state_body, worked_body
from neverforget.storage.working_results import WorkingPlace
from tests.storage.small_longterm import LongTermBench, longterm
from tests.storage.small_working import MINE, TEAM, held, ids_in, standing, told, work


@pytest.fixture
def b(tmp_path: Path) -> Iterator[LongTermBench]:
    with longterm(tmp_path / "lt") as opened:
        yield opened


def positions_of(b: LongTermBench, kind: Kind) -> list[int]:
    state = b.region.state
    return [
        position
        for heads, positions in heads_of(state.log, state.log_seed)
        for position in positions[heads["kind"] == int(kind)].tolist()
    ]


def damage(b: LongTermBench, *positions: int) -> None:
    """Flip a bit in each body, while nobody has the log open, and open it again."""
    segments = b.region.state.log.segments()
    b.region.noop_if_idle()
    b.commit()
    b.region.close()
    for position in positions:
        segment = next(s for s in reversed(segments) if s.base <= position)
        raw = bytearray(segment.path.read_bytes())
        raw[position - segment.base + HEADER_BYTES + 3] ^= 1
        segment.path.write_bytes(raw)
    b.region = b.open()


def busy(b: LongTermBench) -> list[str]:
    ids = [told(b, 50).id for _ in range(5)]
    for n in range(60):
        work(b, "recall", ids[n % 5], ids[(n * 3) % 5])
    work(b, "join", agent="ann")
    work(b, "pin", ids[2])
    return ids


def test_a_state_that_cannot_be_read_costs_nothing(b: LongTermBench) -> None:
    busy(b)
    before = standing(b, MINE)
    states = positions_of(b, Kind.WORKING_STATE)
    assert len(states) > 2
    for upto in (1, 2, len(states)):
        damage(b, *states[-upto : len(states) - upto + 1])
        assert standing(b, MINE) == before
        assert b.region.state.findings[-1].kind == "corrupt_body"
    assert set(b.findings()) == {"corrupt_body"}


def test_a_change_that_cannot_be_read_is_lost_alone_and_reported(b: LongTermBench) -> None:
    one, two = told(b, 10).id, told(b, 10).id
    work(b, "add", one)
    work(b, "join", agent="ann")
    work(b, "add", two)
    work(b, "add", one, place=TEAM)
    first = positions_of(b, Kind.WORKED)[0]
    damage(b, first)
    assert ids_in(b) == [two]
    assert list(b.region.working_members(MINE)) == ["ann"]
    assert ids_in(b, TEAM) == [one]
    assert b.findings() == ["corrupt_body"]
    work(b, "add", one)
    assert ids_in(b) == [two, one]


def test_an_eviction_that_cannot_be_read_stays_on_record(b: LongTermBench) -> None:
    one, two = told(b, 600).id, told(b, 600).id
    work(b, "add", one)
    work(b, "add", two)
    damage(b, positions_of(b, Kind.WORKED)[-1])
    (entry,) = b.audit()
    assert (entry.operation, entry.target, entry.details) == ("evict", {}, {"count": 0})
    assert b.audit(scope=("n",)) == []


def stage(b: LongTermBench, kind: Kind, place: WorkingPlace, body: dict[int, object]) -> None:
    """Past every check, as a program with a mistake would."""
    b.region._rememberer._staging.stage_only([Planned(kind, place_id(place), body)], (0, 0), b"")
    b.commit()


def test_a_state_that_is_not_what_its_changes_say_is_found(b: LongTermBench) -> None:
    ids = busy(b)
    assert b.findings() == []
    memory = b.region.state.working.find(MINE)
    assert memory is not None
    memory.items[bytes.fromhex(ids[0].replace("-", ""))].tokens += 1
    stage(b, Kind.WORKING_STATE, MINE, state_body(MINE, memory.standing))
    assert b.findings() == ["index_mismatch"]


def test_a_record_about_another_one_than_it_says_is_found_and_does_nothing(
    b: LongTermBench,
) -> None:
    one = told(b, 10).id
    change = Change("add", "t", (bytes.fromhex(one.replace("-", "")),), (10,), budget=100)
    stage(b, Kind.WORKED, MINE, worked_body(TEAM, change))
    assert b.findings() == ["index_mismatch"]
    b.reopen()
    assert ids_in(b) == ids_in(b, TEAM) == []
    assert "index_mismatch" in b.findings()


def test_what_is_no_memory_is_left_out(b: LongTermBench) -> None:
    """As a log that an older version went on with, which says nothing here when it forgets."""
    one, two = told(b, 10).id, told(b, 10).id
    work(b, "add", one, two)
    working = b.region.state.working
    holders, working._holders = working._holders, {}
    b.forget(one)
    working._holders = holders
    b.reopen()
    assert ids_in(b) == [two]
    work(b, "recall", two)
    assert b.findings() == []


def test_a_memory_that_cannot_be_read_is_not_taken(b: LongTermBench) -> None:
    """One that is in it already says so; a hit is left out, and what is named is refused."""
    one, two = told(b, 10), told(b, 10)
    work(b, "add", one.id)
    damage(b, one.position, two.position)
    (item,) = held(b)
    assert (item.memory.status, item.tokens) == ("unreadable", 10)
    work(b, "recall", two.id)
    assert ids_in(b) == [one.id]
    with pytest.raises(Corrupt):
        work(b, "add", two.id)


def test_a_backup_has_them(b: LongTermBench, tmp_path: Path) -> None:
    busy(b)
    before = standing(b, MINE)
    b.region.backup(tmp_path / "copy")
    work(b, "leave", agent="ann")
    b.region.close()
    b.region = b.open(tmp_path / "copy")
    assert standing(b, MINE) == before
    assert b.findings() == []
