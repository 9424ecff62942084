"""Large deletions give way between their slices: what others write there, at each of them.

Each test does its deletion once for every slice that it has, and lets somebody else write behind
that one. Seen before: a purge of 100,000 memories kept everybody waiting for nine seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from neverforget.storage import (
    longterm_erasing,
    longterm_erasure_plan,
    longterm_matching,
    longterm_said,
    zeroing,
)
from neverforget.storage.errors import NotFound
from neverforget.storage.longterm_results import MemoryFilter, NewRelation
from neverforget.storage.slices import Slices, in_one_go
from tests.storage.small_longterm import LongTermBench, longterm

T = TypeVar("T")
NEVER = 2**62


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """One memory a slice."""
    for module in (longterm_erasing, longterm_erasure_plan, longterm_said, zeroing):
        monkeypatch.setattr(module, "_SLICE", 1)
    monkeypatch.setattr(longterm_matching, "SLICE", 1)
    monkeypatch.setattr(longterm_erasure_plan, "_WINDOW_BYTES", 512)


class At:
    """The slice behind which somebody writes. ``in_time``: nothing was on record yet then."""

    def __init__(self, bench: LongTermBench, slices: int) -> None:
        self.bench, self.slices = bench, slices
        self.in_time = self.ended = False

    def run(self, work: Slices[T], meanwhile: Callable[[], object]) -> T:
        before = len(self.bench.audit())
        for _ in range(self.slices):
            try:
                next(work)
            except StopIteration as done:
                self.ended = True
                last: T = done.value
                return last
        self.in_time = len(self.bench.audit()) == before
        check_counts(self.bench)
        meanwhile()
        check_counts(self.bench)
        result = in_one_go(work)
        check_counts(self.bench)
        return result


def check_counts(b: LongTermBench) -> None:
    """A status tells what there is, also between two slices."""
    found, count = b.region.status(), b.region.count
    assert found.memories == count(MemoryFilter())
    assert found.forgotten == count(MemoryFilter(status="forgotten", derived=True))


def at_each_slice(
    directory: Path, once: Callable[[LongTermBench, At], None], *, at_least: int
) -> None:
    for slices in range(500):
        with longterm(directory / str(slices)) as bench:
            at = At(bench, slices)
            once(bench, at)
            if at.ended:
                assert slices >= at_least, "it gave way"
                return
    raise AssertionError("it never ends")


# ---- by a filter ---------------------------------------------------------------------------------


def test_exactly_those_are_forgotten_that_match_when_it_is_written(tmp_path: Path) -> None:
    """Whoever was looked at already and matches no more stays; who matches by now goes."""

    def once(b: LongTermBench, at: At) -> None:
        team = {"team": "a"}
        leaves = b.remember("leaves", metadata=team)
        gone = b.remember("gone", metadata=team)
        joins = b.remember("joins", metadata={"team": "b"})
        for n in range(4):
            b.remember(f"m{n}", metadata=team)

        def meanwhile() -> None:
            b.revise(leaves.id, metadata={"team": "b"})
            b.revise(joins.id, metadata={"team": "a"})
            b.remember("new", metadata={"team": "a"})
            b.forget(gone.id)

        wanted = MemoryFilter(where={"metadata.team": "a"})
        answer = at.run(b.region.forgetting_where(wanted, **b.asked()), meanwhile)
        (entry,) = [e for e in b.audit() if "filter" in e.target]
        assert answer.count == entry.details["count"] == 6
        assert b.texts() == (["joins"] if at.ended else ["leaves"])
        b.reopen()
        assert b.region.status().forgotten == (6 if at.ended else 7)

    at_each_slice(tmp_path, once, at_least=6)


def test_a_dry_run_counts_what_matches_at_its_end(tmp_path: Path) -> None:
    def once(b: LongTermBench, at: At) -> None:
        for n in range(5):
            b.remember(f"m{n}", metadata={"n": n})
        wanted = MemoryFilter(where={"metadata.n": {"$gte": 3}})
        counting = b.region.forgetting_where(wanted, dry_run=True, **b.asked())
        answer = at.run(counting, lambda: b.remember("m7", metadata={"n": 7}))
        assert answer.count == (2 if at.ended else 3)
        assert b.audit() == []

    at_each_slice(tmp_path, once, at_least=5)


# ---- purging -------------------------------------------------------------------------------------


def test_what_is_restored_before_the_record_is_not_purged(tmp_path: Path) -> None:
    """Neither is its text taken out of its neighbours. Behind the record it is too late."""

    def once(b: LongTermBench, at: At) -> None:
        first = b.remember("first word of all")
        second = b.remember("second word of all")
        near = b.remember("near", context="first word of all, second word of all")
        b.forget(first.id)
        b.forget(second.id)

        def meanwhile() -> None:
            if at.in_time:
                b.undo(second.id)
                return
            with pytest.raises(NotFound):
                b.undo(second.id)

        answer = at.run(b.region.purging(NEVER, **b.asked()), meanwhile)
        context = b.region.get(near.id).context
        if at.in_time:
            assert (answer.count, context) == (1, ", second word of all")
            assert b.region.get(second.id).text == "second word of all"
        else:
            assert (answer.count, context) == (2, ",")
        assert b"first word" not in b.every_byte()
        assert (b"second word" in b.every_byte()) is at.in_time
        assert b.findings() == []
        b.reopen()
        assert b.findings() == [] and b.region.status().forgotten == 0

    at_each_slice(tmp_path, once, at_least=6)


def test_a_context_that_is_written_meanwhile_is_cut_as_well(tmp_path: Path) -> None:
    """And a new version, or a tag, of a neighbour that was looked at already is not lost."""

    def once(b: LongTermBench, at: At) -> None:
        secret = b.remember("the unmistakable text")
        near = b.remember("near", context="before it: the unmistakable text")
        b.remember("plain", context="nothing of it")
        b.forget(secret.id)

        def meanwhile() -> None:
            b.tag(near.id, "tagged")
            b.revise(near.id, text="nearer")
            if at.in_time:
                b.remember("new", context="the unmistakable text, said again")

        assert at.run(b.region.purging(NEVER, **b.asked()), meanwhile).count == 1
        assert b"unmistakable" not in b.every_byte()
        view = b.region.get(near.id)
        said = ("near", (), "before it:") if at.ended else ("nearer", ("tagged",), "before it:")
        assert (view.text, view.tags, view.context) == said
        assert b.findings() == []
        seen = b.all_there_is()
        b.reopen()
        assert b.all_there_is() == seen

    at_each_slice(tmp_path, once, at_least=6)


# ---- erasing -------------------------------------------------------------------------------------


def test_later_versions_and_what_is_derived_meanwhile_are_erased_as_well(tmp_path: Path) -> None:
    """And who gets another source meanwhile is flagged, no longer erased."""

    def once(b: LongTermBench, at: At) -> None:
        first = b.remember("alpha original", namespace=("doomed",), tags=("zeta",))
        other = b.remember("stays")
        derived_from = (NewRelation(first.id, "derived-from"),)
        only = b.remember("alpha once", related_to=derived_from)
        two = b.remember("two sources", related_to=derived_from)
        gone = {first.id, only.id}

        def meanwhile() -> None:
            if at.in_time:
                b.revise(first.id, text="alpha revised")
                b.relate(two.id, other.id, "derived-from")
                gone.add(b.remember("alpha later", related_to=derived_from).id)

        report = at.run(b.region.erasing_where(("doomed",), **b.asked()), meanwhile)
        if not at.in_time:
            gone.add(two.id)
        assert set(report.ids) == gone and report.memories == len(gone)
        assert report.flagged == ([two.id] if at.in_time else [])
        assert b.texts() == (["stays", "two sources"] if at.in_time else ["stays"])
        assert b"alpha" not in b.every_byte() and b"zeta" not in b.every_byte()
        assert b.findings() == []
        b.reopen()
        assert b.findings() == []

    at_each_slice(tmp_path, once, at_least=8)


def test_a_reason_that_quotes_it_and_is_given_meanwhile_is_erased_too(tmp_path: Path) -> None:
    def once(b: LongTermBench, at: At) -> None:
        secret = b.remember("the unmistakable text")
        b.forget(b.remember("other").id, reason="for no reason")

        def meanwhile() -> None:
            if at.in_time:
                b.forget(secret.id, reason="it says: the unmistakable text")

        at.run(b.region.erasing([secret.id], **b.asked()), meanwhile)
        assert b"unmistakable" not in b.every_byte()
        assert b"for no reason" in b.every_byte()

    at_each_slice(tmp_path, once, at_least=4)


# ---- a death in between --------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["forget", "purge", "erase"])
def test_who_dies_between_two_slices_has_deleted_all_of_it_or_none(
    tmp_path: Path, how: str
) -> None:
    def once(b: LongTermBench, at: At) -> None:
        for n in range(3):
            memory = b.remember(f"unmistakable {n}", namespace=("doomed",), metadata={"n": n})
            if how == "purge":
                b.forget(memory.id)
        near = b.remember("near", context="unmistakable 1 and more")
        asked = b.asked()

        def work() -> Slices[Any]:
            if how == "purge":
                return b.region.purging(NEVER, **asked)
            if how == "erase":
                return b.region.erasing_where(("doomed",), **asked)
            wanted = MemoryFilter(where={"metadata.n": {"$gte": 0}})
            return b.region.forgetting_where(wanted, **asked)

        def entries() -> int:
            return [entry.operation for entry in b.audit()].count(how)

        dying = work()
        at.ended = any(next(dying, "ended") == "ended" for _ in range(at.slices))
        on_record = entries()
        dying.close()
        b.reopen()
        assert entries() == on_record <= 1, "on record, or not begun"
        assert b.findings() == []
        if how != "forget":
            assert (b"unmistakable" in b.every_byte()) is (on_record == 0)
        answer = in_one_go(work())
        assert (answer.memories if how == "erase" else answer.count) == 3, "whoever did it"
        assert entries() == 1
        left = "unmistakable 1 and more" if how == "forget" else "and more"
        assert b.region.get(near.id).context == left

    at_each_slice(tmp_path, once, at_least=3)
