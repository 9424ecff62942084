"""Forgetting, archiving, purging: never by accident, always on record, exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from neverforget.storage.errors import (
    ConfirmationRequired,
    Conflict,
    InvalidArgument,
    NotFound,
)
from neverforget.storage.longterm_results import Forgotten, MemoryFilter
from neverforget.storage.region_options import RegionOptions
from tests.storage.small_longterm import LongTermBench, everything, longterm, memory_id


@pytest.fixture
def b(tmp_path: Path) -> Iterator[LongTermBench]:
    with longterm(tmp_path / "lt") as opened:
        yield opened


def test_a_forgotten_memory_is_found_nowhere_and_can_be_brought_back(b: LongTermBench) -> None:
    told = b.remember("secret plan", key="k", tags=("x", "y"))
    other = b.remember("other")
    b.relate(other.id, told.id, "about")
    chunks = b.derive(told, 3, summary="a plan").memories
    answer = b.forget(told.id, reason="asked to")
    assert answer.count == 1
    assert answer.ids == [told.id, *(c.id for c in chunks)]
    entry = answer.entry
    assert entry is not None
    assert (entry.operation, entry.by, entry.reason) == ("forget", "tester", "asked to")
    assert entry.target == {"id": told.id, "key": "k"}
    assert entry.details == {
        "count": 1, "position": told.position, "version": 1, "tags": 2,
        "relations": 4, "chunks": [chunks[0].id, chunks[1].id], "summaries": [chunks[2].id],
    }  # fmt: skip
    for _ in range(2):
        assert b.texts() == ["other"]
        assert b.texts(derived=True) == ["other"]
        assert b.texts(tags=("x",)) == []
        assert b.region.relations(other.id) == []
        for call in (b.region.get, b.region.history, b.chunks, b.region.relations):
            with pytest.raises(NotFound):
                call(told.id)
        with pytest.raises(NotFound):
            b.region.by_key((), "k")
        with pytest.raises(NotFound):
            b.revise(told.id, text="x")
        with pytest.raises(NotFound):
            b.relate(other.id, told.id, "again")
        assert b.region.get(told.id, include_forgotten=True).status == "forgotten"
        assert b.region.history(told.id, include_forgotten=True)[0].text == "secret plan"
        again = b.forget(told.id, reason="once more")
        assert (again.entry, again.count, again.ids) == (entry, 0, []), "the first entry"
        b.reopen(seal=True)
    assert b.undo(told.id).ids == answer.ids
    for _ in range(2):
        assert b.region.get(told.id).text == "secret plan"
        assert b.region.by_key((), "k").tags == ("x", "y")
        assert [r.kind for r in b.region.relations(other.id)] == ["about"]
        assert len(b.chunks(told.id)) == 3
        b.reopen()
    with pytest.raises(Conflict):
        b.undo(told.id)
    assert [e.operation for e in b.audit(target=told.id)] == ["chunk", "forget", "undo-forget"]
    assert b.findings() == []


def test_without_the_word_nothing_happens_and_it_is_on_record(b: LongTermBench) -> None:
    told = b.remember("x", tags=("t",))
    by_tag = MemoryFilter(tags=("t",))
    calls: list[Callable[[Any], object]] = [
        lambda word: b.forget(told.id, confirm=word, reason="why"),
        lambda word: b.archive(told.id, confirm=word),
        lambda word: b.erase(told.id, confirm=word),
        lambda word: b.purge(10**18, confirm=word),
        lambda word: b.region.forget_where(by_tag, **b.asked(confirm=word)),
        lambda word: b.region.archive_where(by_tag, **b.asked(confirm=word)),
        lambda word: b.region.erase_where(("n",), **b.asked(confirm=word)),
    ]
    for word in (None, "", "yes", True, "CONFIRMED"):
        for call in calls:
            with pytest.raises(ConfirmationRequired):
                call(word)
    b.reopen()
    assert b.texts() == ["x"]
    entries = b.audit()
    assert [e.operation for e in entries] == ["forget-refused"] * 35
    operations = [e.details["operation"] for e in entries[:7]]
    assert operations == ["forget", "archive", "erase", "purge", "forget", "archive", "erase"]
    assert (entries[0].target, entries[0].reason) == ({"id": told.id}, "why")
    assert entries[4].target == {"filter": {"tags": ["t"]}}
    assert len(b.audit(target=told.id)) == 15
    assert b.region.deletion_report(None, None).refused == 35


def test_ten_thousand_and_one_are_forgotten_by_tag_and_no_other(tmp_path: Path) -> None:
    options = RegionOptions()
    with longterm(tmp_path / "lt", options=options) as b:
        for start in range(0, 12_000, 3000):
            b.remember_many(
                *(
                    b.new(
                        f"m{n}", tags=("gone:deep",) if n < 10_001 else ("kept",),
                        namespace=("a",), agent="ana",
                    )
                    for n in range(start, start + 3000)
                )
            )  # fmt: skip
        kept = [
            m.text for m in b.region.memories(MemoryFilter(tags=("kept",)), limit=5000).memories
        ]
        assert len(kept) == 1999
        tail = b.region._log.tail
        assert b.forget_where(dry_run=True, tags=("gone",)).count == 10_001
        assert b.region._log.tail == tail, "a dry run writes nothing"
        answer = b.forget_where(tags=("gone",))
        assert answer.count == 10_001
        assert answer.ids == [], "so many are not listed"
        assert b.region.status().forgotten == 10_001
        for _ in range(2):
            assert b.region.count(MemoryFilter(tags=("gone",))) == 0
            assert b.region.count(MemoryFilter(agent="ana")) == 1999
            page = b.region.memories(MemoryFilter(tags=("kept",)), limit=5000)
            assert [m.text for m in page.memories] == kept
            (entry,) = b.audit()
            assert (entry.operation, entry.details["count"]) == ("forget", 10_001)
            assert entry.target == {"filter": {"tags": ["gone"]}}
            assert b.audit(target=memory_id(5_001)) == [entry]
            assert b.audit(target=memory_id(10_500)) == []
            b.reopen(seal=True)
        assert b.forget_where(tags=("gone",)).count == 0
        assert len(b.audit()) == 1, "what changed nothing has no entry"
        assert b.undo(memory_id(78)).count == 1
        assert b.texts(tags=("gone",)) == ["m77"]
        report = b.region.deletion_report(None, None)
        assert (report.forgotten, report.restored) == (10_001, 1)
        assert report.by == {"tester": 10_002}


def test_a_filter_that_filters_nothing_is_refused(b: LongTermBench) -> None:
    b.remember("x")
    nothing: list[dict[str, Any]] = [
        {},
        {"types": ()},
        {"where": {}},
        {"tags": ()},
        {"derived": True},
    ]
    for fields in nothing:
        with pytest.raises(InvalidArgument):
            b.forget_where(**fields)
        with pytest.raises(InvalidArgument):
            b.region.archive_where(MemoryFilter(**fields), dry_run=True, **b.asked())
    with pytest.raises(InvalidArgument):
        b.purge(None)
    with pytest.raises(InvalidArgument):
        b.region.erase_where((), **b.asked())
    assert b.texts() == ["x"]


def test_forgetting_by_every_kind_of_filter(b: LongTermBench) -> None:
    one = b.remember("one", metadata={"n": 1}, namespace=("a",), type="event")
    b.archive(one.id)
    b.remember("two", metadata={"n": 2}, namespace=("a", "b"))
    three = b.remember("three", metadata={"n": 3})
    assert b.forget_where(dry_run=True, namespace=("a",)).count == 2, "archived ones too"
    assert b.forget_where(dry_run=True, where={"metadata.n": {"$gte": 2}}).count == 2
    assert b.forget_where(dry_run=True, older_than=three.created_at).count == 2
    assert b.forget_where(dry_run=True, types=("event",)).count == 1
    assert b.forget_where(where={"metadata.n": 2}).count == 1
    assert b.forget_where(namespace=("a",)).ids == [one.id]
    assert b.texts(status=None) == ["one", "two", "three"]
    assert b.texts() == ["three"]


def test_archived_is_hidden_and_kept(b: LongTermBench) -> None:
    told = b.remember("old news", key="k", tags=("x",))
    b.derive(told, 3)
    answer = b.archive(told.id, reason="stale")
    assert answer.count == 1
    assert len(answer.ids) == 3
    for _ in range(2):
        assert b.texts() == []
        assert b.texts(status="archived", tags=("x",)) == ["old news"]
        assert b.region.get(told.id).status == "archived"
        assert b.region.by_key((), "k").id == told.id, "it holds its key"
        b.reopen()
    assert b.archive(told.id).count == 0
    b.forget(told.id)
    b.undo(told.id)
    assert b.region.get(told.id).status == "archived", "as it was before"
    b.unarchive(told.id)
    assert b.unarchive(told.id).count == 0
    b.reopen()
    assert b.texts(derived=True) == ["old news", "old", " news"]
    operations = [e.operation for e in b.audit()]
    assert operations == ["archive", "forget", "undo-forget", "unarchive"]


def test_purging_ends_the_possibility_to_undo(b: LongTermBench) -> None:
    first, second, third = (b.remember(f"canary-{n}", key=f"k{n}") for n in range(3))
    b.derive(first, 4)
    b.forget(first.id)
    b.clock.wall_us += 10**9
    between = b.clock.now_us()
    b.forget(second.id)
    assert b.purge(between, dry_run=True).count == 1
    answer = b.purge(between)
    assert answer.count == 1
    assert len(answer.ids) == 3, "with its chunks"
    for _ in range(2):
        for include in (False, True):
            with pytest.raises(NotFound):
                b.region.get(first.id, include_forgotten=include)
        with pytest.raises(NotFound):
            b.undo(first.id)
        with pytest.raises(NotFound):
            b.forget(first.id)
        assert b.region.get(second.id, include_forgotten=True).status == "forgotten"
        assert b"canary-0" not in b.every_byte()
        assert b"canary-1" in b.every_byte()
        assert b.findings() == []
        b.reopen(seal=True)
    assert b.purge(between).count == 0
    assert b.remember("new", key="k0").version == 1
    assert [e.operation for e in b.audit()] == ["forget", "forget", "purge"]
    assert b.region.deletion_report(between, None).purged == 1
    assert b.texts() == [third.text, "new"]


@pytest.mark.parametrize("restart", [False, True])
def test_every_deletion_answers_its_repeat(b: LongTermBench, restart: bool) -> None:
    told = [b.remember(f"m{n}", tags=("t",)) for n in range(5)]
    by_tag = MemoryFilter(tags=("t",))
    calls: list[Callable[[tuple[int, int]], Forgotten]] = [
        lambda r: b.forget(told[0].id, request=r),
        lambda r: b.region.undo_forget(told[0].id, by="t", request=r),
        lambda r: b.archive(told[1].id, request=r),
        lambda r: b.region.unarchive(told[1].id, by="t", request=r),
        lambda r: b.region.archive_where(by_tag, **b.asked(request=r)),
        lambda r: b.region.forget_where(by_tag, **b.asked(request=r)),
        lambda r: b.purge(10**18, request=r),
    ]
    for call in calls:
        request = b.next_request()
        first = call(request)
        b.commit()
        if restart:
            b.reopen()
        again = call(request)
        assert (again.count, again.ids) == (first.count, first.ids)
    assert [e.details["count"] for e in b.audit()] == [1, 1, 1, 1, 5, 5, 5]
    assert b.texts(status=None) == []


def test_the_audit_is_read_by_what_it_says(b: LongTermBench) -> None:
    one, two = b.remember("one"), b.remember("two")
    b.forget(one.id, by="ana", reason="r")
    middle = b.clock.now_us()
    b.forget(two.id, by="bob")
    b.undo(two.id)
    assert [e.target["id"] for e in b.audit(operation="forget")] == [one.id, two.id]
    assert [e.operation for e in b.audit(by="bob")] == ["forget"]
    assert [e.by for e in b.audit(start=middle)] == ["bob", "tester"]
    assert [e.by for e in b.audit(stop=middle)] == ["ana"]
    first = b.region.audit(limit=1)
    assert first.more
    assert first.upto == first.entries[0].position
    rest = b.region.audit(after=first.upto, limit=2)
    assert ([e.by for e in rest.entries], rest.more) == (["bob", "tester"], False)
    end = b.region.refuse("forget", {"id": one.id}, "mallory", None)
    b.commit()
    assert b.region.durable >= end
    assert b.audit(by="mallory")[0].details == {"operation": "forget"}


def test_a_snapshot_and_the_log_behind_it_are_the_whole_log(b: LongTermBench) -> None:
    told = [b.remember(f"m{n}", tags=(f"t{n % 3}",), key=f"k{n}") for n in range(40)]
    b.derive(told[0], 1)
    b.relate(told[1].id, told[2].id, "k")
    b.relate(told[1].id, told[7].id, "taken back")
    b.unrelate(told[1].id, told[7].id, "taken back")
    b.archive(told[9].id)
    b.forget(told[3].id)
    snapshot = b.region.snapshot()
    b.revise(told[4].id, text="later")
    b.undo(told[3].id)
    b.forget(told[5].id)
    b.remember("new", key="new")
    b.erase(told[6].id)
    whole = b.all_there_is()
    for seal in (False, True):
        b.reopen(seal=seal, snapshot=snapshot)
        assert b.all_there_is() == whole
        assert b.findings() == []
        assert b.region.by_key((), "k7").id == told[7].id
        with pytest.raises(Conflict):
            b.remember("other", key="k8")
    assert b.reopen().count(everything()) == 42


def test_a_backup_opens_as_the_region(b: LongTermBench, tmp_path: Path) -> None:
    told = b.remember("one")
    b.forget(b.remember("two").id)
    b.region.backup(tmp_path / "copy")
    copy = b.open(tmp_path / "copy")
    assert copy.get(told.id) == told
    assert copy.status().forgotten == 1
    assert list(copy.verify()) == []
    copy.close()
    status = b.region.status()
    assert (status.memories, status.forgotten, status.findings) == (1, 1, [])


def test_the_key_of_a_forgotten_memory_is_free_and_stays_with_whoever_took_it(
    b: LongTermBench,
) -> None:
    first = b.remember("first", key="k")
    b.forget(first.id)
    second = b.remember("second", key="k", on_conflict="revise")
    assert (second.id != first.id, second.version) == (True, 1), "a forgotten one is not revised"
    for _ in range(2):
        assert b.region.by_key((), "k").id == second.id
        with pytest.raises(Conflict, match=second.id):
            b.undo(first.id)
        b.reopen(seal=True)
    b.forget(second.id)
    b.undo(first.id)
    assert b.region.by_key((), "k").id == first.id
    with pytest.raises(Conflict):
        b.undo(second.id)
    assert b.remember("first", key="k").id == first.id
    b.forget(first.id)
    assert b.remember("first", key="k").id != first.id, "equal content, but the key was free"


def test_a_purged_text_does_not_come_back_through_its_neighbours(b: LongTermBench) -> None:
    """While it was forgotten it was held back from search; purged, nobody held it back any more."""
    told = b.remember("the vault is open")
    near = b.remember("near", context="a. the vault is open! b.", key="k")
    b.forget(told.id)
    answer = b.purge(2**62)
    assert (answer.count, answer.ids) == (1, [told.id])
    for _ in range(2):
        now = b.region.by_key((), "k")
        assert (now.id, now.context, now.version) == (near.id, "a.  ! b.", 2)
        assert b"vault" not in b.every_byte()
        assert b.audit(operation="purge")[0].details["revised"] == [near.id]
        assert b.findings() == []
        b.reopen(seal=True)


def test_what_is_too_much_for_one_record_is_refused_before_anything_happens(tmp_path: Path) -> None:
    options = RegionOptions(
        segment_bytes=1 << 16, first_segment_bytes=1 << 13, batch_bytes_max=1 << 12
    )
    with longterm(tmp_path / "lt", options=options) as b:
        for _ in range(30):
            b.remember_many(*(b.new(f"m{b.drawn}", tags=("t",)) for _ in range(10)))
        tail = b.region.state.log.tail
        for call in (
            lambda: b.forget_where(tags=("t",)),
            lambda: b.erase(*(memory_id(n) for n in range(1, 301))),
        ):
            with pytest.raises(InvalidArgument, match="300 memories"):
                call()
        assert b.region.state.log.tail == tail
        assert (b.region.count(MemoryFilter(tags=("t",))), b.audit()) == (300, [])
        assert b.forget_where(older_than=b.region.get(memory_id(100)).created_at).count > 50
