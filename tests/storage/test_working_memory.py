"""Working memories: what fits, who is evicted, what is refused, and what the audit says of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from neverforget.storage import longterm_working, working_room
from neverforget.storage.errors import Conflict, InvalidArgument, NotFound
from neverforget.storage.log_heads import heads_of
from neverforget.storage.longterm_fields import Body
from neverforget.storage.longterm_results import TurnPoint
from neverforget.storage.record import Header
from neverforget.storage.working_loading import WorkingRecords
from neverforget.storage.working_memories import WorkingMemories
from neverforget.storage.working_results import WorkingItem, WorkingPlace
from tests.storage.small_longterm import LongTermBench, longterm
from tests.storage.small_working import MINE, TEAM, held, ids_in, standing, told, work

HOUR = 3_600 * 1_000_000


@pytest.fixture
def b(tmp_path: Path) -> Iterator[LongTermBench]:
    with longterm(tmp_path / "lt") as opened:
        yield opened


# ---- what fits -----------------------------------------------------------------------------------


def test_the_least_important_leaves_first_and_then_the_oldest(b: LongTermBench) -> None:
    """Field report 36: 4,500 tokens are needed, and each in turn is the least worth keeping."""
    now = b.clock.wall_us
    scenario = ((1.0, 2_000, 1), (2.0, 1_500, 48), (8.0, 100, 120), (10.0, 3_000, 72))
    ids = {}
    for importance, tokens, hours in sorted(scenario, key=lambda each: -each[2]):
        b.clock.wall_us = now - hours * HOUR
        ids[importance] = told(b, tokens, importance).id
    b.clock.wall_us = now
    work(b, "add", *ids.values(), max_tokens=6_600)
    needed = told(b, 4_500).id
    answer = work(b, "add", needed, max_tokens=6_600)
    assert answer.evicted == [ids[1.0], ids[2.0], ids[8.0], ids[10.0]]
    assert (answer.count, answer.tokens, answer.max_tokens) == (1, 4_500, 6_600)
    (entry,) = b.audit(operation="evict")
    assert entry.details["ids"] == answer.evicted


def test_only_as_many_leave_as_are_needed(b: LongTermBench) -> None:
    old, young = told(b, 300), told(b, 300)
    dear = told(b, 300, 9)
    work(b, "add", dear.id, old.id, young.id)
    assert work(b, "add", told(b, 200).id).evicted == [old.id]
    assert dear.id in ids_in(b) and young.id in ids_in(b)


def test_what_is_pinned_or_just_added_stays(b: LongTermBench) -> None:
    pinned, other = told(b, 600, 0.5), told(b, 300, 5)
    work(b, "add", pinned.id, pinned=True)
    work(b, "add", other.id)
    assert work(b, "add", told(b, 400, 0).id).evicted == [other.id]
    with pytest.raises(InvalidArgument, match=r"has 500 tokens.*leaves 400 of the budget of 1,000"):
        work(b, "add", told(b, 500).id)
    with pytest.raises(InvalidArgument, match=r"more than the whole budget of 1,000"):
        work(b, "add", told(b, 1_001).id)
    with pytest.raises(InvalidArgument, match=r"pinned takes 600 tokens"):
        work(b, "recall", other.id, max_tokens=599)
    work(b, "unpin", pinned.id)
    assert pinned.id in work(b, "add", told(b, 1_000).id).evicted
    assert held(b)[0].tokens == 1_000


def test_hits_are_taken_in_their_order_while_they_fit(b: LongTermBench) -> None:
    hits = [told(b, tokens).id for tokens in (500, 1_200, 450, 100, 50)]
    work(b, "recall", *hits)
    assert ids_in(b) == [hits[0], hits[2], hits[4]]
    assert [item.accesses for item in held(b)] == [1, 1, 1]
    work(b, "recall", hits[0])
    assert [item.accesses for item in held(b)] == [2, 1, 1]


def test_hits_are_taken_while_there_are_places_beside_what_is_pinned(
    b: LongTermBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as may be in it all fitted, beside pinned ones that nobody counted: then the recall
    failed.
    """
    for module in (working_room, longterm_working):
        monkeypatch.setattr(module, "ITEMS_MAX", 4)
    ids = [told(b, 10).id for _ in range(7)]
    work(b, "add", *ids[:3], pinned=True)
    work(b, "add", ids[3])
    assert work(b, "recall", ids[4], ids[0], ids[5]).evicted == [ids[3]]
    assert ids_in(b) == [*ids[:3], ids[4]]
    with pytest.raises(InvalidArgument, match="at most 4 memories, and 3 are pinned; unpin"):
        work(b, "add", ids[5], ids[6])


def test_a_hit_that_was_forgotten_meanwhile_is_left_out_alone(b: LongTermBench) -> None:
    one, two, three = (told(b, 10).id for _ in range(3))
    b.forget(two)
    b.archive(three)
    work(b, "recall", one, two, three)
    assert ids_in(b) == [one]


def test_a_smaller_budget_evicts(b: LongTermBench) -> None:
    ids = [told(b, 300).id for _ in range(3)]
    work(b, "add", *ids)
    assert work(b, "recall", ids[2], max_tokens=600).evicted == [ids[0]]
    assert b.region.working_status(MINE).max_tokens == 600


def test_adding_again_counts_the_tokens_once(b: LongTermBench) -> None:
    one = told(b, 600).id
    work(b, "add", one, one)
    assert work(b, "add", one).tokens == 600


def test_a_chunk_stands_for_its_original(b: LongTermBench) -> None:
    original = told(b, 90)
    chunk = b.derive(original, 30, 60).memories[1]
    work(b, "recall", chunk.id)
    assert ids_in(b) == [original.id]
    work(b, "pin", chunk.id)
    assert held(b)[0].pinned
    work(b, "remove", chunk.id)
    assert ids_in(b) == []


def test_what_is_refused_changes_nothing(b: LongTermBench) -> None:
    one, gone, archived = told(b, 10).id, told(b, 10).id, told(b, 10).id
    b.forget(gone)
    b.archive(archived)
    tail = b.region.log_end
    for ids in ((one, gone), (one, archived), (one, "no id"), (one, b.next_id())):
        with pytest.raises(NotFound):
            work(b, "add", *ids)
    for operation in ("pin", "unpin"):
        with pytest.raises(NotFound):
            work(b, operation, one)
    for operation in ("join", "eat"):
        with pytest.raises(InvalidArgument):
            work(b, operation, one)
    for operation in ("add", "recall", "leave"):
        with pytest.raises(InvalidArgument):
            work(b, operation)
    with pytest.raises(InvalidArgument, match="no budget"):
        work(b, "add", one, max_tokens=0)
    work(b, "remove", one)
    work(b, "leave", agent="nobody")
    assert b.region.log_end == tail


def test_a_repeat_is_answered_and_another_use_of_its_id_refused(b: LongTermBench) -> None:
    one, two, three = told(b, 600).id, told(b, 600).id, told(b, 1_500).id
    work(b, "add", one)
    request = b.next_request()
    assert work(b, "recall", two, three, request=request).evicted == [one]
    for _ in range(2):
        assert work(b, "recall", two, three, request=request).evicted == [one]
        assert ids_in(b) == [two]
        assert [item.accesses for item in held(b)] == [1]
        b.reopen()
    with pytest.raises(Conflict):
        work(b, "recall", two, request=request)


def test_the_same_name_is_another_one_elsewhere(b: LongTermBench) -> None:
    one = told(b, 10).id
    places = [MINE, WorkingPlace((), "planner", True), WorkingPlace(("n",), "planner", False)]
    work(b, "add", one, place=places[1])
    assert [ids_in(b, place) for place in places] == [[], [one], []]


# ---- reading -------------------------------------------------------------------------------------


def test_items_come_in_pages_and_with_their_turns(b: LongTermBench) -> None:
    ids = [told(b, 10).id for _ in range(7)]
    turns = [TurnPoint(("n",), "s", at, at + 1) for at in range(3)]
    for turn in turns:
        b.relate(ids[0], turn, "derived-from")
    b.relate(ids[0], ids[1], "derived-from")
    work(b, "add", *ids[:4])
    work(b, "add", *ids[4:])
    found: list[WorkingItem] = []
    after: int | None = 0
    while after is not None:
        page = b.region.working_items(MINE, after=after, limit=2)
        found += page.items
        after = page.next
        assert page.count == 7
    assert [item.memory.id for item in found] == ids
    assert found[0].provenance == turns
    assert b.region.working_items(MINE, scope=("n",)).items == []


def test_members_come_and_go(b: LongTermBench) -> None:
    for agent in ("ann", "bob", "ann", "cyd"):
        work(b, "join", place=TEAM, agent=agent, max_tokens=500)
        b.clock.wall_us += 1
    assert list(b.region.working_members(TEAM)) == ["ann", "bob", "cyd"]
    assert b.region.working_status(TEAM).max_tokens == 500
    work(b, "leave", place=TEAM, agent="ann")
    work(b, "join", place=TEAM, agent="ann", max_tokens=9)
    b.reopen()
    assert list(b.region.working_members(TEAM)) == ["bob", "cyd", "ann"]
    assert b.region.working_status(TEAM).max_tokens == 500


def test_who_joins_a_full_group_is_told_what_to_do(
    b: LongTermBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents that die do not leave: those that came after so many could never join."""
    monkeypatch.setattr(longterm_working, "MEMBERS_MAX", 2)
    for agent in ("ann", "bob", "ann"):
        work(b, "join", place=TEAM, agent=agent, max_tokens=500)
    with pytest.raises(InvalidArgument, match=r"agent=…, group='crew'\)\.leave\(\)"):
        work(b, "join", place=TEAM, agent="cyd")
    work(b, "leave", place=TEAM, agent="ann")
    work(b, "join", place=TEAM, agent="cyd")
    assert list(b.region.working_members(TEAM)) == ["bob", "cyd"]


# ---- the audit -----------------------------------------------------------------------------------


def test_an_eviction_is_on_record(b: LongTermBench) -> None:
    """One entry a change, in the unfiltered audit, for who asks for evictions, and for the memory.
    It deletes nothing, so that no deletion report counts it.
    """
    one, two = (told(b, 400, namespace=("n",), key=k).id for k in "ab")
    place = WorkingPlace(("n",), "planner", False)
    work(b, "add", one, two, place=place)
    b.clock.wall_us += 5
    work(b, "add", told(b, 900).id, place=place)
    (entry,) = b.audit(operation="evict")
    assert (entry.operation, entry.by, entry.at) == ("evict", "tester", b.clock.wall_us)
    assert entry.details == {
        "ids": [one, two], "count": 2, "agent": "planner", "namespace": ["n"], "operation": "add",
    }  # fmt: skip
    assert b.audit() == b.audit(target=one) == b.audit(target=two, operation="evict") == [entry]
    assert b.audit(scope=("n",)) == [entry]
    assert b.audit(scope=("m",)) == b.audit(operation="forget") == []
    assert b.region.deletion_report(None, None).entries == []
    b.forget(one)
    before = b.audit()
    assert [e.operation for e in before] == ["evict", "forget"]
    b.reopen(seal=True)
    assert b.audit() == before


def test_a_view_sees_of_an_eviction_what_is_its_own(b: LongTermBench) -> None:
    mine, theirs = told(b, 400, namespace=("n",)).id, told(b, 400, namespace=("m",)).id
    for place in (MINE, WorkingPlace(("n",), "a", False)):
        work(b, "add", mine, theirs, place=place)
        work(b, "add", told(b, 900).id, place=place)
    partly, own = b.audit(scope=("n",))
    assert (partly.target, partly.details) == ({}, {"count": 1})
    assert own.details["ids"] == [mine]
    assert own.details["count"] == 1


def test_the_audit_of_evictions_comes_in_pages(b: LongTermBench) -> None:
    ids = [told(b, 900).id for _ in range(6)]
    for each in ids:
        work(b, "add", each)
    found: list[str] = []
    after = None
    for _ in range(6):
        part = b.region.audit(operation="evict", after=after, limit=2)
        found += [entry.target["id"] for entry in part.entries]
        after = part.upto
        if not part.more:
            break
    assert found == ids[:-1]


# ---- over a reopening ----------------------------------------------------------------------------


@pytest.mark.parametrize("seal", [False, True])
def test_it_survives_a_restart(b: LongTermBench, seal: bool) -> None:
    ids = [told(b, 100, n % 3).id for n in range(12)]
    for n, each in enumerate(ids):
        b.clock.wall_us += 1_000
        work(b, "recall" if n % 2 else "add", each, place=(MINE, TEAM)[n % 2])
        work(b, "join", place=TEAM, agent=f"a{n % 4}")
    work(b, "pin", ids[4])
    work(b, "remove", ids[2])
    before = standing(b, MINE, TEAM)
    b.reopen(seal=seal)
    assert standing(b, MINE, TEAM) == before
    assert b.findings() == []


def test_an_opening_reads_a_state_and_few_changes(b: LongTermBench) -> None:
    """However often something is recalled into it."""
    ids = [told(b, 10).id for _ in range(20)]
    for n in range(600):
        work(b, "recall", ids[n % 20], ids[(n * 7) % 20])
    before = standing(b, MINE)
    b.region.seal()
    b.region.close()
    b.region = b.open()
    assert standing(b, MINE) == before
    state = b.region.state
    reads: list[int] = []

    def read(position: int) -> tuple[Header, Body]:
        reads.append(position)
        return state.control(position)

    records = WorkingRecords(WorkingMemories(state.table))
    for heads, positions in heads_of(state.log, state.log_seed):
        records.collect(heads, positions)
    records.load(read, state.are_erased_at, state.control_lost)
    assert len(reads) < 40


# ---- who is worth least --------------------------------------------------------------------------


def test_a_new_importance_counts_at_once(b: LongTermBench) -> None:
    """What everything is worth is kept from one eviction to the next."""
    ids = [told(b, 100, 5).id for _ in range(11)]
    for each in ids:
        work(b, "add", each)
    b.revise(ids[9], importance=1.0)
    b.revise(ids[1], importance=9.0)
    assert work(b, "add", told(b, 100, 5).id).evicted == [ids[9]]
    b.revise(ids[8], importance=0.5, text="y" * 150)
    assert b.audit(operation="evict")[-1].details["ids"] == [ids[2]]
    assert work(b, "add", told(b, 90, 5).id).evicted == [ids[8]]
    b.revise(ids[3], importance=0.0)
    assert work(b, "add", told(b, 150, 5).id).evicted == [ids[3]]


def test_what_comes_and_goes_keeps_its_worth(b: LongTermBench) -> None:
    """Pinned and unpinned, removed and added again, a hundred times over."""
    ids = [told(b, 100, n % 4).id for n in range(10)]
    work(b, "add", *ids)
    for _ in range(100):
        work(b, "pin", ids[0])
        work(b, "unpin", ids[0])
        work(b, "remove", ids[4])
        work(b, "add", ids[4])
        work(b, "remove", ids[5])
        work(b, "add", ids[5])
    memory = b.region.state.working.find(MINE)
    assert memory is not None
    assert len(memory.unrated) < 200
    assert work(b, "add", told(b, 250, 0).id).evicted == [ids[0], ids[4], ids[8]]
    for _ in range(100):
        work(b, "pin", ids[1])
        work(b, "unpin", ids[1])
    assert len(memory.unrated) < 200
    assert work(b, "add", told(b, 400, 9).id).evicted[1:] == [ids[1]]
