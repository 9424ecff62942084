"""Between the values of the API and what owners are sent and answer."""

from __future__ import annotations

from neverforget.actors.longterm_messages import FoundChunk, FoundMemory
from neverforget.runtime.memory_values import Chunk, Hit, Memory, MemoryStatus, Relation
from neverforget.runtime.times import from_us
from neverforget.runtime.values import AuditEntry, Namespace, TurnRef
from neverforget.storage.longterm_results import MemoryView, RelationView, TurnPoint
from neverforget.storage.results import AuditView

_STATUS: dict[str, MemoryStatus] = {
    "active": "active",
    "archived": "archived",
    "forgotten": "forgotten",
}


def memory_of(view: MemoryView) -> Memory:
    """An owner's memory as the public value."""
    return Memory(
        id=view.id,
        key=view.key,
        text=view.text,
        type=view.type,
        tags=tuple(view.tags),
        importance=view.importance,
        confidence=view.confidence,
        source=view.source,
        agent=view.agent,
        speaker=view.speaker,
        namespace=Namespace(view.namespace),
        metadata=view.metadata,
        created_at=from_us(view.created_at),
        occurred_at=None if view.occurred_at is None else from_us(view.occurred_at),
        valid_from=None if view.valid_from is None else from_us(view.valid_from),
        valid_to=None if view.valid_to is None else from_us(view.valid_to),
        version=view.version,
        status=_STATUS.get(view.status, "unreadable"),
        context=view.context,
        revised_at=from_us(view.revised_at or view.created_at),
        by=view.by,
    )


def hit_of(found: FoundMemory) -> Hit:
    """What a search found as the public value."""
    chunk = None if found.chunk is None else _chunk(found.chunk)
    return Hit(
        memory_of(found.memory),
        found.score,
        found.sources,
        chunk,
        found.arithmetic,
        tuple(found.duplicates),
    )


def _chunk(found: FoundChunk) -> Chunk:
    start, stop = (None, None) if found.span is None else found.span
    return Chunk(found.id, start, stop, found.text)


def relation_of(view: RelationView) -> Relation:
    """An owner's relation as the public value."""
    target = view.target
    return Relation(
        view.source,
        turn_ref(target) if isinstance(target, TurnPoint) else target,
        view.kind,
        view.weight,
    )


def turn_ref(point: TurnPoint) -> TurnRef:
    """Turns by name, their namespace absolute."""
    return TurnRef(Namespace(point.namespace), point.session, point.first, point.last)


def audit_entry(view: AuditView) -> AuditEntry:
    """What is on the record as the public value."""
    key = view.target.get("key")
    return AuditEntry(
        view.operation,
        view.target,
        key if isinstance(key, str) else None,
        view.by,
        from_us(view.at),
        view.reason,
        view.details,
    )
