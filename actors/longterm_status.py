"""What the long-term owner says of its indexes."""

from __future__ import annotations

from neverforget.actors.embedder_health import EmbedderHealth
from neverforget.actors.longterm_indexing import Indexing
from neverforget.actors.longterm_messages import IndexStatus


def index_status(indexing: Indexing, health: EmbedderHealth) -> IndexStatus | None:
    index = indexing.index
    if index is None:
        return None
    view = index.view()
    return IndexStatus(
        embedder=health.name,
        embedder_state=health.state,
        embedder_error=health.reason,
        model=indexing.model,
        dimension=0 if view.vectors is None else view.vectors.dimension,
        vectors=0 if view.vectors is None else len(view.vectors),
        waiting=view.waiting,
        failed=view.failed,
        lag=index.lag,
        generation=indexing.generation,
        published_us=indexing.published_us,
        derived_bytes=indexing.derived_bytes,
    )
