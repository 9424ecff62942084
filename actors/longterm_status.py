"""What the long-term owner says of its indexes."""

from __future__ import annotations

from neverforget.actors.longterm_indexing import Indexing
from neverforget.actors.longterm_messages import IndexStatus


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
    )
