"""Appending: what comes back, what is refused, keys and expected seqs. Same in every mode."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.runtime.config import Config
from tests.fakes.plain_host import PlainHost
from tests.runtime.conftest import filled, seqs

CONTENT: list[Any] = [
    "",
    "plain",
    "NUL \x00 inside",
    "lone \ud83d surrogate",
    "🙂 👩‍👩‍👧‍👦 עברית العربية",
    "\u2028\u2029\ufeff",
    b"",
    b"\x00\xff" * 100,
    None,
    True,
    0,
    -1,
    2**63,
    -(2**70),
    1.5,
    math.inf,
    [],
    {},
    [1, [2, [3, None]]],
    {"a": {"b": [True, b"bytes", "x\ud83dy"]}, "": 0, "\ud83d": 1},
    "x" * 65535,
    "x" * 65536,
    "x" * 65537,
]


@pytest.mark.parametrize("content", CONTENT, ids=lambda c: repr(c)[:24])
def test_content_comes_back_equal(chat: nf.Session, content: Any) -> None:
    turn = chat.append("user", content, metadata={"m": content})
    assert turn.content == content and turn.metadata == {"m": content}
    assert type(turn.content) is type(content)
    assert chat.get(0) == turn == chat.tail(1)[0]


def test_sixteen_mebibytes_come_back_equal(chat: nf.Session) -> None:
    content = "0123456789abcdef" * (1024 * 1024)
    chat.append("user", content, token_count=0)
    chat.append("user", "after")
    assert chat[0].content == content
    assert seqs(chat.tail(1)) == [1]


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ((1, 2), "content"),
        ({1, 2}, "content"),
        ({"a": [0, (1,)]}, r"content\.a\[1\]"),
        ({"a": {1: 2}}, "content.a"),
        (object(), "content"),
        (datetime.now(UTC), "content"),
    ],
)
def test_content_that_would_not_come_back_equal_is_refused(
    chat: nf.Session, content: Any, where: str
) -> None:
    with pytest.raises(nf.InvalidArgument, match=where):
        chat.append("user", content)
    assert len(chat) == 0


def test_nesting_that_could_not_be_read_back_is_refused_before_it_is_sent(chat: nf.Session) -> None:
    deep: Any = 1
    for _ in range(401):
        deep = [deep]
    with pytest.raises(nf.InvalidArgument, match="nested"):
        chat.append("user", deep)
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(nf.InvalidArgument, match="nested"):
        chat.append("user", deep)
    assert len(chat) == 0


def test_subclasses_of_plain_types_become_plain(chat: nf.Session) -> None:
    class Level(IntEnum):
        HIGH = 3

    turn = chat.append(nf.Role.USER, OrderedDict(level=Level.HIGH), name=nf.Role.ASSISTANT)
    assert turn.content == {"level": 3} and type(turn.content) is dict
    assert type(turn.content["level"]) is int
    assert type(turn.role) is str and type(turn.name) is str
    assert chat[0] == turn


def test_a_returned_turn_shares_nothing_with_the_callers_arguments(chat: nf.Session) -> None:
    content, metadata = {"a": [1]}, {"b": [2]}
    turn = chat.append("user", content, metadata=metadata)
    content["a"].append(9)
    metadata["b"].append(9)
    assert turn.content == {"a": [1]} and turn.metadata == {"b": [2]}


def test_every_field_is_kept(chat: nf.Session) -> None:
    at = datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    turn = chat.append(
        "tool_result",
        "42",
        name="calculator",
        call_id="call-1",
        metadata={"model": "m"},
        timestamp=at,
        token_count=7,
        key="k-1",
    )
    assert (turn.namespace, turn.session, turn.seq, turn.role) == ((), "chat", 0, "tool_result")
    assert (turn.name, turn.agent, turn.call_id, turn.key) == ("calculator", "ada", "call-1", "k-1")
    assert (turn.token_count, turn.state, turn.consolidated) == (7, "ok", False)
    assert turn.timestamp == at and turn.timestamp.tzinfo is UTC
    assert chat[0] == turn


@pytest.mark.parametrize(
    "role", ["user", "tool_call", "thought", "narrator", "USER", " ", "х" * 300]
)
def test_a_role_is_kept_as_it_is(chat: nf.Session, role: str) -> None:
    assert chat.append(role, "x").role == role == chat[0].role


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"role": ""}, "role is empty"),
        ({"role": None}, "role"),
        ({"name": 5}, "name is an int"),
        ({"call_id": b"x"}, "call_id"),
        ({"key": ""}, "key is empty"),
        ({"key": 5}, "key is an int"),
        ({"key": "k" * 4097}, "4,097 characters"),
        ({"name": ""}, "name is empty"),
        ({"name": "n" * 4097}, "4,097 characters"),
        ({"call_id": ""}, "call_id is empty"),
        ({"call_id": "c" * 4097}, "4,097 characters"),
        ({"metadata": [1]}, "metadata"),
        ({"metadata": {1: 2}}, "metadata"),
        ({"token_count": -1}, "token_count"),
        ({"token_count": 2**32}, "token_count"),
        ({"token_count": 1.0}, "token_count"),
        ({"token_count": True}, "token_count"),
        ({"expect_seq": -1}, "expect_seq"),
        ({"expect_seq": "0"}, "expect_seq"),
        ({"sync": "replica"}, "has no replica"),
        ({"sync": 1}, "sync"),
        ({"timestamp": datetime(2024, 1, 1)}, "time zone"),
        ({"timestamp": 1.5}, "timestamp"),
        ({"timestamp": "yesterday"}, "ISO"),
    ],
)
def test_wrong_arguments_are_refused_and_change_nothing(
    chat: nf.Session, arguments: dict[str, Any], match: str
) -> None:
    with pytest.raises(nf.InvalidArgument, match=match):
        chat.append(**{"role": "user", "content": "x", **arguments})
    assert len(chat) == 0


@pytest.mark.parametrize(
    "timestamp",
    [
        "2024-05-01T10:00:00Z",
        "2024-05-01T15:30:00+05:30",
        "1969-07-20T20:17:40.000001Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
        1_714_557_600_000,
        -1,
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    ],
)
def test_times_come_back_as_aware_utc_to_the_microsecond(chat: nf.Session, timestamp: Any) -> None:
    turn = chat.append("user", "x", timestamp=timestamp)
    if isinstance(timestamp, str):
        expected = datetime.fromisoformat(timestamp)
    elif isinstance(timestamp, int):
        expected = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp)
    else:
        expected = timestamp
    assert turn.timestamp == expected and turn.timestamp.utcoffset() == timedelta(0)
    assert chat[0].timestamp == expected


def test_turns_are_ordered_by_seq_whatever_their_times(chat: nf.Session) -> None:
    for year in (2030, 1980, 2005):
        chat.append("user", str(year), timestamp=datetime(year, 1, 1, tzinfo=UTC))
    assert [turn.content for turn in chat] == ["2030", "1980", "2005"]


# ---- keys and expected seqs ----------------------------------------------------------------------


def test_a_key_repeated_with_equal_content_returns_the_first_turn(chat: nf.Session) -> None:
    first = chat.append("user", "hello", key="k", metadata={"try": 1})
    chat.append("user", "between")
    again = chat.append("user", "hello", key="k", metadata={"try": 2})
    assert again == first and len(chat) == 2


def test_a_key_with_other_content_is_a_conflict_that_names_the_turn(chat: nf.Session) -> None:
    chat.append("user", "before")
    chat.append("user", "hello", key="k")
    with pytest.raises(nf.Conflict) as caught:
        chat.append("user", "other", key="k")
    assert caught.value.seq == 1 and len(chat) == 2


def test_a_key_is_repeated_with_equal_content_in_other_words(chat: nf.Session) -> None:
    """The order of a dict's keys, or 1 for 1.0, used to make it a Conflict."""
    first = chat.append("user", {"a": 1, "b": [2.0]}, key="k")
    assert chat.append("user", {"b": [2], "a": 1.0}, key="k") == first
    with pytest.raises(nf.Conflict):
        chat.append("user", {"b": [2], "a": True}, key="k")


def test_the_key_of_an_erased_turn_stays_taken(chat: nf.Session) -> None:
    said: dict[str, Any] = {"key": "k", "metadata": {"n": 1}}
    chat.append("user", "said", **said)
    chat.erase([0], confirm=nf.CONFIRMED)
    again = chat.append("user", "said", **said)
    assert (again.seq, again.state, again.content) == (0, "erased", None)
    with pytest.raises(nf.Conflict, match="the turn with this key, 0, was erased"):
        chat.append("user", "other", **said)
    with pytest.raises(nf.Conflict, match="the turn with this key, 0, was erased"):
        chat.append("user", "said", key="k")
    assert len(chat) == 1
    chat.erase(confirm=nf.CONFIRMED)
    assert chat.append("user", "other", key="k").content == "other", "a session that is erased"


def test_a_repeat_returns_the_turn_as_it_stands_now(chat: nf.Session) -> None:
    """The repeat of a hidden turn said "ok"."""
    items = [{"role": "user", "content": n, "key": f"k{n}"} for n in range(6)]
    chat.append_many(items)
    chat.hide([1, 4])
    assert chat.append("user", 1, key="k1").state == "hidden"
    assert chat.append("user", 0, key="k0").state == "ok"
    again = chat.append_many([items[4], {"role": "user", "content": "new"}, *items[:3]])
    assert [(turn.seq, turn.state) for turn in again] == [
        (4, "hidden"), (6, "ok"), (0, "ok"), (1, "hidden"), (2, "ok"),
    ]  # fmt: skip
    assert again[0].content == 4


def test_a_key_belongs_to_its_session(store: nf.Store) -> None:
    for name in ("a", "b"):
        assert store.session(name).append("user", name, key="k").seq == 0
    assert store.session("a", namespace="other").append("user", "c", key="k").content == "c"


def test_a_known_key_answers_also_under_expect_seq(chat: nf.Session) -> None:
    first = chat.append("user", "hello", key="k")
    chat.append("user", "more")
    assert chat.append("user", "hello", key="k", expect_seq=0) == first


def test_expect_seq_appends_there_or_says_where_the_session_stands(chat: nf.Session) -> None:
    assert chat.append("user", "0", expect_seq=0).seq == 0
    with pytest.raises(nf.Conflict) as caught:
        chat.append("user", "again", expect_seq=0)
    assert caught.value.seq == 1
    assert chat.append("user", "1", expect_seq=1).seq == 1


# ---- batches -------------------------------------------------------------------------------------


def test_a_batch_is_contiguous_and_comes_back_in_order(chat: nf.Session) -> None:
    chat.append("user", "first")
    turns = chat.append_many(
        {"role": "user", "content": n, "metadata": {"n": n}} for n in range(25)
    )
    assert seqs(turns) == list(range(1, 26))
    assert list(chat)[1:] == turns
    assert [turn.content for turn in chat.tail(10)] == list(range(15, 25))


def test_known_keys_in_a_batch_return_their_turns_and_the_rest_is_contiguous(
    chat: nf.Session,
) -> None:
    known = chat.append("user", "k1", key="k1")
    turns = chat.append_many(
        [
            {"role": "user", "content": "a"},
            {"role": "user", "content": "k1", "key": "k1"},
            {"role": "user", "content": "b", "key": "k2"},
        ]
    )
    assert turns[1] == known and seqs(turns) == [1, 0, 2]
    assert len(chat) == 3


@pytest.mark.parametrize(
    ("items", "match"),
    [
        ([{"role": "user", "content": 1}, {"role": "user"}], r"turns\[1\].*content is missing"),
        ([{"content": 1}], r"turns\[0\].*role is missing"),
        ([{"role": "user", "content": 1, "sync": "disk"}], r"turns\[0\].*sync"),
        ([{"role": "user", "content": (1,)}], r"turns\[0\].*tuple"),
        ([("user", "x")], r"turns\[0\].*tuple"),
        ("user", "str"),
        ({"role": "user", "content": 1}, "dict"),
    ],
)
def test_a_batch_with_one_wrong_item_appends_nothing(
    chat: nf.Session, items: Any, match: str
) -> None:
    with pytest.raises(nf.InvalidArgument, match=match):
        chat.append_many(items)
    assert len(chat) == 0


def test_a_batch_that_conflicts_appends_nothing(chat: nf.Session) -> None:
    chat.append("user", "x", key="k")
    with pytest.raises(nf.Conflict):
        chat.append_many(
            [{"role": "user", "content": 1}, {"role": "user", "content": 2, "key": "k"}]
        )
    assert len(chat) == 1


@pytest.mark.parametrize("turns", [None, 5, "text", b"x", {"role": "user", "content": "x"}])
def test_what_is_no_list_of_turns_is_refused(chat: nf.Session, turns: Any) -> None:
    with pytest.raises(nf.InvalidArgument, match="pass a list of mappings"):
        chat.append_many(turns)


def test_a_batch_above_the_limit_is_refused_in_the_same_words_in_every_mode(
    tmp_path: Path, short_path: Path
) -> None:
    host = PlainHost(short_path / "store", Config(batch_bytes_max=8192))
    with (
        nf.open(tmp_path / "inline", inline=True, batch_bytes_max=8192) as inline,
        nf.open(host.store.path, host="never") as attached,
    ):
        said = []
        for store in (inline, attached):
            chat = store.session("chat")
            with pytest.raises(nf.InvalidArgument, match="above the limit of 8,192") as caught:
                chat.append("user", "x" * 9000)
            said.append(str(caught.value))
            with pytest.raises(nf.InvalidArgument, match="above the limit of 8,192") as caught:
                chat.append_many([{"role": "user", "content": "x" * 500}] * 20)
            said.append(str(caught.value))
            assert len(chat) == 0
        assert said[:2] == said[2:]
    host.close()


def test_an_empty_batch_does_nothing(chat: nf.Session) -> None:
    assert chat.append_many([]) == []
    assert chat.info().turns == 0


# ---- many at once --------------------------------------------------------------------------------


def test_threads_share_a_client_and_every_turn_gets_a_seq_of_its_own(store: nf.Store) -> None:
    """16 threads, released together, append one turn each to a session that does not exist yet."""
    for round_ in range(10):
        assert_each_gets_a_seq(store.session(f"fresh-{round_}"))


def assert_each_gets_a_seq(chat: nf.Session) -> None:
    barrier = threading.Barrier(16)
    got: list[nf.Turn] = []

    def write(n: int) -> None:
        barrier.wait()
        got.append(chat.append("user", n))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seqs(got)) == list(range(16))
    assert sorted(turn.content for turn in chat) == list(range(16))


def test_bytes_per_append_do_not_grow_with_the_session(chat: nf.Session, store: nf.Store) -> None:
    def grown_by(turns: int) -> int:
        before = sum(owner.durable_bytes for owner in store.settle().owners)
        for n in range(turns):
            chat.append("user", f"{n:06}", sync="process")
        return sum(owner.durable_bytes for owner in store.settle().owners) - before

    filled(chat, 1)
    early = grown_by(50)
    filled(chat, 3000)
    assert grown_by(50) <= early + 64 * 4  # a no-op record or two may fall in between
