"""A long-term region against a model, with kills, power cuts and reopenings at any moment.

The model is a few dicts, copied after every call together with the log position that the call
ended at. After a power cut everything durable must be there, after a kill everything written; of
the rest a prefix may be, whole calls only. After each reopening the region must look like one of
the copies in every respect: texts, versions, tags, keys, relations, statuses, audit.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from neverforget.storage.errors import Conflict, InvalidArgument, NotFound
from neverforget.storage.longterm_deriving import derived_id
from neverforget.storage.longterm_results import Changes, MemoryFilter, NewDerived, NewMemory
from neverforget.storage.longterm_unchunked import Unchunked
from neverforget.storage.region_options import RegionOptions
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem
from tests.storage.small_longterm import SPLITTER, LongTermBench, everything, memory_id

OPTIONS = RegionOptions(first_segment_bytes=8192, segment_bytes=16384)
NAMESPACES: list[tuple[str, ...]] = [(), ("a",), ("a", "b"), ("ab",)]
TAGS = ["x", "x:y", "x:y:z", "xy", "w"]
LONG = 5  # characters: what is longer is to be chunked
KEYS = [None, "k1", "k2"]
REFUSED = (NotFound, Conflict, InvalidArgument)

numbers = st.integers(1, 14)


@dataclass
class Modelled:
    text: str
    namespace: tuple[str, ...]
    key: str | None
    tags: list[str]
    status: str = "active"
    before: str = "active"
    history: list[str] = field(default_factory=list)
    tagged: list[list[str]] = field(default_factory=list)  # as each version was written
    original: str | None = None
    forgotten_by: int = 0

    def say(self, text: str, tags: list[str]) -> None:
        """Another version."""
        self.text, self.tags = text, list(tags)
        self.history.append(text)
        self.tagged.append(list(tags))


@dataclass
class Model:
    memories: dict[str, Modelled] = field(default_factory=dict)
    relations: dict[tuple[str, str, str], float] = field(default_factory=dict)
    audit: list[tuple[str, int]] = field(default_factory=list)
    chunkings: list[tuple[str, list[str]]] = field(default_factory=list)
    deletions: int = 0

    def there(self, wanted: str) -> Modelled | None:
        found = self.memories.get(wanted)
        return found if found and found.status != "forgotten" else None

    def family(self, wanted: str) -> list[Modelled]:
        parts = [m for m in self.memories.values() if m.original == wanted]
        return [self.memories[wanted], *parts]

    def tags_of(self, wanted: str) -> list[str]:
        held = self.memories[wanted]
        return held.tags if held.original is None else self.memories[held.original].tags

    def holder(self, namespace: tuple[str, ...], key: str | None) -> str | None:
        for name, held in self.memories.items():
            if key and held.key == key and held.namespace == namespace and self.there(name):
                return name
        return None

    def forget(self, ids: list[str]) -> None:
        self.deletions += 1
        for each in ids:
            for one in self.family(each):
                if one.status != "forgotten":
                    one.before, one.status, one.forgotten_by = (
                        one.status, "forgotten", self.deletions,
                    )  # fmt: skip

    def drop(self, ids: list[str]) -> None:
        gone = {n for n, m in self.memories.items() if n in ids or m.original in ids}
        for each in gone:
            del self.memories[each]
        self.relations = {
            k: w for k, w in self.relations.items() if k[0] not in gone and k[1] not in gone
        }

    def unchunked(self) -> dict[str, str]:
        chunked = {m.original for m in self.memories.values() if m.status != "forgotten"}
        return {
            name: held.text
            for name, held in self.memories.items()
            if held.original is None and held.status == "active" and len(held.text) > LONG
            if name not in chunked
        }

    def retire(self, wanted: str) -> None:
        self.deletions += 1
        for one in self.family(wanted)[1:]:
            if one.status != "forgotten":
                one.before, one.status, one.forgotten_by = one.status, "forgotten", self.deletions


def looks(model: Model) -> dict[Any, Any]:
    seen: dict[Any, Any] = {"audit": model.audit, "chunkings": model.chunkings}
    for name, held in model.memories.items():
        seen[name] = (held.text, held.status, held.namespace, held.key, tuple(model.tags_of(name)))
        if held.status != "forgotten":
            seen["history", name] = held.history
            seen["relations", name] = sorted(
                (*ends, weight)
                for ends, weight in model.relations.items()
                if name in ends[:2] and model.there(ends[0]) and model.there(ends[1])
            )
    for tag in TAGS:
        seen["tag", tag] = sorted(
            name
            for name, held in model.memories.items()
            if held.status == "active"
            and any(t == tag or t.startswith(tag + ":") for t in model.tags_of(name))
        )
    for namespace in NAMESPACES:
        for key in KEYS[1:]:
            seen["key", namespace, key] = model.holder(namespace, key)
    return seen


def appears(b: LongTermBench) -> dict[Any, Any]:
    region = b.region
    seen: dict[Any, Any] = {
        "audit": [(e.operation, e.details.get("count", 0)) for e in b.audit()],
        "chunkings": [(e.target["id"], e.details["chunks"]) for e in b.audit(operation="chunk")],
    }
    for m in region.memories(everything(), limit=10_000).memories:
        seen[m.id] = (m.text, m.status, m.namespace, m.key, m.tags)
        if m.status != "forgotten":
            seen["history", m.id] = [v.text for v in region.history(m.id)]
            seen["relations", m.id] = sorted(
                (r.source, r.target, r.kind, r.weight)
                for r in region.relations(m.id)
                if r.kind not in ("chunk-of", "part-of-sequence")
            )
    for tag in TAGS:
        page = region.memories(MemoryFilter(tags=(tag,), derived=True), limit=10_000)
        seen["tag", tag] = sorted(m.id for m in page.memories)
    for namespace in NAMESPACES:
        for key in KEYS[1:]:
            try:
                seen["key", namespace, key] = region.by_key(namespace, key or "").id
            except NotFound:
                seen["key", namespace, key] = None
    return seen


def chunks_of(original: str, version: int, text: str, cut: int) -> list[NewDerived]:
    spans = [(0, cut), (cut, len(text))] if cut else [(0, len(text))]
    return [
        NewDerived(
            derived_id(original, version, "chunk", (a, b), SPLITTER), text[a:b], "chunk", (a, b)
        )
        for a, b in spans
    ]


class LongTermMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.fs = CrashFileSystem(1)
        self.b = LongTermBench(ROOT / "lt", fs=self.fs, options=OPTIONS, lock=False)
        self.model = Model()
        self.states: list[tuple[int, Model]] = [(0, Model())]
        self.drawn = 0
        self.last: Any = None
        self.queue = Unchunked(self.b.region.state, LONG)

    @initialize()
    def furnish(self) -> None:
        for at, text in enumerate(("one", "two" * 400, "three", "four")):
            self.remember(NAMESPACES[at], KEYS[at % 3], TAGS[at : at + 2], text, False)
            self.chunk(1, 2)
        self.relate(1, 2, 0.5, True)

    def teardown(self) -> None:
        self.b.region.close()

    # ---- one call ------------------------------------------------------------------------------

    def call(self, allowed: bool, run: Any) -> Any:
        """Make a call under a new request id; ``allowed``: what the model says of it."""
        request = self.b.next_request()
        if not allowed:
            with pytest.raises(REFUSED):
                run(request)
            return None
        tail = self.b.region._log.tail
        answer = run(request)
        self.last = (run, request) if self.b.region._log.tail > tail else None
        if self.last is not None and "asked" in run.__code__.co_names:
            assert self.b.region.durable == self.b.region._log.tail
        return answer

    def note(self) -> None:
        self.states.append((self.b.region._log.tail, copy.deepcopy(self.model)))

    def id(self, number: int) -> str:
        """One of those that are there, forgotten ones too; now and then one that is not."""
        names = [n for n, held in self.model.memories.items() if held.original is None]
        return names[-number % len(names)] if names and number < 14 else memory_id(999)

    @invariant()
    def it_looks_like_the_model(self) -> None:
        assert appears(self.b) == looks(self.model)

    @invariant()
    def its_status_counts_what_there_is(self) -> None:
        status, count = self.b.region.status(), self.b.region.count
        active, archived = count(MemoryFilter()), count(MemoryFilter(status="archived"))
        assert (status.memories, status.archived) == (active, archived)
        assert status.derived == count(MemoryFilter(derived=True)) - active
        assert status.forgotten == count(MemoryFilter(status="forgotten", derived=True))

    # ---- remembering ---------------------------------------------------------------------------

    @rule(
        namespace=st.sampled_from(NAMESPACES), key=st.sampled_from(KEYS),
        tags=st.lists(st.sampled_from(TAGS), unique=True, max_size=3),
        text=st.sampled_from(["one", "two" * 400, "three"]), revise=st.booleans(),
    )  # fmt: skip
    def remember(
        self, namespace: tuple[str, ...], key: str | None, tags: list[str], text: str, revise: bool
    ) -> None:
        self.drawn += 1
        new = NewMemory(memory_id(self.drawn), text, key=key, tags=tuple(tags), namespace=namespace)
        mode = "revise" if revise else "raise"
        holder = self.model.holder(namespace, key)
        held = self.model.memories[holder] if holder else None
        equal = (
            held is not None
            and held.text == text
            and set(tags) in (set(held.tags), set(held.tagged[-1]))
        )
        self.call(
            held is None or equal or revise,
            lambda r: self.b.region.remember((new,), by="t", request=r, on_conflict=mode),
        )
        if held is None:
            made = self.model.memories[new.id] = Modelled(text, namespace, key, tags)
            made.say(text, tags)
        elif not equal and revise and holder:
            held.say(text, tags)
            self.model.retire(holder)
        self.note()

    @rule(number=numbers, text=st.sampled_from(["revised", "again", "one"]))
    def revise(self, number: int, text: str) -> None:
        wanted = self.id(number)
        held = self.model.there(wanted)
        self.call(
            held is not None,
            lambda r: self.b.region.revise(wanted, Changes(text=text), by="t", request=r),
        )
        if held is not None and held.text != text:
            held.say(text, held.tags)
            self.model.retire(wanted)
        self.note()

    @rule(number=numbers, version=st.integers(1, 3))
    def revert(self, number: int, version: int) -> None:
        wanted = self.id(number)
        held = self.model.there(wanted)
        known = held is not None and version <= len(held.history)
        self.call(known, lambda r: self.b.region.revert(wanted, version, by="t", request=r))
        if held is not None and known:
            text, tags = held.history[version - 1], held.tagged[version - 1]
            if (held.text, held.tags) != (text, tags):
                held.say(text, tags)
                self.model.retire(wanted)
        self.note()

    @rule(number=numbers, tag=st.sampled_from(TAGS), given=st.booleans())
    def tag(self, number: int, tag: str, given: bool) -> None:
        wanted = self.id(number)
        held = self.model.there(wanted)
        name = "tag" if given else "untag"
        self.call(
            held is not None,
            lambda r: getattr(self.b.region, name)(wanted, (tag,), by="t", request=r),
        )
        if held is not None and (tag in held.tags) is not given:
            held.tags = [*held.tags, tag] if given else [t for t in held.tags if t != tag]
        self.note()

    @rule(one=numbers, two=numbers, weight=st.sampled_from([0.5, 1.0]), made=st.booleans())
    def relate(self, one: int, two: int, weight: float, made: bool) -> None:
        source, target = self.id(one), self.id(two)
        ends = (source, target, "about")
        there = bool(self.model.there(source) and self.model.there(target))
        if made:
            self.call(
                there and source != target,
                lambda r: self.b.region.relate(
                    source, target, "about", weight=weight, by="t", request=r
                ),
            )
            if there and source != target:
                self.model.relations[ends] = weight
        else:
            self.call(
                there and ends in self.model.relations,
                lambda r: self.b.region.unrelate(source, target, "about", by="t", request=r),
            )
            if there:
                self.model.relations.pop(ends, None)
        self.note()

    @rule(number=numbers, cut=st.sampled_from([0, 2, 3]))
    def chunk(self, number: int, cut: int) -> None:
        wanted = self.id(number)
        held = self.model.there(wanted)
        text = held.text if held else "xx"
        version = len(held.history) if held else 1
        parts = chunks_of(wanted, version, text, len(text) // cut + 1 if cut else 0)
        there = {
            name
            for name, m in self.model.memories.items()
            if m.original == wanted and m.status != "forgotten"
        }
        same = there == {part.id for part in parts}
        allowed = held is not None and held.status == "active" and (same or not there)
        self.call(
            allowed,
            lambda r: self.b.region.derive(
                wanted, version, parts, by="c", request=r, splitter=SPLITTER
            ),
        )
        if held is not None and allowed and not same:
            self.model.chunkings.append((wanted, [part.id for part in parts]))
            for part in parts:
                self.model.memories[part.id] = Modelled(
                    part.text, held.namespace, None, list(held.tags), history=[part.text],
                    original=wanted,
                )  # fmt: skip
        self.note()

    @rule(first=st.booleans())
    def follow(self, first: bool) -> None:
        """What waits to be chunked, for who looks for the first time and who has followed."""
        self.b.commit()
        queue = Unchunked(self.b.region.state, LONG) if first else self.queue
        queue.follow()
        assert not queue.follow()
        taken = queue.take(1_000, 10**9)
        assert {one.id: one.text for one in taken} == self.model.unchunked()
        for one in taken:
            queue.put_back(one)

    # ---- forgetting ----------------------------------------------------------------------------

    def asked(self, request: tuple[int, int]) -> dict[str, Any]:
        return self.b.asked(request=request)

    @rule(number=numbers)
    def forget(self, number: int) -> None:
        wanted = self.id(number)
        known = wanted in self.model.memories
        self.call(known, lambda r: self.b.region.forget(wanted, **self.asked(r)))
        if self.model.there(wanted):
            self.model.forget([wanted])
            self.model.audit.append(("forget", 1))
        self.note()

    @rule(number=numbers)
    def undo(self, number: int) -> None:
        wanted = self.id(number)
        held = self.model.memories.get(wanted)
        allowed = held is not None and held.status == "forgotten"
        if held is not None and self.model.holder(held.namespace, held.key):
            allowed = False
        self.call(allowed, lambda r: self.b.region.undo_forget(wanted, by="t", request=r))
        if held is not None and allowed:
            for one in self.model.family(wanted):
                if one.status == "forgotten" and one.forgotten_by == held.forgotten_by:
                    one.status = one.before
            self.model.audit.append(("undo-forget", 1))
        self.note()

    @rule(number=numbers, back=st.booleans())
    def archive(self, number: int, back: bool) -> None:
        wanted = self.id(number)
        held = self.model.there(wanted)
        if back:
            self.call(
                held is not None, lambda r: self.b.region.unarchive(wanted, by="t", request=r)
            )
        else:
            self.call(held is not None, lambda r: self.b.region.archive(wanted, **self.asked(r)))
        old, new = ("archived", "active") if back else ("active", "archived")
        if held is not None and held.status == old:
            for one in self.model.family(wanted):
                if one.status == old:
                    one.status = new
            self.model.audit.append(("unarchive" if back else "archive", 1))
        self.note()

    @precondition(lambda self: len(self.model.memories) > 4)
    @rule(
        tag=st.sampled_from(TAGS), namespace=st.sampled_from(NAMESPACES[1:]), by_tag=st.booleans()
    )
    def forget_where(self, tag: str, namespace: tuple[str, ...], by_tag: bool) -> None:
        wanted = MemoryFilter(tags=(tag,)) if by_tag else MemoryFilter(namespace=namespace)
        doomed = [
            name
            for name, held in self.model.memories.items()
            if held.original is None
            and held.status != "forgotten"
            and (
                any(t == tag or t.startswith(tag + ":") for t in held.tags)
                if by_tag
                else held.namespace[: len(namespace)] == namespace
            )
        ]
        dry = self.b.region.forget_where(wanted, dry_run=True, **self.asked((0, 0)))
        answer = self.call(True, lambda r: self.b.region.forget_where(wanted, **self.asked(r)))
        assert answer.count == dry.count == len(doomed)
        if doomed:
            self.model.forget(doomed)
            self.model.audit.append(("forget", len(doomed)))
        self.note()

    @precondition(lambda self: len(self.model.memories) > 8)
    @rule()
    def purge(self) -> None:
        gone = [n for n, m in self.model.memories.items() if m.status == "forgotten"]
        own = [n for n in gone if self.model.memories[n].original is None]
        answer = self.call(True, lambda r: self.b.region.purge(10**18, **self.asked(r)))
        assert answer.count == len(own)
        if gone:
            self.model.audit.append(("purge", len(own)))
            self.model.drop(gone)
        self.note()

    @precondition(lambda self: len(self.model.memories) > 4)
    @rule(number=numbers)
    def erase(self, number: int) -> None:
        wanted = self.id(number)
        known = wanted in self.model.memories
        self.call(known, lambda r: self.b.region.erase((wanted,), **self.asked(r)))
        if known:
            self.model.drop([wanted])
            self.model.audit.append(("erase", 1))
        self.note()

    # ---- disk and death ------------------------------------------------------------------------

    @rule()
    def write(self) -> None:
        self.b.region.write()

    @rule()
    def sync(self) -> None:
        self.b.commit()

    @rule()
    def idle(self) -> None:
        self.b.region.noop_if_idle()
        self.note()

    @rule()
    def ask_again(self) -> None:
        """A call that wrote is recognised. One that wrote nothing would be made anew: not asked."""
        if self.last is None:
            return
        run, request = self.last
        tail = self.b.region._log.tail
        try:
            run(request)
        except NotFound:
            pass  # what it answered was erased since
        assert self.b.region._log.tail == tail, "a repeat wrote"

    @rule(power=st.booleans(), seed=st.integers(0, 1000))
    def die(self, power: bool, seed: int) -> None:
        region = self.b.region
        sure = region.durable if power else region.written
        self.fs = self.fs.power_cut() if power else self.fs.process_death()
        self.b.fs = self.fs
        self.b.region = self.b.open()
        found = appears(self.b)
        first = max(i for i, (end, _) in enumerate(self.states) if end <= sure)
        candidates = [model for _, model in self.states[first:]]
        matching = [model for model in candidates if looks(model) == found]
        assert matching, "neither what was acknowledged nor a prefix of what was not"
        self.model = copy.deepcopy(matching[0])
        self.last = None
        self.restart()

    @rule(seal=st.booleans(), with_snapshot=st.booleans())
    def reopen(self, seal: bool, with_snapshot: bool) -> None:
        self.b.commit()
        snapshot = self.b.region.snapshot() if with_snapshot else None
        self.b.reopen(seal=seal, snapshot=snapshot)
        self.restart()

    def restart(self) -> None:
        self.queue = Unchunked(self.b.region.state, LONG)
        assert [f for f in self.b.region.verify() if f.severity == "error"] == []
        self.states = [(0, copy.deepcopy(self.model))]


def test_a_region_behaves_like_its_model() -> None:
    run_state_machine_as_test(
        LongTermMachine,
        settings=settings(
            max_examples=16, stateful_step_count=40, deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )  # fmt: skip


@pytest.mark.long
def test_a_region_behaves_like_its_model_for_long() -> None:
    run_state_machine_as_test(
        LongTermMachine,
        settings=settings(
            max_examples=2000, stateful_step_count=60, deadline=None, derandomize=False,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )  # fmt: skip
