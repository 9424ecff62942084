"""Memories, items and turns for tests of contexts, made without a store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

import neverforget as nf
from neverforget.runtime.operation import SessionPlace
from neverforget.runtime.values import Namespace
from neverforget.runtime.working_context import Wanted, context
from neverforget.runtime.working_values import Context, WorkingItem

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def memory(text: str, number: int = 0, **fields: Any) -> nf.Memory:
    """A memory of ten days ago; ``number`` makes its id."""
    made: dict[str, Any] = {
        "id": f"019ce53a-7a40-7000-8000-{number:012x}",
        "key": None,
        "text": text,
        "type": "fact",
        "tags": (),
        "importance": 1.0,
        "confidence": 1.0,
        "source": None,
        "agent": "ada",
        "speaker": None,
        "namespace": Namespace(),
        "metadata": {},
        "created_at": NOW - 10 * DAY,
        "occurred_at": None,
        "valid_from": None,
        "valid_to": None,
        "version": 1,
        "status": "active",
        "context": None,
        "revised_at": NOW - 10 * DAY,
        "by": "ada",
    }
    return nf.Memory(**(made | fields))


def item(text: str, number: int = 0, **fields: Any) -> WorkingItem:
    """In a working memory for an hour. ``fields``: its own, or its memory's."""
    own = {name: fields.pop(name) for name in WorkingItem.__struct_fields__ if name in fields}
    made = WorkingItem(memory(text, number, **fields), 0, False, NOW - HOUR, NOW - HOUR, 0)
    return replace(made, **own)


def turn(seq: int, role: str, content: Any, **fields: Any) -> nf.Turn:
    """The ``seq``-th turn, a minute after the one before."""
    made: dict[str, Any] = {
        "namespace": Namespace(),
        "session": "chat",
        "seq": seq,
        "role": role,
        "content": content,
        "name": None,
        "agent": "ada",
        "call_id": None,
        "key": None,
        "metadata": {},
        "timestamp": NOW + seq * timedelta(minutes=1),
        "token_count": 1,
        "consolidated": False,
        "state": "ok",
    }
    return nf.Turn(**(made | fields))


def assembled(
    store: nf.Store,
    items: list[WorkingItem],
    max_tokens: int,
    conversation: nf.Session | None = None,
    strategy: Any = "balanced",
) -> Context:
    """A context of these items, as if they were in a working memory of the store."""
    place: SessionPlace | None = None if conversation is None else conversation._place
    wanted = Wanted(strategy, max_tokens, place, "UTC")
    return store._run(context(store._context, items, wanted))
