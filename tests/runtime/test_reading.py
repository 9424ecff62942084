"""Reading: tail, page, get, slices, iteration, follow. Same in every mode."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any

import pytest

import neverforget as nf
from tests.runtime.conftest import Opener, filled, seqs

# ---- pages and cursors ---------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 7, 50, 1000])
def test_walking_forwards_and_backwards_sees_every_turn_once(chat: nf.Session, limit: int) -> None:
    filled(chat, 300)
    page = chat.page(limit=limit)
    ahead = list(page)
    while page.has_more:
        page = chat.page(after=page.next, limit=limit)
        ahead += page
    assert seqs(ahead) == list(range(300))

    page = chat.page(newest=True, limit=limit)
    behind = list(page)
    while page.previous is not None:
        page = chat.page(before=page.previous, limit=limit)
        behind = list(page) + behind
    assert seqs(behind) == list(range(300))


def test_identical_timestamps_do_not_confuse_a_walk(chat: nf.Session) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    chat.append_many([{"role": "user", "content": n, "timestamp": at} for n in range(5000)])
    assert [turn.content for turn in chat] == list(range(5000))


def test_next_stays_usable_at_the_end_to_poll_from(chat: nf.Session) -> None:
    empty = chat.page()
    assert (len(empty), empty.has_more, empty.previous) == (0, False, None)
    filled(chat, 2)
    page = chat.page(after=empty.next)
    assert seqs(page) == [0, 1] and not page.has_more
    idle = chat.page(after=page.next)
    assert len(idle) == 0
    chat.append("user", "new")
    assert seqs(chat.page(after=idle.next)) == [2]


def test_a_seq_is_a_place_too(chat: nf.Session) -> None:
    filled(chat, 10)
    assert seqs(chat.page(after=-1, limit=2)) == [0, 1]
    assert seqs(chat.page(after=7)) == [8, 9]
    assert seqs(chat.page(before=3)) == [0, 1, 2]
    assert seqs(chat.page(before=9, limit=2)) == [7, 8]
    assert seqs(chat.page(before=0)) == []


def test_paging_while_others_append_repeats_and_skips_nothing(store: nf.Store) -> None:
    chat = filled(store.session("busy"), 200)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            chat.append("user", "more", sync="process")

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    try:
        page = chat.page(limit=7)
        seen = seqs(page)
        while len(seen) < 500:
            page = chat.page(after=page.next, limit=7)
            seen += seqs(page)
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert seen == list(range(len(seen)))


@pytest.mark.parametrize("limit", [0, -1, 1_000_001, 2**31, "5", 1.0, True, None])
def test_a_limit_that_cannot_be_meant_is_refused(store: nf.Store, limit: Any) -> None:
    chat = filled(store.session("chat"), 3)
    for call in (chat.page, chat.tail, store.sessions, store.namespaces, store.audit):
        with pytest.raises(nf.InvalidArgument, match="limit"):
            call(limit=limit)


def test_a_cursor_of_another_session_or_listing_is_refused(store: nf.Store) -> None:
    chat, other = filled(store.session("a"), 3), filled(store.session("b"), 3)
    cursors = [
        other.page().next,
        store.sessions().next,
        store.session("a", namespace="n").page().next,
    ]
    for cursor in cursors:
        with pytest.raises(nf.InvalidArgument, match="another listing"):
            chat.page(after=cursor)
        with pytest.raises(nf.InvalidArgument, match="another listing"):
            chat.follow(cursor)
    for nonsense in ("", "x", "né", "AAAA", chat.page().next + "x"):
        with pytest.raises(nf.InvalidArgument, match="no cursor"):
            chat.page(before=nonsense)
    for call, cursor in (
        (store.sessions, chat.page().next),
        (store.namespaces, store.sessions().next),
        (store.audit, store.namespaces().next),
    ):
        with pytest.raises(nf.InvalidArgument, match="cursor"):
            call(after=cursor)


@pytest.mark.parametrize(
    "arguments",
    [
        {"after": 5},
        {"before": 4},
        {"after": -2},
        {"before": -1},
        {"after": 0, "before": 2},
        {"after": 0, "newest": True},
        {"after": 1.5},
        {"before": True},
    ],
)
def test_a_place_that_is_not_there_is_refused(chat: nf.Session, arguments: dict[str, Any]) -> None:
    filled(chat, 3)
    with pytest.raises(nf.InvalidArgument):
        chat.page(**arguments)


# ---- one turn, slices, length --------------------------------------------------------------------


def test_a_session_is_a_sequence_of_its_turns(chat: nf.Session) -> None:
    filled(chat, 20)
    assert len(chat) == 20 and bool(chat)
    assert chat[0].seq == 0 and chat[-1].seq == 19 and chat[-20].seq == 0
    assert seqs(chat[10:13]) == [10, 11, 12]
    assert seqs(chat[-3:]) == [17, 18, 19]
    assert seqs(chat[::5]) == [0, 5, 10, 15]
    assert seqs(chat[5:1:-2]) == [5, 3]
    assert seqs(chat[18:99]) == [18, 19] and chat[5:5] == [] and chat[30:] == []
    assert seqs(reversed(chat)) == list(range(19, -1, -1))
    assert list(chat) == chat[:]
    wrong: Any
    for wrong in (slice(0, 3, 0), slice("a", None), slice(None, 1.5)):
        with pytest.raises(nf.InvalidArgument, match="no slice of a session"):
            chat[wrong]


def test_what_is_not_there_raises_or_gives_the_default(chat: nf.Session) -> None:
    filled(chat, 2)
    for seq in (2, 99, 2**31):
        with pytest.raises(nf.NotFound):
            chat.get(seq)
        with pytest.raises(KeyError):
            chat[seq]
        assert chat.get(seq, None) is None and chat.get(seq, "x") == "x"
    with pytest.raises(nf.NotFound):
        chat[-3]
    wrong: Any
    for wrong in (-1, 2**32, "0", 1.0, None):
        with pytest.raises(nf.InvalidArgument):
            chat.get(wrong)
    with pytest.raises(nf.InvalidArgument):
        chat["0"]  # type: ignore[call-overload]


def test_reading_an_unknown_session_creates_nothing(store: nf.Store) -> None:
    for n in range(200):
        chat = store.session(f"nobody-{n}")
        assert chat.info() == nf.SessionInfo((), f"nobody-{n}", (), 0, 0, None, None, 0)
        assert len(chat) == 0 and bool(chat)
        assert chat.tail() == [] and list(chat) == [] and chat[:] == []
        assert chat.get(0, None) is None
    assert store.status().sessions == 0 and len(store.sessions()) == 0


def test_info_counts_turns_tokens_agents_and_times(store: nf.Store) -> None:
    chat = store.session("a", agent="ada")
    chat.append("user", "x", token_count=3, timestamp="2024-01-02T00:00:00Z")
    store.session("a", agent="bob").append(
        "user", "y", token_count=4, timestamp="2024-01-01T00:00:00Z"
    )
    info = chat.info()
    assert (info.agents, info.turns, info.tokens) == (("ada", "bob"), 2, 7)
    assert info.first_at == datetime(2024, 1, 2, tzinfo=UTC)  # of the first turn, by seq
    assert info.last_at == datetime(2024, 1, 1, tzinfo=UTC)
    assert info.consolidated_through == 0


# ---- tails ---------------------------------------------------------------------------------------


def test_a_tail_is_the_newest_turns_oldest_first(chat: nf.Session) -> None:
    filled(chat, 30)
    assert seqs(chat.tail()) == list(range(10, 30))
    assert seqs(chat.tail(3)) == [27, 28, 29]
    assert seqs(chat.tail(1000)) == list(range(30))


def test_a_tail_keeps_within_its_token_budget(chat: nf.Session) -> None:
    chat.append_many([{"role": "user", "content": n, "token_count": 10} for n in range(20)])
    assert seqs(chat.tail(max_tokens=35)) == [17, 18, 19]
    assert seqs(chat.tail(2, max_tokens=35)) == [18, 19]
    assert chat.tail(max_tokens=9) == []
    assert chat.tail(max_tokens=0) == []
    with pytest.raises(nf.InvalidArgument):
        chat.tail(max_tokens=-1)


def test_a_tail_of_some_roles(chat: nf.Session) -> None:
    for n in range(10):
        chat.append("user" if n % 2 else "assistant", n)
    assert [turn.content for turn in chat.tail(2, roles="user")] == [7, 9]
    assert [turn.content for turn in chat.tail(3, roles=[nf.Role.USER, "nobody"])] == [5, 7, 9]
    for wrong in ([], 5, [1], "x\ud83d"):
        with pytest.raises(nf.InvalidArgument):
            chat.tail(roles=wrong)  # type: ignore[arg-type]


def test_no_tail_begins_with_a_result_whose_call_is_outside(chat: nf.Session) -> None:
    chat.append("user", "q", token_count=5)
    chat.append("tool_call", {"f": 1}, call_id="c1", token_count=5)
    chat.append("tool_call", {"f": 2}, call_id="c2", token_count=5)
    chat.append("tool_result", "r2", call_id="c2", token_count=5)
    chat.append("tool_result", "r1", call_id="c1", token_count=5)
    chat.append("assistant", "a", token_count=5)
    for limit in range(1, 7):
        for budget in [None, *range(0, 31, 5)]:
            window = chat.tail(limit, max_tokens=budget)
            called = {turn.call_id for turn in window if turn.role == "tool_call"}
            assert all(t.call_id in called for t in window if t.role == "tool_result")
            assert window or budget is not None
            assert len(window) <= limit or window[0].role == "tool_call"
            assert budget is None or sum(turn.token_count for turn in window) <= budget


def test_a_tail_is_never_empty_because_its_newest_results_are_more_than_its_limit(
    chat: nf.Session,
) -> None:
    """Twenty-five parallel calls and their results: tail() was empty, and so was tail(1) after any
    single result."""
    chat.append("user", "q", token_count=1)
    ids = [f"c{n}" for n in range(25)]
    chat.append("assistant", {"tool_calls": [{"id": each} for each in ids]}, token_count=1)
    for each in ids:
        chat.append("tool_result", f"of {each}", call_id=each, token_count=1)
    for limit in range(1, 26):
        assert seqs(chat.tail(limit)) == list(range(1, 27))
    assert seqs(chat.tail(26)) == list(range(1, 27)) and len(chat.tail(27)) == 27
    assert seqs(chat.tail(max_tokens=26)) == list(range(1, 27))
    assert chat.tail(max_tokens=25) == [] == chat.tail(1, max_tokens=25), "a budget is strict"
    chat.append("assistant", "a", token_count=1)
    assert seqs(chat.tail()) == [27], "what is left within the limit"


def test_the_newest_call_is_found_however_far_back_and_across_forks(chat: nf.Session) -> None:
    chat.append("tool_call", "f()", call_id="far")
    chat.append_many([{"role": "user", "content": n} for n in range(500)])
    chat.append("tool_call", "g()", call_id="other")
    branch = chat.fork("branch", at=502)
    branch.append("tool_result", "r", call_id="far")
    assert seqs(branch.tail(1)) == list(range(503))
    chat.append("tool_result", "r", call_id="other")
    assert seqs(chat.tail(1)) == [501, 502]
    chat.hide(501)
    assert seqs(chat.tail(1)) == [500], "nobody may see its call, so it is not shown either"
    assert seqs(chat.tail(1, include_hidden=True)) == [501, 502]
    assert seqs(chat.tail(1, roles=["tool_call", "tool_result"])) == [0]
    assert seqs(chat.tail(1, roles=["assistant", "tool_result"])) == []


def test_replies_that_are_cut_short_are_joined(opener: Opener) -> None:
    """Pages and tails of large turns need several replies, each at most 4 MiB."""
    chat = opener().session("large")
    for n in range(12):
        chat.append("user", f"{n:02}" + "x" * 1_000_000, token_count=1)
    assert seqs(chat.tail(12)) == list(range(12))
    assert seqs(chat.tail(12, max_tokens=7)) == list(range(5, 12))
    assert seqs(chat[:]) == list(range(12))
    page = chat.page(limit=12)
    assert 1 <= len(page) < 12 and page.has_more
    assert seqs(chat) == list(range(12)) and seqs(reversed(chat)) == list(range(11, -1, -1))


# ---- following -----------------------------------------------------------------------------------


def test_a_follower_sees_what_is_there_and_what_comes(store: nf.Store) -> None:
    chat = filled(store.session("live"), 3)
    seen: list[int] = []
    caught_up = threading.Event()

    def follow() -> None:
        for turn in chat.follow():
            seen.append(turn.seq)
            if turn.seq == 2:
                caught_up.set()
            if turn.seq == 5:
                return

    follower = threading.Thread(target=follow)
    follower.start()
    assert caught_up.wait(30)
    for n in range(3):
        chat.append("user", n, sync="process" if n else "disk")
    follower.join(30)
    assert seen == [0, 1, 2, 3, 4, 5]


def test_following_a_session_that_does_not_exist_yet(store: nf.Store) -> None:
    chat = store.session("unborn")
    got: list[nf.Turn] = []
    follower = threading.Thread(target=lambda: got.append(next(chat.follow())))
    follower.start()
    chat.append("user", "hello")
    follower.join(30)
    assert [turn.content for turn in got] == ["hello"]


def test_following_from_a_place(chat: nf.Session) -> None:
    filled(chat, 5)
    assert next(chat.follow(after=3)).seq == 4
    assert next(chat.follow(after=chat.page(limit=2).next)).seq == 2
    with pytest.raises(nf.InvalidArgument):
        chat.follow(after=-2)  # at once, not at the first turn


def test_a_paused_iteration_blocks_nobody(chat: nf.Session) -> None:
    filled(chat, 500)
    iteration = iter(chat)
    next(iteration)
    chat.append("user", "while it pauses")
    assert seqs(iteration) == list(range(1, 501))
