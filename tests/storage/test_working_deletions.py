"""What deletes or revises memories acts on every working memory at once, and for good."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from neverforget.storage.errors import NotFound
from neverforget.storage.format import Kind
from neverforget.storage.longterm_results import Changes, MemoryFilter
from neverforget.storage.working_results import WorkingPlace
from tests.storage.small_index import IndexBench, indexed
from tests.storage.small_longterm import LongTermBench, longterm
from tests.storage.small_working import MINE, TEAM, held, ids_in, records_from, standing, told, work

PLACES = (MINE, TEAM)
SECRET = WorkingPlace(("canary-place",), "canary-agent", False)
SECRET_TEAM = WorkingPlace(("canary-place", "below"), "canary-group", True)


@pytest.fixture
def b(tmp_path: Path) -> Iterator[LongTermBench]:
    with longterm(tmp_path / "lt") as opened:
        yield opened


def by_reopening(b: LongTermBench) -> None:
    b.reopen()


def by_side_files(b: LongTermBench) -> None:
    b.reopen(seal=True)


def by_snapshot(b: LongTermBench) -> None:
    """The table comes whole from a snapshot: no record of a deletion is replayed."""
    b.commit()
    b.reopen(snapshot=b.region.snapshot())
    assert b.region.state.replayed_from == b.region.state.log.tail


OPENINGS = [by_reopening, by_side_files, by_snapshot]
Opening = Callable[[LongTermBench], None]

DELETIONS: dict[str, Callable[[LongTermBench, str], Any]] = {
    "forget": lambda b, one: b.forget(one),
    "archive": lambda b, one: b.archive(one),
    "forget where": lambda b, one: b.forget_where(tags=("doomed",)),
    "archive where": lambda b, one: b.region.archive_where(
        MemoryFilter(tags=("doomed",)), **b.asked()
    ),
    "erase": lambda b, one: b.erase(one),
    "erase where": lambda b, one: b.region.erase_where(("n",), **b.asked()),
}


@pytest.mark.parametrize("opening", OPENINGS)
@pytest.mark.parametrize("deletion", DELETIONS)
def test_what_is_deleted_leaves_all_of_them(
    b: LongTermBench, deletion: str, opening: Opening
) -> None:
    doomed = told(b, 100, tags=("doomed",), namespace=("n",)).id
    stays = told(b, 50).id
    for place in PLACES:
        work(b, "add", doomed, stays, place=place, pinned=True)
    before_it = b.region.snapshot()
    answer = DELETIONS[deletion](b, doomed)
    seen = standing(b, *PLACES)
    for _ in range(2):
        for place in PLACES:
            assert ids_in(b, place) == [stays]
            assert b.region.working_status(place).tokens == 50
        assert [e for e in b.audit() if e.operation == "evict"] == []
        assert standing(b, *PLACES) == seen
        opening(b)
    b.reopen(snapshot=before_it)
    assert standing(b, *PLACES) == seen
    assert answer.ids == [doomed]
    assert b.findings() == []


@pytest.mark.parametrize("opening", OPENINGS)
def test_what_is_undone_is_not_back_in_them(b: LongTermBench, opening: Opening) -> None:
    forgotten, archived = told(b, 10).id, told(b, 10).id
    work(b, "add", forgotten, archived)
    b.forget(forgotten)
    b.archive(archived)
    opening(b)
    b.undo(forgotten)
    b.unarchive(archived)
    for _ in range(2):
        assert held(b) == []
        opening(b)
    work(b, "add", forgotten, archived)
    assert ids_in(b) == [forgotten, archived]


def test_the_answers_to_deletions_are_what_they_were(b: LongTermBench) -> None:
    """The records about working memories stand in their batches: no count and no id is of them,
    the first time and when the request is repeated.
    """
    ids = [told(b, 10, tags=("t",)).id for _ in range(3)]
    work(b, "add", *ids)
    for operation in ("forget", "purge"):
        request = b.next_request()
        answers = []
        for _ in range(2):
            if operation == "forget":
                answers.append(
                    b.region.forget_where(MemoryFilter(tags=("t",)), **b.asked(request=request))
                )
            else:
                answers.append(b.purge(10**18, request=request))
            b.reopen()
        assert answers[0].entry == answers[1].entry
        assert [(a.count, a.ids) for a in answers] == [(3, ids)] * 2


@pytest.mark.parametrize("opening", OPENINGS)
def test_a_revision_is_counted_anew(b: LongTermBench, opening: Opening) -> None:
    one, two, three = (told(b, 300).id for _ in range(3))
    work(b, "add", one, two, three)
    work(b, "add", three, place=TEAM)
    b.revise(three, text="y" * 200)
    assert [item.tokens for item in held(b)] == [300, 300, 200]
    b.revise(three, text="y" * 700)
    for _ in range(2):
        assert [(i.memory.id, i.tokens) for i in held(b)] == [(two, 300), (three, 700)]
        assert [item.tokens for item in held(b, TEAM)] == [700]
        (entry,) = b.audit(operation="evict")
        assert (entry.details["ids"], entry.details["operation"]) == ([one], "revise")
        assert entry.by == "tester"
        opening(b)
    b.revert(three, 1)
    assert b.region.working_status(MINE).tokens == 600
    b.revise(three, importance=9.0)
    assert b.region.working_status(MINE).tokens == 600


def test_who_grows_beyond_the_budget_leaves_even_if_pinned(b: LongTermBench) -> None:
    one, two = told(b, 300).id, told(b, 400).id
    work(b, "add", one, two, pinned=True)
    b.revise(two, text="y" * 701)
    assert ids_in(b) == [one]
    assert b.audit(operation="evict")[0].details["ids"] == [two]
    b.reopen()
    assert ids_in(b) == [one]


def test_a_key_that_is_revised_is_counted_anew(b: LongTermBench) -> None:
    one = b.remember("x" * 10, key="k").id
    work(b, "add", one)
    b.remember("x" * 77, key="k", on_conflict="revise")
    assert [item.tokens for item in held(b)] == [77]


def test_a_forgetting_that_failed_changes_nothing(b: LongTermBench) -> None:
    one = told(b, 10).id
    work(b, "add", one)
    with pytest.raises(NotFound):
        b.forget(b.next_id())
    assert ids_in(b) == [one]


def test_many_are_deleted_at_once(b: LongTermBench) -> None:
    """More than are in any working memory, and the other way round."""
    b.remember_many(*(b.new(f"m{n}", tags=("t",)) for n in range(300)))
    views = b.region.memories(MemoryFilter(), limit=1000).memories
    ids = [view.id for view in views]
    work(b, "add", *ids[::50])
    work(b, "add", ids[3], place=TEAM)
    stays = told(b, 5).id
    work(b, "add", stays)
    assert b.forget_where(tags=("t",)).count == 300
    assert (ids_in(b), ids_in(b, TEAM)) == ([stays], [])
    b.reopen()
    assert (ids_in(b), ids_in(b, TEAM)) == ([stays], [])


# ---- erasing a namespace -------------------------------------------------------------------------


@pytest.mark.parametrize("opening", OPENINGS)
def test_working_memories_end_with_their_namespace(b: LongTermBench, opening: Opening) -> None:
    """No name is left, in no file, not even of those that held memories of another namespace."""
    elsewhere = told(b, 10).id
    inside = told(b, 10, namespace=("canary-place",)).id
    for place in (SECRET, SECRET_TEAM, MINE):
        for _ in range(30):
            work(b, "recall", elsewhere, inside, place=place)
        work(b, "join", place=place, agent="canary-member" if place is not MINE else "ann")
    work(b, "recall", elsewhere, inside, place=SECRET, max_tokens=10)
    assert b"canary" in b.every_byte()
    assert len(b.audit(operation="evict")) == 1
    b.region.erase_where(("canary-place",), **b.asked())
    for _ in range(2):
        for place in (SECRET, SECRET_TEAM):
            assert b.region.working_status(place).max_tokens == 0
            assert b.region.working_members(place) == {}
            assert held(b, place) == []
        assert ids_in(b) == [elsewhere]
        assert list(b.region.working_members(MINE)) == ["ann"]
        assert [entry.operation for entry in b.audit()] == ["erase"]
        opening(b)
        assert b.findings() == []
    assert b"canary" not in b.every_byte()
    work(b, "add", elsewhere, place=SECRET)
    opening(b)
    assert ids_in(b, SECRET) == [elsewhere]
    assert b.region.working_members(SECRET) == {}


def test_a_torn_copy_keeps_no_name_of_an_ended_one(b: LongTermBench) -> None:
    one = told(b, 10).id
    work(b, "add", one, place=SECRET)
    tail = b.region.log_end
    work(b, "join", place=SECRET, agent="canary-member")
    segment = b.region.state.log.segments()[-1]
    b.region.close()
    raw = bytearray(segment.path.read_bytes())
    raw[tail - segment.base + 60] ^= 1  # as if the last group had been cut off
    segment.path.write_bytes(raw)
    b.region = b.open()
    assert b.region.working_members(SECRET) == {}
    (torn,) = (b.directory / "torn").iterdir()
    assert b"canary-member" in torn.read_bytes()
    b.region.erase_where(("canary-place",), **b.asked())
    assert b"canary" not in b.every_byte()


def test_erasing_a_memory_leaves_the_names(b: LongTermBench) -> None:
    one, two = told(b, 10, namespace=("canary-place",)).id, told(b, 10).id
    work(b, "add", one, two, place=SECRET)
    b.erase(one)
    assert ids_in(b, SECRET) == [two]
    b.reopen()
    assert ids_in(b, SECRET) == [two]


def test_what_is_new_while_an_erasure_looks_goes_with_it(b: LongTermBench) -> None:
    told(b, 10, namespace=("canary-place",))
    one = told(b, 10).id
    for n in range(200):
        told(b, 500, namespace=("canary-place",) if n % 2 else ())
    erasing = b.region.erasing_where(("canary-place",), **b.asked())
    next(erasing)
    work(b, "add", one, place=SECRET)
    next(erasing)
    work(b, "join", place=SECRET_TEAM, agent="canary-member", max_tokens=5)
    for _ in erasing:
        pass
    assert held(b, SECRET) == [] and b.region.working_members(SECRET_TEAM) == {}
    b.reopen()
    assert held(b, SECRET) == [] and b.region.working_members(SECRET_TEAM) == {}
    assert b"canary" not in b.every_byte()


def test_superseded_facts_keep_their_place(b: LongTermBench) -> None:
    """A revision of other fields than the text writes nothing about working memories."""
    one = told(b, 10).id
    work(b, "add", one)
    start = b.region.log_end
    b.region.revise(one, Changes(valid_to=9), by="t", request=b.next_request())
    b.commit()
    assert [header.kind for header, _ in records_from(b, start)] == [Kind.REVISED]


# ---- generations ---------------------------------------------------------------------------------


def reopen(bench: IndexBench) -> None:
    bench.stored.close()
    bench.reopen(derived=bench.derived)
    bench.stored = bench.open_derived()


def test_they_are_there_beside_a_stored_table(tmp_path: Path) -> None:
    """What an opening takes from a generation are memories; working memories come from the log,
    also where all their records stand below the table, and their names in none of its files.
    """
    with indexed(tmp_path / "lt") as bench:
        ids = [told(bench, 10).id for _ in range(4)]
        work(bench, "recall", *ids)
        work(bench, "add", *ids, place=SECRET)
        bench.forget(ids[3])
        bench.follow()
        bench.stored.publish()
        work(bench, "join", agent="ann")
        bench.forget(ids[2])
        before = standing(bench, MINE, SECRET)
        reopen(bench)
        assert bench.region.state.replayed_from > 0
        assert standing(bench, MINE, SECRET) == before
        assert ids_in(bench) == ids[:2]
        bench.region.erase_where(("canary-place",), **bench.asked())
        bench.follow()
        bench.stored.publish()
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert not [path.name for path in files if b"canary" in path.read_bytes()]
        reopen(bench)
        assert ids_in(bench, SECRET) == [] and ids_in(bench) == ids[:2]
