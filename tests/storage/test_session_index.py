"""The session index: where turns stand, what it costs, and what its order is."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pytest

from neverforget.storage import session_index
from neverforget.storage.format import Kind, RecordFlag
from neverforget.storage.head_array import HEAD_DTYPE
from neverforget.storage.session_index import NO_POSITION, Session, SessionIndex, new_session
from neverforget.storage.session_loading import load_turns

Turn = tuple[int, int, int, int]  # session_id, seq, position, tokens


def columns(turns: list[Turn]) -> tuple[np.ndarray, np.ndarray]:
    heads = np.zeros(len(turns), HEAD_DTYPE)
    heads["kind"] = Kind.TURN
    for name, at in (("session_id", 0), ("sequence_id", 1), ("token_count", 3)):
        heads[name] = [turn[at] for turn in turns]
    return heads, np.array([turn[2] for turn in turns], np.uint64)


def load(index: SessionIndex, turns: list[Turn]) -> list[tuple[int, str]]:
    return load_turns(index, *columns(turns))


def held(session: Session) -> dict[int, tuple[int, int]]:
    """seq -> (position, tokens) of every turn that has a row."""
    return {
        seq: (session.position(seq), session.tokens_of(seq))
        for seq in range(session.end)
        if session.position(seq) != NO_POSITION
    }


def test_bulk_loading_and_appending_one_by_one_give_the_same_index(rng: random.Random) -> None:
    for _ in range(30):
        loaded, appended = SessionIndex(), SessionIndex()
        ends = dict.fromkeys(range(1, 6), 0)
        turns: list[Turn] = []
        for position in range(64, 64 + 80 * 200, 80):
            session_id = rng.choice(list(ends))
            if rng.random() < 0.05:
                ends[session_id] += rng.randrange(1, 5)  # turns that were lost
            turns.append((session_id, ends[session_id], position, rng.randrange(9)))
            ends[session_id] += 1
        cut = rng.randrange(len(turns))
        assert load(loaded, turns[:cut]) == []
        assert load(loaded, turns[cut:]) == []
        for session_id, seq, position, tokens in turns:
            session = appended.get_or_make(session_id, position)
            session.skip_to(seq)
            session.append(position, tokens)
        for session_id, end in ends.items():
            one, other = loaded.by_id[session_id], appended.by_id[session_id]
            assert one.end == other.end == end
            assert one.tokens == other.tokens
            own = {t[1]: (t[2], t[3]) for t in turns if t[0] == session_id}
            assert held(one) == held(other) == own
            for seq in range(end + 1):
                below = sum(tokens for at, (_, tokens) in own.items() if at < seq)
                assert one.tokens_before(seq) == below
            for row in range(1, one.turn_rows + 1):
                assert one.row(one.seq_of_row(row)) == row
        assert loaded.turns == len(turns)


def test_a_seq_that_is_there_already_is_reported_and_left_out() -> None:
    index = SessionIndex()
    problems = load(index, [(7, 0, 64, 1), (7, 1, 144, 1), (7, 1, 224, 1), (7, 2, 304, 1)])
    assert [position for position, _ in problems] == [224]
    assert index.by_id[7].end == 3
    assert index.turns == 3


def test_lost_turns_take_a_place_and_no_room() -> None:
    session = new_session(1, 64)
    session.append(64, 5)
    session.skip_to(1_000_000)
    session.append(144, 7)
    assert session.end == 1_000_001
    assert [session.position(seq) for seq in (0, 1, 999_999, 1_000_000)] == [64, -1, -1, 144]
    assert session.tokens_before(500_000) == 5
    assert session.tokens_before(session.end) == 12
    assert len(session.rows) == 6


def test_a_fork_counts_from_its_base() -> None:
    session = new_session(1, 64)
    session.more().base = 10
    session.rows[1] = 100
    for at in range(4):
        session.append(64 + 80 * at, 3)
    assert (session.end, session.tokens, session.turn_rows) == (14, 112, 4)
    assert session.position(9) == NO_POSITION
    assert session.position(10) == 64
    assert session.tokens_before(12) == 106


def test_the_token_window_is_the_largest_that_fits(rng: random.Random) -> None:
    for _ in range(50):
        session = new_session(1, 64)
        tokens = [rng.randrange(0, 5) for _ in range(40)]
        for at, count in enumerate(tokens):
            session.append(64 + 80 * at, count)
        for budget in (0, 1, 7, 30, 1000):
            stop = rng.randrange(41)
            first = session.first_within_tokens(stop, budget)
            assert sum(tokens[first:stop]) <= budget
            assert first == 0 or sum(tokens[first - 1 : stop]) > budget


def test_names_are_told_apart_when_their_digests_are_equal() -> None:
    """A digest that always collides: every name still finds its own session, and only it."""
    index = SessionIndex(digest=lambda _namespace, _name: 42)
    for n in range(20):
        found, session_id = index.find(("a",), f"s{n}")
        assert found is None
        assert session_id == 42 + n
        index.name(index.get_or_make(session_id, 64 * n), ("a",), f"s{n}")
    for n in range(20):
        found, session_id = index.find(("a",), f"s{n}")
        assert found is not None
        assert (found.name, session_id) == (f"s{n}", 42 + n)
    assert index.find(("b",), "s3")[0] is None
    assert index.find(("a", "s3"), "")[0] is None


def test_ids_wrap_around_and_zero_is_nobodys() -> None:
    index = SessionIndex(digest=lambda _namespace, _name: 2**64 - 1)
    assert index.find((), "a")[1] == 2**64 - 1
    index.name(index.get_or_make(2**64 - 1, 0), (), "a")
    assert index.find((), "b") == (None, 1)
    assert SessionIndex(digest=lambda _namespace, _name: 0).find((), "a") == (None, 1)


def test_a_session_that_lost_its_name_answers_for_its_digest() -> None:
    index = SessionIndex()
    _, session_id = index.find((), "chat")
    index.get_or_make(session_id, 64).append(64, 1)
    found, _ = index.find((), "chat")
    assert found is index.by_id[session_id]
    assert len(index) == 0, "it is found by its name, and cannot be listed"


def test_an_erased_session_keeps_its_id_and_frees_its_name() -> None:
    index = SessionIndex()
    _, session_id = index.find((), "chat")
    session = index.get_or_make(session_id, 64)
    index.name(session, (), "chat")
    session.append(64, 1)
    index.turns += 1
    index.bury(session)
    index.bury(index.by_id[session_id])
    assert index.find((), "chat") == (None, session_id + 1)
    assert (len(index), index.turns) == (0, 0)
    assert list(index.catalogue.sessions((), None, None)) == []
    assert list(index.catalogue.namespaces((), None, None)) == []


def fill(index: SessionIndex, names: list[tuple[tuple[str, ...], str]]) -> None:
    for namespace, name in names:
        _, session_id = index.find(namespace, name)
        index.name(index.get_or_make(session_id, 64), namespace, name)


def test_names_found_lately_are_no_more_than_so_many_and_none_that_was_erased(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_index, "_BUSY_MAX", 3)
    index = SessionIndex()
    for n in range(10):
        _, session_id = index.find((), f"s{n}")
        index.name(index.get_or_make(session_id, 64 * n), (), f"s{n}")
        for _ in range(2):
            found, found_id = index.find((), f"s{n}")
            assert found is index.by_id[session_id] and found_id == session_id
        assert len(index._busy) <= 3
    found, erased_id = index.find((), "s9")
    assert found is not None
    index.bury(found)
    assert index.find((), "s9") == (None, erased_id + 1)


def test_sessions_come_in_order_and_stay_below_their_namespace(rng: random.Random) -> None:
    parts = ["a", "ab", "b", "", "x\ud83d", "é", "e\u0301"]
    for _ in range(30):
        names = list(
            {
                (tuple(rng.choices(parts, k=rng.randrange(3))), rng.choice(parts) + end)
                for end in "ab" * 30
            }
        )
        index = SessionIndex()
        fill(index, names[:40])
        list(index.catalogue.sessions((), None, None))  # some are in order already
        fill(index, names[40:])
        namespace = rng.choice(names)[0][:1]
        prefix = rng.choice([None, *parts])
        after = rng.choice([None, *names])
        found = [(s.namespace, s.name) for s in index.catalogue.sessions(namespace, prefix, after)]
        assert found == sorted(
            (ns, name)
            for ns, name in names
            if ns[: len(namespace)] == namespace
            and name.startswith(prefix or "")
            and (after is None or (ns, name) > after)
        )
        depth = rng.choice([None, 1, 2])
        spaces = sorted({ns[:depth] for ns, _ in names if ns[: len(namespace)] == namespace})
        assert list(index.catalogue.namespaces(namespace, depth, None)) == spaces
        for cursor in spaces:
            rest = [space for space in spaces if space > cursor]
            assert list(index.catalogue.namespaces(namespace, depth, cursor)) == rest


def test_agents_are_kept_in_the_order_of_joining_and_shared_while_few() -> None:
    index = SessionIndex()
    sessions = [index.get_or_make(n, 0) for n in (1, 2)]
    for session in sessions:
        for n in [*range(8), 3, *range(20)]:
            index.join(session, f"agent-{n}")
            if len(session.agents) <= 8:
                assert isinstance(session.agents, tuple)
        assert list(session.agents) == [f"agent-{n}" for n in range(20)]
    three = [index.get_or_make(n, 0) for n in (3, 4)]
    for session in three:
        index.join(session, "bob")
    assert three[0].agents is three[1].agents


@pytest.mark.parametrize(
    ("sessions", "turns"),
    [(5_000, 1), (500, 50), (1, 12_500), pytest.param(1, 300_000, marks=pytest.mark.long)],
)
@pytest.mark.parametrize("how", ["loaded", "appended"])
def test_memory_is_bounded_by_24_bytes_a_turn_and_400_a_session(
    sessions: int, turns: int, how: str
) -> None:
    """By every allocation that the index makes, names of 18 characters included."""
    positions = np.arange(sessions * turns, dtype=np.uint64) * 400 + 64
    heads = np.zeros(sessions * turns, HEAD_DTYPE)
    heads["kind"] = Kind.TURN
    heads["sequence_id"] = np.repeat(np.arange(turns), sessions)
    heads["token_count"] = 100
    ids = np.array(
        [SessionIndex().find(("team",), f"conversation{n:06}")[1] for n in range(sessions)],
        np.uint64,
    )
    heads["session_id"] = np.tile(ids, turns)
    index = SessionIndex()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for n in range(sessions):
            namespace = (*["team"],)  # a tuple and a name of its own, as a decoder makes them
            name = f"conversation{n:06}"
            _, session_id = index.find(namespace, name)
            session = index.get_or_make(session_id, 400 * n + 64)
            index.name(session, namespace, name)
            index.join(session, "".join(["agent-", "one"]))
        if how == "loaded":
            load_turns(index, heads, positions)
        else:
            for n in range(turns):
                for at, session in enumerate(index.by_id.values()):
                    session.append(400 * (n * sessions + at) + 64, 100)
        assert next(index.catalogue.sessions((), None, None)).name == "conversation000000"
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert used <= 24 * sessions * turns + 400 * sessions, used / sessions


def test_the_first_call_of_a_session_is_known_after_loading() -> None:
    heads, positions = columns([(7, n, 64 + 80 * n, 1) for n in range(6)])
    heads["flags"][3:] |= int(RecordFlag.CALLS)
    index = SessionIndex()
    load_turns(index, heads[:2], positions[:2])
    assert index.by_id[7].first_call is None
    load_turns(index, heads[2:], positions[2:])
    assert index.by_id[7].first_call == 3
