"""The conversations that come with neverforget."""

from __future__ import annotations

from importlib.resources import as_file, files

from neverforget.runtime.demo.conversations import SAMPLE
from neverforget.runtime.importers import SourceTurn, parse_file


def sample_turns() -> list[SourceTurn]:
    with as_file(files("neverforget.runtime") / "samples" / SAMPLE) as path:
        found = list(parse_file(path, format="jsonl"))
    turns = [each for each in found if isinstance(each, SourceTurn)]
    assert len(turns) == len(found), "a line of the samples cannot be read"
    return turns


def test_they_hold_weeks_of_talk_between_people_and_agents() -> None:
    turns = sample_turns()
    assert len(turns) >= 300
    times = [turn.fields["timestamp"] for turn in turns]
    assert (max(times) - min(times)).days >= 21
    assert len({turn.fields.get("name") for turn in turns}) >= 6
    assert {turn.fields["role"] for turn in turns} == {
        "user", "assistant", "system", "tool_call", "tool_result", "thought",
    }  # fmt: skip


def test_within_a_session_time_moves_forward_and_every_call_has_its_result() -> None:
    sessions: dict[str, list[SourceTurn]] = {}
    for turn in sample_turns():
        sessions.setdefault(turn.session, []).append(turn)
    keys = set()
    for name, turns in sessions.items():
        times = [turn.fields["timestamp"] for turn in turns]
        assert times == sorted(times), name
        calls = [t.fields["call_id"] for t in turns if t.fields["role"] == "tool_call"]
        results = [t.fields["call_id"] for t in turns if t.fields["role"] == "tool_result"]
        assert calls == results, name
        keys |= {turn.fields["key"] for turn in turns}
    assert len(keys) == sum(map(len, sessions.values()))


def test_nothing_is_said_twice() -> None:
    long = [t.fields["content"] for t in sample_turns() if len(str(t.fields["content"])) > 40]
    assert len({str(content) for content in long}) == len(long)
