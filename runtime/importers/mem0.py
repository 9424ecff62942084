"""Memories that mem0 gave out: what ``get_all`` answers, of the platform and of the open source, in
Python's spelling and in TypeScript's.

A file holds memories one a line, a list of them, or answers ``{"results": [...]}``, one or many.
The key of a memory is its id in mem0, its namespace ("user", user_id), its agent agent_id;
created_at becomes occurred_at, an expiration date valid_to. Categories become tags as far as a tag
can spell them. Whatever else mem0 says (hash, run_id, updated_at, …) stands in the metadata under
its own name, where metadata of the user's own comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from neverforget.runtime.importers.source_turn import (
    Malformed,
    Parsed,
    Place,
    SourceMemory,
    text_or_none,
)
from neverforget.runtime.turn_json import parse_timestamp

ANSWERS = ("results", "memories")
# The names that TypeScript spells otherwise.
SPELLINGS = {
    "createdAt": "created_at",
    "updatedAt": "updated_at",
    "userId": "user_id",
    "agentId": "agent_id",
    "runId": "run_id",
    "appId": "app_id",
    "expirationDate": "expiration_date",
    "attributedTo": "attributed_to",
}
# Of the answer that a memory came in, not of the memory.
PASSING = ("score", "score_details", "event", "previous_memory")
PLACED = frozenset({"id", "memory", "metadata", "user_id", "agent_id", "created_at", "categories"})
_NOT_IN_TAGS = re.compile(r"[^a-z0-9]+")


class Mem0Export:
    name = "mem0"

    def recognises(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        answer = _answer(value)
        if answer is None:
            return _is_memory(value)
        return not answer or _is_memory(answer[0])

    def parse(self, value: Any, place: Place, stem: str) -> Iterator[Parsed]:
        if not isinstance(value, dict):
            raise Malformed(f"a memory of mem0 must be an object, not {type(value).__name__}")
        answer = _answer(value)
        if answer is None:
            yield _memory(value, place.line)
            return
        for index, item in enumerate(answer):
            try:
                if not isinstance(item, dict):
                    raise Malformed(f"a memory must be an object, not {type(item).__name__}")
                yield _memory(item, place.line)
            except Malformed as error:
                name = item.get("id") if isinstance(item, dict) else None
                yield place.problem(f"memory {name or index}: {error}")
        if value.get("relations"):
            count = len(value["relations"])
            yield place.problem(f"{count:,} relations of mem0's graph name no memories; left out")


def _is_memory(value: Any) -> bool:
    if not isinstance(value, dict) or "content" in value:  # with content it is a turn
        return False
    return isinstance(value.get("memory"), str) and "id" in value


def _answer(value: Mapping[str, Any]) -> list[Any] | None:
    return next((value[name] for name in ANSWERS if isinstance(value.get(name), list)), None)


def _memory(given: Mapping[str, Any], line: int) -> SourceMemory:
    item = {SPELLINGS.get(name, name): value for name, value in given.items()}
    text, key = text_or_none(item, "memory"), item.get("id")
    if not text or not text.strip():
        raise Malformed("it has no text")
    if isinstance(key, int) and not isinstance(key, bool):
        key = str(key)  # as some of mem0's vector stores number them
    if not isinstance(key, str) or not key:
        raise Malformed("it has no id")
    fields: dict[str, Any] = {"text": text, "key": key, "source": "mem0"}
    if agent := text_or_none(item, "agent_id"):
        fields["agent"] = agent
    if (at := _time(item, "created_at")) is not None:
        fields["occurred_at"] = at
    if (end := _time(item, "expiration_date")) is not None:
        # A date is meant whole.
        whole = len(str(item["expiration_date"])) == len("2026-12-31")
        fields["valid_to"] = end + timedelta(days=1) if whole else end
    tags, categories = _tags(item.get("categories"))
    if tags:
        fields["tags"] = tags
    metadata = item.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise Malformed("metadata must be an object")
    told = {
        name: value
        for name, value in item.items()
        if name not in PLACED and name not in PASSING and value not in (None, [], {})
    }
    if categories:
        told["categories"] = categories
    if told or metadata:
        fields["metadata"] = told | metadata
    user = text_or_none(item, "user_id")
    return SourceMemory(
        line=line, fields=fields, namespace=("user", user) if user else (), origin="mem0"
    )


def _time(item: Mapping[str, Any], name: str) -> datetime | None:
    value = item.get(name)
    if value is None or value == "":
        return None
    try:
        return parse_timestamp(value)
    except ValueError as error:
        raise Malformed(f"{name}: {error}") from None


def _tags(categories: Any) -> tuple[tuple[str, ...], list[str]]:
    """Categories as tags, and as they stand where a tag spells one otherwise or cannot."""
    if not categories:
        return (), []
    if not isinstance(categories, list) or not all(isinstance(c, str) for c in categories):
        raise Malformed("categories must be a list of texts")
    tags = [_NOT_IN_TAGS.sub("-", category.lower()).strip("-") for category in categories]
    found = tuple(dict.fromkeys(tag for tag in tags if tag))
    return found, [] if list(found) == categories else categories
