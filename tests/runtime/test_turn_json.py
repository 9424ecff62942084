"""One turn as one line: everything a turn can hold comes back equal."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neverforget.runtime.importers.messages import message_turn
from neverforget.runtime.turn_json import json_value, parse_timestamp, turn_line, unescape
from neverforget.runtime.values import Turn

AT = datetime(2026, 3, 2, 8, 4, 0, 123456, tzinfo=UTC)


def turn(content: Any, **more: Any) -> Turn:
    values: dict[str, Any] = {
        "namespace": ("acme",),
        "session": "s",
        "seq": 3,
        "role": "user",
        "content": content,
        "name": None,
        "agent": None,
        "call_id": None,
        "key": None,
        "metadata": {},
        "timestamp": AT,
        "token_count": 5,
        "consolidated": False,
        "state": "ok",
    }
    return Turn(**{**values, **more})


texts = st.text(st.characters(codec=None), max_size=8) | st.sampled_from(
    ["\ud83d", "\ud83d\ude00", "x\ud83dy", "\x00", "$bytes", "\u2028", "👩‍🚀", ""]
)
labels = texts.filter(bool)  # no role, name or key is empty
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | texts
    | st.binary(max_size=8)
)
contents = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(contents, labels, labels, st.dictionaries(texts, contents, max_size=2))
def test_every_turn_comes_back_equal_from_its_line(
    content: Any, role: str, name: str, metadata: dict[str, Any]
) -> None:
    written = turn(content, role=role, name=name, key=name, metadata=metadata, session=role)
    line = turn_line(written)
    assert line.count(b"\n") == 1
    read = message_turn(json.loads(line), 1, "other")
    assert read.fields["content"] == content
    assert json_value(read.fields["content"]) == json_value(content)  # 1 is not True, -0.0 not 0
    assert (read.fields["role"], read.fields["name"], read.fields["key"]) == (role, name, name)
    assert read.fields.get("metadata", {}) == metadata
    assert (read.namespace, read.session, read.seq) == (("acme",), role, 3)
    assert read.fields["timestamp"] == AT


def test_lines_are_plain_json_wherever_json_can_say_it() -> None:
    line = turn_line(turn({"a": [1, "é", None]}, name="Zoë"))
    assert "Zoë".encode() in line
    assert b"escaped" not in line
    assert json.loads(line) == {
        "namespace": ["acme"],
        "session": "s",
        "seq": 3,
        "role": "user",
        "name": "Zoë",
        "content": {"a": [1, "é", None]},
        "timestamp": "2026-03-02T08:04:00.123456Z",
        "token_count": 5,
    }


@pytest.mark.parametrize(
    ("content", "stands_as"),
    [
        (b"hi", {"$bytes": "aGk="}),
        ("\ud83d\ude00", {"$text": "7aC97biA"}),
        (math.inf, {"$float": "inf"}),
        (2**64, {"$int": "0x10000000000000000"}),
        ({"$bytes": 1}, {"$pairs": [["$bytes", 1]]}),
    ],
)
def test_what_json_cannot_say_is_escaped_and_the_line_says_so(content: Any, stands_as: Any) -> None:
    line = json.loads(turn_line(turn(content)))
    assert line["content"] == stands_as
    assert line["escaped"] is True
    assert unescape(line["content"]) == content


def test_a_lone_surrogate_is_written_so_that_any_reader_takes_it() -> None:
    line = turn_line(turn("x\ud83dy"))
    assert json.loads(line.decode("utf-8"))["content"] == "x\ud83dy"


def test_nan_comes_back_as_nan() -> None:
    read = unescape(json.loads(turn_line(turn(math.nan)))["content"])
    assert math.isnan(read)


@pytest.mark.parametrize("state", ["hidden", "erased", "unreadable"])
def test_a_line_says_when_its_turn_is_not_plainly_there(state: Any) -> None:
    assert json.loads(turn_line(turn(None, state=state)))["state"] == state


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)))
def test_timestamps_keep_their_microseconds(at: datetime) -> None:
    aware = at.replace(tzinfo=UTC)
    line = json.loads(turn_line(turn("x", timestamp=aware)))
    assert parse_timestamp(line["timestamp"]) == aware


@given(st.integers(1, 2**36))
def test_whole_seconds_milliseconds_and_microseconds_are_told_apart(seconds: int) -> None:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    assert parse_timestamp(seconds) == at
    if seconds >= 10**8:
        assert parse_timestamp(seconds * 1000) == parse_timestamp(seconds * 1_000_000) == at


def test_where_a_turn_was_salvaged_from_is_on_its_line_and_read_as_metadata() -> None:
    """It is no property of a turn that is appended anew, and stays to be seen."""
    line = json.loads(turn_line(turn("x", salvaged_from=(7, 12))))
    assert line["salvaged_from"] == [7, 12]
    assert message_turn(line, 1, "s").fields["metadata"] == {"salvaged_from": [7, 12]}
    assert "salvaged_from" not in json.loads(turn_line(turn("x")))
