"""Turns as a chat API takes them: each result right behind its call."""

from __future__ import annotations

import json
import math
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

import neverforget as nf
from neverforget.actors.tokenizers import estimate
from neverforget.runtime.context_messages import message_tokens, turn_cost, turn_messages
from tests.runtime.context_parts import turn


def call(seq: int, call_id: str | None, name: str = "look", **arguments: Any) -> nf.Turn:
    return turn(seq, "tool_call", {"name": name, "arguments": arguments}, call_id=call_id)


def result(seq: int, call_id: str | None, text: str = "found") -> nf.Turn:
    return turn(seq, "tool_result", text, call_id=call_id)


def test_plain_turns_keep_role_text_and_name() -> None:
    assert turn_messages(
        [
            turn(0, "system", "be kind"),
            turn(1, "user", "hello", name="Mara Lindqvist"),
            turn(2, "assistant", [{"type": "text", "text": "hi"}, {"type": "text", "text": "!"}]),
            turn(3, "thought", "nice"),
            turn(4, "critic", {"score": 3}),
        ]
    ) == [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "hello", "name": "Mara_Lindqvist"},
        {"role": "assistant", "content": "hi\n!"},
        {"role": "assistant", "content": "(thinking) nice"},
        {"role": "user", "content": '{"score": 3}', "name": "critic"},
    ]


def test_of_several_agents_each_has_its_name() -> None:
    said = turn_messages(
        [turn(0, "assistant", "a", agent="ada"), turn(1, "assistant", "b", agent="bob")]
    )
    assert [message.get("name") for message in said] == ["ada", "bob"]


def test_calls_made_at_once_are_one_message_and_their_results_follow() -> None:
    said = turn_messages(
        [call(0, "a", q=1), call(1, "b"), result(2, "b", "two"), result(3, "a", "one")]
    )
    assert [m["role"] for m in said] == ["assistant", "tool", "tool"]
    assert [c["id"] for c in said[0]["tool_calls"]] == ["a", "b"]
    assert said[0]["tool_calls"][0] == {
        "id": "a",
        "type": "function",
        "function": {"name": "look", "arguments": '{"q": 1}'},
    }
    assert [(m["tool_call_id"], m["content"]) for m in said[1:]] == [("a", "one"), ("b", "two")]


def test_a_result_that_came_late_stands_behind_its_call() -> None:
    said = turn_messages([call(0, "a"), turn(1, "user", "hurry"), result(2, "a")])
    assert [m["role"] for m in said] == ["assistant", "tool", "user"]


def test_without_ids_results_answer_calls_in_their_order() -> None:
    said = turn_messages([call(0, None), call(1, None), result(2, None, "1"), result(3, None, "2")])
    ids = [each["id"] for each in said[0]["tool_calls"]]
    assert [(m["tool_call_id"], m["content"]) for m in said[1:]] == list(zip(ids, ["1", "2"]))


def test_an_id_that_is_used_again_means_the_latest_call() -> None:
    said = turn_messages([call(0, "a"), result(1, "a", "1"), call(2, "a"), result(3, "a", "2")])
    assert [m["content"] for m in said if m["role"] == "tool"] == ["1", "2"]


def test_a_call_or_result_without_its_other_half_is_told_in_words() -> None:
    said = turn_messages([result(0, "gone"), call(1, "a", q=1), call(2, "b"), result(3, "b")])
    assert said[0] == {"role": "user", "content": "← found"}
    assert said[1]["content"] == '→ look({"q": 1})'
    assert [c["id"] for c in said[1]["tool_calls"]] == ["b"]
    assert turn_messages([call(0, "a")]) == [{"role": "assistant", "content": "→ look({})"}]


def test_the_calls_of_a_chat_api_come_back_as_they_were() -> None:
    made = {
        "role": "assistant",
        "content": "let me see",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"q":1}'}}
        ],
    }
    said = turn_messages([turn(0, "assistant", made), turn(1, "tool", "found", call_id="a")])
    assert said == [
        made,
        {"role": "tool", "tool_call_id": "a", "content": "found"},
    ]


def test_whatever_a_call_holds_its_arguments_are_an_object() -> None:
    for content in ("launch", ["x"], None, {"name": "a b!", "query": 1}, {"x": 1}, b"\x00"):
        said = turn_messages([turn(0, "tool_call", content, name="look up"), result(1, None)])
        function = said[0]["tool_calls"][0]["function"]
        assert isinstance(json.loads(function["arguments"]), dict)
        assert function["name"].replace("_", "").isalnum()


def test_a_call_without_a_name_is_that_of_a_tool() -> None:
    """Such an API refuses the whole request for one empty name."""
    said = turn_messages([turn(0, "tool_call", {"name": "", "arguments": {}}), result(1, None)])
    assert said[0]["tool_calls"][0]["function"]["name"] == "tool"


def test_numbers_that_json_does_not_have_are_words() -> None:
    """Python writes and reads NaN; strict readers of JSON do not."""
    for arguments in ({"x": math.nan}, '{"x": Infinity}', [-math.inf]):
        said = turn_messages([turn(0, "tool_call", {"name": "f", "arguments": arguments}),
                              result(1, None)])  # fmt: skip
        found = json.loads(said[0]["tool_calls"][0]["function"]["arguments"], parse_constant=int)
        assert list(found) == ["input"] and isinstance(found["input"], str)


SOME_TURNS = st.lists(
    st.tuples(
        st.sampled_from(["user", "assistant", "tool_call", "tool_result", "thought"]),
        st.sampled_from([None, "a", "b"]),
        st.sampled_from(["", "some words", "x\ud83dy"]),
    ),
    max_size=12,
)


@given(SOME_TURNS)
def test_any_turns_make_messages_that_such_an_api_takes(drawn: list[Any]) -> None:
    turns = [
        turn(n, role, text, call_id=call_id if role.startswith("tool") else None)
        for n, (role, call_id, text) in enumerate(drawn)
    ]
    said = turn_messages(turns)
    open_ids: list[str] = []
    for message in said:
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_ids.pop(0)
            continue
        assert not open_ids  # every call is answered before anything else is said
        open_ids = [each["id"] for each in message.get("tool_calls", [])]
    assert not open_ids
    taken = sum(message_tokens(message, estimate) for message in said)
    assert taken <= sum(turn_cost(each, estimate) for each in turns)
    results = sum(role == "tool_result" for role, _, _ in drawn)
    assert results == sum(m["role"] == "tool" or m["content"].startswith("← ") for m in said)
