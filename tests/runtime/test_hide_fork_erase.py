"""Hiding, forking and erasing, and what the audit says about them. Same in every mode."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from tests.runtime.conftest import Opener, filled, seqs

# ---- hiding --------------------------------------------------------------------------------------


def test_hidden_turns_leave_tails_and_pages_and_come_back(chat: nf.Session) -> None:
    filled(chat, 6)
    chat.hide([1, 4, 3], reason="off topic")
    assert seqs(chat) == seqs(chat.tail()) == seqs(chat.page()) == [0, 2, 5]
    assert seqs(chat.tail(include_hidden=True)) == list(range(6))
    shown = chat.page(include_hidden=True)
    assert [turn.state for turn in shown] == ["ok", "hidden", "ok", "hidden", "hidden", "ok"]
    assert chat[3].state == "hidden" and chat[3].content == "3" and len(chat) == 6
    chat.unhide(range(3, 5))
    assert seqs(chat) == [0, 2, 3, 4, 5]


def test_a_session_whose_turns_are_all_hidden_can_be_walked(chat: nf.Session) -> None:
    filled(chat, 50)
    chat.hide(range(50))
    assert list(chat) == [] and list(reversed(chat)) == [] and chat.tail() == []
    page = chat.page(limit=3)
    assert (len(page), page.has_more) == (0, False)
    chat.append("user", "seen")
    assert seqs(chat.page(after=page.next)) == [50]


@pytest.mark.parametrize("missing", [3, [0, 3], range(2, 9)])
def test_hiding_what_is_not_there_hides_nothing(chat: nf.Session, missing: Any) -> None:
    filled(chat, 3)
    with pytest.raises(nf.NotFound):
        chat.hide(missing)
    assert seqs(chat) == [0, 1, 2]


@pytest.mark.parametrize("wrong", [-1, "0", [0, "1"], 1.5, None, [None]])
def test_seqs_that_cannot_be_meant_are_refused(chat: nf.Session, wrong: Any) -> None:
    filled(chat, 3)
    with pytest.raises(nf.InvalidArgument):
        chat.hide(wrong)
    if wrong is not None:
        with pytest.raises(nf.InvalidArgument):
            chat.erase(wrong, confirm=nf.CONFIRMED)


def test_a_turn_in_place_of_its_seq_is_named_by_its_seq(chat: nf.Session) -> None:
    """The error showed the whole turn, content and all."""
    turn: Any = chat.append("user", "secret " * 1000)
    for ask in (lambda: chat.hide(turn), lambda: chat.hide([turn]), lambda: chat.get(turn)):
        with pytest.raises(nf.InvalidArgument, match=r"turn 0 itself, a Turn; pass turn") as caught:
            ask()
        assert "secret" not in str(caught.value)


# ---- forks ---------------------------------------------------------------------------------------


def test_a_fork_shares_the_past_and_goes_its_own_way(chat: nf.Session) -> None:
    filled(chat, 10)
    branch = chat.fork("branch", at=4)
    assert seqs(branch) == [0, 1, 2, 3] and len(branch) == 4
    assert branch.append("user", "own").seq == 4
    chat.append("user", "elsewhere")
    assert [turn.content for turn in branch] == ["0", "1", "2", "3", "own"]
    assert {turn.session for turn in branch} == {"branch"}
    assert branch[1].content == "1" and branch[-1].content == "own"
    assert [turn.content for turn in branch[2:]] == ["2", "3", "own"]
    assert seqs(reversed(branch)) == [4, 3, 2, 1, 0]
    assert len(chat) == 11
    info = branch.info()
    assert info.turns == 5
    assert info.tokens == sum(turn.token_count for turn in branch)


def test_a_fork_of_a_fork_reads_through_both(store: nf.Store) -> None:
    root = filled(store.session("root"), 6)
    middle = root.fork("middle", at=4)
    middle.append_many([{"role": "user", "content": f"m{n}"} for n in range(4)])
    low, high = middle.fork("low", at=2), middle.fork("high", at=6)
    for leaf in (low, high):
        leaf.append("user", "leaf")
    assert [turn.content for turn in low] == ["0", "1", "leaf"]
    assert [turn.content for turn in high] == ["0", "1", "2", "3", "m0", "m1", "leaf"]
    assert [turn.content for turn in high.tail(4)] == ["3", "m0", "m1", "leaf"]
    for leaf in (low, high):
        assert leaf.info().tokens == sum(turn.token_count for turn in leaf)
    page = high.page(limit=2)
    walked = list(page)
    while page.has_more:
        page = high.page(after=page.next, limit=2)
        walked += page
    assert walked == list(high)
    page = high.page(newest=True, limit=3)
    walked = list(page)
    while page.previous is not None:
        page = high.page(before=page.previous, limit=3)
        walked = [*page, *walked]
    assert walked == list(high)


def test_a_forks_tail_keeps_its_budget_and_pairs_across_the_branch(chat: nf.Session) -> None:
    chat.append("user", "q", token_count=5)
    chat.append("tool_call", {}, call_id="c", token_count=5)
    branch = chat.fork("branch", at=2)
    branch.append("tool_result", "r", call_id="c", token_count=5)
    branch.append("assistant", "a", token_count=5)
    assert [turn.role for turn in branch.tail(2)] == ["assistant"]
    assert [turn.role for turn in branch.tail(3)] == ["tool_call", "tool_result", "assistant"]
    assert [turn.role for turn in branch.tail(max_tokens=10)] == ["assistant"]
    assert branch.tail(max_tokens=15)[0].role == "tool_call"
    assert len(branch.tail(max_tokens=20)) == 4


def test_a_forks_info_tells_of_the_past_it_shares(store: nf.Store) -> None:
    """Its agents and its first and last time used to be those of its own turns only."""
    at = [datetime(2024, 1, day, tzinfo=UTC) for day in range(1, 7)]
    root = store.session("root", agent="ann")
    root.append("user", "0", timestamp=at[0])
    store.session("root", agent="bob").append("user", "1", timestamp=at[1])
    store.session("root", agent="eve").append("user", "2", timestamp=at[2])
    middle = root.fork("middle", at=2)
    info = middle.info()
    assert (info.agents, info.first_at, info.last_at) == (("ann", "bob"), at[0], at[1])
    store.session("middle", agent="cid").append("user", "m", timestamp=at[3])
    assert middle.info().agents == ("ann", "bob", "cid")
    assert (middle.info().first_at, middle.info().last_at) == (at[0], at[3])
    low, high = middle.fork("low", at=1), middle.fork("high", at=3)
    assert (low.info().agents, low.info().last_at) == (("ann",), at[0])
    assert (high.info().agents, high.info().last_at) == (("ann", "bob", "cid"), at[3])
    assert {info.session: info for info in store.sessions()} == {
        chat.name: chat.info() for chat in (root, middle, low, high)
    }
    none = root.fork("none", at=0).info()
    assert (none.agents, none.first_at, none.last_at) == ((), None, None)
    root.erase(confirm=nf.CONFIRMED)
    assert (low.info().agents, low.info().first_at, low.info().turns) == ((), None, 1)


def test_a_key_of_an_inherited_turn_is_free_in_the_fork(chat: nf.Session) -> None:
    chat.append("user", "x", key="k")
    branch = chat.fork("branch", at=1)
    assert branch.append("user", "another", key="k").seq == 1
    assert branch.append("user", "another", key="k").seq == 1
    assert "``key``" in (nf.Session.fork.__doc__ or ""), "and its docstring says so"


def test_forks_at_the_edges(chat: nf.Session) -> None:
    filled(chat, 3)
    empty, whole = chat.fork("empty", at=0), chat.fork("whole", at=3)
    assert len(empty) == 0 and list(empty) == [] and empty.append("user", "x").seq == 0
    assert seqs(whole) == [0, 1, 2] and whole.append("user", "x").seq == 3
    with pytest.raises(nf.InvalidArgument, match="has 3 turns"):
        chat.fork("beyond", at=4)
    with pytest.raises(nf.InvalidArgument):
        chat.fork("negative", at=-1)
    with pytest.raises(nf.Conflict):
        chat.fork("whole", at=1)
    with pytest.raises(nf.InvalidArgument):
        chat.fork("chat", at=1)


def test_a_session_that_does_not_exist_cannot_be_forked(store: nf.Store) -> None:
    for at in (0, 1):
        with pytest.raises(nf.NeverforgetError):
            store.session("nobody").fork("branch", at=at)
    assert len(store.sessions()) == 0


def test_what_a_fork_inherited_is_the_parents_to_hide(chat: nf.Session) -> None:
    filled(chat, 4)
    branch = chat.fork("branch", at=2)
    with pytest.raises(nf.InvalidArgument):
        branch.hide(1)
    chat.hide(1)
    assert seqs(branch) == [0]


def test_a_fork_of_an_erased_session_shows_its_past_as_erased(store: nf.Store) -> None:
    """The parent's name may stand for another conversation by now: its turns are not the past."""
    parent = filled(store.session("parent"), 3)
    branch = parent.fork("branch", at=3)
    branch.append("user", "own")
    parent.erase(confirm=nf.CONFIRMED)
    assert list(parent) == []
    for _ in range(2):
        assert [turn.state for turn in branch] == ["erased"] * 3 + ["ok"]
        assert [turn.content for turn in branch.tail(3)] == [None, None, "own"]
        assert [turn.state for turn in reversed(branch)] == ["ok"] + ["erased"] * 3
        assert branch[0].state == "erased" and branch[-1].content == "own" and len(branch) == 4
        filled(parent, 5)  # a new conversation under the old name


# ---- erasing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("confirm", [None, True, "confirmed", "CONFIRMED", 1, nf.Confirmation])
def test_erasing_without_confirmation_is_refused_and_on_the_record(
    store: nf.Store, confirm: Any
) -> None:
    chat = filled(store.session("chat"), 2)
    with pytest.raises(nf.ConfirmationRequired, match="CONFIRMED"):
        chat.erase([0], confirm=confirm, reason="tidy", by="eve")
    with pytest.raises(ValueError):
        chat.erase(confirm=confirm)
    assert [turn.content for turn in chat] == ["0", "1"]
    with pytest.raises(nf.InvalidArgument, match="on the record are hide, unhide, fork, erase"):
        store.audit(operation="nope")
    refused = store.audit(operation="forget-refused")
    assert [(entry.by, entry.reason) for entry in refused] == [("eve", "tidy"), ("ada", None)]
    assert refused[0].target == {"namespace": [], "session": "chat", "seqs": [[0, 0]]}


def test_erased_turns_keep_their_place_and_lose_their_bytes(opener: Opener, tmp_path: Path) -> None:
    store = opener(agent="ada")
    chat = store.session("chat")
    chat.append("user", "kept before")
    chat.append(
        "user", "canary-4711", name="canary-4711", metadata={"x": "canary-4711"}, key="canary-4711"
    )
    chat.append("user", "kept after")
    report = chat.erase(1, confirm=nf.CONFIRMED, reason="asked to", by="dpo")
    assert report.turns == 1 and report.bytes > 0
    turn = chat[1]
    assert (turn.state, turn.content, turn.name, turn.key) == ("erased", None, None, None)
    assert [turn.seq for turn in chat] == [0, 1, 2] and chat.append("user", "x").seq == 3
    (entry,) = store.audit(operation="erase")
    assert (entry.by, entry.reason) == ("dpo", "asked to")
    store.close()
    for file in Path(store.address).rglob("*"):
        assert not file.is_file() or b"canary-4711" not in file.read_bytes(), file


def test_erasing_a_whole_session_frees_its_name(store: nf.Store) -> None:
    chat = filled(store.session("canary-name"), 3)
    assert chat.erase(confirm=nf.CONFIRMED).turns == 3
    assert len(chat) == 0 and len(store.sessions()) == 0
    assert chat.append("user", "afresh").seq == 0
    assert [turn.content for turn in chat] == ["afresh"]


def test_erasing_what_is_not_there(store: nf.Store) -> None:
    chat = filled(store.session("chat"), 2)
    with pytest.raises(nf.NotFound):
        chat.erase([0, 5], confirm=nf.CONFIRMED)
    assert [turn.state for turn in chat] == ["ok", "ok"]
    with pytest.raises(nf.NotFound):
        store.session("nobody").erase(confirm=nf.CONFIRMED)
    assert chat.erase([], confirm=nf.CONFIRMED).turns == 0


# ---- audit ---------------------------------------------------------------------------------------


def audited(store: nf.Store) -> None:
    for name in ("a", "b", "c", "d"):
        chat = filled(store.session(name), 2)
        chat.hide(0, reason=f"hide {name}")
        chat.unhide(0)
    store.session("a", agent="bob").hide(1)


def test_the_audit_merges_partitions_by_time_and_pages(store: nf.Store) -> None:
    audited(store)
    whole = store.audit()
    assert len(whole) == 9 and not whole.has_more
    assert [entry.at for entry in whole] == sorted(entry.at for entry in whole)
    assert len({entry.target["session"] for entry in whole}) == 4
    page = store.audit(limit=2)
    walked = list(page)
    while page.has_more:
        page = store.audit(after=page.next, limit=2)
        walked += page
    assert walked == list(whole)
    assert len(store.audit(after=page.next, limit=2)) == 0
    store.session("d").hide(1, reason="later")
    assert [entry.reason for entry in store.audit(after=page.next, limit=2)] == ["later"]


def test_the_audit_filters(store: nf.Store) -> None:
    audited(store)
    assert {entry.by for entry in store.audit()} == {"ada", "bob"}
    assert [entry.target["session"] for entry in store.audit(by="bob")] == ["a"]
    assert len(store.audit(operation="unhide")) == 4
    assert len(store.audit(target=store.session("a"))) == 3
    assert len(store.audit(target=store.session("a"), operation="hide", by="ada")) == 1
    now = datetime.now(UTC)
    hour = timedelta(hours=1)
    assert len(store.audit(timeframe=(now - hour, None))) == 9
    assert len(store.audit(timeframe=(None, now - hour))) == 0
    assert len(store.audit(timeframe=(now - hour, now + hour))) == 9
    assert len(store.audit(timeframe="last 2 hours")) == 9
    for wrong in ((now, now - hour), "some day", (now,), (datetime(2026, 1, 1), None), 7):
        with pytest.raises(nf.InvalidArgument):
            store.audit(timeframe=wrong)  # type: ignore[arg-type]
    with pytest.raises(nf.InvalidArgument, match="Session"):
        store.audit(target="a")


def test_who_did_it_is_the_argument_else_the_agent_else_the_process(opener: Opener) -> None:
    store = opener()
    filled(store.session("chat"), 3)
    store.session("chat").hide(0)
    store.scoped(agent="view").session("chat").hide(0)
    store.scoped(agent="view").session("chat", agent="own").hide(0)
    store.session("chat", agent="own").erase(1, confirm=nf.CONFIRMED, by="argument")
    by = [entry.by for entry in store.audit()]
    assert by[1:] == ["view", "own", "argument"]
    assert "@" in by[0] and ":" in by[0]
