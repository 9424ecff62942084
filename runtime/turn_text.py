"""What a turn says, as text: its content, its calls, and who speaks. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from neverforget.runtime.turn_json import json_value
from neverforget.runtime.values import Turn
from neverforget.storage.format import RESULT_ROLES, ROLE_CODES

RESULTS = frozenset(name for name, code in ROLE_CODES.items() if code in RESULT_ROLES)
CALL, THOUGHT, ASSISTANT = "tool_call", "thought", "assistant"


def text_of(content: Any) -> str:
    """Text as it is, the text in structured content, else its JSON; of bytes only how many."""
    if content is None:
        return ""
    if isinstance(content, bytes):
        return f"({len(content):,} bytes)"
    found = spoken(content)
    return as_json(content) if found is None else found


def speaker_of(turn: Turn) -> str:
    """Who says it: the name it was given, of what an agent does the agent, else its role."""
    if turn.name and turn.role != CALL:
        return turn.name
    if turn.role in (ASSISTANT, CALL, THOUGHT):
        return turn.agent or ASSISTANT
    return "tool" if turn.role in RESULTS else turn.role


def said_by(turn: Turn) -> str:
    """What it says: calls and results marked by an arrow."""
    if turn.role == CALL:
        return "→ " + (call_text(turn.content) or _named(turn))
    text = text_of(turn.content)
    return f"← {text}" if turn.role in RESULTS else text


def _named(turn: Turn) -> str:
    text = text_of(turn.content)
    return f"{turn.name}({text})" if turn.name else text


def call_text(content: Any) -> str | None:
    """``{"name": …, "arguments": {…}}`` as ``name(argument=…)``. Without ``arguments``, what else
    there is.
    """
    if not isinstance(content, Mapping) or not isinstance(content.get("name"), str):
        return None
    others = {name: value for name, value in content.items() if name != "name"}
    arguments = others.get("arguments", others or None)
    if isinstance(arguments, Mapping):
        inside = ", ".join(f"{name}={as_json(value)}" for name, value in arguments.items())
    else:
        inside = "" if arguments is None else as_json(arguments)
    return f"{content['name']}({inside})"


def spoken(content: Any) -> str | None:
    """The text in structured content as the big APIs have it: parts of text, or an answer with its
    calls."""
    if isinstance(content, list):
        parts = [spoken(part) for part in content]
        return "\n".join(p for p in parts if p) if any(parts) else None
    if not isinstance(content, Mapping):
        return content if isinstance(content, str) else None
    calls = content.get("tool_calls")
    if isinstance(calls, list):
        lines = [spoken(content.get("content")) or ""]
        for call in calls:
            function = call.get("function") if isinstance(call, Mapping) else None
            lines.append("→ " + (_call_in_text(function) or as_json(call)))
        return "\n".join(line for line in lines if line)
    for name in ("text", "parts"):
        if name in content:
            return spoken(content[name])
    return None


def _call_in_text(function: Any) -> str | None:
    """A chat API's function call, whose arguments are JSON in text."""
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        return None
    arguments = function.get("arguments")
    inside = arguments if isinstance(arguments, str) else as_json(arguments)
    return f"{function['name']}({inside})"


def as_json(value: Any) -> str:
    """JSON as a person reads it; what JSON cannot say is escaped as in ``turn_json``."""
    return json.dumps(json_value(value), ensure_ascii=False)
