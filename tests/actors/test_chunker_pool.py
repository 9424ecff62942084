"""The chunker pool: it grows with what there is to do, shrinks to nothing, and outlives members."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from neverforget.actors.chunker_local import LocalChunkers
from neverforget.actors.chunker_pool import IDLE_S, START_S, ChunkerPool, Done
from neverforget.actors.chunker_spec import Chunked, Document
from neverforget.storage.errors import NeverforgetError, Unavailable
from tests.actors.chunkers import Scripted, whole
from tests.actors.regions import PATIENCE_S, ManualClock

TEXTS = [Document("one"), Document("two")]


class Bench:
    """A pool, and what is known of it. ``spawn`` may be changed."""

    def __init__(self, most: int = 3) -> None:
        self.clock = ManualClock()
        self.told = threading.Semaphore(0)
        self.members: list[Scripted] = []
        self.spawn: Callable[[], Scripted] = Scripted
        self.pool: ChunkerPool[str] = ChunkerPool(
            self._spawn, most, self.clock.monotonic, self.told.release
        )

    def _spawn(self) -> Scripted:
        member = self.spawn()
        self.members.append(member)
        return member

    def until(self, condition: Callable[[], bool], wanted: int) -> list[Done[str]]:
        done = self.pool.tend(wanted)
        while not condition():
            assert self.told.acquire(timeout=PATIENCE_S)
            done += self.pool.tend(wanted)
        return done

    def ready(self, wanted: int = 1) -> None:
        self.until(lambda: sum(s.ready for s in self.pool._seats) == wanted, wanted)

    def wait(self, wanted: int = 0) -> Done[str]:
        """For the next that is done."""
        done = self.pool.tend(wanted)
        while not done:
            assert self.told.acquire(timeout=PATIENCE_S)
            done = self.pool.tend(wanted)
        (one,) = done
        return one


@pytest.fixture
def bench() -> Iterator[Bench]:
    one = Bench()
    yield one
    one.pool.close()


def test_there_is_nobody_where_nothing_is_to_be_done(bench: Bench) -> None:
    assert bench.pool.tend(0) == [] and len(bench.pool) == 0
    assert bench.pool.deadline() is None and not bench.pool.free


def test_it_grows_with_the_work_up_to_its_bound_and_shrinks_to_nothing(bench: Bench) -> None:
    bench.ready(2)
    bench.ready(3)
    bench.pool.tend(50)
    assert len(bench.pool) == 3
    assert bench.pool.deadline() == bench.clock.now + IDLE_S
    bench.clock.now += IDLE_S
    bench.pool.tend(0)
    assert len(bench.pool) == 0
    assert all(member.ended.is_set() for member in bench.members)


def test_who_has_worked_is_idle_from_then_on(bench: Bench) -> None:
    bench.ready()
    bench.clock.now += IDLE_S - 1
    bench.pool.give("batch", TEXTS, 120)
    assert not bench.pool.free
    done = bench.wait()
    assert done.work == "batch" and isinstance(done.outcome, list) and len(done.outcome) == 2
    assert bench.pool.free
    bench.clock.now += IDLE_S - 1
    assert bench.pool.tend(0) == [] and len(bench.pool) == 1


def test_a_member_that_dies_takes_its_batch_with_it_and_another_comes(bench: Bench) -> None:
    def die(documents: Sequence[Document]) -> None:
        raise Unavailable("killed", outcome="not_applied")

    bench.spawn = lambda: Scripted(die)
    bench.ready()
    bench.pool.give("batch", TEXTS, 120)
    done = bench.wait()
    assert done.work == "batch" and isinstance(done.outcome, NeverforgetError)
    assert len(bench.pool) == 0 and bench.members[0].ended.is_set()
    assert bench.pool.error is None  # the documents may be to blame, not the pool
    bench.spawn = Scripted
    bench.ready()
    bench.pool.give("again", TEXTS, 120)
    assert isinstance(bench.wait().outcome, list)


def test_a_mistake_of_ours_in_a_member_is_told_as_one(bench: Bench) -> None:
    def slip(documents: Sequence[Document]) -> None:
        raise KeyError("slip")

    bench.spawn = lambda: Scripted(slip)
    bench.ready()
    bench.pool.give("batch", TEXTS, 120)
    outcome = bench.wait().outcome
    assert isinstance(outcome, NeverforgetError) and "internal error" in outcome.message


def test_a_member_that_takes_too_long_is_ended_and_its_late_answer_dropped(bench: Bench) -> None:
    go = threading.Event()
    bench.spawn = lambda: Scripted(lambda documents: (go.wait(), None)[1])
    bench.ready()
    (seat,) = bench.pool._seats
    bench.pool.give("batch", TEXTS, 120)
    assert bench.pool.deadline() == bench.clock.now + 120
    bench.clock.now += 120
    (done,) = bench.pool.tend(0)
    assert isinstance(done.outcome, Unavailable) and "longer than 120 s" in done.outcome.message
    assert len(bench.pool) == 0 and bench.members[0].ended.is_set()
    go.set()
    seat.thread.join(PATIENCE_S)
    assert not seat.thread.is_alive()
    assert bench.pool.tend(0) == []


def test_where_no_member_comes_up_the_pool_waits_longer_each_time(bench: Bench) -> None:
    def never() -> Scripted:
        raise Unavailable("no room", outcome="not_applied")

    bench.spawn = never
    pauses = []
    for _ in range(8):
        bench.until(lambda: len(bench.pool) == 0, 1)
        assert bench.pool.error == "no chunker comes up: no room"
        due = bench.pool.deadline()
        assert due is not None and bench.pool.tend(3) == [] and len(bench.pool) == 0
        pauses.append(due - bench.clock.now)
        bench.clock.now = due
        bench.pool.tend(1)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    bench.until(lambda: len(bench.pool) == 0, 0)
    bench.spawn = Scripted
    bench.clock.now += 60
    bench.ready()
    assert bench.pool.error is None


def test_a_member_that_is_not_there_in_time_is_given_up(bench: Bench) -> None:
    go = threading.Event()

    class Slow(Scripted):
        def ready(self) -> None:
            go.wait()

    bench.spawn = Slow
    bench.pool.tend(1)
    bench.clock.now += START_S
    bench.pool.tend(0)
    assert len(bench.pool) == 0 and "no chunker comes up" in str(bench.pool.error)
    go.set()


def test_one_thread_of_this_process_cuts_one_text_after_the_other() -> None:
    class Local:
        def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
            assert len(documents) == 1
            return whole(documents)

    make = LocalChunkers(Local)  # type: ignore[arg-type]
    member = make()
    member.ready()
    assert member.chunk(TEXTS) == whole(TEXTS)
    member.end()
    with pytest.raises(Unavailable):
        member.chunk(TEXTS)
    assert not make().ended


def test_while_a_text_hangs_no_other_thread_of_this_process_is_begun() -> None:
    begun, go = threading.Event(), threading.Event()

    class Hanging:
        def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
            begun.set()
            go.wait()
            return whole(documents)

    make = LocalChunkers(Hanging)  # type: ignore[arg-type]
    told = threading.Semaphore(0)
    clock = ManualClock()
    pool: ChunkerPool[str] = ChunkerPool(make, 2, clock.monotonic, told.release)
    try:
        pool.tend(1)
        assert told.acquire(timeout=PATIENCE_S)
        pool.tend(1)
        pool.give("batch", TEXTS, 120)
        assert begun.wait(PATIENCE_S)
        clock.now += 120
        assert len(pool.tend(1)) == 1  # and another is started
        assert told.acquire(timeout=PATIENCE_S)
        pool.tend(0)
        assert "hangs in a text" in str(pool.error)
    finally:
        go.set()
        pool.close()
