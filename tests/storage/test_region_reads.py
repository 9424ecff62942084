"""Pages, tails, single turns and listings of a region."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from neverforget.storage.errors import Conflict, InvalidArgument, NotFound
from neverforget.storage.record import decode_records
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.results import ForkPoint, TurnFlag, Window
from neverforget.storage.tail_window import link, parted
from tests.storage.small_region import Bench, bench, contents, flags_at, seen, seqs


@pytest.fixture
def b(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path / "p0") as opened:
        yield opened


def page(b: Bench, session: str = "chat", **how: Any) -> Window:
    asked: dict[str, Any] = {
        "after": None, "before": None, "newest": False, "limit": 50, "include_hidden": False,
    } | how  # fmt: skip
    return b.region.page(
        (), session, asked["after"], asked["before"], asked["newest"], asked["limit"],
        asked["include_hidden"],
    )  # fmt: skip


def walk(b: Bench, forward: bool, limit: int, **how: Any) -> list[int]:
    """Every seq of the session "chat", page by page, in the order of the pages."""
    found: list[int] = []
    window = page(b, newest=not forward, limit=limit, **how)
    while True:
        turns = seqs(window)
        found += turns if forward else reversed(turns)
        if not window.more:
            return found
        if forward:
            window = page(b, after=window.stop_seq - 1, limit=limit, **how)
        else:
            window = page(b, before=window.first_seq, limit=limit, **how)


# ---- pages and single turns ----------------------------------------------------------------------


def test_a_walk_meets_each_seq_once_in_both_directions(b: Bench) -> None:
    """Scenario 6: limit 7, some turns hidden."""
    b.client.say("chat", *[str(n) for n in range(1000)])
    b.client.hide("chat", (0, 3), (50, 70), (71, 71), (998, 999))
    hidden = {*range(4), *range(50, 72), 998, 999}
    wanted = [n for n in range(1000) if n not in hidden]
    assert walk(b, True, 7) == wanted
    assert walk(b, False, 7) == wanted[::-1]
    assert walk(b, True, 7, include_hidden=True) == list(range(1000))
    assert walk(b, False, 1000, include_hidden=True) == list(range(1000))[::-1]


def test_a_walk_while_others_append_skips_nothing_and_repeats_nothing(b: Bench) -> None:
    """Scenarios 6 and 12: a paused walk holds nothing that an append would wait for."""
    b.client.say("chat", *["x"] * 20)
    found: list[int] = []
    after: int | None = None
    for _ in range(30):
        window = page(b, after=after, limit=3)
        found += seqs(window)
        after = window.stop_seq - 1
        b.client.say("chat", "y")
        b.client.say("other", "z")
    assert found == list(range(49))
    assert seqs(page(b, after=48)) == [49]
    assert page(b, after=49).stop_seq == 50, "the cursor at the end stays usable"


def test_cursors_and_limits_that_cannot_be_meant_are_refused(b: Bench) -> None:
    """Scenario 7, the rule for every mode."""
    b.client.say("chat", "a", "b", "c")
    asks: list[Callable[[int], object]] = [
        lambda limit: page(b, limit=limit),
        lambda limit: b.client.tail("chat", limit),
        lambda limit: b.region.sessions((), None, None, limit),
        lambda limit: b.region.namespaces((), None, None, limit),
        lambda limit: b.region.audit(None, None, None, None, None, None, None, limit),
    ]
    for limit in (-1, 0, 2**31):
        for ask in asks:
            with pytest.raises(InvalidArgument):
                ask(limit)
    assert len(seqs(page(b, limit=2**31 - 1))) == 3
    cursors: list[dict[str, Any]] = [{"after": 3}, {"after": -2}, {"before": 4}, {"before": -1}]
    for cursor in cursors:
        with pytest.raises(InvalidArgument):
            page(b, **cursor)
        with pytest.raises(InvalidArgument):
            page(b, "unknown", **cursor)
    with pytest.raises(InvalidArgument):
        page(b, after=0, before=2)
    with pytest.raises(InvalidArgument):
        b.client.tail("chat", 5, before=4)
    with pytest.raises(InvalidArgument):
        b.client.tail("chat", 5, max_tokens=-1)
    for first, stop in ((-1, 2), (2, 1)):
        with pytest.raises(InvalidArgument):
            b.region.get((), "chat", first, stop)
    with pytest.raises(InvalidArgument):
        b.region.namespaces(("a", "b"), 1, None, 10)
    assert seqs(page(b, after=-1)) == [0, 1, 2]
    assert seqs(page(b, before=3)) == [0, 1, 2]
    assert seqs(page(b, before=0)) == []


def test_get_reads_what_is_there_and_clips_the_rest(b: Bench) -> None:
    b.client.say("chat", *[{"content": n, "token_count": n} for n in range(10)])
    assert contents(b.region.get((), "chat", 3, 5)) == [3, 4]
    window = b.region.get((), "chat", 8, 2000)
    assert (contents(window), window.stop_seq, window.more) == ([8, 9], 10, False)
    for n in range(11):
        nothing = b.region.get((), "chat", n, n)
        assert (nothing.records, nothing.stop_seq, nothing.end) == (b"", n, 10)
        assert nothing.tokens == sum(range(n))
    assert b.region.get((), "chat", 50, 60).end == 10
    unknown = b.region.get((), "nobody", 5, 5)
    assert (unknown.end, unknown.session_id, unknown.records) == (0, 0, b"")


def test_a_million_reads_of_unknown_sessions_leave_nothing(b: Bench) -> None:
    """Scenario 11, in small: the index does not grow, the log neither."""
    b.client.say("chat", "x")
    tail = b.region.status().tail
    for n in range(2000):
        name = f"nobody-{n}"
        assert not b.region.info((), name).exists
        assert page(b, name).end == 0
        assert b.client.tail(name).records == b""
        assert b.region.get((), name, 0, 5).records == b""
    status = b.region.status()
    assert (status.tail, status.sessions, len(b.region._state.index.by_id)) == (tail, 1, 1)


def test_a_page_stops_at_the_bound_of_a_reply_but_holds_one_turn(tmp_path: Path) -> None:
    options = RegionOptions(
        segment_bytes=1 << 16, first_segment_bytes=1 << 13, reply_bytes_max=3000,
        scan_records_max=5,
    )  # fmt: skip
    with bench(tmp_path / "p0", options=options) as b:
        b.client.say("chat", "a" * 2000, "b" * 2000, "c" * 9000, *["d"] * 20)
        assert [len(seqs(page(b, after=n, limit=50))) for n in (-1, 0, 1, 2)] == [1, 1, 1, 5]
        window = page(b, before=3)
        assert (seqs(window), window.first_seq, window.more) == ([2], 2, True)
        window = b.client.tail("chat", 9)
        assert (len(seqs(window)), window.more, window.first_seq) == (5, True, 18)
        assert walk(b, True, 50) == walk(b, False, 50)[::-1] == list(range(23))
        b.client.hide("chat", (3, 22))
        assert seqs(b.client.tail("chat", 5)) == [2], "hidden runs are jumped over, not scanned"


def test_a_page_reads_no_body_but_its_own(b: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    b.client.say("chat", *["x" * 300 for _ in range(500)])
    read: list[int] = []
    real = b.region._log.read

    def counted(position: int) -> memoryview:
        read.append(position)
        return real(position)

    monkeypatch.setattr(b.region._log, "read", counted)
    b.client.tail("chat", 20)
    page(b, after=250, limit=20)
    b.region.get((), "chat", 77, 78)
    assert len(read) == 41
    read.clear()
    b.client.tail("chat", 400, max_tokens=105)
    assert len(read) == 10, "scenario 10: a token budget touches its window only"


# ---- tails ---------------------------------------------------------------------------------------


def test_a_tail_is_the_newest_turns_oldest_first(b: Bench) -> None:
    """Scenario 5: after a batch of 25, tail(10) is turns 16..25."""
    b.client.say("chat", *[str(n) for n in range(1, 26)])
    assert contents(b.client.tail("chat", 10)) == [str(n) for n in range(16, 26)]
    assert seqs(b.client.tail("chat", 10, before=5)) == [0, 1, 2, 3, 4]
    assert seqs(b.client.tail("chat", 100)) == list(range(25))
    assert not b.client.tail("chat", 10).more
    assert seqs(b.client.tail("chat", 3, max_tokens=1000)) == [22, 23, 24]
    assert seqs(b.client.tail("chat", 20, max_tokens=49)) == [21, 22, 23, 24]
    assert seqs(b.client.tail("chat", 20, max_tokens=9)) == []


def test_a_tail_may_choose_roles_also_a_callers_own(b: Bench) -> None:
    roles = ["user", "critic", "assistant", "judge", "user"]
    b.client.say("chat", *[{"content": str(n), "role": role} for n, role in enumerate(roles)])
    assert contents(b.client.tail("chat", roles=["user", "critic"])) == ["0", "1", "4"]
    assert contents(b.client.tail("chat", 1, roles=["judge"])) == ["3"]
    assert contents(b.client.tail("chat", roles=["nobody"])) == []
    assert contents(b.client.tail("chat", roles=["user"], max_tokens=10)) == ["4"]


def test_hidden_turns_neither_show_nor_count(b: Bench) -> None:
    b.client.say("chat", *[str(n) for n in range(10)])
    b.client.hide("chat", (7, 9), (2, 2))
    assert seqs(b.client.tail("chat", 3)) == [4, 5, 6]
    assert seqs(b.client.tail("chat", 9, max_tokens=45)) == [3, 4, 5, 6]
    window = b.client.tail("chat", 3, include_hidden=True)
    assert [flags_at(window, n) for n in seqs(window)] == [TurnFlag.HIDDEN] * 3
    b.client.hide("chat", (8, 8), hidden=False)
    assert seqs(b.client.tail("chat", 3)) == [5, 6, 8]
    b.reopen()
    assert seqs(b.client.tail("chat", 3)) == [5, 6, 8]
    assert b.region.info((), "chat").turns == 10


def conversation(rng: random.Random, count: int) -> list[dict[str, Any]]:
    """Turns with calls and results: by id, without one, in an assistant's content, in parallel."""
    turns: list[dict[str, Any]] = []
    open_ids: list[str] = []
    for n in range(count):
        kind = rng.random()
        tokens = rng.randrange(1, 20)
        turn: dict[str, Any] = {"content": f"{n}", "role": "user", "token_count": tokens}
        if kind < 0.2:
            open_ids.append(f"c{n}")
            turn |= {"role": "tool_call", "call_id": f"c{n}"}
        elif kind < 0.3:
            ids = [f"c{n}a", f"c{n}b"]
            open_ids += ids
            turn["role"] = "assistant"
            turn["content"] = {"tool_calls": [{"id": call_id} for call_id in ids]}
        elif kind < 0.65 and open_ids:
            answered = open_ids.pop(rng.randrange(len(open_ids)))
            turn |= {"role": rng.choice(["tool_result", "tool"]), "call_id": answered}
        elif kind < 0.7:
            turn["role"] = "function"
        turns.append(turn)
    return turns


def test_no_tail_parts_a_result_from_its_call(b: Bench, rng: random.Random) -> None:
    """Scenario 10, over random conversations and every limit and budget."""
    for at in range(15):
        turns = conversation(rng, 24)
        name = f"chat{at}"
        b.client.say(name, *turns)
        for limit in range(1, 26):
            for budget in (None, 0, 5, 30, 90, 10_000):
                window = b.client.tail(name, limit, max_tokens=budget)
                shown = seqs(window)
                assert len(shown) <= limit
                assert budget is None or sum(turns[n]["token_count"] for n in shown) <= budget
                for n in shown:
                    call_id = turns[n].get("call_id")
                    if turns[n]["role"] in ("tool_result", "tool") and call_id is not None:
                        callers = [m for m in range(n) if call_id in str(turns[m])]
                        assert callers[0] in shown, "its call is outside"
                # Nothing but parted results is missing from the run of the newest turns.
                for n in range(window.first_seq, window.stop_seq):
                    assert n in shown or turns[n]["role"] in ("tool_result", "tool", "function")


def test_results_without_any_call_before_them_are_shown(b: Bench) -> None:
    b.client.say("chat", {"content": "r", "role": "tool_result"}, "hi")
    assert contents(b.client.tail("chat", 5)) == ["r", "hi"]
    assert contents(b.client.tail("chat", 2, roles=["tool_result"])) == ["r"]


def test_roles_without_calls_are_taken_at_their_word(b: Bench) -> None:
    b.client.say(
        "chat",
        {"content": "c", "role": "tool_call", "call_id": "1"},
        {"content": "r", "role": "tool_result", "call_id": "1"},
    )
    assert contents(b.client.tail("chat", roles=["tool_result"])) == ["r"]
    assert contents(b.client.tail("chat", 1)) == []
    assert contents(b.client.tail("chat", 1, roles=["tool_result", "tool_call"])) == []


def test_a_result_whose_call_is_hidden_is_left_out_too(b: Bench) -> None:
    b.client.say(
        "chat",
        "hi",
        {"content": "c", "role": "tool_call", "call_id": "1"},
        {"content": "r", "role": "tool_result", "call_id": "1"},
    )
    b.client.hide("chat", (1, 1))
    assert contents(b.client.tail("chat")) == ["hi"]
    assert contents(b.client.tail("chat", include_hidden=True)) == ["hi", "c", "r"]


# ---- forks ---------------------------------------------------------------------------------------


def test_a_fork_goes_on_where_its_parent_was(b: Bench) -> None:
    b.client.say("parent", *[{"content": str(n), "token_count": n} for n in range(6)])
    b.client.fork("child", "parent", 4)
    for _ in range(2):
        info = b.region.info((), "child")
        assert (info.turns, info.base, info.tokens, info.first_at) == (4, 4, 6, None)
        assert info.parent is not None
        assert (info.parent.session, info.parent.at) == ("parent", 4)
        window = b.client.all("child")
        assert (window.records, window.base, window.end) == (b"", 4, 4)
        b.reopen()
    assert b.client.say("child", {"content": "new", "token_count": 7}, expect_seq=4) == 4
    assert b.client.say("parent", "other") == 6
    b.reopen(seal=True)
    assert contents(b.client.all("child")) == ["new"]
    assert b.region.info((), "child").tokens == 13
    assert b.region.get((), "child", 0, 9).first_seq == 4
    assert seqs(page(b, "child", after=2)) == [4]
    parent = b.region.get((), "parent", 0, 4)
    point = b.region.info((), "child").parent
    assert isinstance(point, ForkPoint)
    assert point.session_id == parent.session_id
    assert b.findings() == []


def test_a_fork_of_a_fork_counts_all_that_came_before(b: Bench) -> None:
    b.client.say("one", *[{"content": "x", "token_count": 5}] * 3)
    b.client.fork("two", "one", 2)
    b.client.say("two", *[{"content": "y", "token_count": 7}] * 3)
    b.client.fork("three", "two", 4)
    assert b.region.info((), "three").tokens == 2 * 5 + 2 * 7
    b.client.fork("empty", "one", 0)
    assert b.client.say("empty", "first") == 0


def test_forking_onto_a_session_or_oneself_is_refused(b: Bench) -> None:
    b.client.say("a", "x")
    b.client.say("b", "y")
    with pytest.raises(Conflict):
        b.client.fork("b", "a", 1)
    with pytest.raises(InvalidArgument):
        b.client.fork("a", "a", 1)
    assert contents(b.client.all("b")) == ["y"]


def test_a_repeated_fork_is_one_fork(b: Bench) -> None:
    b.client.say("a", "x")
    request = b.client.next_request()
    point = ForkPoint((), "a", 1, 0)
    for _ in range(3):
        b.region.fork((), "c", point, 10, "me", *request)
        b.client.commit()
        b.reopen()
    with pytest.raises(Conflict):
        b.region.fork((), "c", ForkPoint((), "a", 0, 0), 10, "me", *request)
    assert [view.session for view in b.region.sessions((), None, None, 9)[0]] == ["a", "c"]
    assert len(b.region.audit("fork", None, None, None, None, None, None, 9)[0]) == 1


def test_the_parents_turns_are_the_parents_to_hide(b: Bench) -> None:
    b.client.say("a", "x", "y")
    b.client.fork("c", "a", 2)
    b.client.say("c", "z")
    with pytest.raises(InvalidArgument):
        b.client.hide("c", (1, 2))
    b.client.hide("c", (2, 2))
    assert seqs(b.client.tail("c")) == []


def test_a_tail_down_to_the_fork_leaves_the_pairing_to_whoever_joins_both(b: Bench) -> None:
    call = {"content": "c", "role": "tool_call", "call_id": "1"}
    result = {"content": "r", "role": "tool_result", "call_id": "1"}
    b.client.say("a", "hi", call)
    b.client.fork("f", "a", 2)
    b.client.say("f", result, "more")
    own = b.client.tail("f", 5)
    assert (contents(own), own.first_seq, own.base) == (["r", "more"], 2, 2)
    past = b.client.tail("a", 3, before=2)
    joined = [link(*turn) for turn in decode_records(past.records + own.records)]
    assert parted(joined, calls_before=False) == []
    assert contents(b.client.tail("f", 1)) == ["more"]


# ---- marks and hides -----------------------------------------------------------------------------


def test_marks_tell_how_far_a_session_is_consolidated(b: Bench) -> None:
    b.client.say("chat", *["x"] * 10)
    for first, last in ((0, 3), (6, 7), (4, 4)):
        b.region.mark((), "chat", first, last, "v1", *b.client.next_request())
    b.client.commit()
    for _ in range(2):
        window = b.client.all("chat")
        assert window.consolidated_through == b.region.info((), "chat").consolidated_through == 5
        marked = [n for n in range(10) if flags_at(window, n) & TurnFlag.CONSOLIDATED]
        assert marked == [0, 1, 2, 3, 4, 6, 7]
        b.reopen()
    with pytest.raises(NotFound):
        b.region.mark((), "chat", 9, 10, "v1", *b.client.next_request())


def test_hiding_what_is_not_there_is_refused(b: Bench) -> None:
    b.client.say("chat", "x")
    with pytest.raises(NotFound):
        b.client.hide("nobody", (0, 0))
    with pytest.raises(NotFound):
        b.client.hide("chat", (0, 1))
    for runs in ([(1, 0)], [(-1, 0)], []):
        with pytest.raises(InvalidArgument):
            b.client.hide("chat", *runs)
    assert seqs(b.client.tail("chat")) == [0]


# ---- listings ------------------------------------------------------------------------------------


def test_sessions_and_namespaces_are_listed_in_pages(b: Bench) -> None:
    places = [(("a",), "1"), (("a",), "2"), (("a", "b"), "1"), (("ab",), "1"), ((), "1")]
    for namespace, name in places:
        b.client.append(name, "x", namespace=namespace)
    b.client.commit()
    found = []
    after = None
    while True:
        views, more = b.region.sessions((), None, after, 2)
        found += [(view.namespace, view.session) for view in views]
        if not more:
            break
        after = found[-1]
    assert found == sorted(places)
    assert [v.session for v in b.region.sessions(("a",), None, None, 9)[0]] == ["1", "2", "1"]
    assert [v.session for v in b.region.sessions(("a",), "2", None, 9)[0]] == ["2"]
    assert b.region.namespaces((), None, None, 9) == ([(), ("a",), ("a", "b"), ("ab",)], False)
    assert b.region.namespaces((), 1, None, 2) == ([(), ("a",)], True)
    assert b.region.namespaces(("a",), None, ("a",), 9) == ([("a", "b")], False)


def test_info_tells_times_tokens_and_agents(b: Bench) -> None:
    first = {"content": "x", "timestamp_us": -(10**15), "token_count": 3, "agent": "ann"}
    last = {"content": "y", "timestamp_us": 2 * 10**17, "token_count": 4, "agent": "ann"}
    b.client.say("chat", first, last, agent="ann")
    for _ in range(2):
        info = b.region.info((), "chat")
        assert (info.first_at, info.last_at, info.tokens) == (-(10**15), 2 * 10**17, 7)
        assert (info.agents, info.turns, info.exists) == (["ann"], 2, True)
        b.reopen()


def test_the_audit_tells_who_hid_what(b: Bench) -> None:
    b.client.say("chat", "x", "y", "z")
    b.client.append("chat", "x", namespace=("deep",))
    b.client.hide("chat", (0, 1), reason="noise")
    b.client.hide("chat", (0, 0), hidden=False)
    b.region.hide(("deep",), "chat", [(0, 0)], True, "ann", None, *b.client.next_request())
    b.region.refuse("erase", {"namespace": ["deep"], "session": "chat"}, "eve", "please")
    b.client.commit()

    for _ in range(2):
        entries = b.audit()
        assert [e.operation for e in entries] == ["hide", "unhide", "hide", "forget-refused"]
        assert entries[0].target == {"namespace": [], "session": "chat", "seqs": [[0, 1]]}
        assert (entries[0].reason, entries[0].by) == ("noise", "tester")
        assert [e.by for e in b.audit(namespace=("deep",))] == ["ann", "eve"]
        assert len(b.audit(namespace=(), session="chat")) == 2
        assert len(b.audit(session="chat")) == 4
        assert [e.by for e in b.audit(operation="hide", by="ann")] == ["ann"]
        assert b.audit(after=entries[1].position) == entries[2:]
        assert b.audit(start_us=entries[1].at, stop_us=entries[3].at) == entries[1:3]
        assert b.region.audit(None, None, None, None, None, None, None, 4) == (entries, False)
        assert b.region.audit(None, None, None, None, None, None, None, 2) == (entries[:2], True)
        b.reopen()
    assert [turn.seq for turn in seen(b.client.all("chat", include_hidden=False))] == [0, 2]
