"""What the content of a turn says, as text. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def text_of(content: Any) -> str:
    """Text as it is, the text in structured content, else its JSON; of bytes only how many."""
    if content is None:
        return ""
    if isinstance(content, bytes):
        return _told(content)
    found = spoken(content)
    return as_json(content) if found is None else found


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


def carried(text: str) -> str:
    """As UTF-8 and JSON can carry it: lone surrogates become U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def as_json(value: Any) -> str:
    """JSON as a person reads it."""
    return json.dumps(value, ensure_ascii=False, default=_told)


def _call_in_text(function: Any) -> str | None:
    """A chat API's function call, whose arguments are JSON in text."""
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        return None
    arguments = function.get("arguments")
    inside = arguments if isinstance(arguments, str) else as_json(arguments)
    return f"{function['name']}({inside})"


def _told(content: bytes) -> str:
    return f"({len(content):,} bytes)"
