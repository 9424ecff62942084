"""Memories of others' files as parsers read them: mem0 exports, and lines of our own."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from neverforget.runtime.importers import Problem, SourceMemory, parse_file

# What mem0's get_all answers, open source (first two) and platform (third).
MEM0: list[dict[str, Any]] = [
    {
        "id": "892db2ae-06d9-49e5-8b3e-585ef9b85b8c",
        "memory": "Likes to play cricket on weekends",
        "hash": "285d07801ae42054732314853e9eadd7",
        "metadata": {"category": "hobbies", "hash": "the user's own"},
        "created_at": "2024-07-26T00:18:22.123456-07:00",
        "updated_at": None,
        "user_id": "alice",
        "agent_id": "coach",
        "run_id": "run-7",
    },
    {"id": "2", "memory": "No user, no time"},
    {
        "id": "0a14d8f0-e364-4f5c-b305-10da1f0d0878",
        "memory": "Alex prefers vegetarian restaurants",
        "categories": ["food_preferences", "travel", "食べ物"],
        "expiration_date": "2026-12-31",
        "created_at": "2024-07-05T15:30:00Z",
        "updated_at": "2024-07-06T15:30:00Z",
        "user_id": "alex",
        "score": 0.89,
    },
]


def parsed(tmp_path: Path, content: Any, *, format: str = "auto", lines: bool = False) -> list[Any]:
    path = tmp_path / ("f.jsonl" if lines else "f.json")
    text = "\n".join(map(json.dumps, content)) if lines else json.dumps(content, indent=2)
    path.write_text(text)
    return list(parse_file(path, format=format))


@pytest.mark.parametrize(
    ("shape", "lines"),
    [
        (MEM0, False),
        ({"results": MEM0}, False),
        ({"count": 3, "next": None, "previous": None, "results": MEM0}, False),
        ([{"results": MEM0[:2]}, {"results": MEM0[2:]}], False),
        (MEM0, True),
        ([{"results": MEM0[:1]}, {"results": MEM0[1:]}], True),
    ],
    ids=["list", "answer", "page of the platform", "pages", "lines", "answers, one a line"],
)
def test_every_shape_of_a_mem0_export_is_recognised(
    tmp_path: Path, shape: Any, lines: bool
) -> None:
    found = parsed(tmp_path, shape, lines=lines)
    assert [each.fields["key"] for each in found] == [each["id"] for each in MEM0]
    assert {each.origin for each in found} == {"mem0"}


def test_what_mem0_says_of_a_memory_finds_its_place(tmp_path: Path) -> None:
    first, second, third = parsed(tmp_path, MEM0)
    assert first.namespace == ("user", "alice")
    assert first.fields == {
        "text": "Likes to play cricket on weekends",
        "key": "892db2ae-06d9-49e5-8b3e-585ef9b85b8c",
        "source": "mem0",
        "agent": "coach",
        "occurred_at": datetime(2024, 7, 26, 7, 18, 22, 123456, tzinfo=UTC),
        "metadata": {"hash": "the user's own", "run_id": "run-7", "category": "hobbies"},
    }
    assert (second.namespace, second.fields["key"]) == ((), "2")
    assert "occurred_at" not in second.fields and "metadata" not in second.fields
    assert third.fields["tags"] == ("food-preferences", "travel")
    assert third.fields["metadata"] == {
        "categories": ["food_preferences", "travel", "食べ物"],
        "expiration_date": "2026-12-31",
        "updated_at": "2024-07-06T15:30:00Z",
    }
    assert third.fields["valid_to"] == datetime(2027, 1, 1, tzinfo=UTC)


def test_the_spelling_of_mem0_for_typescript_is_read_too(tmp_path: Path) -> None:
    item = {"id": "1", "memory": "x", "createdAt": "2025-01-02T03:04:05Z", "userId": "u"}
    (found,) = parsed(tmp_path, {"results": [item]})
    assert found.namespace == ("user", "u")
    assert found.fields["occurred_at"] == datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_what_cannot_be_read_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    bad: list[Any] = [
        {"id": "1", "memory": " "},
        {"memory": "no id"},
        {"id": "2", "memory": "bad time", "created_at": "yesterday"},
        {"id": "3", "memory": "bad metadata", "metadata": ["x"]},
        7,
        {"id": "4", "memory": "good"},
    ]
    answer = {"results": [MEM0[0], *bad], "relations": [{"source": "a", "target": "b"}]}
    found = parsed(tmp_path, answer)
    assert [each.fields["text"] for each in found if isinstance(each, SourceMemory)][1:] == ["good"]
    problems = [str(each.message) for each in found if isinstance(each, Problem)]
    assert len(problems) == 6
    assert "memory 2: created_at" in problems[2]
    assert "1 relations of mem0's graph" in problems[-1]


def test_a_turn_that_has_a_memory_field_stays_a_turn(tmp_path: Path) -> None:
    line = {"role": "user", "content": "hi", "memory": "x", "id": "1"}
    (found,) = parsed(tmp_path, [line], lines=True)
    assert not isinstance(found, SourceMemory)


def test_a_memory_by_hand_needs_its_text_only(tmp_path: Path) -> None:
    lines = [
        {"role": "user", "content": "a turn among them"},
        {"kind": "memory", "text": "short", "tags": ["a"], "mine": 7, "namespace": "acme"},
    ]
    turn, memory = parsed(tmp_path, lines, lines=True)
    assert turn.fields["content"] == "a turn among them"
    assert memory.namespace == ("acme",)
    assert memory.fields == {"text": "short", "tags": ("a",), "metadata": {"mine": 7}}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"text": ""}, "no text"),
        ({"text": "x", "id": "7"}, "UUIDv7"),
        ({"text": "x", "status": "lost"}, "status"),
        ({"text": "x", "tags": "a"}, "tags"),
        ({"text": "x", "importance": "high"}, "importance"),
        ({"text": "x", "occurred_at": "soon"}, "occurred_at"),
        ({"text": "x", "metadata": [1]}, "metadata"),
        ({"text": "x", "relations": [{"kind": "k", "target": 7}]}, "target"),
        ({"text": "x", "versions": [{"type": "fact"}]}, "no text"),
    ],
)
def test_a_malformed_memory_is_a_problem_with_its_line(
    tmp_path: Path, line: dict[str, Any], message: str
) -> None:
    good = {"kind": "memory", "text": "good"}
    found = parsed(tmp_path, [good, {"kind": "memory", **line}, good], lines=True)
    assert [isinstance(each, SourceMemory) for each in found] == [True, False, True]
    assert found[1].line == 2
    assert message in found[1].message
