"""One memory as one line of JSON: what ``export`` writes, ``import`` reads and ``--json`` prints.

A line of a memory is told from a turn's by ``"kind": "memory"``. What is None or empty is left out;
what JSON cannot say is escaped as in ``turn_json``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from neverforget.runtime.turn_json import dump_line, escaped_object, format_timestamp
from neverforget.runtime.values import TurnRef

if TYPE_CHECKING:
    from neverforget.runtime.memory_values import Memory, Relation

KIND = "memory"


def memory_object(
    memory: Memory,
    *,
    versions: Iterable[Memory] = (),
    relations: Iterable[Relation] = (),
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """``memory`` as an object that ``json`` can write. ``versions``: those before it, oldest first;
    ``relations``: that begin at it; ``extra`` stands behind its own fields.
    """
    fields: dict[str, Any] = {
        "kind": KIND,
        "id": memory.id,
        "namespace": list(memory.namespace) or None,
        "key": memory.key,
        **_said(memory),
        "created_at": format_timestamp(memory.created_at),
        "version": memory.version,
        "status": None if memory.status == "active" else str(memory.status),
        "versions": [_version(each) for each in versions] or None,
        "relations": [_relation(each) for each in relations] or None,
        **(extra or {}),
    }
    return escaped_object(fields)


def memory_line(memory: Memory, **more: Any) -> bytes:
    """``memory`` as one line of UTF-8 with its newline."""
    return dump_line(memory_object(memory, **more))


def _said(memory: Memory) -> dict[str, Any]:
    return {
        "text": memory.text,
        "type": memory.type,
        "tags": list(memory.tags) or None,
        "importance": memory.importance,
        "confidence": memory.confidence,
        "source": memory.source,
        "agent": memory.agent,
        "speaker": memory.speaker,
        "metadata": dict(memory.metadata) or None,
        "context": memory.context,
        "occurred_at": _time(memory.occurred_at),
        "valid_from": _time(memory.valid_from),
        "valid_to": _time(memory.valid_to),
    }


def _version(memory: Memory) -> dict[str, Any]:
    return {name: value for name, value in _said(memory).items() if value is not None}


def _relation(relation: Relation) -> dict[str, Any]:
    return {
        "kind": relation.kind,
        "target": target_object(relation.target),
        "weight": relation.weight,
    }


def target_object(target: str | TurnRef) -> str | dict[str, Any]:
    """The end of a relation: a memory's id, or turns."""
    if isinstance(target, TurnRef):
        return {
            "namespace": list(target.namespace),
            "session": target.session,
            "first": target.first,
            "last": target.last,
        }
    return target


def _time(at: Any) -> str | None:
    return None if at is None else format_timestamp(at)
