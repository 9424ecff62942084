"""A death at every call of every deletion: complete or not begun, and the audit agrees.

The client then asks again under the same request id, as a real one does, and is told what it would
have been told the first time. And a longer life, with a death at every call that changes something:
what was acknowledged is there, what was not is there as a whole or not at all.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from neverforget.storage.errors import NotFound, OutOfSpace, Poisoned
from neverforget.storage.longterm_results import Changes, MemoryFilter
from neverforget.storage.region_options import RegionOptions
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem, Fault
from tests.fakes.deaths import deaths
from tests.storage.failed_syncs import after_failed_syncs
from tests.storage.small_longterm import LongTermBench, everything, memory_id

DIRECTORY = ROOT / "lt"
CANARY = "canary-8f3a"
OPTIONS = RegionOptions(first_segment_bytes=8192, segment_bytes=16384)
REQUEST = (5, 1)


def furnished(fs: CrashFileSystem) -> LongTermBench:
    """Memories 1 to 6: 1 and 2 of the doomed namespace, 1 with chunks, 3 quotes 1, 4 is forgotten
    since long, 5 comes from 1, 6 has nothing to do with it. Somebody recalled in the namespace,
    somebody else elsewhere.
    """
    b = LongTermBench(DIRECTORY, fs=fs, options=OPTIONS, lock=False)
    place: dict[str, Any] = {"namespace": ("n",), "tags": ("t",)}
    first = b.remember(f"{CANARY} one", key="k", **place)
    b.remember(f"{CANARY} two", **place)
    third = b.remember("three", context=f"so: {CANARY} one.")
    fourth = b.remember(f"{CANARY} four")
    fifth = b.remember("five")
    b.remember("six")
    b.derive(b.region.get(first.id), 4, summary=f"{CANARY} summary")
    b.drawn = 100
    b.relate(fifth.id, first.id, "derived-from")
    b.relate(third.id, first.id, "about")
    b.forget(fourth.id)
    b.region.recalled(("n",), f"{CANARY} reader")
    b.region.recalled((), "ann")
    b.region.record_recalls()
    b.commit()
    return b


def undone(b: LongTermBench) -> object:
    answer = b.region.undo_forget(memory_id(4), by="tester", request=REQUEST)
    b.commit()
    return answer


DELETIONS: dict[str, Callable[[LongTermBench], object]] = {
    "forget": lambda b: b.forget(memory_id(1), request=REQUEST),
    "archive": lambda b: b.archive(memory_id(1), request=REQUEST),
    "undo-forget": undone,
    "forget where": lambda b: b.region.forget_where(
        MemoryFilter(tags=("t",)), **b.asked(request=REQUEST)
    ),
    "purge": lambda b: b.purge(10**18, request=REQUEST),
    "erase": lambda b: b.erase(memory_id(1), request=REQUEST),
    "erase where": lambda b: b.region.erase_where(("n",), **b.asked(request=REQUEST)),
}


def seen(b: LongTermBench) -> dict[str, str]:
    views = b.region.memories(everything(), limit=1000).memories
    readers = [a.agent for a in b.region.agents((), None, 9)[0]]
    memories = {m.id: f"{m.status} {m.text} {m.context} {m.tags}" for m in views}
    return memories | ({"readers": ", ".join(readers)} if readers else {})


def every_byte(fs: CrashFileSystem) -> bytes:
    found = b""
    for folder in (DIRECTORY, *(DIRECTORY / n for n in ("log", "torn", "quarantine"))):
        if fs.exists(folder):
            for name in fs.list_directory(folder):
                if "." in name:
                    found += fs.content(folder / name)
    return found


def expected(operation: str) -> tuple[dict[str, str], dict[str, str], Any, bytes]:
    """What is seen before and after, the answer, all bytes."""
    fs = CrashFileSystem()
    b = furnished(fs)
    before = seen(b)
    answer = DELETIONS[operation](b)
    return before, seen(b), answer, every_byte(fs)


@pytest.mark.parametrize("operation", DELETIONS)
@pytest.mark.parametrize("death", ["power_cut", "process_death"])
def test_a_deletion_is_complete_or_not_begun(operation: str, death: str) -> None:
    before, after, answer, every = expected(operation)
    outcomes = set()
    fs = CrashFileSystem()
    b = furnished(fs)
    entries, drawn = len(b.audit()), b.drawn
    for died in deaths(fs, partial(DELETIONS[operation], b), lambda: None):
        b.fs, b.drawn = died.found(death), drawn
        b.region = b.open()
        found = seen(b)
        assert found in (before, after), "neither begun nor complete"
        done = found == after
        outcomes.add(done)
        assert len(b.audit()) == entries + done, "the audit says otherwise"
        if done:
            gone = {id_ for id_ in before if id_ not in after}
            for word in (b"one", b"two", b"four", b"summary", b"reader"):
                if CANARY.encode() + b" " + word not in every:
                    assert CANARY.encode() + b" " + word not in every_byte(b.fs)
            for id_ in gone:
                with pytest.raises(NotFound):
                    b.region.get(id_, include_forgotten=True)
        assert [f for f in b.region.verify() if f.severity == "error"] == []
        again: Any = DELETIONS[operation](b)
        ids = [getattr(a, "ids", None) for a in (again, answer)]
        assert ids[0] == ids[1], "the repeat is told something else"
        assert seen(b) == after
        assert len(b.audit()) == entries + 1
        b.reopen()
        assert seen(b) == after
        b.region.close()
    assert outcomes == {False, True}


@pytest.mark.parametrize("operation", ["forget", "purge", "erase"])
def test_a_failed_sync_leaves_a_deletion_complete_or_not_begun(operation: str) -> None:
    """The sync in front of it, of its record, of the zeros, of the end: each fails once, and later
    ones succeed falsely.
    """
    before, after, _, _ = expected(operation)
    for found, _, b in after_failed_syncs(furnished, DELETIONS[operation], seen):
        assert found in (before, after) and seen(b) == after
        assert [f for f in b.region.verify() if f.severity == "error"] == []


@pytest.mark.parametrize("operation", ["forget", "archive", "forget where", "purge", "erase"])
def test_nothing_takes_effect_before_its_record_is_durable(operation: str) -> None:
    """Its sync fails: who reads now sees what was there, whatever an opening will find."""
    fs = CrashFileSystem()
    b = furnished(fs)
    b.commit()
    before, entries = seen(b), b.audit()
    fs.inject(Fault("fdatasync", error=errno.EIO))
    with pytest.raises(Poisoned):
        DELETIONS[operation](b)
    assert seen(b) == before
    assert b.audit() == entries


# ---- a longer life -------------------------------------------------------------------------------


class Life:
    """Requests 1, 2, 3, …: each remembers, revises, tags, relates, forgets, … ``told``: the whole
    view after each acknowledged request.
    """

    def __init__(self) -> None:
        self.done = 0
        self.told: dict[int, dict[str, str]] = {0: {}}

    def ask(self, b: LongTermBench, number: int) -> None:
        region, request = b.region, (9, number)
        target = memory_id(1000 + number - number % 8 + 1)
        step = number % 8
        if step == 1:
            b.drawn = 999 + number
            b.remember_many(b.new(f"m{number} " + "x" * 700, key=f"k{number}"), request=request)
        elif step == 2:
            region.revise(target, Changes(text=f"v{number}"), by="t", request=request)
        elif step == 3:
            region.tag(target, (f"t{number}",), by="t", request=request)
        elif step == 4:
            b.drawn = 999 + number
            pair = (b.new(f"p{number}"), b.new("q" * 900))
            b.remember_many(*pair, request=request)
        elif step == 5:
            one = memory_id(1000 + number - 1)
            region.relate(target, one, "k", by="t", request=request)
        elif step == 6:
            b.forget(target, request=request)
        elif step == 7 and number % 16 == 7:
            region.undo_forget(target, by="t", request=request)
        elif step == 7:
            b.erase(target, request=request)
        else:
            b.region.noop_if_idle()
        b.commit()

    def run(self, b: LongTermBench, steps: int) -> None:
        for _ in range(steps):
            if self.done:
                self.ask(b, self.done)
                assert seen(b) == self.told[self.done], "a repeat changed something"
            self.ask(b, self.done + 1)
            self.done += 1
            self.told[self.done] = seen(b)


def open_bench(fs: CrashFileSystem) -> LongTermBench:
    return LongTermBench(DIRECTORY, fs=fs, options=OPTIONS, lock=False)


@pytest.mark.parametrize("death", ["power_cut", "process_death"])
def test_a_death_at_any_call_keeps_every_promise(death: str) -> None:
    fs, whole = CrashFileSystem(), Life()
    first = open_bench(fs)
    found = deaths(fs, lambda: whole.run(first, 33), lambda: (whole.done, first.drawn))
    whole.run(first, 2)
    for died in found:
        fs, life = died.found(death), Life()
        b = open_bench(fs)
        life.done, b.drawn = died.told
        before = seen(b)
        assert before in (whole.told[life.done], whole.told[life.done + 1])
        if life.done:
            life.ask(b, life.done)
            assert seen(b) == before, "a repeat changed something"
        life.ask(b, life.done + 1)
        life.done += 1
        life.told = dict(whole.told)
        assert seen(b) == whole.told[life.done]
        life.run(b, 1)
        assert seen(b) == whole.told[life.done]
        b = open_bench(fs.power_cut())
        assert seen(b) == whole.told[life.done]
        assert [f for f in b.region.verify() if f.severity == "error"] == []


def test_a_device_that_lies_about_syncs_is_seen_to_lose() -> None:
    failures = 0
    for seed in range(5):
        fs, life = CrashFileSystem(seed, syncs_lie=True), Life()
        life.run(open_bench(fs), 20)
        try:
            failures += seen(open_bench(fs.power_cut())) != life.told[20]
        except Exception:
            failures += 1
    assert failures == 5


def test_a_full_disk_refuses_the_write_and_keeps_the_rest() -> None:
    fs = CrashFileSystem(capacity_bytes=60_000)
    b = open_bench(fs)
    told = []
    with pytest.raises(OutOfSpace):
        for number in range(200):
            told.append(b.remember(f"{number} " + "x" * 900))
    assert [m.text for m in b.region.memories(everything()).memories] == [m.text for m in told]
    fs.capacity_bytes = None
    b.remember("room again")
    b.reopen()
    assert len(seen(b)) == len(told) + 1
