"""Working memories over real stores: what fits, who leaves, who shares them, and what survives."""

from __future__ import annotations

import asyncio
import copy
import pickle
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.runtime.working_operations import every
from tests.fakes.plain_host import PlainHost
from tests.storage.small_region import HandClock

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
NOBODY = "019ce53a-7a40-7000-8000-000000000001"

Opener = Callable[..., nf.Store]


def words(tokens: int) -> str:
    """A text of exactly so many tokens, by the formula of ``tokenizer="estimate"``."""
    return "a" * ((100 * tokens - 150) // 24)


def texts(items: Any) -> list[str]:
    return [item.memory.text for item in items]


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def reopened(tmp_path: Path, clock: HandClock) -> Iterator[Callable[[], nf.Store]]:
    """Opens the same store again, closed in between."""
    opened: list[nf.Store] = []

    def again() -> nf.Store:
        for each in opened:
            each.close()
        opened.append(nf.testing.store(tmp_path / "store", clock=clock))
        return opened[-1].scoped(agent="ada")

    yield again
    opened[-1].close()


@pytest.fixture
def store(reopened: Callable[[], nf.Store]) -> nf.Store:
    return reopened()


def remembered(store: nf.Store, clock: HandClock, ages_us: dict[str, int], **fields: Any) -> None:
    """Memories of these ages, the clock standing at now in the end; ``fields`` by text."""
    now = clock.wall_us
    for text, age_us in sorted(ages_us.items(), key=lambda each: -each[1]):
        clock.wall_us = now - age_us
        store.remember(text, **fields[text])
    clock.wall_us = now


# ---- the budget ----------------------------------------------------------------------------------


def test_the_least_important_and_oldest_leave_first(store: nf.Store, clock: HandClock) -> None:
    """Importance 1.0 of 2,000 tokens, an hour old; 2.0 of 1,500, two days; 8.0 of 100, five days;
    10.0 of 3,000, three days. For 4,500 tokens the first three leave, in this order, then the last.
    """
    now = clock.wall_us + 10 * DAY_US
    made = {}
    for importance, tokens, age_us in (
        (8.0, 100, 5 * DAY_US),
        (10.0, 3_000, 3 * DAY_US),
        (2.0, 1_500, 2 * DAY_US),
        (1.0, 2_000, HOUR_US),
    ):
        clock.wall_us = now - age_us
        made[importance] = store.remember(words(tokens), importance=importance)
    clock.wall_us = now
    wm = store.working_memory(max_tokens=6_600)
    for each in made.values():
        assert wm.add(each) == ()
    assert wm.utilization == 1.0
    large = store.remember(words(4_500))
    left = wm.add(large)
    assert left == tuple(made[importance].id for importance in (1.0, 2.0, 8.0, 10.0))
    assert texts(wm) == [large.text] and wm.utilization == 4_500 / 6_600
    (entry,) = store.audit(operation="evict")
    assert entry.by == "ada" and entry.details["ids"] == list(left)
    for each in made.values():  # to leave is not to be forgotten
        assert store.get(each.id) == each
        assert store.audit(operation="evict", target=each).items == (entry,)


def test_of_equal_importance_the_oldest_leaves_first(store: nf.Store, clock: HandClock) -> None:
    made = []
    for _ in range(3):
        clock.wall_us += DAY_US
        made.append(store.remember(words(100), importance=5))
    wm = store.working_memory(max_tokens=300)
    for each in (made[1], made[2], made[0]):
        wm.add(each)
    assert wm.add(store.remember(words(150), importance=0)) == (made[0].id, made[1].id)


def test_what_is_larger_than_the_whole_budget_is_refused(store: nf.Store) -> None:
    wm = store.working_memory(max_tokens=100)
    wm.add(store.remember(words(60)))
    with pytest.raises(nf.InvalidArgument, match=r"101 tokens, .* budget of 100"):
        wm.add(store.remember(words(101)))
    assert len(wm) == 1


def test_what_is_pinned_stays_and_leaves_less_room(store: nf.Store) -> None:
    wm = store.working_memory(max_tokens=100)
    pinned, other, third = (store.remember(words(40), importance=n) for n in range(3))
    wm.add(pinned, pinned=True)
    wm.add(other.id)
    assert wm.add(third) == (other.id,)
    with pytest.raises(nf.InvalidArgument, match=r"70 tokens, .* leaves 60"):
        wm.add(store.remember(words(70)))
    wm.unpin(pinned)
    assert wm.add(other) == (pinned.id,)
    wm.pin(other.id)
    assert [item.pinned for item in wm] == [False, True]
    with pytest.raises(nf.NotFound, match="not in this working memory"):
        wm.pin(pinned)


def test_never_over_budget_and_never_what_was_just_added(
    store: nf.Store, clock: HandClock, rng: random.Random
) -> None:
    """Random operations: after each the budget holds, pinned ones stay, and who left was among the
    least important, the oldest first.
    """
    pool = []
    for _ in range(40):
        clock.wall_us += HOUR_US
        pool.append(store.remember(words(rng.randint(2, 120)), importance=rng.randint(0, 3)))
    ids = {each.id: each for each in pool}
    for _ in range(300):
        budget = rng.choice([150, 300, 600])
        wm = store.working_memory(max_tokens=budget)
        before = {item.memory.id: item for item in wm}
        each = rng.choice(pool)
        try:
            if rng.random() < 0.7:
                left = wm.add(each, pinned=rng.random() < 0.1)
            else:
                getattr(wm, rng.choice(["remove", "pin", "unpin"]))(each)
                continue
        except nf.NotFound:
            continue
        except nf.InvalidArgument as error:
            assert "budget" in str(error)
            assert {item.memory.id for item in wm} == before.keys()
            continue
        after = {item.memory.id: item for item in wm}
        assert sum(item.tokens for item in after.values()) <= budget and each.id in after
        assert after.keys() == (before.keys() | {each.id}) - set(left)
        ranks = [(ids[one].importance, ids[one].created_at) for one in left]
        stayed = [item for item in after.values() if item.memory.id in before and not item.pinned]
        stayed_ranks = [
            (i.memory.importance, i.memory.created_at) for i in stayed if i.memory.id != each.id
        ]
        assert ranks == sorted(ranks) and all(max(ranks) <= one for one in stayed_ranks if ranks)
        assert not any(before[one].pinned for one in left)


# ---- recalling into it ---------------------------------------------------------------------------


def test_recall_adds_what_was_found_and_counts_it(store: nf.Store) -> None:
    store.remember("The launch is on the 9th of March")
    store.remember("Ada takes her coffee without milk")
    wm = store.working_memory()
    hits = wm.recall("when is the launch", limit=1)
    assert isinstance(hits, nf.Hits) and len(hits) == 1
    wm.recall("launch in March", limit=1, strategy="text")
    (item,) = wm
    assert item.memory == hits[0].memory and item.accesses == 2 and not item.pinned
    assert item.used_at > item.added_at
    assert wm.recall("nothing of the kind", tags="none") == ()


def test_recall_takes_what_fits_the_best_first(store: nf.Store) -> None:
    for n in range(5):
        store.remember(f"launch {words(50)} {n}", importance=n)
    wm = store.working_memory(max_tokens=130)
    hits = wm.recall("launch", limit=5)
    assert len(hits) == 5
    assert [item.memory.id for item in wm] == [hit.memory.id for hit in hits[:2]]


def test_who_was_evicted_is_recalled_again(store: nf.Store) -> None:
    store.remember("The launch is in March", importance=1)
    wm = store.working_memory(max_tokens=60)
    wm.recall("launch")
    wm.add(store.remember(words(55)))
    assert texts(wm) == [words(55)]
    wm.recall("launch", limit=1)
    assert texts(wm) == ["The launch is in March"]


def test_a_chunk_stands_for_its_original(store: nf.Store) -> None:
    made = store.remember(" ".join(f"Sentence {n} about the harbour." for n in range(200)))
    store.settle()
    wm = store.working_memory()
    wm.add(store.chunks(made.id)[1])
    assert [item.memory.id for item in wm] == [made.id]
    assert all(chunk in wm for chunk in store.chunks(made.id))


def test_what_is_no_memory_is_not_in_it(store: nf.Store) -> None:
    """ "x" in wm raised NotFound, for it is no id; nothing else that has an "in" raises."""
    wm = store.working_memory()
    made = store.remember("memory")
    wm.add(made)
    assert made in wm and made.id in wm
    for other in ("x", "", NOBODY, None, 5):
        assert other not in wm
    store.erase(made.id, confirm=nf.CONFIRMED)
    assert made not in wm


def test_what_moves_while_all_of_it_is_read_is_met_once(store: nf.Store) -> None:
    """It is read page by page. What was on the first, left and came back, was on the last, too: a
    context told it twice.
    """
    wm = store.working_memory()
    made = store.remember_many([{"text": f"memory {n}"} for n in range(300)])
    for each in made:
        wm.add(each)

    def read() -> Any:
        operation = every(wm._asker)
        reply = yield next(operation)
        wm.remove(made[0])
        wm.add(made[0])
        try:
            while True:
                reply = yield operation.send(reply)
        except StopIteration as stop:
            return stop.value

    found = [item.memory.id for item in store._run(read())]
    assert found == [each.id for each in (*made[1:], made[0])]


# ---- it holds memories, not copies ---------------------------------------------------------------


def test_what_becomes_of_a_memory_becomes_of_it_here(store: nf.Store) -> None:
    wm = store.working_memory()
    made = [store.remember(f"memory {n}") for n in range(4)]
    for each in made:
        wm.add(each, pinned=True)
    store.revise(made[0].id, text="memory 0, revised")
    store.forget(made[1].id, confirm=nf.CONFIRMED)
    store.archive(made[2].id, confirm=nf.CONFIRMED)
    assert texts(wm) == ["memory 0, revised", "memory 3"]
    store.erase(made[3].id, confirm=nf.CONFIRMED)
    store.undo_forget(made[1].id)
    assert texts(wm) == ["memory 0, revised"]
    assert "memory 3" not in str(wm.context())


def test_only_active_memories_of_the_view_go_in(store: nf.Store) -> None:
    elsewhere = store.scoped(namespace="acme").remember("theirs")
    archived = store.remember("old")
    store.archive(archived.id, confirm=nf.CONFIRMED)
    wm = store.scoped(namespace="other").working_memory()
    for wrong in (elsewhere, NOBODY):
        with pytest.raises(nf.NotFound):
            wm.add(wrong)
    with pytest.raises(nf.NotFound, match="archived"):
        store.working_memory().add(archived)
    assert len(wm) == 0 and wm.utilization == 0.0


# ---- who shares it -------------------------------------------------------------------------------


def test_it_is_known_by_namespace_and_name(store: nf.Store) -> None:
    made = store.remember("shared")
    store.working_memory().add(made)
    assert made in store.working_memory("ada") and made.id in store.scoped(
        agent="x"
    ).working_memory("ada")
    others = (
        store.working_memory("bob"),
        store.working_memory(group="ada"),
        store.scoped(namespace="acme").working_memory(),
    )
    assert [len(each) for each in others] == [0, 0, 0]
    assert made not in others[0] and 7 not in others[0]
    with pytest.raises(nf.InvalidArgument, match="pass agent= or group="):
        nf.Store(store._lease, type(store._scope)(), store.config).working_memory()


def test_changes_are_seen_by_all_at_once(opener: Opener) -> None:
    """Through handles of other processes as well: what is kept is kept by one owner."""
    ada, bob = opener(agent="ada"), opener(agent="bob")
    hers, his = (each.working_memory(group="support", max_tokens=100) for each in (ada, bob))
    made = ada.remember("Parcels to Oslo take five days")
    hers.add(made)
    assert [item.memory for item in his] == [made]
    his.pin(made)
    assert next(iter(hers)).pinned
    his.remove(made.id)
    assert len(hers) == 0


def test_a_member_that_leaves_or_is_silent_is_followed_by_the_next(
    store: nf.Store, clock: HandClock
) -> None:
    ada, bob, eve = (store.working_memory(name, group="support") for name in ("ada", "bob", "eve"))
    watcher = nf.Store(store._lease, type(store._scope)(), store.config).working_memory(
        group="support"
    )

    def active() -> list[str]:
        return [member.agent for member in watcher.members() if member.active]

    for each in (ada, bob, eve):
        each.join()
    assert [member.agent for member in watcher.members()] == ["ada", "bob", "eve"]
    assert active() == ["ada"]
    clock.wall_us += 20_000_000
    bob.members()
    eve.members()
    clock.wall_us += 20_000_000  # ada was silent for 40 s
    assert active() == ["bob"]
    bob.leave()
    assert active() == ["eve"] and len(watcher.members()) == 2
    ada.members()  # it is back, and stands behind
    assert active() == ["eve"]
    with pytest.raises(nf.InvalidArgument, match="say which agent"):
        watcher.join()


# ---- surviving -----------------------------------------------------------------------------------


def test_it_survives_a_restart(reopened: Callable[[], nf.Store], clock: HandClock) -> None:
    store = reopened()
    wm = store.working_memory(max_tokens=200)
    made = [store.remember(f"fact {n} {words(20)}") for n in range(8)]
    for each in made:
        wm.add(each, pinned=each is made[0])
    wm.recall("fact", limit=2)
    wm.join()
    before = list(wm), wm.utilization, [m.agent for m in wm.members()]
    again = reopened().working_memory()
    assert (list(again), again.utilization, [m.agent for m in again.members()]) == before


def test_it_survives_the_host(short_path: Path) -> None:
    path = short_path / "store"
    host = PlainHost(path)
    try:
        with nf.open(path, host="never", agent="ada") as store:
            wm = store.working_memory()
            wm.add(store.remember("kept"), pinned=True)
            host.close()
            host = PlainHost(path)
            assert texts(wm) == ["kept"]
    finally:
        host.close()


# ---- handles -------------------------------------------------------------------------------------


def test_handles_are_values(store: nf.Store) -> None:
    wm = store.working_memory(max_tokens=500)
    for same in (copy.copy(wm), copy.deepcopy(wm), store.working_memory("ada")):
        assert same == wm and hash(same) == hash(wm)
    assert wm != store.working_memory(group="g") and wm != 1 and wm
    assert (wm.agent, wm.group, wm.namespace, wm.max_tokens) == ("ada", None, (), 500)
    assert "agent='ada'" in repr(wm)
    assert "group='g', namespace=('n',)" in repr(
        store.scoped(namespace="n").working_memory(group="g")
    )
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(wm)
    with wm as entered:
        assert entered is wm
    assert len(wm) == 0  # leaving it closed nothing
    for wrong in (0, -1, 2**32, 1.5, True, "many"):
        with pytest.raises(nf.InvalidArgument, match="max_tokens"):
            store.working_memory(max_tokens=wrong)  # type: ignore[arg-type]


def test_they_travel_as_their_address(host: PlainHost) -> None:
    with nf.open(host.store.path, host="never", agent="ada") as store:
        view = store.scoped(namespace="acme")
        wm = view.working_memory(group="support", max_tokens=700)
        wm.add(view.remember("kept"))
        with pickle.loads(pickle.dumps(wm)) as there:
            assert there == wm and there.max_tokens == 700
            assert texts(there) == ["kept"]
        with pytest.raises(nf.StoreClosed):
            len(there)


def test_values_print_shortly(store: nf.Store) -> None:
    wm = store.working_memory()
    wm.add(store.remember("short"), pinned=True)
    (item,) = wm
    assert repr(item) == f"WorkingItem('short', {item.tokens} tokens, pinned)"
    made = wm.context()
    assert repr(made.items[0]).endswith("'short', pinned)")
    assert repr(made) == f"<Context: 1 memory, 0 turns; {made.tokens} of 128,000 tokens>"
    assert pickle.loads(pickle.dumps(made)) == made and hash(made) == hash(copy.deepcopy(made))
    assert len({item, item}) == 1


# ---- contexts ------------------------------------------------------------------------------------


def test_a_context_of_memories_and_a_conversation(store: nf.Store) -> None:
    chat = store.session("launch")
    chat.append("user", "When is the launch?", name="Mara")
    chat.append("assistant", "On the 9th of March.")
    first = store.remember(
        "The launch is on the 9th of March",
        speaker="Mara",
        related_to=nf.TurnRef((), "launch", 0, 1),
        importance=8,
    )
    wm = store.working_memory()
    wm.recall("launch")
    made = wm.context("important", conversation=chat, max_tokens=400)
    assert made.items[0].memory == first and made.items[0].score == 0.8
    assert made.items[0].provenance == (nf.TurnRef((), "launch", 0, 1),)
    assert made.items[0].text.endswith("; Mara; launch #0-1] The launch is on the 9th of March")
    assert [turn.seq for turn in made.turns] == [0, 1] and made.tokens <= made.max_tokens == 400
    assert [message["role"] for message in made.messages()] == ["system", "user", "assistant"]


def test_wrong_arguments_are_refused(store: nf.Store, tmp_path: Path) -> None:
    wm = store.working_memory()
    with pytest.raises(nf.InvalidArgument, match="strategy"):
        wm.context("best")  # type: ignore[arg-type]
    with pytest.raises(nf.InvalidArgument, match="max_tokens"):
        wm.context(max_tokens=0)
    with pytest.raises(nf.InvalidArgument, match=r"pass a session"):
        wm.context(conversation="chat")  # type: ignore[arg-type]
    with nf.testing.store(tmp_path / "other") as other:
        with pytest.raises(nf.InvalidArgument, match="of another store"):
            wm.context(conversation=other.session("chat"))
    with pytest.raises(TypeError, match="colour"):
        wm.recall("x", colour="red")
    with pytest.raises(nf.NotFound):
        wm.add("no id")


# ---- on an event loop ----------------------------------------------------------------------------


def test_the_same_on_an_event_loop(host: PlainHost) -> None:
    async def use() -> None:
        async with await nf.aio.open(host.store.path, host="never", agent="ada") as store:
            async with store.working_memory(group="support", max_tokens=100) as wm:
                made = await store.remember("The launch is in March")
                assert await wm.add(made) == ()
                await wm.recall("launch", limit=1)
                await wm.pin(made)
                (item,) = [each async for each in wm]
                assert item.pinned and item.accesses == 1
                chat = store.session("chat")
                await chat.append("user", "When?")
                found = await wm.context("recent", conversation=chat)
                assert "launch" in str(found) and len(found.turns) == 1
                await wm.join()
                assert [m.active for m in await wm.members()] == [True]
                await wm.leave()
                await wm.unpin(made)
                assert 0 < await wm.utilization < 1
                await wm.remove(made)
                assert await wm.count() == 0
                assert wm == copy.deepcopy(wm)
                async with pickle.loads(pickle.dumps(wm)) as there:
                    assert there == wm and await there.count() == 0

    asyncio.run(use())
