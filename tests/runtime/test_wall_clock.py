"""A wall clock that jumps by hours, in either direction: order, waits and ids do not go by it, what
is told of times does. Owners in processes of their own, and a replica: ``tests/faults``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

import neverforget as nf
from neverforget.runtime.times import from_us
from neverforget.storage.clock import SystemClock

HOURS = (0, 2, -2, 0, -2, 2)
PATIENCE_S = 60.0


class JumpingClock(SystemClock):
    """Right, but for ``hours``."""

    hours = 0

    def now_us(self) -> int:
        return super().now_us() + self.hours * 3_600_000_000

    def now(self) -> datetime:
        return from_us(self.now_us())


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


@pytest.fixture
def store(tmp_path: Path, clock: JumpingClock) -> Iterator[nf.Store]:
    with nf.testing.store(tmp_path / "store", clock=clock) as opened:
        yield opened


def around(at: datetime) -> tuple[datetime, datetime]:
    return at - timedelta(minutes=30), at + timedelta(minutes=30)


def test_turns_stand_as_they_were_said_whatever_their_times(
    store: nf.Store, clock: JumpingClock, tmp_path: Path
) -> None:
    chat = store.session("chat")
    for number, clock.hours in enumerate(HOURS):
        chat.append("user", number)
    store.close()
    clock.hours = -2
    with nf.testing.store(tmp_path / "store", clock=clock) as again:
        chat = again.session("chat")
        assert chat.append("user", len(HOURS)).seq == len(HOURS)
        turns = list(chat)
        assert [(turn.seq, turn.content) for turn in turns] == [(n, n) for n in range(7)]
        assert [turn.content for turn in chat.tail(3)] == [4, 5, 6]
        steps = [b.timestamp - a.timestamp for a, b in pairwise(turns)]
        hours = [round(step / timedelta(hours=1)) for step in steps]
        assert hours == [b - a for a, b in pairwise((*HOURS, -2))]
        assert again.verify().ok


def test_who_waits_for_a_turn_gets_it(store: nf.Store, clock: JumpingClock) -> None:
    chat = store.session("chat")
    heard: list[nf.Turn] = []

    def follow() -> None:
        for turn in chat.follow():
            heard.append(turn)
            if len(heard) == len(HOURS):
                return

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    for number, clock.hours in enumerate(HOURS):
        chat.append("user", number)
    follower.join(PATIENCE_S)
    assert [turn.content for turn in heard] == list(range(len(HOURS)))


def test_memories_are_found_by_the_times_that_they_say(
    store: nf.Store, clock: JumpingClock
) -> None:
    said = {}
    for number, clock.hours in enumerate(HOURS):
        memory = store.remember(f"parcel {number} has arrived")
        said[memory.id] = memory.created_at
        assert around(clock.now())[0] < memory.created_at < around(clock.now())[1]
    assert list(said) == sorted(said), "ids of one client grow"
    clock.hours = 0
    for hours in (-2, 0, 2):
        span = around(clock.now() + timedelta(hours=hours))
        expected = {id for id, at in said.items() if span[0] <= at < span[1]}
        assert len(expected) == 2
        assert {m.id for m in store.memories(timeframe=span)} == expected
        hits = store.recall("parcel", timeframe=span, wait=PATIENCE_S)
        assert {hit.memory.id for hit in hits} == expected and hits.complete
    listed: list[str] = []
    page = store.memories(limit=1)
    while page.items:
        listed += [memory.id for memory in page]
        page = store.memories(limit=1, after=page.next)
    assert sorted(listed) == sorted(said)


def test_what_was_forgotten_is_on_record_once_and_in_order(
    store: nf.Store, clock: JumpingClock
) -> None:
    memories = [store.remember(f"parcel {number}") for number in range(len(HOURS))]
    chat = store.session("chat")
    chat.append_many({"role": "user", "content": "x"} for _ in HOURS)
    entries = []
    for number, (memory, clock.hours) in enumerate(zip(memories, HOURS, strict=True)):
        entries.append(store.forget(memory.id, confirm=nf.CONFIRMED, by="ada"))
        chat.hide(number)
    clock.hours = 0
    told = []
    page = store.audit(limit=1)
    while page.items:
        told += list(page)
        page = store.audit(limit=1, after=page.next)
    assert [e.target for e in told if e.operation == "forget"] == [e.target for e in entries]
    hidden = [e.target["seqs"] for e in told if e.operation == "hide"]
    assert hidden == [[[n, n]] for n in range(len(HOURS))]
    for hours in (-2, 0, 2):
        span = around(clock.now() + timedelta(hours=hours))
        assert len(store.audit(operation="forget", timeframe=span)) == 2
        assert store.deletion_report(span).forgotten == 2
    for memory in memories:
        store.undo_forget(memory.id)
        assert store.get(memory.id).status == "active"
    assert store.verify().ok


def test_what_was_said_is_reflected_once(tmp_path: Path, clock: JumpingClock) -> None:
    with nf.testing.store(tmp_path / "s", clock=clock, reflect_every_turns=1) as store:
        chat = store.session("chat")
        for number, clock.hours in enumerate(HOURS):
            chat.append("user", f"My parcel number {number} goes to Oslo.")
            store.settle(timeout=PATIENCE_S)
            assert chat.info().consolidated_through == number + 1
        facts = [memory.text for memory in store.memories()]
        assert len(facts) == len(set(facts)) == len(HOURS)
