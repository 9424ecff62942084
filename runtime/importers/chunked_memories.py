"""What is remembered of the records of a system that replaced long memories by summaries."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from neverforget.runtime.importers.chunked import CHILDREN, Record
from neverforget.runtime.importers.memories import memory_of
from neverforget.runtime.importers.source_turn import SourceMemory

if TYPE_CHECKING:
    from neverforget.runtime.memory_values import Memory

REVIEW = "needs-review"  # the tag of what could not be restored
MIGRATION = "migration"  # in the metadata: what became of it
ORIGIN = "chunked"
# Endings that are reserved here, or say only that something is a container.
_RENAMED = {"-chunk": "-part", "-summary": "-digest"}
_CONTAINERS = ("container", "chunked", "summary", "summarized")


def memory_from(
    record: Record, text: str, told: Mapping[str, Any], type_name: str | None = None
) -> SourceMemory:
    """What is remembered of a record, with all else that it says in the metadata. ``told``: what
    became of it, nothing of a plain one. Malformed.
    """
    line = {n: v for n, v in record.fields.items() if n not in ("id", "content", "memory")}
    for name in CHILDREN:
        children = line.get(name)
        if isinstance(children, list) and any(isinstance(child, dict) for child in children):
            del line[name]
    line |= {"text": text, "key": record.id}
    agent, user = line.pop("agent_id", None), line.get("user_id")
    if agent is not None:
        line.setdefault("agent", agent)
    if user is not None:
        line.setdefault("namespace", ["user", str(user)])
    given = type_name if type_name is not None else line.get("type")
    if isinstance(given, str):
        line["type"] = _allowed(given)
    if told:
        line["metadata"] = {**(line.get("metadata") or {}), MIGRATION: dict(told)}
        if not told["restored"]:
            line["tags"] = [*(line.get("tags") or []), REVIEW]
    # What an export of ours means by these is not meant here.
    for name in ("kind", "status", "version", "versions", "relations"):
        if name in line:
            line["metadata"] = {**(line.get("metadata") or {}), name: line.pop(name)}
    made = memory_of(line, record.line)
    made.origin = ORIGIN
    if told:
        made.puts_right = partial(_put_right, made.fields, record.text, told["restored"])
    return made


def _put_right(
    fields: Mapping[str, Any], kept: str, restored: bool, memory: Memory
) -> dict[str, Any] | None:
    """What turns ``memory``, which an earlier run has made of the same record, into ``fields``; its
    text was ``kept`` then. Only what the migration decides is changed.
    """
    before = memory.metadata.get(MIGRATION)
    done = before.get("restored") if isinstance(before, dict) else None
    if done is restored and memory.text == fields["text"]:
        return {}
    if not restored or done is not False or memory.text != kept:
        return None
    tags = [tag for tag in memory.tags if tag != REVIEW]
    changes = {
        "text": fields["text"],
        "tags": tuple(dict.fromkeys([*tags, *fields.get("tags", ())])),
        "metadata": {**memory.metadata, **fields["metadata"]},
    }
    return changes | ({"type": fields["type"]} if "type" in fields else {})


def original_type(container: Record, chunks: list[Record]) -> str | None:
    """What the original was, as far as the types of what is left of it say; None: nothing."""
    name = str(container.fields.get("type") or "")
    for word in _CONTAINERS:
        name = "" if name == word else name.removesuffix(f"-{word}").removesuffix(f"_{word}")
    if name:
        return name
    said = {str(chunk.fields.get("type") or "").removesuffix("-chunk") for chunk in chunks}
    said -= {"", "chunk"}
    return said.pop() if len(said) == 1 else None


def _allowed(name: str) -> str:
    for ending, instead in _RENAMED.items():
        if name.endswith(ending):
            return name.removesuffix(ending) + instead
    return name
