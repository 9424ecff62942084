"""Recalls: they wait, without a thread, until what they ask for can be found, then a search thread
answers them from a view that stands still.

The owner's loop calls ``ask``, ``look`` and ``close``; ``look`` after there were news. A recall has
what it waits for when its words (and vectors, while the embedder is well) are in and its query is
embedded, or when its time is up: then it is answered with what there is, and says so.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from neverforget.actors.embedding import Embedding
from neverforget.actors.fusion import VECTOR, FusionConfig
from neverforget.actors.longterm_indexing import Indexing, Searched
from neverforget.actors.longterm_messages import Recall, RecallReply, packed, unpacked
from neverforget.actors.messages import AnyReply
from neverforget.actors.metrics import Latencies
from neverforget.actors.ports import Pending, failure, internal_error
from neverforget.actors.query_preparation import prepare_query
from neverforget.actors.query_vectors import QueryVectors
from neverforget.actors.recall_answers import Hits
from neverforget.actors.searching import STRATEGIES, check_query, check_search
from neverforget.actors.store_embedder import StoreEmbedder
from neverforget.actors.worker_threads import WorkerThreads
from neverforget.storage.clock import Clock
from neverforget.storage.errors import (
    InvalidArgument,
    NeverforgetError,
    Overloaded,
    Unavailable,
    UnsupportedFormat,
)
from neverforget.storage.longterm_results import MemoryFilter
from neverforget.storage.longterm_view import LongTermView

log = logging.getLogger(__name__)
SEARCH_THREADS: Final = 2
WAITING_MAX: Final = 4_096
_END_S: Final = 10.0


@dataclass(eq=False)
class _Asked:
    """``vector``: of the query, or the error in its place, None while there is neither."""

    pending: Pending
    request: Recall
    query: str
    wanted: MemoryFilter
    began: float
    due: float
    by_vector: bool
    vector: Any = None
    vector_of: str = ""  # the embedder that made it

    @property
    def has_vector(self) -> bool:
        return self.vector is not None and not isinstance(self.vector, NeverforgetError)


class Recalls:
    """``latencies``: of those that were answered. ``wake``: something that waited may go on; call
    ``look``."""

    def __init__(
        self,
        config: FusionConfig,
        embedding: Embedding | None,
        embedder: StoreEmbedder,
        reply_bytes_max: int,
        clock: Clock,
        latencies: Latencies,
        wake: Callable[[], None],
    ) -> None:
        self._config = config
        self._latencies = latencies
        self._embedder, self._health = embedder, embedder.health
        self._reply_bytes_max = reply_bytes_max
        self._monotonic = clock.monotonic
        self._now_us = clock.now_us
        self._wake = wake
        self._vectors = None if embedding is None else QueryVectors(embedding, embedder.health)
        self._threads = WorkerThreads("neverforget-search", SEARCH_THREADS)
        self._indexing: Indexing | None = None
        self._parked: list[_Asked] = []
        self._back: list[_Asked] = []  # from other threads, under the lock
        self._embedding: set[_Asked] = set()  # whose queries are with the embedder
        self._running = 0
        self._idle = threading.Condition()

    def __len__(self) -> int:
        waiting = len(self._parked) + len(self._back) + len(self._embedding)
        return waiting + len(self._threads)

    # ---- the loop --------------------------------------------------------------------------------

    def follow(self, indexing: Indexing) -> None:
        """Search this from now on."""
        self._indexing = indexing

    def leave(self) -> None:
        """No search touches what was followed when this returns, unless one hangs: that is logged.
        What is asked waits for the next. Any thread.
        """
        self._indexing = None
        with self._idle:
            if not self._idle.wait_for(lambda: self._running == 0, _END_S):
                log.error("a neverforget-search thread hangs, and may still read what closes")

    def ask(self, pending: Pending, request: Recall) -> tuple[str, ...] | None:
        """Where it searches; None: it was refused."""
        if len(self) >= WAITING_MAX:
            error = Overloaded("too many recalls wait at this owner; ask again later")
            pending.reply(failure(request.id, error))
            return None
        try:
            asked = self._understood(pending, request)
        except NeverforgetError as error:
            pending.reply(failure(request.id, error))
            return None
        if not self._go(asked):
            self._parked.append(asked)
        return asked.wanted.namespace

    def look(self) -> None:
        """Let go on what need not wait any longer."""
        with self._idle:
            back, self._back = self._back, []
        waiting, self._parked = self._parked + back, []
        self._parked = [asked for asked in waiting if not self._go(asked)]

    def deadline(self) -> float | None:
        return min((a.due for a in self._parked if a.due > self._monotonic()), default=None)

    def refuse(self, error: NeverforgetError) -> None:
        """Nobody will ever search here: everybody who waits is told."""
        with self._idle:
            left = [*self._parked, *self._back, *self._embedding]
            self._parked, self._back = [], []
            self._embedding.clear()
        for asked in left:
            asked.pending.reply(failure(asked.request.id, error))

    def close(self) -> None:
        """Stop the threads; ``refuse`` whoever is left."""
        if self._vectors is not None:
            self._vectors.close()
        self._threads.close(_END_S)

    # ---- waiting ---------------------------------------------------------------------------------

    def _understood(self, pending: Pending, request: Recall) -> _Asked:
        wanted = unpacked(request.wanted, MemoryFilter)
        query = unpacked(request.query, str)
        check_query(query)
        check_search(request.strategy, request.fusion, request.limit, request.offset)
        by_vector = VECTOR in STRATEGIES[request.strategy] and self._config.vector > 0
        if request.strategy == "vector" and not self._embedder.is_used:
            raise InvalidArgument(
                "this store has no embedder, so nothing is found by meaning; use strategy "
                '"text", or reindex with an embedder'
            )
        by_vector = by_vector and self._embedder.is_used
        now = self._monotonic()
        due = now + request.wait_ms / 1000
        return _Asked(pending, request, query, wanted, now, due, by_vector)

    def _go(self, asked: _Asked) -> bool:
        """True: it waits no longer, since it is searched, answered, or nobody wants it."""
        if not asked.pending.alive:
            return True
        indexing = self._indexing
        index = None if indexing is None else indexing.index
        if indexing is None or index is None:
            error = None if indexing is None else indexing.error
            if error is None:
                return False
            asked.pending.reply(failure(asked.request.id, _not_open(error)))
            return True
        if asked.by_vector and not self._embedder.known:
            indexing.want_embedder()
        if self._lacks(asked, index.view(), index.upto):
            return False
        return self._threads.submit(lambda: self._search(asked))

    def _lacks(self, asked: _Asked, view: LongTermView, upto: int) -> bool:
        """Whether it is still to wait for what it wants to find."""
        if self._monotonic() >= asked.due:
            return False
        after = min(asked.request.after, upto)
        if view.words_upto < after:
            return True
        if not asked.by_vector or self._health.state != "ok":
            return False
        return not self._embedder.known or view.vectors_upto < after

    # ---- a search thread -------------------------------------------------------------------------

    def _search(self, asked: _Asked) -> None:
        with self._idle:
            indexing = self._indexing
            searched = None if indexing is None else indexing.searched
            if searched is None:
                self._back.append(asked)
            else:
                self._running += 1
        if indexing is None or searched is None:
            self._wake()
            return
        reply: AnyReply | None
        try:
            reply = self._answer(asked, indexing, searched)
        except NeverforgetError as error:
            reply = failure(asked.request.id, error)
        except BaseException as error:  # a panic of the text index is no Exception
            log.exception("a recall has failed")
            indexing.suspect()
            reply = failure(asked.request.id, internal_error(error))
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()
        if type(reply) is RecallReply:
            with self._idle:
                self._latencies.add(self._monotonic() - asked.began)
        if reply is not None:
            asked.pending.reply(reply)

    def _answer(self, asked: _Asked, indexing: Indexing, searched: Searched) -> AnyReply | None:
        """None: its query is being embedded, and it comes again."""
        if not asked.pending.alive:
            return None
        request, index = asked.request, searched.index
        view = index.view()
        speakers = indexing.speakers.of(view.rows, tuple(asked.wanted.namespace))
        query = prepare_query(asked.query, speakers)
        if asked.has_vector and asked.vector_of != searched.embedder:
            asked.vector = None  # the store has gone over to another embedder since
        if asked.by_vector and asked.vector is None:
            asked.vector_of = searched.embedder
            vector = self._vector(asked, query.meaning, view)
            if vector is None:
                return None  # another thread has it by now: nothing of it is touched here
            asked.vector = vector
        if request.strategy == "vector" and isinstance(asked.vector, NeverforgetError):
            raise _of_embedder(asked.vector)
        vector = asked.vector if asked.has_vector else None
        now = self._now_us() if request.now is None else request.now
        hits = Hits(index.view, query, vector, asked.wanted, request, self._config, now)
        found, more = hits.found(view, self._reply_bytes_max)
        reason = self._why_incomplete(asked, view, searched)
        return RecallReply(request.id, packed(found), more, reason is None, view.waiting, reason)

    def _vector(self, asked: _Asked, text: str, view: LongTermView) -> Any:
        """Of the query, or the error in its place; None: it comes later."""
        assert self._vectors is not None
        if view.vectors is None or not self._embedder.known:
            return self._health.error or _not_reached()
        kept = self._vectors.kept(asked.vector_of, text)
        if kept is not None:
            return kept
        if asked.request.strategy != "vector" and not self._health.may_try():
            return self._health.error or _not_reached()

        def then(outcome: Any) -> None:
            asked.vector = outcome
            with self._idle:
                self._embedding.discard(asked)
            if not self._threads.submit(lambda: self._search(asked)):
                ended = Unavailable("the owner has ended; ask again", outcome="not_applied")
                asked.pending.reply(failure(asked.request.id, ended))

        with self._idle:
            self._embedding.add(asked)
        self._vectors.ask(asked.vector_of, text, asked.due, self._monotonic, then)
        return None

    def _why_incomplete(self, asked: _Asked, view: LongTermView, searched: Searched) -> str | None:
        """What this client wrote must be found by every search of the strategy, and so must all
        that was there when the indexes were opened: vectors that were lost come back one by one.
        What others write meanwhile may be on its way.
        """
        if asked.by_vector and not asked.has_vector:
            return f"found by words only: {_message(asked.vector)}"
        after = min(asked.request.after, searched.index.upto)
        if view.words_upto < after:
            return "not everything written is searchable yet"
        if asked.by_vector and view.vectors_upto < max(after, searched.since):
            said = self._health.reason
            return "not everything written is embedded yet" + (f": {said}" if said else "")
        return None


def _message(error: Any) -> str:
    return error.message if isinstance(error, NeverforgetError) else "the query is not embedded"


def _not_reached() -> Unavailable:
    return Unavailable("the embedder has not been reached yet", outcome="not_applied")


def _of_embedder(error: NeverforgetError) -> NeverforgetError:
    if isinstance(error, InvalidArgument | Overloaded):
        return error
    # Without an outcome: the recall has waited as long as it was to, asking again is not for it.
    return Unavailable(error.message)


def _not_open(error: NeverforgetError) -> NeverforgetError:
    if isinstance(error, UnsupportedFormat):
        return UnsupportedFormat(f"the search index cannot be opened: {error.message}")
    return Unavailable(
        f"the search index cannot be opened now: {error.message}; it is tried again",
        outcome="not_applied",
    )
