"""The owner of working memories: what it answers, who sees what, and who is the active member."""

from __future__ import annotations

from typing import Any

import pytest

from neverforget.actors import longterm_messages as m
from neverforget.actors.longterm_messages import unpacked
from neverforget.actors.message_bases import SYNC_DISK, SYNC_PROCESS
from neverforget.actors.messages import encoder, reply_decoder, request_decoder
from neverforget.actors.tokenizers import estimate
from neverforget.actors.working_messages import (
    Work,
    WorkingItems,
    WorkingItemsReply,
    WorkingMembers,
    WorkingMembersReply,
    WorkingReply,
    WorkingStatus,
    WorkingStatusReply,
)
from neverforget.actors.working_presence import SEEN_S, Presence
from neverforget.storage.longterm_results import Namespace
from neverforget.storage.results import AuditView
from neverforget.storage.working_results import WorkingItem, WorkingPlace
from tests.actors.conftest import Owning
from tests.actors.longterm_owners import PRODUCER, OwnedLongTerm

CREW = WorkingPlace(("n",), "crew", True)
TEXT = "the kettle is in the second cupboard"


@pytest.fixture
def o(owning: Owning) -> OwnedLongTerm:
    return owning("none")


def work(
    o: OwnedLongTerm,
    operation: str,
    *ids: str,
    agent: str | None = None,
    place: WorkingPlace = CREW,
    scope: Namespace = (),
    sync: int = SYNC_DISK,
    max_tokens: int = 1_000,
) -> Work:
    number = o.next_id()
    return Work(
        number, scope, "tester", PRODUCER, number, place, operation, agent, list(ids), False,
        max_tokens, sync,
    )  # fmt: skip


def items(o: OwnedLongTerm, scope: Namespace = (), place: WorkingPlace = CREW) -> list[WorkingItem]:
    found: list[WorkingItem] = []
    after: int | None = 0
    while after is not None:
        asked = WorkingItems(o.next_id(), scope, place, None, after)
        reply = o.ask(asked, WorkingItemsReply)
        found += unpacked(reply.items, list[WorkingItem])
        after = reply.next
    return found


def members(o: OwnedLongTerm, agent: str | None = None) -> str:
    """In the order of joining; the active one in capitals."""
    reply = o.ask(WorkingMembers(o.next_id(), (), CREW, agent), WorkingMembersReply)
    said = (each.agent.upper() if each.active else each.agent for each in reply.members)
    return " ".join(said)


def test_what_is_worked_is_counted_and_seen(o: OwnedLongTerm) -> None:
    (one,) = o.remember(TEXT, namespace=("n",))
    reply = o.ask(work(o, "add", one, scope=("n",)), WorkingReply)
    assert (reply.count, reply.tokens, reply.max_tokens) == (1, estimate(TEXT), 1_000)
    (item,) = items(o, ("n",))
    assert (item.memory.text, item.tokens, item.pinned) == (TEXT, estimate(TEXT), False)
    status = o.ask(WorkingStatus(o.next_id(), (), CREW, None), WorkingStatusReply)
    assert (status.count, status.tokens, status.max_tokens) == (1, estimate(TEXT), 1_000)
    o.ask(work(o, "recall", one), WorkingReply)
    (item,) = items(o, ("n",))
    assert item.accesses == 1


def test_whether_one_is_there_is_asked_of_it_alone(o: OwnedLongTerm) -> None:
    """For one yes or no all items were sent, with their texts: seconds, where there are 10,000."""
    inside, outside = (o.remember(TEXT, namespace=(n,))[0] for n in "nm")
    o.ask(work(o, "add", inside, outside), WorkingReply)

    def holds(about: str, scope: Namespace = ()) -> bool:
        asked = WorkingStatus(o.next_id(), scope, CREW, None, about)
        return o.ask(asked, WorkingStatusReply).holds

    assert holds(inside) and holds(outside) and holds(inside, ("n",))
    assert not holds(outside, ("n",))
    o.ask(work(o, "remove", inside), WorkingReply)
    assert not holds(inside)


def test_the_frames_are_these(o: OwnedLongTerm) -> None:
    request = work(o, "add", "x", agent="ann")
    assert request_decoder.decode(encoder.encode(request)) == request
    (one,) = o.remember(TEXT)
    reply = o.ask(work(o, "add", one), WorkingReply)
    assert reply_decoder.decode(encoder.encode(reply)) == reply


def test_a_view_touches_its_own_alone(o: OwnedLongTerm) -> None:
    inside, outside = (o.remember(TEXT, namespace=(n,))[0] for n in "nm")
    for refused in (
        work(o, "add", outside, scope=("n",)),
        work(o, "add", inside, scope=("m",)),
        work(o, "add", inside, scope=("n",), place=WorkingPlace((), "crew", True)),
        WorkingItems(o.next_id(), ("m",), CREW, None, 0),
        WorkingStatus(o.next_id(), ("m",), CREW, None),
        WorkingMembers(o.next_id(), ("m",), CREW, None),
    ):
        assert o.refused(refused) == "not_found"
    o.ask(work(o, "add", inside, outside), WorkingReply)
    assert [item.memory.id for item in items(o)] == [inside, outside]
    assert [item.memory.id for item in items(o, ("n",))] == [inside]


def test_many_items_come_in_bounded_replies(owning: Owning) -> None:
    owned = owning("none", reply_bytes_max=4_096)
    ids = owned.remember(*(f"{n} {TEXT}" for n in range(40)))
    owned.ask(work(owned, "add", *ids, max_tokens=9_999), WorkingReply)
    reply = owned.ask(WorkingItems(owned.next_id(), (), CREW, None, 0), WorkingItemsReply)
    assert reply.next is not None
    assert len(reply.items) < 2 * 4_096
    assert [item.memory.id for item in items(owned)] == ids


def test_a_group_is_staged_in_one_turn_and_a_repeat_is_answered(o: OwnedLongTerm) -> None:
    (one,) = o.remember(TEXT)
    first = work(o, "recall", one, sync=SYNC_PROCESS)
    asked = o.start(first, work(o, "recall", one), first, work(o, "pin", one))
    o.until(lambda: all(each.replies for each in asked))
    assert [each.code for each in asked] == [None] * 4
    (item,) = items(o)
    assert (item.accesses, item.pinned) == (2, True)


def test_a_forgotten_memory_leaves_before_the_answer(o: OwnedLongTerm) -> None:
    one, two = o.remember(TEXT, TEXT)
    o.ask(work(o, "add", one, two), WorkingReply)
    o.ask(o.forget(one), m.ForgottenReply)
    assert [item.memory.id for item in items(o)] == [two]
    o.ask(o.erase(two), m.MemoriesErasedReply)
    assert items(o) == []


def test_it_is_there_after_the_owner_opened_anew(owning: Owning) -> None:
    o = owning("none")
    (one,) = o.remember(TEXT)
    o.ask(work(o, "add", one), WorkingReply)
    o.ask(work(o, "join", agent="ann"), WorkingReply)
    before = items(o)
    o.owner.close()
    again = owning("none")
    assert items(again) == before
    assert members(again) == "ANN"


# ---- members -------------------------------------------------------------------------------------


def test_a_passive_member_takes_over_from_a_silent_one(o: OwnedLongTerm) -> None:
    for agent in ("ann", "bob", "cyd"):
        o.ask(work(o, "join", agent=agent), WorkingReply)
    assert members(o) == "ANN bob cyd"
    o.clock.now += SEEN_S
    assert members(o, "bob") == "ANN bob cyd"
    o.clock.now += 1
    assert members(o, "bob") == "ann BOB cyd"
    assert members(o, "ann") == "ann BOB cyd"
    o.clock.now += 5
    o.ask(work(o, "leave", agent="bob"), WorkingReply)
    assert members(o) == "ANN cyd"


def test_reading_and_working_count_as_being_seen(o: OwnedLongTerm) -> None:
    (one,) = o.remember(TEXT)
    for agent in ("ann", "bob"):
        o.ask(work(o, "join", agent=agent), WorkingReply)
    for asked in (
        lambda: WorkingItems(o.next_id(), (), CREW, "ann", 0),
        lambda: WorkingStatus(o.next_id(), (), CREW, "ann"),
        lambda: work(o, "add", one, agent="ann"),
    ):
        o.clock.now += SEEN_S - 1
        o.start(asked())
        assert members(o, "bob") == "ANN bob"


def test_who_is_no_member_is_not_seen(o: OwnedLongTerm) -> None:
    assert members(o, "ann") == ""
    o.ask(work(o, "join", agent="bob"), WorkingReply)
    assert members(o, "ann") == "BOB"
    reply = o.ask(WorkingMembers(o.next_id(), (), CREW, None), WorkingMembersReply)
    assert reply.members[0].seen_at is not None


def presence(*said: Any) -> list[str | None]:
    """``said``: (time, who is seen, members); the active one after each."""
    line = Presence(0.0)
    found = []
    for now, agent, all_members in said:
        if agent:
            line.see(agent, now, 0, all_members)
        found.append(line.active(now, all_members))
    return found


def test_while_nobody_is_seen_the_first_is_active() -> None:
    assert presence((0, "", "ab"), (1000, "", "ab")) == ["a", "a"]
    assert presence((0, "", "")) == [None]


def test_who_returns_stands_behind() -> None:
    said = [(0, "a", "abc"), (20, "b", "abc"), (40, "c", "abc"), (60, "a", "abc"), (71, "a", "abc")]
    assert presence(*said) == ["a", "a", "b", "c", "a"]


# ---- the audit -----------------------------------------------------------------------------------


def test_evictions_are_audited_page_by_page(o: OwnedLongTerm) -> None:
    ids = o.remember(*[TEXT] * 6)
    for each in ids:
        o.ask(work(o, "add", each, max_tokens=estimate(TEXT)), WorkingReply)
    found: list[str] = []
    after, more = None, True
    while more:
        asked = m.AuditMemories(o.next_id(), (), "evict", None, None, None, None, after, 2)
        reply = o.ask(asked, m.LongTermAuditReply)
        entries = unpacked(reply.entries, list[AuditView])
        assert len(entries) <= 2
        found += [entry.target["id"] for entry in entries]
        after, more = reply.next, reply.more
    assert found == ids[:-1]
