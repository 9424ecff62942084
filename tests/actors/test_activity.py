"""What owners answer about who uses a store, and when recalls get onto the record."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from neverforget.actors.activity_messages import Activity, ActivityReply, Agents, AgentsReply
from neverforget.actors.longterm_messages import Recall, RecallReply, unpacked
from neverforget.actors.recall_recording import RECORD_EVERY_S
from neverforget.storage import agent_activity
from neverforget.storage.activity_results import AgentMemories
from neverforget.storage.errors import OutOfSpace
from neverforget.storage.format import Kind
from neverforget.storage.log_heads import heads_of
from neverforget.storage.log_state import of_kinds
from neverforget.storage.longterm import LongTermRegion
from tests.actors.conftest import Owning
from tests.actors.longterm_owners import OwnedLongTerm, own
from tests.actors.regions import Owned, append


def recall(owned: OwnedLongTerm, by: str, **how: object) -> Recall:
    request = owned.recall_request("tea", strategy="text", **how)  # type: ignore[arg-type]
    request.by = by
    return request


def recalls(owned: OwnedLongTerm, scope: tuple[str, ...] = ()) -> dict[str, int]:
    return {one.agent: one.recalls for one in agents(owned, scope) if one.recalls}


def agents(owned: OwnedLongTerm, scope: tuple[str, ...] = ()) -> list[AgentMemories]:
    reply = owned.ask(Agents(owned.next_id(), scope, None), AgentsReply)
    assert not reply.more
    return unpacked(reply.agents, list[AgentMemories])


def records(owned: OwnedLongTerm) -> int:
    """How many of them there are."""
    region = owned.owner._life.region
    assert region is not None
    state = region.state
    return sum(len(of_kinds(h, p, Kind.RECALLED)) for h, p in heads_of(state.log, state.log_seed))


# ---- turns ---------------------------------------------------------------------------------------


def test_a_partition_counts_a_part_for_each_request(
    owned: Owned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_activity, "_PART_BYTES", 256)
    for number in range(1, 9):
        owned.ask(append(number, "x", agent="ann"))
    replies: list[ActivityReply] = []
    while not replies or replies[-1].counting:
        reply = owned.ask(Activity(100 + len(replies), (), None))[0].answer
        assert isinstance(reply, ActivityReply)
        replies.append(reply)
    assert len(replies) > 2 and all(reply.agents == [] for reply in replies[:-1])
    (one,) = replies[-1].agents
    assert (one.agent, one.turns, one.sessions) == ("ann", 8, 1)


# ---- recalls -------------------------------------------------------------------------------------


def test_a_recall_counts_for_the_agent_that_asks(longterm: OwnedLongTerm) -> None:
    longterm.remember("green tea", namespace=("a",), agent="bob")
    for by, namespace in (("ann", ()), ("ann", ("a",)), ("bob", ("a",)), ("", ("a",))):
        longterm.ask(recall(longterm, by, namespace=namespace), RecallReply)
    assert recalls(longterm) == {"ann": 2, "bob": 1}
    assert recalls(longterm, ("a",)) == {"ann": 1, "bob": 1}
    told = [(one.agent, one.memories) for one in agents(longterm, ("a",))]
    assert told == [("ann", 0), ("bob", 1)]


def test_a_name_that_has_no_utf8_form_is_told_like_any_other(longterm: OwnedLongTerm) -> None:
    longterm.remember("tea", agent="a\ud83d")
    assert [one.agent for one in agents(longterm)] == ["a\ud83d"]


def test_a_recall_that_is_refused_does_not_count(longterm: OwnedLongTerm) -> None:
    request = recall(longterm, "ann")
    request.strategy = "guessing"
    assert longterm.refused(request) == "invalid_argument"
    assert recalls(longterm) == {}


def test_recalls_are_put_on_record_once_a_minute(owning: Owning) -> None:
    owned = owning()
    for _ in range(3):
        owned.ask(recall(owned, "ann"), RecallReply)
    owned.pass_time(RECORD_EVERY_S - 1)
    assert records(owned) == 0
    owned.pass_time(1)
    assert records(owned) == 1
    owned.pass_time(RECORD_EVERY_S)
    assert records(owned) == 1, "there is nothing new"
    owned.ask(recall(owned, "ann"), RecallReply)
    owned.pass_time(RECORD_EVERY_S)
    assert records(owned) == 2
    region = owned.owner._life.region
    assert region is not None
    owned.pass_time(2)
    assert region.durable == region.written, "an idle owner syncs what it has written"


def test_an_orderly_end_leaves_no_recall_out(owning: Owning) -> None:
    owned = owning()
    owned.ask(recall(owned, "ann"), RecallReply)
    owned.owner.close()
    assert recalls(owning()) == {"ann": 1}


def test_a_death_costs_the_recalls_since_the_last_record(owning: Owning, tmp_path: Path) -> None:
    owned = owning()
    owned.ask(recall(owned, "ann"), RecallReply)
    owned.pass_time(RECORD_EVERY_S)
    owned.ask(recall(owned, "ann"), RecallReply)
    owned.settle()
    left = tmp_path / "left"
    shutil.copytree(owned.directory, left)
    again = own(left)
    try:
        assert recalls(again) == {"ann": 1}
    finally:
        again.owner.close()


def test_without_room_the_counts_wait(
    longterm: OwnedLongTerm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: LongTermRegion) -> None:
        raise OutOfSpace("no room")

    longterm.ask(recall(longterm, "ann"), RecallReply)
    with monkeypatch.context() as patch:
        patch.setattr(LongTermRegion, "record_recalls", full)
        longterm.pass_time(RECORD_EVERY_S)
        assert records(longterm) == 0
    longterm.pass_time(RECORD_EVERY_S)
    assert records(longterm) == 1 and recalls(longterm) == {"ann": 1}
