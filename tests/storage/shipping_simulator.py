"""A small world in which owners ship their logs, everything in it drawn from one seed.

Disks that are lost, that lose what was not synced, or the very last group to rot; owners that
crash between any two steps, that are paused and wake up as zombies, and of which several serve at
once; an object store that loses, repeats, delays and reorders what is sent and what it answers. The
product's own state machine runs in it; the rest here is what an owner must do around it, as small
as possible.

What is checked, always or at the end:

* of objects: no number twice, no hole, each begins where the one before it ended, epochs grow;
* of "replica": no two owners ever acknowledge different records for one position, whoever serves
  holds all that was acknowledged, and whoever serves last holds it once and in order;
* of "disk": after any crash what a disk acknowledged stands in its log or is set aside, and once
  every disk that is left has come back, it stands exactly once in the log. A disk comes back with
  an owner of its own, or what it holds is told to the owner that serves, which may die meanwhile.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from crc32c import crc32c

from neverforget.storage.object_store import ObjectStore
from neverforget.storage.shipping_asking import ShippingOptions
from neverforget.storage.shipping_calls import Got, carry_out
from neverforget.storage.shipping_events import (
    Action,
    Answer,
    Apply,
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
    LocalQuestion,
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
    StoreQuestion,
    Tick,
    Wanted,
)
from neverforget.storage.shipping_object import Author, Run, decode_header, decode_object
from neverforget.storage.shipping_start import LocalLog
from tests.storage import shipping_salvaged as lost
from tests.storage.shipping_disk import (
    FIRST,
    RECORD_BYTES,
    Disk,
    Record,
    Violation,
    check_put,
    end_of,
    packed,
    place_of,
    unpacked,
)

STORE = bytes(16)
LOG_ID = 7
SEGMENT_BYTES = 1 << 30
PREFIX = "store/partition-0/"
Sync = Literal["disk", "replica"]


@dataclass(slots=True, eq=False)
class Flying:
    """A request on its way, or its answer on the way back."""

    owner: Owner
    question: StoreQuestion
    answer: Answer | None = None


class Owner:
    """A process with a disk. ``waiting``: (ident, end, sync) of appends without an answer."""

    def __init__(self, world: World, disk: Disk, options: ShippingOptions) -> None:
        disk.epoch += 1
        disk.durable = disk.group_at = len(disk.records)
        self.world = world
        self.disk = disk
        self.level = Level.NOTHING
        self.epoch = disk.epoch
        self.paused = False
        self.stopped: str | None = None
        self.local: deque[LocalQuestion] = deque()
        self.waiting: list[tuple[int, int, Sync]] = []
        self.places: dict[int, int] = {r.ident: i for i, r in enumerate(disk.records)}
        author = Author(STORE, LOG_ID, world.random.getrandbits(64), disk.name)
        local = LocalLog(end_of(disk.durable), *disk.known, takes_over=True)
        self.machine = world.rules.machine(author, local, options)
        self.take(self.machine.begin(world.now_us))

    def tell(self, event: Event) -> None:
        self.take(self.machine.handle(event, self.world.now_us))
        if self.machine.shipped > end_of(self.disk.durable) and self.level > Level.NOTHING:
            raise Violation("more is shipped than is durable")

    def take(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Serve(level, _):
                    self.serve(level)
                case Shipped(position, number):
                    self.shipped(position, number)
                case Stop(why, reason):
                    self.level, self.stopped = Level.NOTHING, why
                    self.waiting.clear()
                    if why == "refused":
                        raise Violation(f"refused: {reason}")
                case Look() | ReadHeader() | Put() | Fetch():
                    self.world.flying.append(Flying(self, action))
                case _:
                    self.local.append(action)

    # ---- what it promises ------------------------------------------------------------------------

    def serve(self, level: Level) -> None:
        self.level = level
        self.places = {r.ident: i for i, r in enumerate(self.disk.records)}
        if level == Level.EVERYTHING:
            self.epoch = self.machine.epoch
            self.world.check_holds(self.disk, self.epoch)
            self.salvage()
        else:
            self.disk.check()

    def salvage(self) -> None:
        for place, record in list(self.disk.aside):
            self.bring_back(place, record)

    def bring_back(self, place: int, record: Record) -> None:
        """What stood at ``place`` of a log that was lost, unless it is here by now: known by its
        request, or by where it stood at first.
        """
        rules = self.world.rules
        origin = lost.origin_of(place, record, rules)
        known = record.ident in self.places
        if lost.is_anonymous(record.ident):
            known = origin in lost.where_at_first(self.disk, record.ident)
        if (not known or rules.salvages_twice) and not rules.salvages_nothing:
            self.write(Record(record.ident, self.epoch, *origin))

    def shipped(self, position: int, number: int) -> None:
        disk, world = self.disk, self.world
        if world.random.random() < 0.7:
            disk.known = (position, number)
        kept = []
        for ident, end, sync in self.waiting:
            if sync == "replica" and end <= position:
                world.acknowledge_replica(self, ident, end)
            else:
                kept.append((ident, end, sync))
        self.waiting = kept
        if world.rules.removes_objects:
            for old in [n for n in world.objects if n < number - 2]:
                del world.objects[old]
        shipped = {r.ident for r in disk.records[: place_of(position)]}
        disk.aside = [(p, r) for p, r in disk.aside if r.ident not in shipped]

    # ---- what it does ----------------------------------------------------------------------------

    def write(self, record: Record) -> None:
        self.places[record.ident] = len(self.disk.records)
        self.disk.records.append(record)
        if self.world.rules.ships_what_is_written:
            self.tell(Durable(end_of(len(self.disk.records))))

    def append(self, ident: int, sync: Sync) -> None:
        """New, or a repeat: then it waits for the record that is there."""
        if not self.machine.may_append(self.world.now_us):
            return
        if sync == "replica" and self.level != Level.EVERYTHING:
            return
        if ident not in self.places:
            self.write(Record(ident, self.epoch))
        end = end_of(self.places[ident] + 1)
        self.waiting.append((ident, end, sync))
        if sync == "replica":
            self.tell(Wanted(end))
            if self.stopped is None:
                self.shipped(self.machine.shipped, self.machine.number)

    def sync(self) -> None:
        disk = self.disk
        if self.level < Level.UNFENCED:
            return
        if disk.durable < len(disk.records):
            disk.group_at, disk.durable = disk.durable, len(disk.records)
            self.tell(Durable(end_of(disk.durable)))
        durable = end_of(disk.durable)
        for waiting in [w for w in self.waiting if w[2] == "disk" and w[1] <= durable]:
            self.waiting.remove(waiting)
            disk.acked.add(waiting[0])

    def work(self) -> None:
        """Carry out one question to the local log."""
        question = self.local.popleft()
        match question:
            case PersistEpoch(call, at_least):
                self.disk.epoch = max(self.disk.epoch, at_least) + 1
                self.epoch = self.disk.epoch
                self.tell(Persisted(call, self.epoch))
            case Compare(call, header, position):
                records = self.disk.records[place_of(position) : place_of(header.stop)]
                payload = packed(records)
                same = len(payload) == header.stop - max(position, FIRST)
                self.tell(Compared(call, same and crc32c(payload) == header.heads_crc))
            case SetAside(call, position):
                self.set_aside(place_of(position))
                self.tell(Done(call))
            case Apply(call, _, position):
                self.apply(place_of(position))
                self.tell(Done(call))
            case ReadRun(call, start, limit, bytes_max):
                self.tell(RunRead(call, self.read_run(start, limit, bytes_max)))

    def set_aside(self, place: int) -> None:
        disk = self.disk
        disk.aside += [(i, r) for i, r in enumerate(disk.records[place:], place)]
        self.world.may_crash(self)
        del disk.records[place:]
        disk.durable = min(disk.durable, place)
        disk.group_at = min(disk.group_at, place)

    def apply(self, place: int) -> None:
        disk = self.disk
        skipped = place - place_of(self.fetched_start)
        for at, record in enumerate(self.fetched[skipped:], place):
            self.world.may_crash(self)
            disk.records[at : at + 1] = [record]
        disk.group_at, disk.durable = disk.durable, len(disk.records)

    def read_run(self, start: int, limit: int, bytes_max: int) -> Run | None:
        first = place_of(start)
        last = min(place_of(limit), first + max(1, bytes_max // RECORD_BYTES))
        records = self.disk.records[first:last]
        if not records:
            return None
        payload, start = packed(records), max(start, FIRST)
        stop = start + len(payload)
        return Run(0, SEGMENT_BYTES, 0, start, stop, crc32c(payload), payload)

    def receive(self, question: StoreQuestion, answer: Answer) -> None:
        asked = self.machine.asked
        if isinstance(question, Fetch) and isinstance(answer, Fetched):
            if asked is None or asked.call != answer.call:
                return
            answer = self.compare(question, answer)
        self.tell(answer)

    def compare(self, question: Fetch, answer: Fetched) -> Fetched:
        header, payload = decode_object(self.world.objects[question.number])
        self.fetched, self.fetched_start = unpacked(payload), header.start
        at = max(question.position, header.start)
        while at < header.stop:
            place = place_of(at)
            mine = self.disk.records[place : place + 1]
            if mine != self.fetched[place - place_of(header.start) :][:1]:
                return Fetched(answer.call, header, at, other=bool(mine))
            at += RECORD_BYTES
        return Fetched(answer.call, header, header.stop, other=False)


class Crashed(Exception):
    """Of an owner, in the middle."""


class World:
    """One seed's. ``run`` draws so many steps, then everything heals and all promises are called
    in. ``store``: a real one behind the lossy network, None: a dict.
    """

    def __init__(
        self, seed: int, rules: lost.Rules | None = None, store: ObjectStore | None = None
    ) -> None:
        self.store = store
        self.random = random.Random(seed)
        self.rules = rules or lost.Rules()
        self.now_us = 0
        self.objects: dict[int, bytes] = {}
        self.disks = [Disk(name) for name in range(2)]
        self.owners: list[Owner] = []
        self.flying: list[Flying] = []
        # position -> what was acknowledged there, and the epoch of the first who did
        self.replicated: dict[int, tuple[Record, int]] = {}
        self.replicated_at: dict[int, int] = {}
        self.idents = 0
        self.loss = self.random.choice([0.0, 0.05, 0.3])
        self.calm = False
        self.options = ShippingOptions(
            run_bytes=RECORD_BYTES * self.random.choice([1, 4]),
            run_wait_us=1_000,
            run_bytes_max=RECORD_BYTES * self.random.choice([1, 3, 100]),
            lag_bytes_max=RECORD_BYTES * self.random.choice([4, 1000]),
            lag_us_max=100_000,
            retry_us_first=100,
            retry_us_max=2_000,
            unreachable_after_us=3_000,
            write_without_store=self.random.random() < 0.3,
        )

    # ---- the store -------------------------------------------------------------------------------

    def store_answers(self, question: StoreQuestion) -> Answer:
        objects, number, call = self.objects, question.number, question.call
        if self.store is not None:
            return self.real_store_answers(self.store, question)
        match question:
            case Look():
                return Looked(call, number in objects)
            case Put(_, _, data):
                if number in objects:
                    return PutAnswered(call, False)
                check_put(objects, number, data)
                objects[number] = data
                return PutAnswered(call, True)
            case _ if number not in objects:
                raise Violation(f"object {number} was read and is gone")
            case ReadHeader():
                return HeaderRead(call, decode_header(objects[number]))
            case Fetch():
                return Fetched(call, decode_header(objects[number]), 0, False)

    def real_store_answers(self, store: ObjectStore, question: StoreQuestion) -> Answer:
        """The same, of a real one; ``objects`` is what was put into it."""
        answer = carry_out(store, PREFIX, question)
        if isinstance(question, Put) and answer == PutAnswered(question.call, True):
            check_put(self.objects, question.number, question.data)
            self.objects[question.number] = question.data
        if isinstance(answer, Got):
            assert decode_object(self.objects[question.number]) == (answer.header, answer.payload)
            return Fetched(answer.call, answer.header, 0, False)
        return answer

    # ---- promises --------------------------------------------------------------------------------

    def acknowledge_replica(self, owner: Owner, ident: int, end: int) -> None:
        position = end - RECORD_BYTES
        record = owner.disk.records[place_of(position)]
        known, _ = self.replicated.setdefault(position, (record, owner.epoch))
        if record.ident != ident or known != record:
            raise Violation(f"two owners acknowledged other records at {position}")
        if self.replicated_at.setdefault(ident, position) != position:
            raise Violation(f"record {ident} was acknowledged at two positions")
        owner.disk.acked.add(ident)

    def check_holds(self, disk: Disk, epoch: int) -> None:
        """An owner holds all that owners before it acknowledged as "replica", where it was. (Those
        behind it may have begun before it noticed that it is fenced.)
        """
        for position, (record, acknowledged_by) in self.replicated.items():
            at = place_of(position)
            if acknowledged_by < epoch and disk.records[at : at + 1] != [record]:
                raise Violation(f"an owner serves without record {record.ident} at {position}")

    def check_once(self, disk: Disk) -> None:
        self.check_holds(disk, disk.epoch + 1)
        idents = [record.ident for record in disk.records]
        if len(set(idents)) != len(idents):
            raise Violation("a record stands in the log twice")

    # ---- steps -----------------------------------------------------------------------------------

    def run(self, steps: int) -> World:
        wild = self.random.choice([0.1, 0.4, 1.0])  # how much goes wrong, in this seed
        choices: list[tuple[float, Callable[[], None]]] = [
            (14, self.fly), (5, self.append), (4, self.sync), (7, self.work), (3, self.pass_time),
            (0.5, self.start), (0.5 * wild, self.time_out), (0.3 * wild, self.crash),
            (0.2 * wild, self.pause), (0.05 * wild, self.lose_disk),
        ]  # fmt: skip
        weights = [weight for weight, _ in choices]
        for _, step in self.random.choices(choices, weights, k=steps):
            try:
                step()
            except Crashed:
                pass
        self.call_in()
        return self

    def awake(self) -> list[Owner]:
        return [o for o in self.owners if not o.paused and o.stopped is None]

    def some(self) -> Owner | None:
        awake = self.awake()
        return self.random.choice(awake) if awake else None

    def append(self) -> None:
        owner = self.some()
        if owner is None or owner.level < Level.UNFENCED:
            return
        ident = self.random.randint(max(1, self.idents - 8), max(1, self.idents))
        repeats = self.idents > 0 and self.random.random() < 0.3 and not lost.is_anonymous(ident)
        if not repeats:
            self.idents += 1
            ident = self.idents
        owner.append(ident, self.random.choice(["disk", "replica"]))

    def sync(self) -> None:
        owner = self.some()
        if owner is not None:
            owner.sync()

    def work(self) -> None:
        able = [o for o in self.awake() if o.local]
        if able:
            self.random.choice(able).work()

    def fly(self) -> None:
        """Something arrives at the store, or back from it, in any order."""
        able = self.able_to_arrive()
        if not able:
            return
        flying = self.flying
        one = able[0] if self.calm else self.random.choice(able)
        flying.remove(one)
        lost = not self.calm and self.random.random() < self.loss
        if one.answer is None:
            if not self.calm and self.random.random() < 0.05:
                flying.append(Flying(one.owner, one.question))  # twice, the second time later
            if not lost:
                flying.append(Flying(one.owner, one.question, self.store_answers(one.question)))
        elif not lost and one.owner in self.owners and one.owner.stopped is None:
            one.owner.receive(one.question, one.answer)

    def able_to_arrive(self) -> list[Flying]:
        return [f for f in self.flying if f.answer is None or not f.owner.paused]

    def time_out(self) -> None:
        """An owner gives up waiting; what it sent may still arrive."""
        owner = self.some()
        if owner is None or not isinstance(owner.machine.asked, StoreQuestion):
            return
        owner.tell(Failed(owner.machine.asked.call, "timed out"))

    def pass_time(self) -> None:
        self.now_us += self.random.choice([10, 200, 2_000])
        for owner in self.awake():
            owner.tell(Tick())

    def start(self) -> None:
        """An owner on a disk that has none, though another disk's may be alive: a failover."""
        held = [o.disk for o in self.owners if o.stopped is None]
        free = [d for d in self.disks if d not in held]
        if not free or (held and self.random.random() < 0.7):
            return
        disk = self.random.choice(free)
        self.end_owner_of(disk)
        self.owners.append(Owner(self, disk, self.options))

    def crash(self) -> None:
        if self.owners:
            self.kill(self.random.choice(self.owners))

    def kill(self, owner: Owner) -> None:
        """kill -9, or a power cut, in which the last group that was synced may rot as well."""
        disk = owner.disk
        self.end_owner_of(disk)
        if self.random.random() < 0.6:
            disk.check()
            keep = self.random.randint(disk.durable, len(disk.records))
            if self.random.random() < 0.1 and disk.group_at < disk.durable:
                keep = self.random.randint(disk.group_at, disk.durable)
                disk.acked -= {r.ident for r in disk.records[keep:]}
            del disk.records[keep:]
            disk.durable = min(disk.durable, keep)

    def end_owner_of(self, disk: Disk) -> None:
        for owner in [o for o in self.owners if o.disk is disk]:
            self.owners.remove(owner)
            owner.paused, owner.stopped = False, owner.stopped or "dead"

    def may_crash(self, owner: Owner) -> None:
        if not self.calm and self.random.random() < 0.05:
            self.kill(owner)
            raise Crashed

    def pause(self) -> None:
        if self.owners:
            owner = self.random.choice(self.owners)
            owner.paused = not owner.paused

    def lose_disk(self) -> None:
        """With its owner; an empty one comes in its place."""
        at = self.random.randrange(len(self.disks))
        self.end_owner_of(self.disks[at])
        self.disks[at] = Disk(self.disks[at].name + 2)

    # ---- calling in ------------------------------------------------------------------------------

    def call_in(self) -> None:
        """The store answers again: a last owner serves, zombies wake up, all disks come back."""
        self.calm = True
        for owner in self.owners:
            owner.paused = True
        last = Disk(99) if self.random.random() < 0.5 else self.random.choice(self.disks)
        owner = self.settle(last)
        for zombie in self.owners:
            zombie.paused = False
        self.quieten(lambda: not self.flying and not any(o.local for o in self.awake()))
        self.check_once(owner.disk)
        for disk in [d for d in self.disks if d is not last]:
            if self.random.random() < 0.5:
                owner = self.settle(disk)
            else:
                owner = self.told(disk, owner)
        # A zombie may have taken over unnoticed: whoever starts now knows it.
        owner = self.settle(self.random.choice([owner.disk, Disk(100)]))
        self.check_once(owner.disk)
        held = {record.ident for record in owner.disk.records}
        for disk in self.disks:
            disk.check()
            if not disk.acked <= held:
                raise Violation(f"not salvaged of disk {disk.name}: {sorted(disk.acked - held)}")

    def told(self, disk: Disk, owner: Owner) -> Owner:
        """What ``disk`` has and the objects lack is told to ``owner``, again from the start where
        that one dies, or is fenced, meanwhile. Whoever serves in the end.
        """
        self.end_owner_of(disk)
        while True:
            offered = lost.unshipped(disk, self.objects)
            stop = len(offered)
            if self.random.random() < 0.3:
                stop = self.random.randint(0, stop)
            for place, record in offered[:stop]:
                owner.bring_back(place, record)
            if stop == len(offered):
                if self.rules.done_before_it_is_shipped:
                    return self.settle(Disk(101))
                owner.sync()
                self.quieten(partial(self.shipped_all, owner))
                if owner.stopped is None:
                    return owner
            serving = owner.disk
            self.kill(owner)
            owner = self.settle(serving)

    def settle(self, disk: Disk) -> Owner:
        """Serve from this disk until all of it is shipped; who woke up late may come between."""
        for _ in range(10):
            self.end_owner_of(disk)
            owner = Owner(self, disk, self.options)
            self.owners.append(owner)
            for _ in range(3):
                self.quieten(partial(self.shipped_all, owner))
                if owner.stopped is None:
                    owner.sync()
            if owner.stopped is None and not disk.aside:
                return owner
            if owner.stopped is None:
                break
        last = self.owners[-1].stopped
        raise Violation(f"the only owner is {last}, left aside: {disk.aside}")

    def shipped_all(self, owner: Owner) -> bool:
        if owner.stopped is not None:
            return True
        end = end_of(owner.disk.durable)
        return owner.level == Level.EVERYTHING and owner.machine.shipped >= end

    def quieten(self, done: Callable[[], bool]) -> None:
        for turn in range(20_000):
            if done():
                return
            arriving = bool(self.able_to_arrive())
            self.fly()
            able = [o for o in self.awake() if o.local]
            if able:
                able[0].work()
            elif not arriving:
                self.now_us += 1_000
                for owner in self.awake():
                    owner.tell(Tick())
                    if turn % 50 == 49 and isinstance(owner.machine.asked, StoreQuestion):
                        owner.tell(Failed(owner.machine.asked.call, "was lost"))
        raise Violation("nothing comes to an end")
