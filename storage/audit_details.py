"""What the audit says of what deletes nothing: chunkings, and evictions from working memories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from neverforget.storage.longterm_fields import Body, M, MemoryField, id_text, unpack_ids
from neverforget.storage.longterm_filters import within
from neverforget.storage.longterm_results import Namespace
from neverforget.storage.results import AuditView
from neverforget.storage.working_bodies import place_in


def chunks_in(body: Body, details: dict[str, Any]) -> dict[str, Any]:
    ids = [id_text(each) for each in unpack_ids(body.get(M[MemoryField.CASCADE], b""))]
    chunks = ids[:-1] if details.get("summary") else ids
    summary = ids[-1] if details.get("summary") else None
    return {"chunks": chunks, "summary": summary, "count": len(chunks)}


def evicted_in(body: Body) -> dict[str, Any]:
    """From which working memory, ``ids`` in the order they left, and what filled it; nothing, where
    the body was erased or cannot be read.
    """
    if not body:
        return {}
    place = place_in(body)
    return {
        "ids": [id_text(each) for each in unpack_ids(body.get(M[MemoryField.IDS], b""))],
        "group" if place.group else "agent": place.name,
        "namespace": list(place.namespace),
        "operation": body.get(M[MemoryField.WORKED]),
    }


def is_of_view(body: Body, scope: Namespace) -> bool:
    """Whether a working memory is one that a view may know of."""
    return bool(body) and within(place_in(body).namespace, scope)


def evictions_seen(view: AuditView, is_inside: Callable[[object], bool]) -> AuditView:
    """Without memories that are not for the view."""
    ids = [each for each in view.details["ids"] if is_inside(each)]
    target = view.target if view.target.get("id") in ids else {}
    details = {**view.details, "ids": ids, "count": len(ids)}
    return msgspec.structs.replace(view, target=target, details=details)
