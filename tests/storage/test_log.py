"""The log in use: appending, reading, rolling, spares, poison, a full disk, erasing, verifying."""

from __future__ import annotations

import errno
import gc
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from neverforget.storage.errors import Corrupt, InvalidArgument, OutOfSpace, Poisoned
from neverforget.storage.format import Kind
from neverforget.storage.log import Log, LogOptions
from neverforget.storage.record import body_of, decode_body, read_header
from neverforget.storage.segment import segment_path
from neverforget.storage.side_file import side_path
from neverforget.storage.staged import StagedBatches
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem, Fault
from tests.storage.small_log import LOG_ID, PAGE, append, commit, create_log, open_log, turn

BOTH_WAYS = pytest.mark.parametrize("read_by", ["map", "pread"])


class Worker:
    """A Submit whose work is done when the test says so."""

    def __init__(self) -> None:
        self.queue: list[tuple[Callable[[], Any], Future[Any]]] = []

    def __call__(self, work: Callable[[], Any], /) -> Future[Any]:
        future: Future[Any] = Future()
        self.queue.append((work, future))
        return future

    def run(self) -> int:
        done, self.queue = self.queue, []
        for work, future in done:
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)
        return len(done)


def content(log: Log, position: int) -> Any:
    return decode_body(body_of(log.read(position)))[0]


def on_crash_disk(options: LogOptions | None = None) -> tuple[CrashFileSystem, Log]:
    fs = CrashFileSystem(1)
    options = options or LogOptions(segment_bytes=PAGE, first_segment_bytes=PAGE)
    Log.create(fs, ROOT / "log", log_id=LOG_ID, options=options)
    return fs, reopened(fs, options)


def reopened(fs: CrashFileSystem, options: LogOptions | None = None, **kw: Any) -> Log:
    options = options or LogOptions(segment_bytes=PAGE, first_segment_bytes=PAGE)
    log, _ = Log.open(
        fs,
        ROOT / "log",
        log_id=LOG_ID,
        epoch=2,
        torn_directory=ROOT / "torn",
        quarantine_directory=ROOT / "quarantine",
        options=options,
        **kw,
    )
    return log


# ---- appending and reading -----------------------------------------------------------------------


@BOTH_WAYS
def test_what_is_appended_is_read_by_position_before_and_after_each_step(
    tmp_path: Path, read_by: Any
) -> None:
    options = LogOptions(read_by=read_by)
    create_log(tmp_path, options)
    log, _ = open_log(tmp_path, options=options)
    first, second = append(log, "staged one", "staged two" * 1000)
    assert (log.written, log.durable) == (64, 64) and log.tail > second
    assert content(log, first) == "staged one"
    log.write()
    assert log.written == log.tail and log.durable == 64
    assert content(log, second) == "staged two" * 1000
    log.sync()
    assert log.durable == log.written == log.tail
    third = append(log, "staged three")[0]
    assert [content(log, p)[:10] for p in (first, second, third)] == [
        "staged one", "staged two", "staged thr",
    ]  # fmt: skip
    assert log.header(third).sequence_id == 0 and log.header(third).epoch == 1
    log.close()


@pytest.mark.parametrize("read", [Log.read, Log.header])
def test_what_is_written_while_another_thread_asks_for_it_is_read(
    tmp_path: Path, monkeypatch: Any, read: Callable[[Log, int], Any]
) -> None:
    """The owner wrote between two looks of a reader at what was staged: an IndexError, for which
    chunking paused.
    """
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    (position,) = append(log, "staged")
    holds = StagedBatches.holds

    def then_written(staged: StagedBatches, asked: int) -> bool:
        answer = holds(staged, asked)
        log.write()
        return answer

    monkeypatch.setattr(StagedBatches, "holds", then_written)
    read(log, position)
    assert log.written == log.tail
    log.close()


@BOTH_WAYS
def test_a_position_where_no_record_begins_is_corrupt_not_garbage(
    tmp_path: Path, read_by: Any
) -> None:
    options = LogOptions(segment_bytes=PAGE, first_segment_bytes=PAGE, read_by=read_by)
    create_log(tmp_path, options)
    log, _ = open_log(tmp_path, options=options)
    (position,) = commit(log, "only")
    append(log, "staged")
    for wrong in (
        0,
        position + 8,
        position - 8,
        log.tail,
        log.tail - 8,
        PAGE - 8,
        PAGE,
        10**12,
        -8,
    ):
        with pytest.raises(Corrupt):
            log.read(wrong)
        with pytest.raises(Corrupt):
            log.header(wrong)
    log.close()


def test_a_body_that_holds_the_bytes_of_a_record_is_not_one(tmp_path: Path) -> None:
    """The seed of the header CRC: stale, copied and misdirected records never pass."""
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    (position,) = commit(log, "original")
    inner = bytes(log.read(position))
    record = bytearray(turn("x"))
    log.close()

    create_log(other := tmp_path / "other")
    log, _ = open_log(other)
    record = bytearray(64 + len(inner))  # a hand-made body of just those bytes
    record[:] = bytes(turn("y"))[:64] + inner
    (first,) = commit(log, "z")
    log.close()
    path = other / "log/0000000000000000.seg"
    data = bytearray(path.read_bytes())
    data[first + 160 : first + 160 + len(inner)] = inner
    path.write_bytes(data)
    log, recovered = open_log(other)
    assert [p for s in recovered.segments for p in s.positions.tolist()] == [first]
    assert recovered.torn_bytes > 0
    with pytest.raises(Corrupt):
        log.read(first + 160)
    log.close()


def test_views_outlive_the_log_that_gave_them(tmp_path: Path) -> None:
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    (position,) = commit(log, "kept by a reader")
    view = log.read(position)
    log.close()
    gc.collect()
    assert decode_body(body_of(view))[0] == "kept by a reader"
    log.close()


def test_a_batch_above_the_limit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    create_log(tmp_path)
    options = LogOptions(segment_bytes=PAGE, first_segment_bytes=PAGE, batch_bytes_max=1024)
    log, _ = open_log(tmp_path, options=options)
    with pytest.raises(InvalidArgument, match="limit"):
        append(log, *["x" * 100] * 10)
    assert log.tail == 64 and len(log.segments()) == 1
    commit(log, "fits")
    log.close()


# ---- rolling -------------------------------------------------------------------------------------


def test_segments_double_and_records_never_span_them(tmp_path: Path) -> None:
    options = LogOptions(first_segment_bytes=PAGE, segment_bytes=4 * PAGE)
    create_log(tmp_path, options)
    log, _ = open_log(tmp_path, options=options)
    positions = [commit(log, f"{n} " + "x" * 500)[0] for n in range(100)]
    segments = log.segments()
    assert [s.size // PAGE for s in segments][:4] == [1, 2, 4, 4]
    assert [s.sealed for s in segments] == [True] * (len(segments) - 1) + [False]
    for before, after in pairwise(segments):
        assert after.base == before.base + before.size
    for n, position in enumerate(positions):
        assert content(log, position).startswith(f"{n} ")
        (home,) = [s for s in segments if s.base <= position < s.base + s.size]
        assert position + len(log.read(position)) <= home.base + home.size
    log.close()
    log, recovered = open_log(tmp_path, options=options)
    assert [p for s in recovered.segments for p in s.positions.tolist()] == positions
    assert recovered.findings == []
    log.close()


def test_rolling_writes_and_syncs_what_was_staged_first() -> None:
    fs, log = on_crash_disk()
    staged = append(log, "x" * 3000)
    log.reserve(2000)
    assert log.written == log.durable > staged[0]
    assert log.tail == PAGE + 64
    after = reopened(fs.power_cut())
    assert content(after, staged[0]) == "x" * 3000


def test_a_large_batch_gets_a_segment_of_its_own_size(tmp_path: Path) -> None:
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    small = commit(log, "small")
    large = commit(log, "y" * 1_000_000)
    after = commit(log, "after" * 700)
    sizes = [s.size for s in log.segments()]
    assert sizes[0] == sizes[2] == PAGE and 1_000_000 < sizes[1] < 1_000_000 + 2 * PAGE
    log.close()
    log, recovered = open_log(tmp_path)
    assert [p for s in recovered.segments for p in s.positions.tolist()] == small + large + after
    assert content(log, large[0]) == "y" * 1_000_000
    log.close()


def test_a_worker_makes_the_spare_when_the_segment_is_half_full(tmp_path: Path) -> None:
    create_log(tmp_path)
    worker = Worker()
    log, _ = open_log(tmp_path, submit=worker)
    commit(log, "x" * 1000)
    assert worker.queue == []
    commit(log, "x" * 1000)
    assert worker.run() == 1
    assert segment_path(tmp_path / "log", PAGE).exists()
    commit(log, "x" * 1000)
    assert worker.queue == [], "one is enough"
    commit(log, "x" * 1000)
    assert log.tail > PAGE
    assert worker.run() == 1, "the side file of the sealed one"
    log.close()


def test_whoever_seals_starts_no_worker_for_what_it_waits_for(tmp_path: Path) -> None:
    """Each store that was closed started a thread for each partition."""
    create_log(tmp_path)
    worker = Worker()
    log, _ = open_log(tmp_path, submit=worker)
    commit(log, "said")
    log.seal()
    assert worker.queue == [] and side_path(tmp_path / "log", 0).exists()
    log.close()


def test_a_batch_too_large_for_the_spare_takes_its_place(tmp_path: Path) -> None:
    create_log(tmp_path)
    worker = Worker()
    log, _ = open_log(tmp_path, submit=worker)
    commit(log, "x" * 2500)
    worker.run()
    (position,) = commit(log, "y" * 50_000)
    assert [s.base for s in log.segments()] == [0, PAGE]
    assert segment_path(tmp_path / "log", PAGE).stat().st_size == log.segments()[1].size > 50_000
    worker.run()
    log.close()
    log, recovered = open_log(tmp_path)
    assert content(log, position) == "y" * 50_000 and recovered.findings == []
    log.close()


def test_an_unused_spare_is_found_again(tmp_path: Path) -> None:
    create_log(tmp_path)
    worker = Worker()
    log, _ = open_log(tmp_path, submit=worker)
    commit(log, "x" * 2500)
    worker.run()
    log.close()
    log, recovered = open_log(tmp_path)
    assert len(log.segments()) == 1 and recovered.findings == []
    inode = segment_path(tmp_path / "log", PAGE).stat().st_ino
    commit(log, "x" * 2500)
    assert log.tail > PAGE and segment_path(tmp_path / "log", PAGE).stat().st_ino == inode
    log.close()


def rolled_in_one_group(log: Log, worker: Worker) -> list[int]:
    """Roll while staged records are not written yet: rolling writes them, past the half."""
    staged = append(log, "x" * 1500) + append(log, "x" * 1500)
    rolled = append(log, "y" * 1500)
    log.write()
    worker.run()
    log.sync()
    after = commit(log, "z")
    return staged + rolled + after


def test_a_segment_in_use_is_never_replaced_by_a_late_spare(tmp_path: Path) -> None:
    """The demo lost thousands of acknowledged turns: the roll took the spare, then wrote what was
    staged, which found the segment half full and no spare, and had one made under the name of the
    segment just taken. The rename replaced it, and what came after went to a file without a name.
    """
    create_log(tmp_path)
    worker = Worker()
    log, _ = open_log(tmp_path, submit=worker)
    positions = rolled_in_one_group(log, worker)
    log.close()
    log, recovered = open_log(tmp_path)
    assert [p for s in recovered.segments for p in s.positions.tolist()] == positions
    log.close()


def test_a_spare_of_the_last_owner_is_never_replaced_while_in_use(tmp_path: Path) -> None:
    """The same with a spare that was found at opening: any roll of the first segment lost it."""
    create_log(tmp_path)
    worker = Worker()
    log, _ = open_log(tmp_path, submit=worker)
    first = commit(log, "x" * 2500)
    worker.run()
    log.close()
    log, _ = open_log(tmp_path, submit=worker)
    staged = append(log, "s")
    rolled = append(log, "y" * 1500)
    log.write()
    worker.run()
    log.sync()
    after = commit(log, "z")
    log.close()
    log, recovered = open_log(tmp_path)
    found = [p for s in recovered.segments for p in s.positions.tolist()]
    assert found == first + staged + rolled + after
    log.close()


def test_real_worker_threads_fill_many_segments(tmp_path: Path) -> None:
    create_log(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        log, _ = open_log(tmp_path, submit=pool.submit)
        positions = [commit(log, f"{n:06d}" + "x" * 600)[0] for n in range(300)]
        log.seal()
        assert log.indexed_until == log.durable
        log.close()
        log, recovered = open_log(tmp_path, submit=pool.submit)
        assert all(s.side_file is not None for s in recovered.segments)
        assert [content(log, p)[:6] for p in positions] == [f"{n:06d}" for n in range(300)]
        log.close()


# ---- a full disk, failing writes -----------------------------------------------------------------


def test_no_space_for_a_segment_refuses_the_batch_and_nothing_else() -> None:
    fs, log = on_crash_disk()
    kept = commit(log, "x" * 2500)
    staged = append(log, "goes with the old segment")
    fs.inject(Fault("allocate", nth=1, error=errno.ENOSPC))
    with pytest.raises(OutOfSpace):
        append(log, "y" * 2500)
    assert log.poisoned is None
    log.write()
    log.sync()
    assert content(log, kept[0]) == "x" * 2500
    smaller = commit(log, "still fits")
    larger = commit(log, "y" * 2500)
    assert larger[0] > PAGE
    after = reopened(fs.power_cut())
    assert [content(after, p)[:4] for p in [*kept, *staged, *smaller, *larger]] == [
        "xxxx", "goes", "stil", "yyyy",
    ]  # fmt: skip


def test_a_spare_that_could_not_be_made_is_made_when_it_is_needed() -> None:
    fs, log = on_crash_disk()
    log.close()
    worker = Worker()
    log = reopened(fs, submit=worker)
    fs.inject(Fault("allocate", nth=1, error=errno.ENOSPC))
    commit(log, "x" * 2500)
    worker.run()
    commit(log, "x" * 100)
    assert worker.queue == [], "not again and again"
    commit(log, "y" * 2500)
    assert log.tail > PAGE and log.poisoned is None


@pytest.mark.parametrize("operation", ["pwrite", "fdatasync"])
def test_a_failed_write_or_sync_poisons_for_good_and_reads_go_on(operation: Any) -> None:
    fs, log = on_crash_disk()
    (kept,) = commit(log, "acknowledged")
    fs.inject(Fault(operation, nth=1, error=errno.EIO))
    append(log, "lost")
    with pytest.raises(Poisoned) as failure:
        log.write()
        log.sync()
    assert isinstance(failure.value.__cause__, OSError) and log.poisoned
    durable, calls = log.durable, len(fs.calls)
    for attempt in (
        log.sync,
        log.write,
        lambda: log.reserve(64),
        lambda: log.noop(1),
        lambda: log.overwrite(kept + 64, 8),
        log.seal,
    ):
        with pytest.raises(Poisoned):
            attempt()
    assert len(fs.calls) == calls, "nothing is retried"
    assert log.durable == durable and content(log, kept) == "acknowledged"
    log.close()
    after = reopened(fs.power_cut())
    assert content(after, kept) == "acknowledged"


# ---- the durable mark ----------------------------------------------------------------------------


def test_a_no_op_puts_the_last_group_below_a_proven_mark(tmp_path: Path) -> None:
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    assert not log.unproven
    commit(log, "one")
    commit(log, "two")
    assert log.unproven
    end = log.noop(5)
    log.write()
    log.sync()
    assert not log.unproven and log.durable == end
    header = log.header(end - 64)
    assert (header.kind, header.body_length, header.timestamp) == (Kind.NOOP, 0, 5)
    assert end - 64 - 8 * header.durable_back == end - 64
    log.close()
    log, recovered = open_log(tmp_path)
    assert recovered.proven == end - 64
    log.close()


def test_the_first_record_of_a_segment_says_where_the_data_of_the_last_one_ended(
    tmp_path: Path,
) -> None:
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    commit(log, "x" * 3000)
    ended = log.tail
    (first,) = commit(log, "y" * 3000)
    assert first - 8 * log.header(first).durable_back == ended
    log.close()


def test_sync_without_anything_new_does_nothing(tmp_path: Path) -> None:
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    commit(log, "x")
    syncs = log.syncs
    log.sync()
    log.write()
    log.sync()
    assert log.syncs == syncs == 1
    log.close()


# ---- erasing and verifying -----------------------------------------------------------------------


def test_an_overwritten_body_is_gone_and_its_header_stays(tmp_path: Path) -> None:
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    first = commit(log, "the canary sings")[0]
    while len(log.segments()) < 3:
        commit(log, "x" * 1500)
    length = log.header(first).body_length
    log.overwrite(first + 64, length)
    log.sync()
    with pytest.raises(Corrupt):
        log.read(first)
    assert log.header(first).body_length == length
    assert all(b"canary" not in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert [f.kind for f in log.verify()] == ["corrupt_body"]
    assert list(log.verify(erased={first})) == []
    log.close()
    log, recovered = open_log(tmp_path)
    assert recovered.findings == []
    assert log.header(first).body_length == length
    log.close()


def test_erasing_what_no_record_proves_durable_is_a_mistake_of_ours(tmp_path: Path) -> None:
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    (position,) = commit(log, "not yet proven")
    with pytest.raises(AssertionError):
        log.overwrite(position + 64, 8)
    log.close()


def test_an_erasure_that_was_not_finished_is_found(tmp_path: Path) -> None:
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    first = commit(log, "half of it is still here")[0]
    commit(log, "x")
    log.overwrite(first + 64, 8)
    log.sync()
    (finding,) = log.verify(erased={first})
    assert finding.kind == "unfinished_erasure" and finding.offset == first
    log.close()


def test_verify_sees_nothing_wrong_in_a_sound_log_and_ignores_what_is_not_durable(
    tmp_path: Path,
) -> None:
    create_log(tmp_path)
    log, _ = open_log(tmp_path)
    assert list(log.verify()) == []
    for n in range(20):
        commit(log, f"{n}" * 400)
    append(log, "written only")
    log.write()
    append(log, "staged only")
    assert list(log.verify()) == []
    log.close()


def test_verify_may_run_beside_appends(tmp_path: Path) -> None:
    create_log(tmp_path)
    with ThreadPoolExecutor(2) as pool:
        log, _ = open_log(tmp_path, submit=pool.submit)
        runs = []
        for n in range(200):
            commit(log, f"{n}" * 100)
            if n % 20 == 0:
                runs.append(pool.submit(lambda: list(log.verify())))
        assert [run.result() for run in runs] == [[]] * len(runs)
        log.close()


def test_stamped_records_are_what_is_on_disk(tmp_path: Path) -> None:
    create_log(tmp_path)
    log, _ = open_log(tmp_path, epoch=9)
    positions = commit(log, "a", "b", "c", first_seq=7)
    headers = [read_header(log.read(p)) for p in positions]
    assert [h.sequence_id for h in headers] == [7, 8, 9]
    assert [h.flags for h in headers] == [6, 4, 0]
    assert {h.epoch for h in headers} == {9} and {h.session_id for h in headers} == {5}
    log.close()
