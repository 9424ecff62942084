"""Which tool calls turns make, and which results answer them. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from neverforget.runtime.turn_text import ASSISTANT, CALL, RESULTS, as_json
from neverforget.runtime.values import Turn
from neverforget.storage.tail_window import NO_LINK, Link

NAME_CHARACTERS_MAX = 64
_NO_FUNCTION = re.compile(r"[^\w-]+", re.ASCII)
Place = tuple[int, int]


class ToolCall(NamedTuple):
    """``place``: index of its turn, and which of that turn's calls. ``given_id``: the id is its own
    and not made up. ``arguments``: JSON of an object.
    """

    place: Place
    id: str
    given_id: bool
    name: str
    arguments: str

    def message(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


def calls_of(turn: Turn, index: int = 0) -> list[ToolCall]:
    """The calls that a turn makes."""
    if turn.role == CALL:
        name, arguments = _function(turn)
        given = turn.call_id is not None
        return [ToolCall((index, 0), turn.call_id or f"call_{turn.seq}", given, name, arguments)]
    made = turn.content.get("tool_calls") if isinstance(turn.content, dict) else None
    if turn.role != ASSISTANT or not isinstance(made, list):
        return []
    found = []
    for number, call in enumerate(made):
        fields: Mapping[str, Any] = call if isinstance(call, Mapping) else {}
        function = fields.get("function")
        function = function if isinstance(function, Mapping) else fields
        given = isinstance(fields.get("id"), str)
        call_id = str(fields["id"]) if given else f"call_{turn.seq}_{number}"
        name = _function_name(function.get("name"))
        arguments = _arguments(function.get("arguments", {}))
        found.append(ToolCall((index, number), call_id, given, name, arguments))
    return found


def _function(turn: Turn) -> tuple[str, str]:
    """Name and arguments of a turn that is one call."""
    content = turn.content
    if isinstance(content, Mapping) and isinstance(content.get("name"), str):
        others = {name: value for name, value in content.items() if name != "name"}
        return _function_name(content["name"]), _arguments(others.get("arguments", others))
    return _function_name(turn.name), _arguments(content)


def _function_name(name: Any) -> str:
    """Letters, digits, "_" and "-", as such APIs want it."""
    found = _NO_FUNCTION.sub("_", name)[:NAME_CHARACTERS_MAX] if isinstance(name, str) else ""
    return found or "tool"


def _arguments(value: Any) -> str:
    """A JSON object as text. Words, and what JSON has no number for, are the one argument."""
    if isinstance(value, str):
        return value if _is_object(value) else as_json({"input": value})
    said = as_json(value if isinstance(value, Mapping) else {"input": value})
    return said if _is_object(said) else as_json({"input": said})


def _is_object(text: str) -> bool:
    """Is it JSON, without Python's NaN and Infinity, and an object?"""
    try:
        return isinstance(json.loads(text, parse_constant=_no_json), dict)
    except (ValueError, RecursionError):
        return False


def _no_json(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def answers_of(turns: Sequence[Turn], calls: Sequence[list[ToolCall]]) -> dict[Place, int]:
    """For each call that has one, the index of its result."""
    answers: dict[Place, int] = {}
    made: dict[str, Place] = {}
    latest: list[ToolCall] = []  # made at once, or one after the other
    for index, turn in enumerate(turns):
        if calls[index]:
            follows = index and turn.role == turns[index - 1].role == CALL
            latest = [*latest, *calls[index]] if follows else calls[index]
            made.update({call.id: call.place for call in calls[index] if call.given_id})
        elif turn.role in RESULTS:
            place = made.get(turn.call_id) if turn.call_id is not None else None
            if place is None:
                free = (c for c in latest if c.place not in answers)
                waiting = (c for c in free if turn.call_id is None or not c.given_id)
                place = next((call.place for call in waiting), None)
            if place is not None:
                answers.setdefault(place, index)
    return answers


def link_of(turn: Turn) -> Link:
    """What of a turn decides whether a window may begin with it: see ``tail_window``."""
    if turn.role in RESULTS:
        return Link(True, None, turn.call_id)
    calls = calls_of(turn)
    if not calls:
        return NO_LINK
    return Link(False, frozenset(call.id for call in calls if call.given_id), None)
