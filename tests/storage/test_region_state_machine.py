"""A region against a model, with kills, power cuts and I/O errors at any moment.

The model is a list of requests in log order. What is durable must be there after a power cut, what
is written after a kill; of the rest a prefix may be, whole requests only. After each reopening the
region must look like the model cut at such a prefix, in every respect: contents, seqs, hidden and
erased turns, answers to repeats.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from neverforget.storage.errors import Conflict, Poisoned
from neverforget.storage.format import BodyField
from neverforget.storage.record import decode_records, encode_turn, session_scope
from neverforget.storage.region import Region
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.results import Appended, TurnFlag
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem, Fault, Killed
from tests.fakes.lazy_worker import LazyWorker

DIRECTORY, STORE_ID, PRODUCER = ROOT / "p0", "store", 7
OPTIONS = RegionOptions(first_segment_bytes=8192, segment_bytes=16384)
SESSIONS = ("left", "right")


@dataclass
class Request:
    id: int
    kind: Literal["append", "hide", "unhide", "erase"]
    session: str
    contents: list[str] = field(default_factory=list)
    keyed: bool = False
    seqs: tuple[int, int] = (0, 0)


@dataclass
class Turn:
    content: str | None
    hidden: bool = False


def view(requests: list[Request]) -> dict[str, list[Turn]]:
    """What a reader sees when exactly these requests took effect."""
    sessions: dict[str, list[Turn]] = {name: [] for name in SESSIONS}
    for request in requests:
        turns = sessions[request.session]
        run = turns[request.seqs[0] : request.seqs[1] + 1]
        match request.kind:
            case "append":
                turns.extend(Turn(content) for content in request.contents)
            case "hide" | "unhide":
                for turn in run:
                    turn.hidden = request.kind == "hide"
            case "erase":
                for turn in run:
                    turn.content = None
    return sessions


def records_of(request: Request) -> bytes:
    scope = session_scope((), request.session)
    return b"".join(
        bytes(
            encode_turn(
                role="user", content=content, timestamp_us=request.id, token_count=2,
                producer=PRODUCER, producer_seq=request.id, key_scope=scope,
                key=f"k{request.id}.{index}" if request.keyed else None,
            )
        )
        for index, content in enumerate(request.contents)
    )  # fmt: skip


class RegionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.fs = CrashFileSystem(1)
        Region.create(self.fs, DIRECTORY, store_id=STORE_ID, partition=0, options=OPTIONS)
        self.requests: list[Request] = []
        self.first_seq: dict[int, int] = {}
        self.written = self.durable = 0
        self.next_id = 1
        self.lives = 0
        self.worker = LazyWorker(0)
        self.region: Region = self.open()

    def open(self) -> Region:
        self.lives += 1
        self.worker = LazyWorker(self.lives)
        return Region.open(
            self.fs, DIRECTORY, store_id=STORE_ID, partition=0, options=OPTIONS, lock=False,
            random_bytes=bytes, submit=self.worker.submit,
        )  # fmt: skip

    # ---- what clients do -------------------------------------------------------------------------

    @rule(
        session=st.sampled_from(SESSIONS),
        sizes=st.lists(st.sampled_from([1, 40, 600, 3000]), min_size=1, max_size=3),
        keyed=st.booleans(),
    )
    def append(self, session: str, sizes: list[int], keyed: bool) -> None:
        request = Request(self.next_id, "append", session, keyed=keyed)
        request.contents = [f"{self.next_id}.{i}|".ljust(n, "~") for i, n in enumerate(sizes)]
        self.next_id += 1
        self.attempt(request)

    @rule(
        session=st.sampled_from(SESSIONS),
        kind=st.sampled_from(["hide", "unhide"]),
        at=st.integers(0, 30),
        n=st.integers(1, 3),
    )
    def hide(self, session: str, kind: Any, at: int, n: int) -> None:
        turns = len(view(self.requests)[session])
        if turns:
            first = at % turns
            last = min(first + n, turns) - 1
            request = Request(self.next_id, kind, session, seqs=(first, last))
            self.next_id += 1
            self.attempt(request)

    @rule(session=st.sampled_from(SESSIONS), at=st.integers(0, 30))
    def erase(self, session: str, at: int) -> None:
        turns = len(view(self.requests)[session])
        if turns:
            first = at % turns
            request = Request(self.next_id, "erase", session, seqs=(first, first))
            self.next_id += 1
            self.attempt(request)
            if self.requests and self.requests[-1] is request:
                self.written = self.durable = len(self.requests)

    @precondition(lambda self: any(r.kind == "append" for r in self.requests))
    @rule(which=st.integers(0, 1000))
    def repeat(self, which: int) -> None:
        """The answer was lost; the same request comes again, any time later."""
        appends = [r for r in self.requests if r.kind == "append"]
        request = appends[which % len(appends)]
        answer = self.ask(request)
        assert isinstance(answer, Appended)
        seqs = []
        for _, record in answer.existing:
            header, _ = next(decode_records(record))
            seqs.append(header.sequence_id)
        first = self.first_seq[request.id]
        assert seqs == list(range(first, first + len(request.contents)))

    @precondition(lambda self: any(r.kind == "append" and not r.keyed for r in self.requests))
    @rule(which=st.integers(0, 1000))
    def repeat_with_other_content(self, which: int) -> None:
        appends = [r for r in self.requests if r.kind == "append" and not r.keyed]
        request = appends[which % len(appends)]
        other = Request(request.id, "append", request.session, [c + "!" for c in request.contents])
        with pytest.raises(Conflict):
            self.ask(other)

    def attempt(self, request: Request) -> None:
        try:
            answer = self.ask(request)
        except Poisoned:
            self.requests.append(request)  # it may have been written
            self.reopen()
            return
        if isinstance(answer, Appended):
            self.first_seq[request.id] = answer.first_seq
        self.requests.append(request)

    def ask(self, request: Request) -> Any:
        region, session = self.region, request.session
        if request.kind == "append":
            return region.append((), session, None, PRODUCER, request.id, None, records_of(request))
        if request.kind == "erase":
            runs = [request.seqs]
            return region.erase((), session, runs, "confirmed", "me", None, PRODUCER, request.id)
        hidden = request.kind == "hide"
        return region.hide((), session, [request.seqs], hidden, "me", None, PRODUCER, request.id)

    # ---- what the owner does ---------------------------------------------------------------------

    @rule()
    def write(self) -> None:
        self.region.write()
        self.written = len(self.requests)

    @rule()
    def sync(self) -> None:
        self.region.write()
        self.region.sync()
        self.written = self.durable = len(self.requests)

    @rule()
    def idle(self) -> None:
        self.region.noop_if_idle()

    @rule()
    def the_worker_gets_to_run(self) -> None:
        self.worker.some()

    @rule(seal=st.booleans())
    def close_and_open(self, seal: bool) -> None:
        if seal:
            self.region.seal()
            self.written = self.durable = len(self.requests)
        self.reopen()

    # ---- what the world does ---------------------------------------------------------------------

    @rule()
    def kill(self) -> None:
        self.fs = self.fs.process_death()
        self.recover(self.written)

    @rule()
    def power_cut(self) -> None:
        self.fs = self.fs.power_cut()
        self.recover(self.durable)

    @rule(
        calls=st.integers(0, 12),
        sizes=st.lists(st.sampled_from([40, 3000]), min_size=1, max_size=3),
        power=st.booleans(),
        erase=st.booleans(),
    )
    def die_within(self, calls: int, sizes: list[int], power: bool, erase: bool) -> None:
        """Death at any call of an append and its sync, or of an erasure."""
        self.fs.kill_at(len(self.fs.calls) + calls, after=bool(calls % 2))
        at = calls * len(sizes)
        try:
            if erase:
                self.doomed_erasure(at)
            else:
                self.append("left", sizes, keyed=False)
            self.sync()
            self.idle()
        except Killed:
            pass
        if power:
            self.power_cut()
        else:
            self.kill()

    def doomed_erasure(self, at: int) -> None:
        turns = len(view(self.requests)["left"])
        if not turns:
            return
        request = Request(self.next_id, "erase", "left", seqs=(at % turns, at % turns))
        self.next_id += 1
        # It counts as tried before it is asked: death may come after it has become durable.
        self.requests.append(request)
        self.ask(request)
        self.written = self.durable = len(self.requests)

    @rule(
        op=st.sampled_from(["pwrite", "fdatasync"]),
        nth=st.integers(1, 3),
        power=st.booleans(),
        sizes=st.lists(st.sampled_from([40, 3000]), min_size=1, max_size=3),
    )
    def fail(self, op: Any, nth: int, power: bool, sizes: list[int]) -> None:
        """An I/O error, followed by false successes; the owner reopens, as it must."""
        fault = self.fs.inject(Fault(op, nth=nth, error=errno.EIO))
        try:
            self.append("right", sizes, keyed=True)
            self.sync()
            self.idle()
        except (Poisoned, OSError):
            self.reopen()
        fault.count = 0
        if power:
            self.power_cut()

    def reopen(self) -> None:
        """In the same process: the page cache stays, with what it falsely takes for clean."""
        self.region.close()
        self.recover(self.durable)

    def recover(self, at_least: int) -> None:
        self.region = self.open()
        found = self.look()
        for kept in range(len(self.requests), at_least - 1, -1):
            if view(self.requests[:kept]) == found:
                break
        else:
            raise AssertionError(
                f"{at_least} of {len(self.requests)} requests are owed, no such prefix is there"
            )
        del self.requests[kept:]
        self.written = self.durable = len(self.requests)
        for request in self.requests:
            if request.kind == "append" and request.id not in self.first_seq:
                before = view(self.requests[: self.requests.index(request)])
                self.first_seq[request.id] = len(before[request.session])
        assert [f for f in self.region.verify() if f.severity == "error"] == []

    def look(self) -> dict[str, list[Turn]]:
        found: dict[str, list[Turn]] = {}
        for session in SESSIONS:
            window = self.region.page((), session, None, None, False, 10_000, True)
            flags: dict[int, int] = {}
            for first, last, flag in window.flags:
                for seq in range(first, last + 1):
                    flags[seq] = flags.get(seq, 0) | flag
            turns = found[session] = []
            for header, body in decode_records(window.records):
                assert header.sequence_id == len(turns), "a hole"
                flag = flags.get(len(turns), 0)
                assert not flag & TurnFlag.UNREADABLE
                gone = bool(flag & TurnFlag.ERASED)
                assert gone == (body is None)
                content = None if body is None else body[BodyField.CONTENT]
                turns.append(Turn(content, bool(flag & TurnFlag.HIDDEN)))
        return found

    @invariant()
    def the_region_looks_like_the_model(self) -> None:
        """Also what is only staged is read."""
        assert self.look() == view(self.requests)

    def teardown(self) -> None:
        self.region.close()


def test_a_region_behaves_like_its_model_whatever_dies(request: pytest.FixtureRequest) -> None:
    run_state_machine_as_test(
        RegionMachine,
        settings=settings(
            max_examples=500 if request.config.getoption("--long") else 24,
            stateful_step_count=40,
            suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType]
        ),
    )
