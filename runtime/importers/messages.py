"""Lines of turns (and of memories among them), and message lists as OpenAI's APIs take them.

A turn is an object with ``role`` and ``content``; ``session``, ``namespace``, ``agent``, ``name``,
``call_id``, ``key``, ``metadata``, ``timestamp`` and ``token_count`` may stand beside them. A
message of the chat API is the same with ``tool_calls`` and ``tool_call_id``; an item of the
responses API has a ``type``. Fields that nobody here knows are kept in the turn's metadata under
their own names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from neverforget.runtime.importers.memories import is_memory_line, memory_of
from neverforget.runtime.importers.source_turn import (
    Malformed,
    Parsed,
    Place,
    SourceTurn,
    namespace_in,
    text_or_none,
)
from neverforget.runtime.turn_json import parse_timestamp, unescape

TIMESTAMP_FIELDS = ("timestamp", "created_at", "create_time")
CONVERSATION_NAMES = ("session", "id", "conversation_id", "thread_id")
# What belongs to an assistant's answer besides its text: it stays with the content, which thereby
# says that it holds calls.
CALL_FIELDS = ("tool_calls", "function_call")
KNOWN = frozenset(
    {
        "namespace",
        "session",
        "seq",
        "state",
        "escaped",
        "role",
        "content",
        "name",
        "agent",
        "call_id",
    }
    | {"key", "metadata", "token_count", "tool_call_id", *TIMESTAMP_FIELDS, *CALL_FIELDS}
)
# Of a turn whose content is gone: a role of its writer's own went with it. The turn is imported all
# the same, or those behind it would move up.
LOST_ROLE = "unknown"
STATES = ("ok", "hidden", "erased", "unreadable")
# Items of the responses API: type -> role. A "message" item has a role of its own.
ITEM_ROLES = {
    "function_call": "tool_call",
    "function_call_output": "tool_result",
    "reasoning": "thought",
}


class TurnLines:
    """One turn or memory a value: ``neverforget export`` writes these lines. A bare message is such
    a turn too."""

    name = "jsonl"

    def recognises(self, value: Any) -> bool:
        return isinstance(value, dict) and (_is_message(value) or is_memory_line(value))

    def parse(self, value: Any, place: Place, stem: str) -> Iterator[Parsed]:
        if not isinstance(value, dict):
            raise Malformed(f"a turn must be an object, not {type(value).__name__}")
        if is_memory_line(value):
            yield memory_of(value, place.line)
            return
        yield message_turn(value, place.line, stem)


class MessageLists:
    """``[message, ...]``, ``{"messages": [...]}``, or many of these in one file.

    A single list is the session named like the file. Of several, each is ``file/name``, where the
    name is the list's ``session``, ``id``, ``conversation_id`` or ``thread_id``, else its number.
    """

    name = "openai"

    def __init__(self) -> None:
        self._lists = 0

    def recognises(self, value: Any) -> bool:
        if isinstance(value, dict):
            return isinstance(value.get("messages"), list) or _is_message(value)
        return isinstance(value, list) and all(
            isinstance(m, dict) and _is_message(m) for m in value
        )

    def parse(self, value: Any, place: Place, stem: str) -> Iterator[Parsed]:
        if isinstance(value, dict) and "messages" not in value:
            yield message_turn(value, place.line, stem)
            return
        given = value if isinstance(value, dict) else {}
        messages = given.get("messages", value)
        if not isinstance(messages, list):
            raise Malformed("messages must be a list")
        session = self._session(given, stem)
        namespace = namespace_in(given)
        for index, message in enumerate(messages):
            try:
                if not isinstance(message, dict):
                    raise Malformed(f"a message must be an object, not {type(message).__name__}")
                turn = message_turn(message, place.line, session)
            except Malformed as error:
                yield place.problem(f"message {index} of {session}: {error}")
                continue
            turn.namespace = turn.namespace or namespace
            yield turn

    def _session(self, given: Mapping[str, Any], stem: str) -> str:
        number, self._lists = self._lists, self._lists + 1
        name = next((given[n] for n in CONVERSATION_NAMES if isinstance(given.get(n), str)), None)
        return f"{stem}/{name}" if name else f"{stem}/{number}" if number else stem


def message_turn(line: Mapping[str, Any], number: int, session: str) -> SourceTurn:
    """The turn that one object stands for; ``session`` where it names none. Malformed otherwise."""
    if line.get("escaped") is True:
        try:
            line = {name: unescape(value) for name, value in line.items()}
        except ValueError as error:
            raise Malformed(str(error)) from None
    fields = _item(line) if "role" not in line else dict(line)
    state = fields.get("state", "ok")
    if state not in STATES:
        raise Malformed(f"state must be one of {', '.join(STATES)}")
    role = fields.get("role")
    if not role and state in ("erased", "unreadable"):
        role = LOST_ROLE
    if not isinstance(role, str) or not role:
        raise Malformed("role must be text" if "role" in fields else "there is no role")
    name = text_or_none(fields, "session")
    seq = fields.get("seq")
    if seq is not None and (not isinstance(seq, int) or isinstance(seq, bool) or seq < 0):
        raise Malformed("seq must be a number from 0 on")
    return SourceTurn(
        session=session if name is None else name,
        namespace=namespace_in(fields),
        line=number,
        agent=text_or_none(fields, "agent"),
        seq=seq,
        state=state,
        fields=_arguments(fields, role),
    )


def _arguments(fields: Mapping[str, Any], role: str) -> dict[str, Any]:
    made: dict[str, Any] = {"role": role, "content": _content(fields)}
    for argument in ("name", "key"):
        if text := text_or_none(fields, argument):  # an empty one says nothing
            made[argument] = text
    call_id = (
        text_or_none(fields, "call_id")
        or text_or_none(fields, "tool_call_id")
        or _only_call(fields)
    )
    if call_id:
        made["call_id"] = call_id
    count = fields.get("token_count")
    if count is not None:
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise Malformed("token_count must be a number from 0 on")
        made["token_count"] = count
    at = next((fields[n] for n in TIMESTAMP_FIELDS if fields.get(n) is not None), None)
    if at is not None:
        try:
            made["timestamp"] = parse_timestamp(at)
        except ValueError as error:
            raise Malformed(str(error)) from None
    metadata = fields.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise Malformed("metadata must be an object")
    unknown = {n: v for n, v in fields.items() if n not in KNOWN and v is not None}
    if unknown or metadata:
        made["metadata"] = unknown | metadata
    return made


def _content(fields: Mapping[str, Any]) -> Any:
    calls = {n: fields[n] for n in CALL_FIELDS if fields.get(n)}
    if calls:
        return {"content": fields.get("content"), **calls}
    if "content" not in fields and fields.get("state") not in ("erased", "unreadable"):
        raise Malformed("there is no content")
    return fields.get("content")


def _only_call(fields: Mapping[str, Any]) -> str | None:
    """The id of the one call in a turn. Several calls have none in common: their results follow the
    turn anyway."""
    calls = fields.get("tool_calls")
    if isinstance(calls, list) and len(calls) == 1 and isinstance(calls[0], dict):
        return text_or_none(calls[0], "id")
    return None


def _item(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item of the responses API that has a type instead of a role, as a message."""
    kind = item.get("type")
    role = ITEM_ROLES.get(kind) if isinstance(kind, str) else None
    if role is None:
        return dict(item)
    fields: dict[str, Any] = {n: v for n, v in item.items() if n != "type"}
    fields["role"] = role
    if kind == "function_call":
        arguments = fields.pop("arguments", None)
        fields["content"] = {"name": fields.pop("name", None), "arguments": _parsed(arguments)}
    elif kind == "function_call_output":
        fields["content"] = fields.pop("output", None)
    else:
        fields.setdefault("content", fields.pop("summary", None))
    return fields


def _parsed(arguments: Any) -> Any:
    """A call's arguments, which the API sends as JSON in text. What is not stays the text that it
    is."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _is_message(value: Mapping[str, Any]) -> bool:
    return "role" in value or ("type" in value and value["type"] in (*ITEM_ROLES, "message"))
