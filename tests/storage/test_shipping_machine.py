"""The state machine of shipping, rule by rule. Whole worlds: ``test_shipping_simulated``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from neverforget.storage.shipping_asking import ShippingOptions
from neverforget.storage.shipping_events import (
    Action,
    Apply,
    Bad,
    Compare,
    Compared,
    Done,
    Durable,
    Event,
    Failed,
    Fetch,
    Fetched,
    HeaderRead,
    Level,
    Look,
    Looked,
    Persisted,
    PersistEpoch,
    Put,
    PutAnswered,
    ReadHeader,
    ReadRun,
    RunRead,
    Serve,
    SetAside,
    Shipped,
    Stop,
    Tick,
    Wanted,
)
from neverforget.storage.shipping_finding import Galloping
from neverforget.storage.shipping_machine import Shipping
from neverforget.storage.shipping_object import (
    Author,
    Run,
    decode_header,
    encode_fence,
    encode_run,
)
from neverforget.storage.shipping_start import LocalLog

MIB = 1 << 20
SECOND = 1_000_000
ME = Author(bytes(16), 7, 100, 1)
OTHER = Author(bytes(16), 7, 200, 2)


def run_of(start: int, stop: int) -> Run:
    return Run(0, 1 << 40, 0, start, stop, start ^ stop, bytes(stop - start))


class Played:
    """The machine before a store that is a dict, and a log whose answers are told. ``step`` answers
    one open question truly; ``said`` holds every notice.
    """

    def __init__(
        self,
        local: LocalLog,
        options: ShippingOptions | None = None,
        takes_over: bool = True,
        me: Author = ME,
    ) -> None:
        self.objects: dict[int, bytes] = {}
        self.now_us = 0
        self.epoch = 1
        self.said: list[Action] = []
        self.asked: list[Action] = []
        self.same_until: Callable[[int, int], tuple[int, bool]] = lambda start, stop: (start, False)
        self.machine = Shipping(me, local._replace(takes_over=takes_over), options)

    def begin(self) -> Played:
        self.take(self.machine.begin(self.now_us))
        return self

    def take(self, actions: list[Action]) -> list[Action]:
        notices = [a for a in actions if isinstance(a, Serve | Shipped | Stop)]
        self.said += notices
        self.asked += [a for a in actions if a not in notices]
        return actions

    def tell(self, event: Event) -> list[Action]:
        return self.take(self.machine.handle(event, self.now_us))

    def step(self) -> Action:
        """Answer the open question."""
        question = self.machine.asked
        assert question is not None, "nothing is asked"
        call = question.call
        match question:
            case Look(_, number):
                self.tell(Looked(call, number in self.objects))
            case ReadHeader(_, number):
                self.tell(HeaderRead(call, decode_header(self.objects[number])))
            case PersistEpoch(_, at_least):
                self.epoch = max(self.epoch, at_least) + 1
                self.tell(Persisted(call, self.epoch))
            case Put(_, number, data):
                self.tell(PutAnswered(call, self.objects.setdefault(number, data) is data))
            case Compare(_, header, position):
                self.tell(Compared(call, self.same_until(position, header.stop)[0] == header.stop))
            case Fetch(_, number, position):
                header = decode_header(self.objects[number])
                start = max(position, header.start)
                self.tell(Fetched(call, header, *self.same_until(start, header.stop)))
            case SetAside() | Apply():
                self.tell(Done(call))
            case ReadRun(_, start, limit, bytes_max):
                start = max(start, 64)
                self.tell(RunRead(call, run_of(start, min(limit, start + bytes_max))))
        return question

    def until(self, kind: type[Action]) -> Played:
        while not isinstance(self.machine.asked, kind):
            self.step()
        return self

    def settle(self) -> Played:
        while self.machine.asked is not None:
            self.step()
        return self

    def steps(self) -> list[str]:
        return [type(action).__name__ for action in self.asked]


def same_below(tail: int, start: int, stop: int) -> tuple[int, bool]:
    """A log that ends at ``tail``, and agrees."""
    return min(stop, max(start, tail)), False


def put_before(played: Played, *stops: int, epoch: int = 5) -> None:
    """What another owner has put: a fence, then a run up to each of these positions."""
    played.objects[1] = encode_fence(OTHER, 1, epoch, 0)
    start = 64
    for number, stop in enumerate(stops, 2):
        played.objects[number] = encode_run(OTHER, number, epoch, run_of(start, stop))
        start = stop


def serving(tail: int = 64 + MIB, options: ShippingOptions | None = None) -> Played:
    """Alone, everything shipped."""
    played = Played(LocalLog(tail), options).begin().settle()
    played.now_us = 2 * SECOND
    played.tell(Tick())
    played.settle()
    assert played.machine.shipped == tail and played.machine.level == Level.EVERYTHING
    played.said.clear()
    played.asked.clear()
    return played


# ---- finding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [0, 1, 5, 63])
def test_the_last_number_is_found_by_few_looks(known: int) -> None:
    for last in [*range(known, known + 70), known + 1_000_000]:
        galloping, looks = Galloping(known), 0
        while (number := galloping.next) is not None:
            looks += 1
            galloping.answer(number <= last)
        assert galloping.last == last
        assert looks <= 2 * (last - known + 1).bit_length()


def test_numbers_that_come_while_one_looks_are_taken_or_not() -> None:
    galloping, last = Galloping(0), 10
    while (number := galloping.next) is not None:
        galloping.answer(number <= last)
        last += 1
    assert 10 <= galloping.last <= last


# ---- the start -----------------------------------------------------------------------------------


def test_the_first_owner_ever_puts_a_fence_and_ships_what_it_has() -> None:
    played = Played(LocalLog(1_000)).begin().settle()
    assert played.steps() == ["Look", "PersistEpoch", "Put"]
    assert played.said == [Serve(Level.EVERYTHING, "owner of epoch 2"), Shipped(0, 1)]
    played.now_us = SECOND
    played.tell(Tick())
    played.settle()
    assert played.said[-1] == Shipped(1_000, 2)
    assert [decode_header(played.objects[n]).kind for n in (1, 2)] == [2, 1]


def test_an_empty_log_takes_everything_over_before_it_serves() -> None:
    played = Played(LocalLog(0))
    put_before(played, 500, 900)
    played.begin().settle()
    assert [a for a in played.asked if isinstance(a, Apply)] == [
        Apply(a.call, number, start)
        for a, number, start in zip(
            [a for a in played.asked if isinstance(a, Apply)], (2, 3), (64, 500)
        )
    ]
    assert played.said == [Serve(Level.EVERYTHING, "owner of epoch 6"), Shipped(900, 4)]
    assert decode_header(played.objects[4])[6:8] == (6, 2), "its fence, behind what there was"


def test_an_owner_comes_back_where_it_was_and_nowhere_else_unless_told() -> None:
    """The machine that a failover left came back with its old disk, started its owner as ever, and
    took the log away from the one that served.
    """
    for author, takes_over, serves in (
        (ME, False, True),
        (OTHER, False, False),
        (OTHER, True, True),
    ):
        played = Played(LocalLog(0), takes_over=takes_over)
        played.objects[1] = encode_fence(author._replace(owner=5), 1, 5, 0)
        played.begin().settle()
        assert (played.machine.level == Level.EVERYTHING) == serves
        assert (2 in played.objects) == serves
        if not serves:
            (stop,) = played.said
            assert isinstance(stop, Stop) and stop.why == "fenced" and "failover" in stop.reason


@pytest.mark.parametrize(("last", "mine", "serves"), [(0, 1, True), (1, 1, False), (2, 1, False)])
def test_a_term_takes_the_log_over_from_those_before_it_and_from_none_after(
    last: int, mine: int, serves: bool
) -> None:
    """A place was told to serve, hung before it put its fence, and another one was told then. When
    the first one woke up it took the log away from the second, which had acknowledged by then.
    """
    played = Played(LocalLog(0), takes_over=False, me=ME._replace(term=mine))
    played.objects[1] = encode_fence(OTHER._replace(term=last), 1, 5, 0)
    played.begin().settle()
    assert (played.machine.level == Level.EVERYTHING) == serves
    assert played.objects.keys() == ({1, 2} if serves else {1})
    if serves:
        assert decode_header(played.objects[2]).term == mine


def test_a_fence_that_another_term_was_faster_with_is_not_put_behind_it() -> None:
    played = Played(LocalLog(0), takes_over=False, me=ME._replace(term=1))
    played.objects[1] = encode_fence(OTHER, 1, 5, 0)
    played.begin().until(Put)
    played.objects[2] = encode_fence(OTHER._replace(place=3, owner=9, term=2), 2, 6, 0)
    played.settle()
    assert played.machine.stopped is not None and played.machine.stopped.why == "fenced"
    assert played.objects.keys() == {1, 2}


def test_whoever_takes_over_without_a_term_keeps_that_of_the_log() -> None:
    """A restored store: those that were told in that term before must not take it back."""
    for author, takes_over in ((OTHER, True), (ME, False)):
        played = Played(LocalLog(0), takes_over=takes_over)
        played.objects[1] = encode_fence(author._replace(owner=5, term=4), 1, 5, 0)
        played.begin().settle()
        played.tell(Durable(300))
        played.tell(Wanted(300))
        played.settle()
        assert [decode_header(played.objects[n]).term for n in (2, 3)] == [4, 4]


def test_what_is_known_to_be_shipped_is_not_looked_at_again_but_for_its_last_run() -> None:
    played = Played(LocalLog(900, shipped=900, number=3))
    put_before(played, 500, 900)
    played.same_until = lambda start, stop: (stop, False)
    played.begin().settle()
    start = ["Look", "Look", "ReadHeader", "PersistEpoch", "Put"]
    assert played.steps() == [*start, "ReadHeader", "Compare"]
    assert played.said[0] == Serve(Level.EVERYTHING, "owner of epoch 6")


def test_a_mark_that_is_another_logs_is_found_out() -> None:
    """It was copied from a disk that had gone further: what stood here in the place of records that
    objects hold was served for them, and theirs were lost.
    """
    played = Played(LocalLog(1_000, shipped=900, number=4))
    put_before(played, 300, 500, 900)
    played.same_until = lambda start, stop: (stop, False) if stop <= 300 else (start, stop == 500)
    played.begin().settle()
    changes = [(type(a), a.position) for a in played.asked if isinstance(a, SetAside | Apply)]
    assert changes == [(SetAside, 300), (Apply, 300), (Apply, 500)]
    assert played.machine.shipped == 900


def test_a_fence_whose_number_is_taken_is_put_further_on_with_a_higher_epoch() -> None:
    played = Played(LocalLog(0))
    put_before(played)
    played.begin().until(Put)
    played.objects[2] = encode_fence(OTHER, 2, 40, 0)
    played.settle()
    assert decode_header(played.objects[3]).first_put[0] == ME.owner
    assert decode_header(played.objects[3]).epoch == 41 == played.machine.epoch


def test_a_fence_whose_answer_was_lost_is_known_again() -> None:
    played = Played(LocalLog(0)).begin().until(Put)
    question = played.machine.asked
    assert isinstance(question, Put)
    played.objects[1] = question.data
    played.tell(Failed(question.call, "timed out"))
    played.now_us += SECOND
    played.tell(Tick())
    played.settle()
    assert played.machine.level == Level.EVERYTHING and played.objects.keys() == {1}


def test_records_that_another_log_has_in_their_place_are_set_aside_first() -> None:
    played = Played(LocalLog(700))
    put_before(played, 500, 900)
    played.same_until = lambda start, stop: (stop, False) if stop <= 500 else (500, start < 700)
    played.begin().settle()
    assert played.steps()[-5:] == ["ReadHeader", "Compare", "Fetch", "SetAside", "Apply"]
    assert [a.position for a in played.asked if isinstance(a, SetAside | Apply)] == [500, 500]


def test_where_logs_part_in_front_of_a_run_it_is_applied_from_its_start() -> None:
    """One batch still fitted into the segment here, and did not there. The cut is where the run
    before ended; the run was once written from there too, and its first records were lost.
    """
    played = Played(LocalLog(700))
    put_before(played, 500)
    played.objects[3] = encode_run(OTHER, 3, 5, run_of(4_160, 4_900))
    played.same_until = lambda start, stop: (stop, False) if stop <= 500 else (500, True)
    played.begin().settle()
    assert [(type(a), a.position) for a in played.asked if isinstance(a, SetAside | Apply)] == [
        (SetAside, 500),
        (Apply, 4_160),
    ]


def test_damage_is_mended_from_the_objects_and_nothing_set_aside() -> None:
    played = Played(LocalLog(900))
    put_before(played, 500, 900)
    played.same_until = lambda start, stop: (300, False) if stop == 500 else (stop, False)
    played.begin().settle()
    assert [a.position for a in played.asked if isinstance(a, SetAside | Apply)] == [300]
    assert played.machine.shipped == 900


def test_an_end_that_was_lost_is_taken_over_from_the_object_that_holds_it() -> None:
    """Rot in the very last group passes for a torn tail; the objects have what the log had."""
    stops = [100 * n for n in range(2, 20)]
    for tail in (64, 450, 1_899, 1_900):
        played = Played(LocalLog(tail, shipped=1_900, number=19))
        put_before(played, *stops)
        played.same_until = partial(same_below, tail)
        played.begin().settle()
        applied = [a for a in played.asked if isinstance(a, Apply)]
        assert len(applied) == sum(stop > tail for stop in stops)
        assert played.machine.shipped == 1_900


@pytest.mark.parametrize(
    ("objects", "word"),
    [
        ({}, "is not there"),
        ({3: encode_fence(ME._replace(store=b"x" * 16), 3, 5, 900)}, "of store"),
        ({3: encode_fence(ME._replace(log_id=8), 3, 5, 900)}, "of log"),
        ({3: encode_fence(OTHER, 2, 5, 900)}, "object 2"),
    ],
)
def test_the_objects_of_something_else_are_refused(objects: dict[int, bytes], word: str) -> None:
    played = Played(LocalLog(900, shipped=900, number=3))
    played.objects.update(objects)
    played.begin().settle()
    (stop,) = played.said
    assert isinstance(stop, Stop) and stop.why == "refused" and word in stop.reason
    assert played.machine.wake_at_us is None and played.tell(Durable(99)) == []


def test_an_empty_store_is_no_fresh_start_for_a_log_that_was_shipped() -> None:
    """A new disk in place of a lost one, and the wrong bucket: it would begin a second history."""
    played = Played(LocalLog(0, expects=True)).begin().settle()
    (stop,) = played.said
    assert isinstance(stop, Stop) and stop.why == "refused" and not played.objects


def test_an_object_that_cannot_be_read_is_refused() -> None:
    played = Played(LocalLog(0))
    put_before(played, 500)
    played.begin().until(Fetch)
    question = played.machine.asked
    assert question is not None
    played.tell(Bad(question.call, "object 2 fails its CRC"))
    assert played.said == [Stop("refused", "object 2 fails its CRC")]


# ---- a store that does not answer ----------------------------------------------------------------


def fail_for(played: Played, duration_us: int) -> None:
    end_us = played.now_us + duration_us
    while True:
        question = played.machine.asked
        assert question is not None
        played.tell(Failed(question.call, "no route"))
        wake_us = played.machine.wake_at_us
        assert wake_us is not None
        if wake_us > end_us:
            return
        played.now_us = wake_us
        played.tell(Tick())


def test_without_its_store_a_starting_owner_reads_and_starts_again_for_what_it_lacks() -> None:
    played = Played(LocalLog(400))
    put_before(played, 500)
    played.begin()
    fail_for(played, 4 * SECOND)
    assert played.machine.level == Level.NOTHING
    fail_for(played, 8 * SECOND)
    (serve,) = played.said
    assert isinstance(serve, Serve) and serve.level == Level.READS and "no route" in serve.reason
    assert not played.machine.may_append(played.now_us)
    played.now_us += 10 * SECOND
    played.tell(Tick())
    played.settle()
    assert isinstance(played.said[-1], Stop) and played.said[-1].why == "restart"
    assert not [a for a in played.asked if isinstance(a, SetAside | Apply)]


def test_so_configured_it_writes_and_is_fenced_in_later() -> None:
    options = ShippingOptions(write_without_store=True, lag_bytes_max=5_000)
    played = Played(LocalLog(400), options).begin()
    fail_for(played, 8 * SECOND)
    played.tell(Durable(400 + 10_000))
    assert played.machine.may_append(played.now_us), "its lag has no bound meanwhile"
    played.now_us += 10 * SECOND
    played.tell(Tick())
    played.settle()
    assert [said.level for said in played.said if isinstance(said, Serve)] == [
        Level.UNFENCED,
        Level.EVERYTHING,
    ]


def test_what_was_set_aside_counts_as_durable_no_longer() -> None:
    """The log was cut, the store went away, the owner wrote without it; when the store was back, it
    shipped up to where the log had ended before the cut: records that were not synced yet.
    """
    played = Played(LocalLog(1_000), ShippingOptions(write_without_store=True))
    put_before(played, 500)
    played.objects[3] = encode_fence(OTHER, 3, 6, 500)
    played.same_until = lambda start, stop: (start, True)
    played.begin().until(Apply)
    played.until(Fetch)
    fail_for(played, 8 * SECOND)
    played.now_us += 10 * SECOND
    played.tell(Tick())
    played.settle()
    levels = [said.level for said in played.said if isinstance(said, Serve)]
    assert levels == [Level.UNFENCED, Level.EVERYTHING] and played.machine.shipped == 500
    assert played.machine.lag_bytes == 0 and played.tell(Wanted(700)) == []


def test_it_does_not_write_where_objects_are_known_to_hold_more() -> None:
    """Its records would stand where they hold others, and the next start, which trusts what it
    knows, would not notice.
    """
    options = ShippingOptions(write_without_store=True)
    played = Played(LocalLog(400, shipped=500, number=2), options).begin()
    fail_for(played, 8 * SECOND)
    assert played.machine.level == Level.READS


def test_nor_where_it_has_seen_that_they_do() -> None:
    played = Played(LocalLog(0), ShippingOptions(write_without_store=True))
    put_before(played, 500, 900)
    played.begin().until(Apply)
    played.until(Fetch)
    fail_for(played, 8 * SECOND)
    assert played.machine.level == Level.READS


def test_the_waits_between_tries_double_up_to_a_bound() -> None:
    played = Played(LocalLog(0)).begin()
    waits = []
    for _ in range(10):
        question = played.machine.asked
        assert question is not None
        played.tell(Failed(question.call, "no"))
        wake_us = played.machine._retry_at_us
        assert wake_us is not None
        waits.append((wake_us - played.now_us) / 1e5)
        played.now_us = wake_us
        played.tell(Tick())
    assert waits == [1, 2, 4, 8, 16, 32, 50, 50, 50, 50]


# ---- shipping ------------------------------------------------------------------------------------


def test_a_run_is_put_for_its_size_its_age_or_somebody_who_waits() -> None:
    played = serving()
    tail = played.machine.shipped
    assert played.tell(Durable(tail + 100)) == []
    assert played.machine.wake_at_us == played.now_us + SECOND
    played.now_us += SECOND - 1
    assert played.tell(Tick()) == []
    played.now_us += 1
    assert isinstance(played.tell(Tick())[0], ReadRun)
    played.settle()

    assert played.tell(Durable(tail + 100 + MIB - 8)) == []
    assert isinstance(played.tell(Durable(tail + 100 + MIB))[0], ReadRun)
    played.settle()

    end = tail + 200 + MIB
    assert played.tell(Wanted(end)) == [], "what is not durable is not shipped"
    assert isinstance(played.tell(Durable(end))[0], ReadRun)
    played.settle()
    assert played.said[-1] == Shipped(end, played.machine.number)
    assert played.tell(Wanted(end)) == []


def test_runs_go_in_order_one_at_a_time() -> None:
    played = serving(options=ShippingOptions(run_bytes_max=1_000))
    tail, number = played.machine.shipped, played.machine.number
    played.tell(Durable(tail + 2_500))
    played.tell(Wanted(tail + 2_500))
    assert played.steps() == ["ReadRun"]
    played.settle()
    assert played.steps() == ["ReadRun", "Put"] * 3
    assert played.said == [
        Shipped(tail + done, number + n) for n, done in enumerate((1_000, 2_000, 2_500), 1)
    ]


def test_a_put_that_may_have_been_carried_out_is_repeated_as_it_was() -> None:
    played = serving()
    played.tell(Durable(played.machine.shipped + 500))
    played.tell(Wanted(played.machine.shipped + 500))
    played.until(Put)
    first = played.machine.asked
    assert isinstance(first, Put)
    played.objects[first.number] = first.data
    played.tell(Failed(first.call, "timed out"))
    played.tell(Durable(played.machine.shipped + 9_000))
    assert played.tell(PutAnswered(first.call, True)) == [], "late: nobody waits for it any more"
    played.now_us += SECOND
    (again,) = [a for a in played.tell(Tick()) if isinstance(a, Put)]
    assert (again.number, again.data) == (first.number, first.data) and again.call != first.call
    played.step()  # "exists"
    played.step()  # its header is our own
    assert played.said[-1] == Shipped(decode_header(first.data).stop, first.number)


@pytest.mark.parametrize("owner", ["another", "its own, of other bytes"])
def test_a_number_that_is_taken_fences(owner: str) -> None:
    played = serving()
    start = played.machine.shipped
    played.tell(Durable(start + 500))
    played.tell(Wanted(start + 500))
    played.until(Put)
    number = played.machine.number + 1
    played.objects[number] = (
        encode_fence(OTHER, number, 9, start)
        if owner == "another"
        else encode_run(ME, number, 2, run_of(start, start + 400))
    )
    played.settle()
    (stop,) = played.said
    assert isinstance(stop, Stop) and stop.why == "fenced"
    assert played.machine.level == Level.NOTHING and not played.machine.may_append(played.now_us)
    assert played.tell(Durable(start + 9_000)) == [] and played.machine.wake_at_us is None


def test_beyond_its_bound_the_lag_makes_appends_wait() -> None:
    options = ShippingOptions(lag_bytes_max=10_000, lag_us_max=5 * SECOND)
    played = serving(options=options)
    start = played.machine.shipped
    played.tell(Durable(start + 9_999))
    assert played.machine.may_append(played.now_us) and played.machine.lag_bytes == 9_999
    assert not played.machine.may_append(played.now_us + 5 * SECOND)
    played.tell(Durable(start + 10_000))
    assert not played.machine.may_append(played.now_us)
    played.tell(Wanted(start + 10_000))
    played.settle()
    assert played.machine.may_append(played.now_us) and played.machine.lag_bytes == 0


def test_where_nothing_stands_below_the_mark_nothing_is_put() -> None:
    """A segment that was made and never written to."""
    played = serving()
    end = played.machine.shipped + 4_096
    played.tell(Durable(end))
    played.tell(Wanted(end))
    question = played.machine.asked
    assert isinstance(question, ReadRun)
    played.tell(RunRead(question.call, None))
    assert played.machine.asked is None and played.machine.lag_bytes == 0
