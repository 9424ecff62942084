"""What an owner counts of its own work, and what it says of it in its status."""

from __future__ import annotations

import asyncio
import errno
import threading
from dataclasses import dataclass

from neverforget.actors.actor_shell import RemotePending
from neverforget.actors.messages import (
    SYNC_DISK,
    SYNC_PROCESS,
    Status,
    StatusReply,
)
from neverforget.actors.metrics import BOUNDS_S, Latencies, Meter
from neverforget.actors.partition import Partition
from neverforget.actors.ports import failure
from neverforget.storage.errors import InvalidArgument, Poisoned, StoreLocked, Unavailable
from tests.actors.regions import (
    ManualClock,
    Owned,
    append,
    disk,
    get,
    own,
    spec,
    syncs,
)
from tests.fakes.crash_filesystem import Fault


@dataclass
class BusyClock(ManualClock):
    """A millisecond goes by whenever somebody looks."""

    def monotonic(self) -> float:
        self.now += 0.001
        return self.now


def slow() -> Owned:
    clock, woken, fs = BusyClock(), threading.Semaphore(0), disk()
    partition = Partition(spec(), fs=fs, clock=clock, lock=False)
    partition.bind(woken.release)
    partition.open()
    return Owned(partition, fs, clock, woken)


def status(owned: Owned) -> StatusReply:
    (asked,) = owned.ask(Status(1))
    assert isinstance(asked.answer, StatusReply)
    return asked.answer


def test_a_duration_goes_where_its_bound_is() -> None:
    latencies = Latencies()
    for seconds in (0.0, BOUNDS_S[0], BOUNDS_S[0] + 1e-9, BOUNDS_S[-1], 1e9):
        latencies.add(seconds)
    latencies.add(BOUNDS_S[3], 5)
    assert latencies.counts[:2] == [2, 1]
    assert latencies.counts[3] == 5
    assert latencies.counts[-2:] == [1, 1]
    assert latencies.total == 10


def test_appends_are_counted_by_what_they_asked_for() -> None:
    owned = slow()
    meter, before = owned.partition.meter, syncs(owned.fs)
    owned.ask(*(append(n) for n in range(5)), append(5, sync=SYNC_PROCESS), get(9))
    owned.ask(append(6, sync=SYNC_PROCESS))
    assert meter.appends[SYNC_DISK].total == 5
    assert meter.appends[SYNC_PROCESS].total == 2
    assert meter.syncs.total == syncs(owned.fs) - before == 1
    owned.pass_time(2.0)
    assert meter.syncs.total > 1, "what nobody waited for is synced, and counted"


def test_who_waits_for_the_disk_waits_longer_than_who_does_not() -> None:
    owned = slow()
    owned.ask(append(1), append(2, sync=SYNC_PROCESS))
    first = {
        level: next(i for i, n in enumerate(owned.partition.meter.appends[level].counts) if n)
        for level in (SYNC_PROCESS, SYNC_DISK)
    }
    assert first[SYNC_PROCESS] < first[SYNC_DISK]
    measured = status(owned).measured
    assert 0 < measured.sync_p50_us <= measured.sync_p99_us


def test_a_repeat_that_is_durable_is_no_append() -> None:
    owned = own(disk())
    owned.ask(append(1))
    owned.ask(append(2, seq=1))
    assert owned.partition.meter.appends[SYNC_DISK].total == 1


def test_what_is_refused_or_fails_is_no_append() -> None:
    owned = own(disk())
    owned.ask(append(1, expect=7))
    assert owned.partition.meter.appends[SYNC_DISK].total == 0


def test_a_status_tells_the_last_error_after_it_is_over() -> None:
    """A disk that failed once was nowhere to be seen once the owner served again."""
    owned = own(disk())
    assert status(owned).measured.error is None
    owned.clock.now += 100.0
    owned.fs.inject(Fault("fdatasync", path=".seg", error=errno.EIO))
    (lost,) = owned.ask(append(1))
    assert lost.code == "poisoned"
    owned.until("serving")
    owned.clock.now += 100.0
    measured = status(owned).measured
    assert measured.error is not None and "sync" in measured.error
    assert measured.error_at == 1_100_000_000


def test_an_owner_that_waits_for_its_predecessor_has_no_error() -> None:
    meter = Meter(ManualClock())
    meter.note(None)
    meter.note(StoreLocked("held", pid=1, role="serve"))
    assert meter.last_error is None
    meter.note(RuntimeError())
    assert meter.last_error is not None and meter.last_error.message == "RuntimeError()"


def test_errors_are_the_callers_or_the_owners() -> None:
    meter = Meter(ManualClock())
    meter.answered(failure(1, InvalidArgument("no")))
    assert (meter.refusals, meter.failures, meter.last_error) == (1, 0, None)
    meter.answered(failure(1, Unavailable("away", outcome="not_applied")))
    meter.answered(failure(1, Poisoned("broken")))
    assert (meter.refusals, meter.failures) == (1, 2)
    assert meter.last_error == ("broken", 1_000_000_000)


def test_an_error_that_goes_to_another_node_counts() -> None:
    meter = Meter(ManualClock())

    async def call() -> None:
        pending = RemotePending(get(1), meter)
        pending.reply(failure(1, InvalidArgument("no")))
        pending.reply(failure(1, InvalidArgument("no")))

    asyncio.run(call())
    assert meter.refusals == 1
