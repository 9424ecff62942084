"""What a turn says, as text: also of its calls, and who speaks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neverforget.actors.turn_text import as_json, carried, spoken, text_of
from neverforget.runtime.values import Turn
from neverforget.storage.format import RESULT_ROLES, ROLE_CODES

__all__ = ["as_json", "carried", "spoken", "text_of"]  # of the content alone, and what stands below

RESULTS = frozenset(name for name, code in ROLE_CODES.items() if code in RESULT_ROLES)
CALL, THOUGHT, ASSISTANT = "tool_call", "thought", "assistant"


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
