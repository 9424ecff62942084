"""What the long-term owner says of its indexes."""

from __future__ import annotations

from neverforget.actors.longterm_indexing import Indexing
from neverforget.actors.longterm_messages import IndexStatus
from neverforget.storage.longterm_index import LongTermIndex
from neverforget.storage.results import Finding


def index_status(indexing: Indexing) -> IndexStatus | None:
    index = indexing.index
    if index is None:
        return None
    view, embedder, on_disk = index.view(), indexing.embedder, indexing.on_disk
    return IndexStatus(
        embedder=embedder.name,
        embedder_state=embedder.health.state,
        embedder_error=embedder.health.reason,
        model=embedder.held.model,
        dimension=0 if view.vectors is None else view.vectors.dimension,
        vectors=0 if view.vectors is None else len(view.vectors),
        waiting=view.waiting,
        failed=view.failed,
        lag=index.lag,
        generation=on_disk.generation,
        published_us=on_disk.stored_us,
        derived_bytes=on_disk.bytes,
        findings=[*indexing.findings, *_not_embedded(index)],
    )


def _not_embedded(index: LongTermIndex) -> list[Finding]:
    """Why some memories are found by their words only; never quotes them."""
    reasons = index.failed_rows
    if not reasons:
        return []
    first = next(iter(reasons.values()))
    message = f"memories that cannot be embedded: {len(reasons):,}; the first: {first}"
    return [Finding("not_embedded", "repaired", "", 0, 0, message)]
