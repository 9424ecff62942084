"""A region against a plain model: any mix of appends, repeats, keys, hides, marks, forks and
erasures, with kills, power cuts and orderly restarts in between.

The model is a list of snapshots, one after each operation in the order of the log. A kill keeps
what was written: exactly that snapshot. A power cut keeps what was synced and perhaps some of what
was written after it: one of the snapshots from there on, never a mixture, never less.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from neverforget.storage.errors import Conflict, InvalidArgument, NotFound
from neverforget.storage.record import read_header
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.results import ForkPoint, TurnFlag
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem
from tests.storage.small_region import Client, seen
from tests.storage.snapshots import survivor
from tests.storage.test_region_append import UnlockedBench

# Two pages a segment at most: rolls, side files and segments of their own size all happen.
OPTIONS = RegionOptions(segment_bytes=8192, first_segment_bytes=4096)
NAMES = ("alpha", "beta", "gamma", "delta")
KEYS = ("k1", "k2", "k3")
PRODUCERS = (7, 8)

names = st.sampled_from(NAMES)
turn_texts = st.sampled_from(["a", "b", "", "c" * 300, "d" * 1500, "e\ud83d"])
turns = st.tuples(turn_texts, st.sampled_from([None, None, *KEYS]), st.integers(0, 5))
producers = st.sampled_from(PRODUCERS)

Turn = tuple[str, int, bool]  # content, tokens, erased
Request = tuple[int, int]


@dataclass
class Talk:
    """One session of the model. ``keys``: key -> the seq that holds it, for ever."""

    base: int = 0
    parent: str | None = None
    inherited: int = 0
    turns: list[Turn] = field(default_factory=list)
    hidden: set[int] = field(default_factory=set)
    marked: set[int] = field(default_factory=set)
    keys: dict[str, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.base + len(self.turns)


@dataclass
class World:
    """``requests``: what was asked under an id, and the seqs it was answered with."""

    talks: dict[str, Talk] = field(default_factory=dict)
    requests: dict[Request, tuple[Any, ...]] = field(default_factory=dict)
    audited: int = 0


class RegionMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**32))
    def set_out(self, seed: int) -> None:
        """``seed`` decides what each power cut leaves."""
        self.fs = CrashFileSystem(seed=seed)
        self.fs.make_directory(ROOT)
        self.bench = UnlockedBench(ROOT / "p0", fs=self.fs, options=OPTIONS)
        self.world = World()
        self.snapshots: list[tuple[int, World]] = [(0, World())]  # (log position, world there)
        self.numbers: dict[int, int] = dict.fromkeys(PRODUCERS, 0)
        self.asked: list[Any] = []

    def teardown(self) -> None:
        self.bench.close()

    # ---- the client ------------------------------------------------------------------------------

    @property
    def client(self) -> Client:
        return self.bench.client

    def next_request(self, producer: int) -> Request:
        self.numbers[producer] += 1
        return producer, self.numbers[producer]

    def took(self, end: int) -> None:
        """The log took an operation that ends at ``end``."""
        self.snapshots.append((end, copy.deepcopy(self.world)))

    @rule(name=names, said=st.lists(turns, min_size=1, max_size=4), producer=producers)
    def append(self, name: str, said: list[Any], producer: int) -> None:
        request = self.next_request(producer)
        self.asked.append((request, name, said))
        self.ask(request, name, said, None)

    @rule(name=names, said=turns, producer=producers, wrong=st.integers(-2, 2))
    def append_at(self, name: str, said: Any, producer: int, wrong: int) -> None:
        talk = self.world.talks.get(name, Talk())
        expected = max(0, talk.end + wrong)
        try:
            known = self.holder(talk, said[1], said[0]) is not None
        except KeyError:
            return
        if expected != talk.end and not known:
            try:
                self.send(self.next_request(producer), name, [said], expected)
            except Conflict as error:
                assert error.seq == talk.end
                return
            raise AssertionError("an append at the wrong seq must be refused")
        self.ask(self.next_request(producer), name, [said], expected)

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """A client whose answer was lost asks again, now or much later."""
        request, name, said = data.draw(st.sampled_from(self.asked[-12:]))
        self.ask(request, name, said, None)

    @precondition(lambda self: self.world.requests)
    @rule(data=st.data())
    def repeat_with_something_else(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(sorted(self.world.requests)))
        kind, name, *_ = self.world.requests[request]
        if kind == "append" and name in self.world.talks:
            try:
                self.send(request, name, [("never said", None, 1)] * 5, None)
            except Conflict:
                return
            raise AssertionError("one id, two contents: a conflict")

    def send(self, request: Request, name: str, said: list[Any], expect: int | None) -> Any:
        given = [{"content": text, "key": key, "token_count": tokens} for text, key, tokens in said]
        return self.client.append(name, *given, request=request, expect_seq=expect)

    def ask(self, request: Request, name: str, said: list[Any], expect: int | None) -> None:
        world = self.world
        before = self.bench.region.status().tail
        if request in world.requests:
            kind, _, wanted = world.requests[request]
            assert kind == "append"
            answered = self.send(request, name, said, expect)
            assert self.seqs_of(answered, len(said)) == wanted
            assert self.bench.region.status().tail == before, "a repeat writes nothing"
            return
        talk = copy.deepcopy(world.talks.get(name, Talk()))
        try:
            wanted = self.say(talk, said)
        except KeyError:
            try:
                self.send(request, name, said, expect)
            except Conflict:
                return
            raise AssertionError("a key with other content: a conflict") from None
        new = sorted({seq for seq in wanted if seq >= world.talks.get(name, Talk()).end})
        answered = self.send(request, name, said, expect)
        assert self.seqs_of(answered, len(said)) == wanted
        if not new:
            return
        opened = name not in world.talks
        world.talks[name] = talk
        if opened or any(key is None for _, key, _ in said):
            world.requests[request] = ("append", name, wanted)
        self.took(answered.end)

    @staticmethod
    def say(talk: Talk, said: list[Any]) -> list[int]:
        """The seqs that these turns get. KeyError: a key is held by something else."""
        wanted = []
        for text, key, tokens in said:
            held = RegionMachine.holder(talk, key, text)
            if held is not None:
                wanted.append(held)
                continue
            if key is not None:
                talk.keys[key] = talk.end
            wanted.append(talk.end)
            talk.turns.append((text, tokens, False))
        return wanted

    @staticmethod
    def holder(talk: Talk, key: str | None, text: str) -> int | None:
        """Which turn answers for this one, erased or not."""
        seq = talk.keys.get(key) if key is not None else None
        if seq is not None and talk.turns[seq - talk.base][0] != text:
            raise KeyError(key)
        return seq

    @staticmethod
    def seqs_of(answered: Any, count: int) -> list[int]:
        """Of every item of the request, as a client works them out."""
        known = {at: read_header(record).sequence_id for at, record in answered.existing}
        fresh = iter(range(answered.first_seq, answered.first_seq + count))
        return [known[at] if at in known else next(fresh) for at in range(count)]

    # ---- hides, marks, forks, erasures -----------------------------------------------------------

    @precondition(lambda self: any(talk.turns for talk in self.world.talks.values()))
    @rule(data=st.data(), what=st.sampled_from(["hide", "unhide", "mark"]), producer=producers)
    def annotate(self, data: st.DataObject, what: str, producer: int) -> None:
        name, (first, last) = self.draw_run(data)
        talk = self.world.talks[name]
        run = set(range(first, last + 1))
        request = self.next_request(producer)
        region = self.bench.region
        end = 0
        for _ in range(data.draw(st.integers(1, 2))):
            if what == "mark":
                end = region.mark((), name, first, last, "v1", *request)
            else:
                hidden = what == "hide"
                end = region.hide((), name, [(first, last)], hidden, "me", None, *request)
        if what == "mark":
            talk.marked |= run
        else:
            talk.hidden = talk.hidden | run if what == "hide" else talk.hidden - run
            self.world.audited += 1
        self.world.requests[request] = (what, name)
        self.took(end)

    def draw_run(self, data: st.DataObject) -> tuple[str, tuple[int, int]]:
        candidates = sorted(name for name, talk in self.world.talks.items() if talk.turns)
        name = data.draw(st.sampled_from(candidates))
        talk = self.world.talks[name]
        first = data.draw(st.integers(talk.base, talk.end - 1))
        return name, (first, data.draw(st.integers(first, talk.end - 1)))

    @precondition(lambda self: self.world.talks)
    @rule(data=st.data(), name=names, producer=producers)
    def fork(self, data: st.DataObject, name: str, producer: int) -> None:
        parent = data.draw(st.sampled_from(sorted(self.world.talks)))
        talk = self.world.talks[parent]
        at = data.draw(st.integers(talk.base, talk.end))
        tokens = talk.inherited + sum(turn[1] for turn in talk.turns[: at - talk.base])
        request = self.next_request(producer)
        point = ForkPoint((), parent, at, 0)
        try:
            end = self.bench.region.fork((), name, point, tokens, "me", *request)
        except (Conflict, InvalidArgument):
            assert name in self.world.talks
            return
        assert name not in self.world.talks
        self.world.talks[name] = Talk(at, parent, tokens)
        self.world.requests[request] = ("fork", name)
        self.world.audited += 1
        self.took(end)

    @precondition(lambda self: any(talk.turns for talk in self.world.talks.values()))
    @rule(data=st.data(), producer=producers)
    def erase_turns(self, data: st.DataObject, producer: int) -> None:
        name, (first, last) = self.draw_run(data)
        talk = self.world.talks[name]
        request = self.next_request(producer)
        view = self.client.erase(name, [(first, last)], request=request)
        fresh = 0
        for seq in range(first, last + 1):
            text, tokens, erased = talk.turns[seq - talk.base]
            fresh += not erased
            talk.turns[seq - talk.base] = (text, tokens, True)
        self.erased(request, name, view.turns == fresh)
        assert self.client.erase(name, [(first, last)], request=request).turns == fresh

    @precondition(lambda self: self.world.talks)
    @rule(data=st.data(), producer=producers)
    def erase_session(self, data: st.DataObject, producer: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.world.talks)))
        talk = self.world.talks.pop(name)
        request = self.next_request(producer)
        view = self.client.erase(name, request=request)
        self.erased(request, name, view.turns == sum(not turn[2] for turn in talk.turns))

    def erased(self, request: Request, name: str, counted: bool) -> None:
        assert counted
        self.world.audited += 1
        self.world.requests[request] = ("erase", name)
        assert self.bench.region.durable == self.bench.region.status().tail
        self.snapshots = []
        self.took(self.bench.region.durable)

    @rule(name=names)
    def what_is_not_there_is_refused(self, name: str) -> None:
        talk = self.world.talks.get(name, Talk())
        for ask in (
            lambda: self.bench.region.hide(
                (), name, [(talk.end, talk.end)], True, "me", None, *self.next_request(7)
            ),
            lambda: self.client.erase(name, [(talk.end, talk.end)]),
        ):
            try:
                ask()
            except NotFound:
                continue
            raise AssertionError("that turn does not exist")

    # ---- the disk --------------------------------------------------------------------------------

    @rule()
    def write(self) -> None:
        self.bench.region.write()

    @rule()
    def sync(self) -> None:
        self.client.commit()
        assert self.bench.region.durable == self.bench.region.status().tail

    @rule()
    def prove(self) -> None:
        self.client.commit()
        self.bench.region.noop_if_idle()
        assert not self.bench.region.unproven

    @rule(seal=st.booleans())
    def end_in_order(self, seal: bool) -> None:
        if seal:
            self.client.commit()
        written = self.bench.region.written
        self.bench.reopen(seal=seal)
        self.survives({written})

    @rule()
    def kill(self) -> None:
        """kill -9: what was staged is gone, what was written is there."""
        written = self.bench.region.written
        self.continue_on(self.fs.process_death())
        self.survives({written})

    @rule()
    def cut_the_power(self) -> None:
        durable, written = self.bench.region.durable, self.bench.region.written
        self.continue_on(self.fs.power_cut())
        ends = {end for end, _ in self.snapshots if durable <= end <= written}
        self.survives(ends | {durable})

    def continue_on(self, fs: CrashFileSystem) -> None:
        self.bench.close()
        self.fs = self.bench.fs = fs
        self.client.region = self.bench.open()

    def survives(self, ends: set[int]) -> None:
        """The region holds the world as of one of these positions."""
        self.world = survivor(self.snapshots, ends, self.observed, self.expected)
        self.snapshots = []
        self.took(self.bench.region.durable)

    # ---- looking ---------------------------------------------------------------------------------

    def observed(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        region = self.bench.region
        views, more = region.sessions((), None, None, 100)
        assert not more
        for view in views:
            window = self.client.all(view.session)
            turns = seen(window)
            assert [turn.seq for turn in turns] == list(range(view.base, view.turns))
            found[view.session] = (
                view.base,
                view.parent.session if view.parent else None,
                view.tokens,
                [(turn.content, turn.tokens, turn.flags) for turn in turns],
            )
        entries, _ = region.audit(None, None, None, None, None, None, None, 1000)
        found["audited"] = len(entries)
        found["turns"] = region.status().turns
        return found

    @staticmethod
    def expected(world: World) -> dict[str, Any]:
        wanted: dict[str, Any] = {}
        for name, talk in world.talks.items():
            shown = []
            for seq, (text, tokens, erased) in enumerate(talk.turns, talk.base):
                flags = TurnFlag.ERASED if erased else TurnFlag(0)
                flags |= TurnFlag.HIDDEN if seq in talk.hidden else TurnFlag(0)
                flags |= TurnFlag.CONSOLIDATED if seq in talk.marked else TurnFlag(0)
                shown.append((None if erased else text, tokens, int(flags)))
            tokens = talk.inherited + sum(turn[1] for turn in talk.turns)
            wanted[name] = (talk.base, talk.parent, tokens, shown)
        wanted["audited"] = world.audited
        wanted["turns"] = sum(len(talk.turns) for talk in world.talks.values())
        return wanted

    @invariant()
    def shows_what_the_model_holds(self) -> None:
        assert self.observed() == self.expected(self.world)

    @invariant()
    def reads_agree_with_each_other(self) -> None:
        for name, talk in self.world.talks.items():
            visible = [n for n in range(talk.base, talk.end) if n not in talk.hidden]
            tail = seen(self.client.tail(name, 3))
            assert [turn.seq for turn in tail] == visible[-3:]
            page = self.bench.region.page((), name, None, None, False, 2, False)
            assert [turn.seq for turn in seen(page)] == visible[:2]

    @rule()
    def verify(self) -> None:
        kinds = {finding.kind for finding in self.bench.region.verify()}
        assert kinds <= {"torn_tail"}, kinds


RegionMachine.TestCase.settings = hypothesis.settings(
    max_examples=hypothesis.settings().max_examples // 2 or 50, stateful_step_count=40
)
TestRegionMachine = RegionMachine.TestCase
