"""Memories one a line: ``{"kind": "memory", "text": …}``, as ``export`` writes them.

By hand a line needs nothing else; the other fields are the arguments of ``remember``. ``id``,
``version`` with ``versions``, ``status`` and ``relations`` say what an export knows besides.
``created_at`` becomes occurred_at where none is given, so that the memory stays where it was in
time. Fields that nobody here knows are kept in the metadata under their own names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from neverforget.runtime.importers.source_turn import (
    Malformed,
    SourceMemory,
    SourceRelation,
    namespace_in,
    text_or_none,
)
from neverforget.runtime.memory_json import KIND
from neverforget.runtime.turn_json import parse_timestamp, unescape

STATUSES = ("active", "archived", "forgotten")
TIMES = ("occurred_at", "valid_from", "valid_to")
TEXTS = ("text", "type", "source", "agent", "speaker", "context")
NUMBERS = ("importance", "confidence")
PLACED = frozenset(
    {
        "kind",
        "escaped",
        "id",
        "namespace",
        "key",
        "created_at",
        "revised_at",
        "by",
        "version",
        "status",
    }
    | {"versions", "relations", "tags", "metadata", *TIMES, *TEXTS, *NUMBERS}
)
_ID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.ASCII)


def is_memory_line(value: Any) -> bool:
    return isinstance(value, dict) and value.get("kind") == KIND and "role" not in value


def memory_of(line: Mapping[str, Any], number: int) -> SourceMemory:
    """The memory that one object stands for. Malformed otherwise."""
    if line.get("escaped") is True:
        try:
            line = {name: unescape(value) for name, value in line.items()}
        except ValueError as error:
            raise Malformed(str(error)) from None
    created = _time(line, "created_at")
    fields = _fields(line, created)
    unknown = {n: v for n, v in line.items() if n not in PLACED and v is not None}
    if unknown:
        fields["metadata"] = unknown | fields.get("metadata", {})
    if key := text_or_none(line, "key"):
        fields["key"] = key
    memory_id = text_or_none(line, "id")
    if memory_id is not None and _ID.fullmatch(memory_id) is None:
        raise Malformed(f"id {memory_id!r} is no UUIDv7; leave it out, and give a key instead")
    status = line.get("status", "active")
    if status not in STATUSES:
        raise Malformed(f"status must be one of {', '.join(STATUSES)}")
    return SourceMemory(
        line=number,
        fields=fields,
        namespace=namespace_in(line),
        id=memory_id,
        status=status,
        versions=[_fields(each, created) for each in _objects(line, "versions")],
        relations=[_relation(each) for each in _objects(line, "relations")],
    )


def _fields(line: Mapping[str, Any], created: Any) -> dict[str, Any]:
    """The arguments of ``remember`` in one version."""
    made: dict[str, Any] = {}
    for name in TEXTS:
        if (text := text_or_none(line, name)) is not None:
            made[name] = text
    if not made.get("text", "").strip():
        raise Malformed("there is no text")
    for name in NUMBERS:
        value = line.get(name)
        if value is None:
            continue
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise Malformed(f"{name} must be a number")
        made[name] = value
    for name in TIMES:
        if (at := _time(line, name)) is not None:
            made[name] = at
    if created is not None:
        made.setdefault("occurred_at", created)
    tags = line.get("tags") or []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise Malformed("tags must be a list of texts")
    if tags:
        made["tags"] = tuple(tags)
    metadata = line.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise Malformed("metadata must be an object")
    if metadata:
        made["metadata"] = metadata
    return made


def _time(line: Mapping[str, Any], name: str) -> Any:
    value = line.get(name)
    if value is None:
        return None
    try:
        return parse_timestamp(value)
    except ValueError as error:
        raise Malformed(f"{name}: {error}") from None


def _objects(line: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = line.get(name) or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise Malformed(f"{name} must be a list of objects")
    return found


def _relation(given: Mapping[str, Any]) -> SourceRelation:
    kind, target, weight = given.get("kind"), given.get("target"), given.get("weight", 1.0)
    if not isinstance(kind, str) or not isinstance(weight, int | float):
        raise Malformed("a relation needs a kind, and its weight is a number")
    if isinstance(target, str):
        return SourceRelation(target, kind, weight)
    if isinstance(target, dict):
        session, first, last = (target.get(n) for n in ("session", "first", "last"))
        if isinstance(session, str) and isinstance(first, int) and isinstance(last, int):
            return SourceRelation((namespace_in(target), session, first, last), kind, weight)
    raise Malformed("the target of a relation must be a memory's id, or turns of a session")
