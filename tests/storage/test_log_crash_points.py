"""The log with a death at every call that changes something, and a failure of every such call.

A workload rolls segments, writes groups and batches, seals and opens again, and dies at each of its
calls, by kill -9 or by power cut. Each death is followed by recovery, more appends, a power cut and
another recovery.

The oracle stands outside the disk: per life of the log, what was staged and what was acknowledged.
What is recovered must be, life for life, a run of what was staged, without a hole, that reaches at
least as far as what was acknowledged. Nothing is ever reported as corrupt: a crash is not damage.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import pytest

from neverforget.storage.content import decode_body
from neverforget.storage.errors import OutOfSpace, Poisoned
from neverforget.storage.format import Kind, RecordFlag
from neverforget.storage.log import Log, LogOptions
from neverforget.storage.record import Buffer, body_of, encode_turn
from neverforget.storage.recovery import Recovered
from neverforget.storage.spare import Submit
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem, Fault, Killed, Op
from tests.fakes.deaths import Death, deaths
from tests.fakes.lazy_worker import LazyWorker

DIRECTORY = ROOT / "log"
LOG_ID = 0x1F2E3D4C5B6A7988
OPTIONS = LogOptions(first_segment_bytes=8192, segment_bytes=16384)


@dataclass
class Life:
    """Contents in the order of staging; batches are lists. The first ``acknowledged`` are safe."""

    batches: list[list[str]] = field(default_factory=list)
    acknowledged: int = 0


@dataclass
class Oracle:
    seed: int | None = None
    lives: list[Life] = field(default_factory=list)
    staged: int = 0

    def content(self, n_bytes: int) -> str:
        text = f"turn {self.staged} ".ljust(n_bytes, "·")[:n_bytes]
        self.staged += 1
        return text

    def copy(self) -> Oracle:
        lives = [Life(list(life.batches), life.acknowledged) for life in self.lives]
        return Oracle(self.seed, lives, self.staged)


def create(fs: CrashFileSystem) -> None:
    Log.create(fs, DIRECTORY, log_id=LOG_ID, options=OPTIONS)


def open_log(
    fs: CrashFileSystem, epoch: int, *, submit: Submit | None = None
) -> tuple[Log, Recovered]:
    return Log.open(
        fs,
        DIRECTORY,
        log_id=LOG_ID,
        epoch=epoch,
        torn_directory=ROOT / "torn",
        quarantine_directory=ROOT / "quarantine",
        options=OPTIONS,
        submit=submit,
    )


def stage(log: Log, life: Life, contents: list[str]) -> None:
    records = [bytearray(record_of(content)) for content in contents]
    position = log.reserve(sum(map(len, records)))
    batch = bytearray().join(records)
    offset = 0
    for index, record in enumerate(records):
        flags = RecordFlag.BATCH_FIRST if index == 0 else RecordFlag(0)
        if index < len(records) - 1:
            flags |= RecordFlag.BATCH_MORE
        log.stamp(batch, offset, position + offset, session_id=7, seq=0, flags_or=flags)
        offset += len(record)
    log.stage(batch)
    life.batches.append(contents)


def record_of(content: str) -> Buffer:
    return encode_turn(
        role="user", content=content, timestamp_us=1, token_count=1, producer=1, producer_seq=1,
        key_scope=b"",
    )  # fmt: skip


def sync(log: Log, life: Life) -> None:
    log.write()
    log.sync()
    life.acknowledged = len(life.batches)


def live(
    fs: CrashFileSystem, oracle: Oracle, epoch: int, groups: int, *, orderly: bool = True
) -> None:
    """One life: open, append groups of every shape, close in order or just end."""
    worker = LazyWorker((oracle.seed or 0) + epoch)
    log, recovered = open_log(fs, epoch, submit=None if oracle.seed is None else worker.submit)
    check(log, recovered, oracle)
    life = Life()
    oracle.lives.append(life)
    for group in range(groups):
        for batch in range(1 + group % 3):
            sizes = [
                (40, 700, 3000)[(group + batch + i) % 3] for i in range(1 + (group * batch) % 3)
            ]
            stage(log, life, [oracle.content(n) for n in sizes])
            worker.some()
            if group % 4 == 3:
                log.write()  # at sync="process": in the file, not acknowledged as durable
                worker.some()
        sync(log, life)
        worker.some()
        if group % 3 == 2:
            log.noop(group)
            sync(log, life)
    if orderly:
        log.seal()
        log.close()


def check(log: Log, recovered: Recovered, oracle: Oracle) -> None:
    assert [f for f in recovered.findings if f.severity == "error"] == []
    assert recovered.quarantined == []
    found: list[str] = []
    for part in recovered.segments:
        assert part.body_ok.all()
        for position in part.positions.tolist():
            record = log.read(position)
            if record[4] == Kind.TURN:
                found.append(decode_body(body_of(record))[0])
    for life in oracle.lives:
        kept = 0
        for batch in life.batches:
            if found[: len(batch)] != batch:
                break
            del found[: len(batch)]
            kept += 1
        assert kept >= life.acknowledged, f"{life.acknowledged} acknowledged, {kept} left"
    assert found == [], "invented, doubled, reordered or half a batch"


def verify_whole(fs: CrashFileSystem, oracle: Oracle, epoch: int) -> None:
    log, recovered = open_log(fs, epoch)
    check(log, recovered, oracle)
    assert list(log.verify()) == []
    log.close()


GROUPS = 9


def workload(fs: CrashFileSystem, oracle: Oracle) -> None:
    live(fs, oracle, 1, GROUPS)
    live(fs, oracle, 2, 2)


@cache
def calls_of_workload(seed: int | None) -> list[Op]:
    fs = CrashFileSystem()
    create(fs)
    first = len(fs.calls)
    workload(fs, Oracle(seed))
    return [call.op for call in fs.calls[first:]]


def dying(worker: int | None) -> list[Death[Oracle]]:
    """At any call of the workload, with what was staged and acknowledged by then."""
    fs, oracle = CrashFileSystem(), Oracle(worker)
    create(fs)
    return deaths(fs, lambda: workload(fs, oracle), oracle.copy)


CALLS = calls_of_workload(None)
# Without a worker everything is made where it is needed; with one, a seed is an interleaving.
# Seeds of the order in which a second thread gets to its work; None: there is no second thread.
WORKERS = [None, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3, 4, 5, 6))]


def test_the_workload_meets_every_kind_of_call() -> None:
    assert set(CALLS) >= {
        "create",
        "allocate",
        "pwrite",
        "fdatasync",
        "rename",
        "sync_directory",
    }
    assert CALLS.count("fdatasync") > 2 * GROUPS


@pytest.mark.parametrize("death", ["power_cut", "process_death"])
@pytest.mark.parametrize("worker", WORKERS)
def test_a_death_at_any_call_loses_nothing_acknowledged(death: str, worker: int | None) -> None:
    for died in dying(worker):
        fs, oracle = died.found(death), died.told
        live(fs, oracle, 3, 1 + died.call % 3, orderly=died.call % 4 == 0)
        verify_whole(fs.power_cut(), oracle, 4)


@pytest.mark.parametrize("death", ["power_cut", "process_death"])
@pytest.mark.parametrize("worker", WORKERS)
def test_a_death_amid_any_write_loses_nothing_acknowledged(death: str, worker: int | None) -> None:
    for number in range(1, calls_of_workload(worker).count("pwrite") + 1):
        fs = CrashFileSystem(number)
        oracle = Oracle(worker)
        create(fs)
        fs.inject(Fault("pwrite", nth=number, kill="amid"))
        with pytest.raises(Killed):
            workload(fs, oracle)
        fs = fs.power_cut() if death == "power_cut" else fs.process_death()
        live(fs, oracle, 3, 3)
        verify_whole(fs.power_cut(), oracle, 4)


def test_deaths_of_recovery_itself_lose_nothing() -> None:
    """Power fails with a group half on the disk, and again at every call of the recovery of it."""
    found = dying(None)
    for number in range(8):
        died = found[len(found) // 2 + number]
        fs, oracle = died.found("power_cut" if number % 2 else "process_death"), died.told
        recovering = deaths(fs, partial(verify_whole, fs, oracle, 3), oracle.copy)
        assert len(recovering) > 2
        for again in recovering:
            fs = again.found("power_cut" if again.call % 3 else "process_death")
            live(fs, again.told, 4, 1)
            verify_whole(fs.power_cut(), again.told, 5)


def test_an_append_after_a_torn_tail_survives_the_next_crash() -> None:
    """The last record torn, a new append, another crash: the new append is there, every time."""
    for seed in range(40):
        fs, oracle = CrashFileSystem(seed), Oracle()
        create(fs)
        log, _ = open_log(fs, 1)
        life = Life()
        oracle.lives.append(life)
        stage(log, life, [oracle.content(3000)])
        sync(log, life)
        stage(log, life, [oracle.content(3000), oracle.content(900)])
        log.write()
        fs = fs.power_cut()
        for epoch in (2, 3, 4):
            live(fs, oracle, epoch, 1)
            fs = fs.power_cut()
        verify_whole(fs, oracle, 5)


def test_a_device_that_lies_about_syncs_is_seen_to_lose() -> None:
    """The control: the same workload, the same checks, and no sync reaches the disk."""
    failures = 0
    for seed in range(20):
        fs, oracle = CrashFileSystem(seed, syncs_lie=True), Oracle()
        create(fs)
        workload(fs, oracle)
        try:
            verify_whole(fs.power_cut(), oracle, 3)
        except Exception:
            failures += 1
    assert failures == 20


FAILING: list[tuple[Op, int]] = [
    ("pwrite", errno.EIO), ("pwrite", errno.ENOSPC), ("fdatasync", errno.EIO),
    ("allocate", errno.ENOSPC), ("create", errno.ENOSPC), ("rename", errno.EIO),
    ("sync_directory", errno.EIO),
]  # fmt: skip


# Beside a worker: what fails in it, and the sync that does not.
BESIDE = [
    pytest.param(op, number, worker, marks=() if worker == 1 and brief else pytest.mark.long)
    for worker in (1, 2)
    for (op, number), brief in zip(FAILING, (False, False, True, False, True, True, False))
]


@pytest.mark.parametrize(
    ("op", "number", "worker"), [*((*each, None) for each in FAILING), *BESIDE]
)
def test_a_failure_of_any_call_is_reported_and_loses_nothing(
    op: Op, number: int, worker: int | None
) -> None:
    """A failed sync is followed by syncs that succeed and do nothing: whoever retries it loses."""
    met = 0
    for nth in range(1, calls_of_workload(worker).count(op) + 1):
        fs, oracle = CrashFileSystem(nth), Oracle(worker)
        create(fs)
        fs.inject(Fault(op, nth=nth, error=number))
        try:
            workload(fs, oracle)
        except (OutOfSpace, Poisoned, OSError):
            met += 1
        fs = fs.process_death() if nth % 2 else fs.power_cut()
        live(fs, oracle, 3, 3)
        verify_whole(fs.power_cut(), oracle, 4)
    assert met > 0


@pytest.mark.parametrize(
    "short",
    [0, 1, 64, 511, *(pytest.param(n, marks=pytest.mark.long) for n in (63, 100, 512, 4096))],
)
def test_a_short_write_is_never_acknowledged(short: int) -> None:
    for nth in range(1, CALLS.count("pwrite") + 1):
        fs, oracle = CrashFileSystem(nth), Oracle()
        create(fs)
        fs.inject(Fault("pwrite", nth=nth, short=short))
        try:
            workload(fs, oracle)
        except (Poisoned, OSError):
            pass
        fs = fs.process_death() if nth % 2 else fs.power_cut()
        live(fs, oracle, 3, 1)
        verify_whole(fs.power_cut(), oracle, 4)


def test_a_poisoned_log_writes_and_syncs_nothing_more() -> None:
    ops: list[Op] = ["pwrite", "fdatasync"]
    for op in ops:
        fs, oracle = CrashFileSystem(), Oracle()
        create(fs)
        log, _ = open_log(fs, 1)
        life = Life()
        stage(log, life, [oracle.content(100)])
        sync(log, life)
        fs.inject(Fault(op, error=errno.EIO))
        stage(log, life, [oracle.content(100)])
        with pytest.raises(Poisoned):
            sync(log, life)
        calls = len(fs.calls)
        attempts: list[Callable[[], object]] = [
            log.write,
            log.sync,
            partial(log.reserve, 100),
            partial(log.noop, 1),
        ]
        for attempt in attempts:
            with pytest.raises(Poisoned):
                attempt()
        assert [c.op for c in fs.calls[calls:] if c.op in ("pwrite", "fdatasync")] == []
        assert log.poisoned is not None
        log.close()


def test_a_segment_found_at_opening_does_not_lose_its_name() -> None:
    """A segment was renamed into place, its maker killed before it synced the directory. The next
    owner found it, filled it, acknowledged, and only the side file, made by the worker at some
    later time, synced the directory: a power cut before that took the segment.
    """

    def never(work: Callable[[], Any], /) -> Future[Any]:
        return Future()

    for seed in range(10):
        fs, oracle = CrashFileSystem(seed), Oracle()
        create(fs)
        fs.inject(Fault("rename", path=".seg", kill="after"))
        with pytest.raises(Killed):
            live(fs, oracle, 1, GROUPS)
        fs = fs.process_death()
        assert len(fs.list_directory(DIRECTORY)) == 2
        log, recovered = open_log(fs, 2, submit=never)
        check(log, recovered, oracle)
        life = Life()
        oracle.lives.append(life)
        while len(log.segments()) == 1:
            stage(log, life, [oracle.content(3000)])
            sync(log, life)
        verify_whole(fs.power_cut(), oracle, 3)
