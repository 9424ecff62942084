"""Vectors of queries: asked of the embedder on threads of their own, the newest kept.

Searches by words never come here, so an embedder that hangs holds up nobody but those who wait for
it, and each of these only as long as it said.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from neverforget.actors.embedder_checked import Embedded
from neverforget.actors.embedder_health import EmbedderHealth
from neverforget.actors.embedding import Embedding
from neverforget.actors.ports import internal_error
from neverforget.actors.worker_threads import WorkerThreads
from neverforget.storage.errors import InvalidArgument, NeverforgetError, Unavailable

KEPT_MAX: Final = 1_024
THREADS_MAX: Final = 8  # so many queries may be in one batch of the embedder
GRACE_S: Final = 1.0  # for the embedder, where a caller would wait for less
_CENTRE_MIN: Final = 1e-6

Outcome = Any  # a vector, or the NeverforgetError that stands for it


class QueryVectors:
    def __init__(self, embedding: Embedding, health: EmbedderHealth) -> None:
        self._embedding = embedding
        self._health = health
        self._threads = WorkerThreads("neverforget-query", THREADS_MAX)
        self._kept: OrderedDict[tuple[str, str], Any] = OrderedDict()
        self._lock = threading.Lock()

    def kept(self, name: str, text: str) -> Any | None:
        """The vector of this text by this embedder, if it was asked for lately."""
        key = (name, text)
        with self._lock:
            vector = self._kept.get(key)
            if vector is not None:
                self._kept.move_to_end(key)
            return vector

    def ask(
        self,
        name: str,
        text: str,
        due: float,
        monotonic: Callable[[], float],
        then: Callable[[Outcome], None],
    ) -> None:
        """``then`` is called once, on another thread."""
        if not self._threads.submit(lambda: then(self._ask(name, text, due - monotonic()))):
            then(Unavailable("the owner has ended; ask again", outcome="not_applied"))

    def close(self) -> None:
        self._threads.close(0.5)

    def _ask(self, name: str, text: str, left_s: float) -> Outcome:
        vector = self.kept(name, text)
        if vector is not None:
            return vector
        if left_s <= 0 and self._health.state != "ok":
            return self._health.error
        try:
            answer = self._embedding.embed(
                name, [text], urgent=True, deadline_s=max(left_s, GRACE_S)
            )
            vector = _direction(answer)
        except InvalidArgument as error:
            return error  # of this query: says nothing of the embedder
        except NeverforgetError as error:
            self._health.failed(error)
            return error
        except Exception as error:
            failed = internal_error(error)
            self._health.failed(failed)
            return failed
        self._health.went_well()
        with self._lock:
            self._kept[name, text] = vector
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return vector


def _direction(answer: Embedded) -> Any:
    """One vector of a query: of a long one the mean direction of its windows."""
    if answer.failed:
        raise InvalidArgument(f"the query cannot be embedded: {answer.failed[0]}")
    if answer.waiting or not len(answer.vectors):
        reason = answer.waiting.get(0, "no vector came")
        raise Unavailable(reason, outcome="not_applied")
    rows = answer.vectors
    mean = rows.mean(axis=0, dtype=np.float64)
    length = float(np.linalg.norm(mean))
    # Windows that cancel each other out leave no direction: then the first one speaks.
    return np.asarray(mean / length, np.float32) if length > _CENTRE_MIN else rows[0]
