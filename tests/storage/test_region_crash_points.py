"""A region with a death at every call that changes something: what clients were told still holds.

As for the log (``test_log_crash_points``), one floor up: turns, batches, repeats, keys, hides and
erasures. The client of this test does what a real one does: after a death it asks again, under the
same request id, for what was not acknowledged, and everything is there once, at the seq it was
told.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from functools import partial

import pytest

from neverforget.storage.errors import Poisoned
from neverforget.storage.format import BodyField
from neverforget.storage.record import decode_records, encode_turn, session_scope
from neverforget.storage.region import Region
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.results import TurnFlag
from neverforget.storage.spare import Submit
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem, Fault
from tests.fakes.deaths import deaths
from tests.fakes.lazy_worker import LazyWorker

DIRECTORY = ROOT / "p0"
STORE_ID = "store"
OPTIONS = RegionOptions(first_segment_bytes=8192, segment_bytes=16384)
PRODUCER = 99
LIMIT = 10_000


@dataclass
class Client:
    """``seqs``: what it was told, by (session, request, turn). ``done``: requests answered so far;
    the next may be there or not. ``erasing``: asked for, whether or not answered.
    """

    seqs: dict[tuple[str, int, int], int] = field(default_factory=dict)
    hidden: dict[str, set[int]] = field(default_factory=dict)
    erased: dict[str, set[int]] = field(default_factory=dict)
    erasing: dict[str, set[int]] = field(default_factory=dict)
    done: int = 0
    worker: int | None = None  # the seed of a worker's interleaving; None: there is none

    def copy(self) -> Client:
        hidden, erased, erasing = (
            {session: set(seqs) for session, seqs in each.items()}
            for each in (self.hidden, self.erased, self.erasing)
        )
        return Client(dict(self.seqs), hidden, erased, erasing, self.done, self.worker)


# Two of everything at least: hides, erasures, keys, batches; and four segments with side files.
STEPS = 24


def content(request: int, turn: int) -> str:
    size = (60, 900, 2600)[(request + turn) % 3]
    return f"{request}.{turn} ".ljust(size, "xyz"[request % 3])


def session_of(request: int) -> str:
    return ("alpha", "beta", "gamma")[request % 3]


def records_of(request: int) -> bytes:
    session = session_of(request)
    scope = session_scope((), session)
    return b"".join(
        bytes(
            encode_turn(
                role="user", content=content(request, turn), timestamp_us=request, token_count=1,
                producer=PRODUCER, producer_seq=request, key_scope=scope, agent="a",
                key=f"key-{request}" if request % 5 == 0 and turn == 0 else None,
            )
        )
        for turn in range(1 + request % 3)
    )  # fmt: skip


def open_region(fs: CrashFileSystem, submit: Submit | None = None) -> Region:
    return Region.open(
        fs, DIRECTORY, store_id=STORE_ID, partition=0, options=OPTIONS, lock=False,
        random_bytes=bytes, submit=submit,
    )  # fmt: skip


def create(fs: CrashFileSystem) -> None:
    Region.create(fs, DIRECTORY, store_id=STORE_ID, partition=0, options=OPTIONS)


def ask(region: Region, client: Client, request: int) -> None:
    """One request of the client: an append mostly, now and then a hide or an erasure."""
    session = session_of(request)
    if request % 11 == 7:
        region.hide((), session, [(0, 0)], True, "me", None, PRODUCER, request)
        region.write()
        region.sync()
        client.hidden.setdefault(session, set()).add(0)
    elif request % 11 == 9:
        client.erasing.setdefault(session, set()).add(1)
        region.erase((), session, [(1, 1)], "confirmed", "me", None, PRODUCER, request)
        client.erased.setdefault(session, set()).add(1)
    else:
        appended = region.append((), session, "a", PRODUCER, request, None, records_of(request))
        region.write()
        region.sync()
        count = 1 + request % 3
        for turn in range(count):
            seq = appended.first_seq + turn
            for index, record in appended.existing:
                if index == turn:
                    header, _ = next(decode_records(record))
                    seq = header.sequence_id
            known = client.seqs.setdefault((session, request, turn), seq)
            assert known == seq, "a repeat was told another seq"


def live(fs: CrashFileSystem, client: Client, steps: int, *, orderly: bool = True) -> None:
    worker = LazyWorker((client.worker or 0) + client.done)
    region = open_region(fs, None if client.worker is None else worker.submit)
    check(region, client)
    for _ in range(steps):
        worker.some()
        # What it did last it asks twice: the second must be told the same.
        if client.done:
            ask(region, client, client.done)
        ask(region, client, client.done + 1)
        client.done += 1
        if client.done % 6 == 0:
            region.noop_if_idle()
    if orderly:
        region.seal()
        region.close()


def check(region: Region, client: Client) -> None:
    for session in ("alpha", "beta", "gamma"):
        window = region.page((), session, None, None, False, LIMIT, True)
        flags: dict[int, int] = {}
        for first, last, flag in window.flags:
            for seq in range(first, last + 1):
                flags[seq] = flags.get(seq, 0) | flag
        told = {seq: (r, t) for (s, r, t), seq in client.seqs.items() if s == session}
        found: dict[int, str | None] = {}
        for index, (header, body) in enumerate(decode_records(window.records)):
            assert header.sequence_id == index, "seqs have a hole"
            found[index] = None if body is None else body[BodyField.CONTENT]
        unknown: list[str] = []
        for seq, text in found.items():
            if seq in client.erasing.get(session, ()):
                continue  # may be erased already, must be if that was acknowledged
            assert not flags.get(seq, 0) & (TurnFlag.UNREADABLE | TurnFlag.ERASED), (
                f"{session} {seq}"
            )
            if seq in told:
                assert text == content(*told[seq])
            else:
                assert text is not None
                unknown.append(text)
        assert told.keys() <= found.keys(), "acknowledged and lost"
        # At most the one request without an answer, whole and at the end.
        waiting = client.done + 1
        if unknown:
            assert session == session_of(waiting)
            assert unknown == [content(waiting, turn) for turn in range(1 + waiting % 3)]
        for seq in client.hidden.get(session, ()):
            assert flags[seq] & TurnFlag.HIDDEN
        for seq in client.erased.get(session, ()):
            assert flags[seq] & TurnFlag.ERASED
            assert found[seq] is None


def finish(fs: CrashFileSystem, client: Client) -> None:
    """The next owner, some more requests, a power cut, and the one after that."""
    live(fs, client, 3, orderly=client.done % 2 == 0)
    fs = fs.power_cut()
    region = open_region(fs)
    check(region, client)
    assert [f for f in region.verify() if f.severity == "error"] == []
    region.close()
    for session, seqs in client.erased.items():
        for (s, request, turn), seq in client.seqs.items():
            if s == session and seq in seqs:
                needle = content(request, turn).encode()
                for name in fs.list_directory(DIRECTORY / "log"):
                    assert needle not in fs.content(DIRECTORY / "log" / name), "erased and there"


def workload(fs: CrashFileSystem, client: Client) -> None:
    live(fs, client, STEPS - 4)
    live(fs, client, 4)


@pytest.mark.parametrize("death", ["power_cut", "process_death"])
@pytest.mark.parametrize("worker", [None, 1, pytest.param(2, marks=pytest.mark.long)])
def test_a_death_at_any_call_keeps_every_promise(
    death: str, worker: int | None, long_run: bool
) -> None:
    """Beside a worker by the one or the other at any of them; under --long by both."""
    fs, client = CrashFileSystem(), Client(worker=worker)
    create(fs)
    found = deaths(fs, lambda: workload(fs, client), client.copy)
    for died in found[death == "power_cut" :: 2] if worker and not long_run else found:
        finish(died.found(death), died.told)


def test_a_death_in_creation_is_finished_by_the_next() -> None:
    """A region that was never finished is created anew; one that was is left alone."""
    for death in ("power_cut", "process_death"):
        fs = CrashFileSystem()
        for died in deaths(fs, partial(create, fs), Client):
            fs, client = died.found(death), died.told
            create(fs)
            live(fs, client, 4)
            finish(fs.power_cut(), client)


def test_a_device_that_lies_about_syncs_is_seen_to_lose() -> None:
    failures = 0
    for seed in range(5):
        fs, client = CrashFileSystem(seed, syncs_lie=True), Client()
        create(fs)
        workload(fs, client)
        try:
            finish(fs.power_cut(), client)
        except Exception:
            failures += 1
    assert failures == 5


def test_a_failed_sync_then_false_ones_lose_nothing() -> None:
    """EIO at every sync in turn. The owner is opened anew at once, in the same process, and the
    client repeats what was left open.
    """
    counted = CrashFileSystem()
    create(counted)
    first = len(counted.calls)
    workload(counted, Client())
    syncs = sum(call.op == "fdatasync" for call in counted.calls[first:])
    for nth in range(1, syncs + 1):
        fs, client = CrashFileSystem(nth), Client()
        create(fs)
        fs.inject(Fault("fdatasync", nth=nth, error=errno.EIO))
        try:
            workload(fs, client)
        except (Poisoned, OSError):
            pass
        live(fs, client, 2, orderly=False)
        finish(fs.power_cut(), client)
