"""A death at every call of everything that changes a working memory: done or not begun.

The client then asks again under the same request id, as a real one does, and is told what it would
have been told the first time. And a longer life, with a death at every call that changes something:
what was acknowledged is there, and nothing else but the change that was under way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from neverforget.storage.errors import OutOfSpace
from neverforget.storage.format import Kind
from neverforget.storage.log_heads import heads_of
from neverforget.storage.longterm_results import Changes
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.working_results import WorkingTask
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem
from tests.fakes.deaths import deaths
from tests.storage.failed_syncs import after_failed_syncs
from tests.storage.small_longterm import LongTermBench, memory_id
from tests.storage.small_working import MINE, told, work
from tests.storage.working_life import PLACES, Life, seen

DIRECTORY = ROOT / "lt"
OPTIONS = RegionOptions(first_segment_bytes=8192, segment_bytes=16384)
REQUEST = (5, 1)


def furnished(fs: CrashFileSystem) -> LongTermBench:
    """Memories 1 to 5; 1 to 3 are in all working memories, the last of which is full."""
    b = LongTermBench(DIRECTORY, fs=fs, options=OPTIONS, lock=False)
    for number in range(1, 6):
        told(b, 100, number, namespace=("n",) if number == 1 else ())
    for place in PLACES:
        work(b, "add", memory_id(1), place=place)
        work(b, "recall", memory_id(2), memory_id(3), place=place, max_tokens=350)
        work(b, "join", place=place, agent="ann")
    b.drawn = 100
    return b


def asked(b: LongTermBench, operation: str, *ids: str, **how: Any) -> object:
    answer = b.region.work(WorkingTask(MINE, operation, list(ids), **how), by="t", request=REQUEST)
    b.commit()
    return answer.evicted, answer.count


def revised(b: LongTermBench) -> object:
    answer = b.region.revise(memory_id(3), Changes(text="y" * 300), by="t", request=REQUEST)
    b.commit()
    return answer.memories[0].text


CHANGES: dict[str, Callable[[LongTermBench], object]] = {
    "add": lambda b: asked(b, "add", memory_id(4), pinned=True),
    "recall": lambda b: asked(b, "recall", memory_id(5), memory_id(3), max_tokens=200),
    "pin": lambda b: asked(b, "pin", memory_id(2)),
    "leave": lambda b: asked(b, "leave", agent="ann"),
    "revise": revised,
    "forget": lambda b: b.forget(memory_id(2), request=REQUEST).ids,
    "erase": lambda b: b.erase(memory_id(2), request=REQUEST).ids,
    "erase where": lambda b: b.region.erase_where(("n",), **b.asked(request=REQUEST)).ids,
}


def expected(change: str) -> tuple[Any, Any, object]:
    b = furnished(CrashFileSystem())
    before = seen(b)
    answer = CHANGES[change](b)
    return before, seen(b), answer


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("death", ["power_cut", "process_death"])
def test_a_change_is_complete_or_not_begun(change: str, death: str) -> None:
    before, after, answer = expected(change)
    assert before != after
    outcomes = set()
    fs = CrashFileSystem()
    b = furnished(fs)
    drawn = b.drawn
    for died in deaths(fs, partial(CHANGES[change], b), lambda: None):
        b.fs, b.drawn = died.found(death), drawn
        b.region = b.open()
        found = seen(b)
        assert found in (before, after), "neither begun nor complete"
        outcomes.add(found == after)
        assert [f for f in b.region.verify() if f.severity == "error"] == []
        assert CHANGES[change](b) == answer, "the repeat is told something else"
        assert seen(b) == after
        b.reopen()
        assert seen(b) == after
        b.region.close()
    assert outcomes == {False, True}


@pytest.mark.parametrize("change", CHANGES)
def test_a_failed_sync_leaves_a_change_complete_or_not_begun(change: str) -> None:
    before, after, answer = expected(change)
    for found, again, b in after_failed_syncs(furnished, CHANGES[change], seen):
        assert found in (before, after) and again == answer
        assert seen(b) == after


@pytest.mark.parametrize("change", ["add", "recall", "pin", "leave", "revise"])
def test_a_change_that_has_no_room_on_disk_changes_nothing(change: str) -> None:
    b = furnished(CrashFileSystem())
    before = seen(b)
    log = b.region.state.log
    reserve = log.reserve

    def full(n_bytes: int, added: int = 0) -> int:
        raise OutOfSpace("the disk is full")

    log.reserve = full  # type: ignore[method-assign]
    with pytest.raises(OutOfSpace):
        CHANGES[change](b)
    assert seen(b) == before
    log.reserve = reserve  # type: ignore[method-assign]
    CHANGES[change](b)
    assert seen(b) != before


# ---- a longer life -------------------------------------------------------------------------------


@pytest.mark.parametrize("death", ["power_cut", "process_death"])
def test_a_longer_life_with_a_death_at_every_call(death: str) -> None:
    """Each death is followed by another life on what it left. The state is written as a whole now
    and then, segments are sealed on the way, and one ends with its namespace.
    """
    whole = Life()
    fs = CrashFileSystem()
    b = LongTermBench(DIRECTORY, fs=fs, options=OPTIONS, lock=False)
    found = deaths(fs, lambda: whole.live(b, 80), lambda: (whole.done, b.drawn))
    state = b.region.state
    kinds = [kind for heads, _ in heads_of(state.log, state.log_seed) for kind in heads["kind"]]
    assert Kind.WORKING_STATE in kinds and len(state.log.segments()) > 1
    for died in found[::3]:
        life = Life()
        life.done, b.drawn = died.told
        b.fs = died.found(death)
        b.region = b.open()
        told_by = (whole.told.get(life.done), whole.told.get(life.done + 1))
        assert seen(b) in told_by or life.done == 0
        life.live(b, min(life.done + 3, 80))
        assert seen(b) == whole.told[life.done]
        assert [f for f in b.region.verify() if f.severity == "error"] == []
        b.region.close()
