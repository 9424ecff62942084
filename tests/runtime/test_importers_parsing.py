"""Files into turns, without a store: what each format becomes, and what is said about the rest."""

from __future__ import annotations

import gzip
import json
import zipfile
from datetime import UTC, datetime, timedelta
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neverforget.runtime.importers import Problem, SourceTurn, load, parse_file
from neverforget.runtime.importers import elements as elements_module
from neverforget.runtime.importers.elements import read_elements
from neverforget.runtime.importers.importing import FORMATS, detect
from neverforget.runtime.importers.source_turn import Element, Malformed
from neverforget.runtime.importers.sources import Source
from neverforget.storage.errors import InvalidArgument, NotFound
from tests.runtime.conversation_files import chatgpt_conversation, locomo_sample, message_node


def written(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def turns_of(path: Path, **arguments: Any) -> list[SourceTurn]:
    found = list(parse_file(path, **arguments))
    assert not [f for f in found if isinstance(f, Problem)]
    return [f for f in found if isinstance(f, SourceTurn)]


def problems_of(path: Path, **arguments: Any) -> list[tuple[int, str]]:
    return [(p.line, p.message) for p in parse_file(path, **arguments) if isinstance(p, Problem)]


def values(data: bytes, *, lines: bool = False, **arguments: Any) -> list[Any]:
    """Decoded values and the lines of problems."""
    source = Source("f", "f", BufferedReader(BytesIO(data), buffer_size=16), lines)
    return [
        e.value if isinstance(e, Element) else e.line for e in read_elements(source, **arguments)
    ]


# ---- values of a file ----------------------------------------------------------------------------

AWKWARD = [{"a": 'x]}\\"{[,', "b": [1, {"c": []}]}, {"é": "日本"}, [], {}, 3, "s,]", None]


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 7, 1 << 20])
@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_is_cut_into_its_values_wherever_the_chunks_end(
    monkeypatch: pytest.MonkeyPatch, chunk_bytes: int, indent: int | None
) -> None:
    monkeypatch.setattr(elements_module, "CHUNK_BYTES", chunk_bytes)
    assert values(json.dumps(AWKWARD, indent=indent).encode()) == AWKWARD
    assert values(json.dumps(AWKWARD, indent=indent, ensure_ascii=False).encode()) == AWKWARD


def test_values_are_read_one_after_the_other_not_all_at_once() -> None:
    class Counting(BytesIO):
        taken = 0

        def readinto(self, buffer: Any, /) -> int:
            count = super().readinto(buffer)
            Counting.taken += count
            return count

    data = json.dumps([{"n": n, "pad": "x" * 1000} for n in range(5000)]).encode()
    source = Source("f", "f", BufferedReader(Counting(data)), False)
    first = next(iter(read_elements(source)))
    assert isinstance(first, Element)
    assert Counting.taken < len(data) / 2


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            b'{"a":1}\n\n{"b":\n{"c":3}\r\n{"d":"\xff"}\n{"e":1}',
            [{"a": 1}, 3, {"c": 3}, 5, {"e": 1}],
        ),
        (b'\xef\xbb\xbf{"a":1}\n{"b":2}', [{"a": 1}, {"b": 2}]),
        (b'{\n "a": 1,\n "m": []\n}\n{"b": 2}\n', [{"a": 1, "m": []}, {"b": 2}]),
        (b'[{"a":1},\n {"a":}, \n{"a":2}]', [{"a": 1}, 2, {"a": 2}]),
        (b'[{"a":1},\n\n {"a":2', [{"a": 1}, 3]),
        (b'[{"a":1},\n {"a":2}', [{"a": 1}, {"a": 2}, 2]),
        (b"[1, 2]\nmore", [1, 2, 2]),
        (b"", []),
        (b" \n ", []),
        (b"[]", []),
    ],
)
def test_what_cannot_be_read_is_named_by_its_line_and_the_rest_follows(
    data: bytes, expected: list[Any]
) -> None:
    assert values(data) == expected


def test_a_value_beyond_the_bound_is_reported_not_loaded() -> None:
    long = json.dumps({"a": "x" * 500}).encode()
    data = b'{"a":1}\n' + long + b'\n{"b":2}\n'
    assert values(data, value_bytes_max=100) == [{"a": 1}, 2, {"b": 2}]
    assert values(b"[1,\n" + long + b"]", value_bytes_max=100) == [1, 2]


def test_a_number_too_long_for_python_is_a_problem_not_a_crash() -> None:
    assert values(b'{"a":1}\n{"n":' + b"9" * 5000 + b"}\n{}") == [{"a": 1}, 2, {}]


def test_nesting_too_deep_to_decode_is_a_problem_not_a_crash() -> None:
    deep = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert values(b'{"a":1}\n' + deep + b"\n{}") == [{"a": 1}, 2, {}]


# ---- finding the format --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "format"),
    [
        ([chatgpt_conversation("c", [message_node("m")])], "chatgpt"),
        (chatgpt_conversation("c", [message_node("m")]), "chatgpt"),
        ([locomo_sample("s", sessions=1)], "locomo"),
        ([{"role": "user", "content": "hi"}], "jsonl"),
        ({"messages": [{"role": "user", "content": "hi"}]}, "openai"),
        ([{"messages": [{"role": "user", "content": "hi"}]}], "openai"),
        ([[{"role": "user", "content": "hi"}]], "openai"),
        ([{"type": "message", "role": "user", "content": "hi"}], "jsonl"),
    ],
)
def test_the_format_is_found_by_looking_at_the_first_value(
    tmp_path: Path, value: Any, format: str
) -> None:
    path = written(tmp_path, "anything.txt", json.dumps(value, indent=1))
    assert load(None, path).format == format
    assert load(None, path).appended > 0


@pytest.mark.parametrize(
    "text", ['{"what": "is this"}', "hello", "\x00\x01", '["a", "b"]', "[project]\nx = 1"]
)
def test_a_file_of_another_kind_is_refused_with_the_formats_there_are(
    tmp_path: Path, text: str
) -> None:
    with pytest.raises(InvalidArgument, match=r"jsonl|lines of JSON"):
        load(None, written(tmp_path, "f.json", text))


def test_an_unknown_format_and_a_missing_file_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, "f.json", "[]")
    with pytest.raises(InvalidArgument, match="chatgpt, jsonl, locomo, mem0, openai"):
        load(None, path, format="csv")
    with pytest.raises(NotFound, match=r"nowhere\.json"):
        load(None, tmp_path / "nowhere.json")


def test_an_empty_file_is_an_import_of_nothing(tmp_path: Path) -> None:
    report = load(None, written(tmp_path, "f.jsonl", ""))
    assert (report.turns, report.problem_count, report.ok) == (0, 0, True)


def test_compressed_files_archives_and_folders_are_opened(tmp_path: Path) -> None:
    line = json.dumps({"role": "user", "content": "hi", "session": "s"}) + "\n"
    packed = written(tmp_path, "turns.jsonl.gz", gzip.compress(line.encode()))
    assert [t.session for t in turns_of(packed)] == ["s"]

    conversations = json.dumps([chatgpt_conversation("c", [message_node("m", text="hello")])])
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("chat.html", "<html>")
        zipped.writestr("conversations.json", conversations)
    folder = tmp_path / "export"
    folder.mkdir()
    written(folder, "conversations.json", conversations)
    for path in (archive, folder):
        assert [t.fields["content"] for t in turns_of(path)] == ["hello"]


# ---- turns and messages --------------------------------------------------------------------------


def test_a_line_of_a_turn_keeps_every_field(tmp_path: Path) -> None:
    line = {
        "namespace": ["acme", "alice"],
        "session": "s",
        "role": "user",
        "content": {"any": ["thing", 1.5, None]},
        "name": "Ann",
        "agent": "a1",
        "call_id": "c1",
        "key": "k",
        "metadata": {"x": 1},
        "timestamp": "2026-03-02T09:04:00+01:00",
        "token_count": 7,
        "mood": "fine",
    }
    (turn,) = turns_of(written(tmp_path, "t.jsonl", json.dumps(line)))
    assert (turn.namespace, turn.session, turn.agent) == (("acme", "alice"), "s", "a1")
    assert turn.fields == {
        "role": "user",
        "content": {"any": ["thing", 1.5, None]},
        "name": "Ann",
        "call_id": "c1",
        "key": "k",
        "metadata": {"mood": "fine", "x": 1},
        "timestamp": datetime(2026, 3, 2, 8, 4, tzinfo=UTC),
        "token_count": 7,
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2026-03-02T08:04:00Z", datetime(2026, 3, 2, 8, 4, tzinfo=UTC)),
        ("2026-03-02T13:34:00+05:30", datetime(2026, 3, 2, 8, 4, tzinfo=UTC)),
        ("2026-03-02T08:04:00", datetime(2026, 3, 2, 8, 4, tzinfo=UTC)),
        (1772438640, datetime(2026, 3, 2, 8, 4, tzinfo=UTC)),
        (1772438640.5, datetime(2026, 3, 2, 8, 4, 0, 500_000, tzinfo=UTC)),
        (1772438640123, datetime(2026, 3, 2, 8, 4, 0, 123_000, tzinfo=UTC)),
        (1772438640123456, datetime(2026, 3, 2, 8, 4, 0, 123_456, tzinfo=UTC)),
        (-86400, datetime(1969, 12, 31, tzinfo=UTC)),
        ("9999-12-31T23:59:59Z", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_timestamps_in_every_usual_form(tmp_path: Path, given: Any, expected: datetime) -> None:
    line = {"role": "user", "content": "x", "timestamp": given}
    (turn,) = turns_of(written(tmp_path, "t.jsonl", json.dumps(line)))
    assert turn.fields["timestamp"] == expected


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"content": "x", "session": "s", "type": "message"}, "no role"),
        ({"role": 3, "content": "x"}, "role must be text"),
        ({"role": "user"}, "no content"),
        ({"role": "user", "content": "x", "session": 3}, "session must be text"),
        ({"role": "user", "content": "x", "namespace": [1]}, "namespace"),
        ({"role": "user", "content": "x", "timestamp": "yesterday"}, "ISO 8601"),
        ({"role": "user", "content": "x", "timestamp": 1e300}, "years"),
        ({"role": "user", "content": "x", "metadata": []}, None),
        ({"role": "user", "content": "x", "metadata": [1]}, "metadata must be an object"),
        ({"role": "user", "content": "x", "token_count": -1}, "token_count"),
        ({"role": "user", "content": "x", "seq": -1}, "seq"),
        ({"role": "user", "content": "x", "state": "lost"}, "state"),
        ({"role": "user", "content": {"$bytes": "?"}, "escaped": True}, "bytes"),
        ([1], "object"),
    ],
)
def test_a_malformed_line_is_reported_with_its_number_and_the_rest_goes_on(
    tmp_path: Path, line: Any, said: str | None
) -> None:
    good = json.dumps({"role": "user", "content": "x"})
    path = written(tmp_path, "t.jsonl", f"{good}\n{json.dumps(line)}\n{good}\n")
    found = problems_of(path)
    if said is None:
        assert not found
    else:
        ((number, message),) = found
        assert number == 2
        assert said in message
    report = load(None, path)
    assert report.appended == (3 if said is None else 2)


def test_dollar_keys_of_somebody_else_are_left_alone(tmp_path: Path) -> None:
    line = {"role": "user", "content": {"$bytes": "aGk="}}
    plain, escaped = turns_of(
        written(tmp_path, "t.jsonl", f"{json.dumps(line)}\n{json.dumps({**line, 'escaped': True})}")
    )
    assert plain.fields["content"] == {"$bytes": "aGk="}
    assert escaped.fields["content"] == b"hi"


def test_chat_messages_keep_calls_and_pair_results(tmp_path: Path) -> None:
    def call(name: str) -> dict[str, Any]:
        return {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}}

    messages: list[dict[str, Any]] = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}], "name": "Ann"},
        {"role": "assistant", "content": None, "tool_calls": [call("c1")]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {"role": "assistant", "content": "two", "tool_calls": [call("c2"), call("c3")]},
        {"role": "assistant", "content": "done", "refusal": None, "annotations": [1]},
    ]
    path = written(tmp_path, "talk.json", json.dumps(messages))
    turns = turns_of(path)
    assert {t.session for t in turns} == {"talk"}
    assert [t.fields["role"] for t in turns] == [m["role"] for m in messages]
    assert [t.fields.get("call_id") for t in turns] == [None, None, "c1", "c1", None, None]
    assert turns[2].fields["content"] == {"content": None, "tool_calls": [call("c1")]}
    assert turns[1].fields["content"] == [{"type": "text", "text": "hi"}]
    assert turns[5].fields["metadata"] == {"annotations": [1]}


def test_items_of_the_responses_api_are_turns_too(tmp_path: Path) -> None:
    items = [
        {"type": "message", "role": "user", "content": "hi"},
        {"type": "reasoning", "id": "r1", "summary": ["hm"]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "c", "output": "ok"},
    ]
    turns = turns_of(written(tmp_path, "items.json", json.dumps(items)))
    assert [(t.fields["role"], t.fields["content"]) for t in turns] == [
        ("user", "hi"),
        ("thought", ["hm"]),
        ("tool_call", {"name": "f", "arguments": {"a": 1}}),
        ("tool_result", "ok"),
    ]
    assert [t.fields.get("call_id") for t in turns] == [None, None, "c", "c"]


def test_each_of_several_message_lists_is_a_session_of_its_own(tmp_path: Path) -> None:
    def messages(text: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": text}]

    lines = [
        {"messages": messages("a")},
        {"id": "second", "messages": messages("b")},
        {"messages": messages("c")},
        {"messages": [{"content": "no role"}, *messages("d")], "id": "fourth"},
    ]
    path = written(tmp_path, "tuning.jsonl", "\n".join(json.dumps(each) for each in lines))
    turns = [t for t in parse_file(path) if isinstance(t, SourceTurn)]
    assert [(t.session, t.fields["content"]) for t in turns] == [
        ("tuning", "a"),
        ("tuning/second", "b"),
        ("tuning/2", "c"),
        ("tuning/fourth", "d"),
    ]
    assert problems_of(path) == [(4, "message 0 of tuning/fourth: there is no role")]


# ---- ChatGPT -------------------------------------------------------------------------------------


def test_a_chatgpt_conversation_is_the_path_to_its_current_node(tmp_path: Path) -> None:
    """Regenerated answers and edited questions are branches: each a session with its whole path."""
    conversation = chatgpt_conversation(
        "c1",
        [
            message_node("q", text="question", at=1_700_000_000.25),
            message_node("a1", "q", role="assistant", text="first answer"),
            message_node("a2", "q", role="assistant", text="second answer"),
            message_node("q2", "a2", text="and then?"),
        ],
        current="q2",
        title="A talk",
    )
    turns = turns_of(written(tmp_path, "conversations.json", json.dumps([conversation])))
    by_session: dict[str, list[SourceTurn]] = {}
    for turn in turns:
        by_session.setdefault(turn.session, []).append(turn)
    assert {s: [t.fields["key"] for t in ts] for s, ts in by_session.items()} == {
        "chatgpt/c1": ["q", "a2", "q2"],
        "chatgpt/c1#a1": ["q", "a1"],
    }
    first = by_session["chatgpt/c1"][0]
    assert first.fields["timestamp"] == datetime.fromtimestamp(1_700_000_000.25, UTC)
    assert first.fields["metadata"]["title"] == "A talk"
    # A message without a time of its own has that of the one before.
    assert by_session["chatgpt/c1"][1].fields["timestamp"] == first.fields["timestamp"]


def test_what_chatgpt_does_with_tools_and_pictures_is_kept(tmp_path: Path) -> None:
    code = {"content_type": "code", "language": "python", "text": "1 + 1"}
    picture = {"content_type": "multimodal_text", "parts": [{"asset_pointer": "file-1"}, "look"]}
    conversation = chatgpt_conversation(
        "c1",
        [
            message_node("s", role="system", text="", hidden=True),
            message_node("p", "s", content=picture),
            message_node("t", "p", role="assistant", content=code, recipient="python"),
            message_node("o", "t", role="tool", author="python", text="2"),
            message_node("two", "o", role="assistant", parts=["one part", "another"]),
        ],
    )
    turns = turns_of(written(tmp_path, "conversations.json", json.dumps([conversation])))
    assert [(t.fields["role"], t.fields["content"]) for t in turns] == [
        ("system", ""),
        ("user", picture),
        ("tool_call", code),
        ("tool", "2"),
        ("assistant", "one part\n\nanother"),
    ]
    assert [t.state for t in turns] == ["hidden", "ok", "ok", "ok", "ok"]
    assert turns[3].fields["name"] == "python"
    assert turns[2].fields["metadata"]["recipient"] == "python"


def test_a_damaged_chatgpt_conversation_is_reported_and_the_next_one_read(tmp_path: Path) -> None:
    circle = chatgpt_conversation("circle", [message_node("a", "b"), message_node("b", "a")])
    circle["current_node"] = "a"
    orphan = chatgpt_conversation("orphan", [message_node("a", "gone", text="x")])
    nameless = {
        **chatgpt_conversation("x", [message_node("a")]),
        "conversation_id": None,
        "id": None,
    }
    lost = chatgpt_conversation("lost", [message_node("a", text="x", at=5.0)])
    lost["current_node"] = "elsewhere"
    good = chatgpt_conversation("good", [message_node("a", text="hello")])
    text = json.dumps([circle, orphan, nameless, lost, good], indent=1)
    path = written(tmp_path, "conversations.json", text)
    messages = [message for _, message in problems_of(path)]
    assert len(messages) == 4
    assert all(
        any(word in message for message in messages)
        for word in ("circle", "gone is missing", "no id", "newest branch")
    )
    turns = [t for t in parse_file(path) if isinstance(t, SourceTurn)]
    assert [(t.session, t.fields["content"]) for t in turns] == [
        ("chatgpt/lost", "x"),
        ("chatgpt/good", "hello"),
    ]


# ---- LoCoMo --------------------------------------------------------------------------------------


def test_a_locomo_sample_becomes_dated_sessions_of_two_named_speakers(tmp_path: Path) -> None:
    sample = locomo_sample("conv-1", sessions=12, turns=3)
    turns = turns_of(written(tmp_path, "locomo.json", json.dumps([sample])))
    assert [t.session for t in turns[::3]] == [f"locomo/conv-1/session_{n}" for n in range(1, 13)]
    assert [t.fields["key"] for t in turns[:3]] == ["D1:1", "D1:2", "D1:3"]
    assert {t.fields["name"] for t in turns} == {"Anouk", "Bram"}
    assert {t.fields["role"] for t in turns} == {"user"}
    began = datetime(2024, 1, 1, 13, 56, tzinfo=UTC)
    assert [t.fields["timestamp"] for t in turns[:3]] == [
        began + timedelta(seconds=n) for n in range(3)
    ]
    assert turns[1].fields["metadata"] == {"blip_caption": "a photo of a lake"}


def test_a_locomo_session_with_an_unreadable_date_or_turn_is_reported(tmp_path: Path) -> None:
    sample = locomo_sample("conv-1", sessions=2, turns=3)
    sample["conversation"]["session_1_date_time"] = "some day"
    del sample["conversation"]["session_2"][1]["text"]
    path = written(tmp_path, "locomo.json", json.dumps([sample]))
    messages = [message for _, message in problems_of(path)]
    assert len(messages) == 2
    assert "session_1: no date in 'some day'" in messages[0]
    assert "session_2, turn 1: there is no text" in messages[1]
    assert len([t for t in parse_file(path) if isinstance(t, SourceTurn)]) == 5


# ---- anything ------------------------------------------------------------------------------------

NAMES = (
    "role", "content", "session", "namespace", "agent", "name", "call_id", "key", "metadata", "seq",
    "timestamp", "token_count", "state", "escaped", "type", "arguments", "tool_calls", "messages",
    "mapping", "message", "author", "parent", "current_node", "id", "create_time", "parts", "title",
    "recipient", "conversation", "sample_id", "session_1", "session_1_date_time", "speaker", "text",
    "dia_id", "$bytes", "$pairs", "$int", "a",
)  # fmt: skip
WORDS = ("user", "assistant", "function_call", "message", "text", "a", "hidden", "2024-01-01", "")
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6)
        | st.dictionaries(st.sampled_from(("a", "b")), inner, max_size=2)
    ),
    max_leaves=25,
)


@given(json_values, st.sampled_from(FORMATS))
def test_no_value_whatever_stops_an_import(value: Any, format: str) -> None:
    """A file holds turns or problems; an exception would take the rest of it along."""
    data = json.dumps([value]).encode()
    source = Source("f", "f", BufferedReader(BytesIO(data)), False)
    reader, elements = detect(source, format)
    assert reader is not None
    for element in elements:
        if isinstance(element, Element):
            try:
                list(reader.parse(element.value, element.place, "f"))
            except Malformed:
                pass
