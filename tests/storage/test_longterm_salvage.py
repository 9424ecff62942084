"""Memories that a lost owner had acknowledged come back, and what was done to memories is done
again where they are still as they were.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from neverforget.storage.batch import stage_batch
from neverforget.storage.format import Kind
from neverforget.storage.longterm_fields import id_of
from neverforget.storage.longterm_results import TurnPoint
from neverforget.storage.record import encode_control
from neverforget.storage.working_results import WorkingPlace, WorkingTask
from tests.storage.parted import PartedLongTerm
from tests.storage.small_longterm import LongTermBench

PLACE = WorkingPlace((), "ann", False)


@pytest.fixture
def parted(tmp_path: Path) -> Iterator[PartedLongTerm]:
    """Both hold "front"."""
    front = LongTermBench(tmp_path / "old")
    front.remember("front", key="f", tags=("t",))
    made = PartedLongTerm(front, tmp_path / "new")
    yield made
    made.close()


def front_id(parted: PartedLongTerm) -> str:
    return parted.new.region.by_key((), "f").id


def unchanged(parted: PartedLongTerm) -> None:
    """Nothing is brought twice, and all of it is there when the region is opened again."""
    seen, end = parted.new.all_there_is(), parted.new.region.log_end
    for _ in range(2):
        again = parted.salvage(bytes_max=1)
        assert (again.turns, again.conflicts) == (0, 0)
        assert parted.new.region.log_end == end
        parted.new.reopen()
        assert parted.new.all_there_is() == seen
    assert parted.new.findings() == []


def test_memories_come_back_as_they_were(parted: PartedLongTerm) -> None:
    old, new = parted.old, parted.new
    lost = old.remember("lost", key="k", tags=("a",), namespace=("n",), importance=7.0)
    other = old.remember("other")
    old.relate(lost.id, other.id, "about")
    old.relate(lost.id, TurnPoint((), "s", 1, 2), "derived-from")
    old.tag(other.id, "b")
    new.remember("since")
    report = parted.salvage()
    assert (report.turns, report.conflicts) == (2, 0)
    assert sorted(new.texts()) == ["front", "lost", "other", "since"]
    back = new.region.get(lost.id)
    assert (back.key, back.tags, back.created_at) == ("k", ("a",), lost.created_at)
    assert new.region.get(other.id).tags == ("b",)
    assert len(new.region.relations(lost.id)) == 2
    assert new.region.remember(
        [old.new("lost", key="k", tags=("a",), namespace=("n",), importance=7.0)], by="tester",
        request=new.next_request(),
    ).new == [False]  # fmt: skip
    unchanged(parted)


def test_a_request_that_its_client_repeats_is_answered(parted: PartedLongTerm) -> None:
    """Before the salvage, and after it."""
    old, new = parted.old, parted.new
    early, late = old.next_request(), old.next_request()
    first, second = old.new("early"), old.new("late")
    old.remember_many(first, request=early)
    old.remember_many(second, request=late)
    new.remember_many(first, request=early)
    report = parted.salvage()
    assert (report.turns, report.came_again) == (1, 1)
    assert new.remember_many(second, request=late).new == [True], "the original answer"
    assert sorted(new.texts()) == ["early", "front", "late"]
    unchanged(parted)


def test_a_revision_counts_where_its_version_is_still_current(parted: PartedLongTerm) -> None:
    old, new, memory = parted.old, parted.new, front_id(parted)
    old.revise(memory, text="second", tags=("x",))
    old.revise(memory, text="third")
    old.archive(memory)
    new.tag(memory, "since")
    report = parted.salvage()
    assert (report.turns, report.conflicts) == (2, 0)
    view = new.region.get(memory)
    assert (view.text, view.version, view.status) == ("third", 3, "archived")
    assert set(view.tags) == {"x", "since"}
    assert [each.text for each in new.region.history(memory)] == ["front", "second", "third"]
    unchanged(parted)


def test_what_was_done_to_a_version_that_has_changed_since_is_on_record(
    parted: PartedLongTerm,
) -> None:
    old, new, memory = parted.old, parted.new, front_id(parted)
    old.revise(memory, text="old second")
    old.revise(memory, text="old third")
    old.tag(memory, "y")
    old.forget(memory, reason="why")
    new.revise(memory, text="new second")
    report = parted.salvage()
    assert (report.turns, report.conflicts) == (0, 4)
    assert new.region.get(memory).text == "new second"
    *conflicts, summary = new.audit(operation="salvage")
    assert [each.details["operation"] for each in conflicts] == [
        "revised", "revised", "tagged", "forgotten",
    ]  # fmt: skip
    assert {each.target["id"] for each in conflicts} == {memory}
    assert conflicts[0].by == "tester" and summary.details["conflicts"] == 4
    assert new.audit(target=memory) == conflicts
    assert new.region.deletion_report(None, None).forgotten == 0
    unchanged(parted)


def test_what_was_done_to_a_memory_that_was_forgotten_since_is_on_record(
    parted: PartedLongTerm,
) -> None:
    """Nothing of it may show, nor come back when the forgetting is undone."""
    old, new, memory = parted.old, parted.new, front_id(parted)
    other = new.remember("other")
    old.revise(memory, text="old second")
    old.tag(memory, "y")
    old.relate(memory, TurnPoint((), "s", 1, 2), "about")
    new.forget(memory)
    report = parted.salvage()
    assert (report.turns, report.conflicts) == (0, 3)
    assert new.texts() == [other.text] and new.texts(status="forgotten") == ["front"]
    assert len(new.audit(target=memory, operation="salvage")) == 3
    new.undo(memory)
    view = new.region.get(memory)
    assert (view.text, view.version, view.tags) == ("front", 1, ("t",))
    assert new.region.relations(memory) == []
    unchanged(parted)


def test_forgetting_many_reaches_those_that_are_as_they_were(parted: PartedLongTerm) -> None:
    old, new, memory = parted.old, parted.new, front_id(parted)
    lost = old.remember("lost", tags=("t",))
    assert old.forget_where(tags=("t",)).count == 2
    new.revise(memory, text="revised since")
    report = parted.salvage()
    assert (report.turns, report.conflicts) == (1, 1)
    assert new.texts() == ["revised since"]
    assert new.texts(status="forgotten") == ["lost"]
    new.undo(lost.id)
    assert sorted(new.texts()) == ["lost", "revised since"]


def test_a_forgetting_and_its_undoing_come_back(parted: PartedLongTerm) -> None:
    old, new, memory = parted.old, parted.new, front_id(parted)
    lost = old.remember("lost")
    for each in (memory, lost.id):
        old.forget(each)
        old.undo(each)
        old.archive(each)
        old.unarchive(each)
    report = parted.salvage()
    assert report.conflicts == 0
    assert sorted(new.texts()) == ["front", "lost"]
    operations = [each.operation for each in new.audit(target=lost.id)]
    assert operations == ["forget", "undo-forget", "archive", "unarchive"]
    unchanged(parted)


def test_what_was_erased_or_purged_stays_so(parted: PartedLongTerm) -> None:
    old, new, memory = parted.old, parted.new, front_id(parted)
    secret = old.remember("secret lost")
    gone = old.remember("forgotten secret")
    old.forget(gone.id)
    old.purge(old.clock.now_us())
    old.erase(secret.id)
    old.erase(memory, reason="asked to")
    new.revise(memory, text="revised since")
    report = parted.salvage()
    assert report.turns == 0
    assert new.texts(status=None) == []
    for words in (b"secret", b"revised since", b"front"):
        assert words not in new.every_byte()
    (entry,) = new.audit(operation="erase")
    assert entry.reason == "asked to"
    parted.salvage()
    assert len(new.audit(operation="erase")) == 1


def test_a_key_that_another_memory_holds_since(parted: PartedLongTerm) -> None:
    old, new = parted.old, parted.new
    lost = old.remember("lost", key="k")
    old.revise(lost.id, text="lost, revised")
    same = old.remember("the same", key="s")
    new.remember("since", key="k")
    new.remember("the same", key="s")
    report = parted.salvage()
    assert (report.turns, report.conflicts) == (2, 1)
    assert new.region.by_key((), "k").text == "since"
    assert new.region.get(lost.id).text == "lost, revised" and new.region.get(lost.id).key is None
    assert new.region.by_key((), "s").id != same.id
    unchanged(parted)


def test_chunks_are_made_anew(parted: PartedLongTerm) -> None:
    old, new = parted.old, parted.new
    lost = old.remember("one two three")
    old.derive(lost, 4)
    report = parted.salvage()
    assert report.turns == 1 and report.dropped == report.records - 1
    assert new.chunks(lost.id) == []
    new.derive(new.region.get(lost.id), 4)
    unchanged(parted)


def test_working_memories_follow_where_nothing_was_done_to_them_since(
    parted: PartedLongTerm,
) -> None:
    old, new, memory = parted.old, parted.new, front_id(parted)
    lost = old.remember("lost")

    def work(bench: LongTermBench, operation: str, *ids: str, name: str = "ann") -> None:
        task = WorkingTask(WorkingPlace((), name, False), operation, list(ids), max_tokens=1_000)
        bench.region.work(task, by="tester", request=bench.next_request())
        bench.commit()

    work(old, "add", memory, lost.id)
    work(old, "remove", memory)
    work(old, "add", lost.id, name="bob")
    work(new, "add", memory, name="bob")
    report = parted.salvage()
    assert report.conflicts == 1
    items = new.region.working_items(PLACE).items
    assert [each.memory.id for each in items] == [lost.id]
    bob = new.region.working_items(WorkingPlace((), "bob", False)).items
    assert [each.memory.id for each in bob] == [memory]
    unchanged(parted)


def test_refusals_are_on_record_once(parted: PartedLongTerm) -> None:
    parted.old.region.refuse("forget", {"id": "x"}, "eve", "no word")
    parted.old.commit()
    parted.salvage()
    (entry,) = parted.new.audit(operation="forget-refused")
    assert (entry.by, entry.reason) == ("eve", "no word")
    unchanged(parted)


def test_sound_bytes_that_nobody_understands_are_a_conflict_and_do_not_end_the_owner(
    parted: PartedLongTerm,
) -> None:
    """An owner that was ended by what came back was sent the same again as soon as it served."""
    old = parted.old
    about = id_of(uuid.UUID(front_id(parted)).bytes)
    record = encode_control(  # to whom?
        Kind.RELATED, about[0], about[1], {}, timestamp_us=1, token_count=about[2]
    )
    stage_batch(old.region._owned.log, record, [(0, about[0], about[1])])
    old.region.write()
    old.region.sync()
    old.remember("behind it")
    report = parted.salvage()
    assert (report.turns, report.conflicts) == (1, 1)
    assert sorted(parted.new.texts()) == ["behind it", "front"]
    assert parted.salvage().conflicts == 0, "it is on record"
