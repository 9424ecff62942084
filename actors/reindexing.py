"""Going over to another embedder while the store is used: what is derived is made a second time,
from the texts, in a folder of its own, and the first answers until that is complete.

    asked what it is -> opened -> filled -> stored -> taken over by the file EMBEDDER

A crash on the way leaves a folder that nothing names; the next opening removes it. The indexer
calls it all; only opening, which writes all words anew, runs on a thread of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal

from neverforget.actors.embedding_pumps import EmbeddingPumps
from neverforget.actors.generation_storing import said
from neverforget.actors.longterm_messages import ReindexReply
from neverforget.actors.open_indexes import OpenIndexes
from neverforget.actors.store_embedder import NONE, StoreEmbedder
from neverforget.actors.worker_threads import WorkerThreads
from neverforget.storage.embedder_file import EmbedderFile
from neverforget.storage.errors import InvalidArgument, NeverforgetError, NotFound, Unavailable
from neverforget.storage.longterm_index import LongTermIndex

State = Literal["running", "done", "failed"]
Open = Callable[[EmbedderFile, Callable[[], None]], OpenIndexes]


class Reindexing:
    """``embedder``: the new one, which writes no file. ``open_folder`` opens what is derived beside
    the first, on any thread, as long as what it is given does not raise. ``wake``: there is
    something to do.
    """

    def __init__(
        self,
        embedder: StoreEmbedder,
        folder: str,
        pumps: EmbeddingPumps | None,
        open_folder: Open,
        wake: Callable[[], None],
    ) -> None:
        self.name = embedder.name
        self.state: State = "running"
        self.reason: str | None = None
        self.opened: OpenIndexes | None = None
        self.done = self.total = 0
        self.changed = False  # by the last step
        self._embedder = embedder
        self._folder = folder
        self._pumps = pumps
        if pumps is not None:
            pumps.wanted = True
        self._open_folder = open_folder
        self._wake = wake
        self._thread = WorkerThreads("neverforget-reindex", 1)
        self._outcome: OpenIndexes | Exception | None = None
        self._opening = self._has_folder = self._at_work = False
        self._target: int | None = None
        self._closed = False
        self._lock = threading.Lock()  # of ``_outcome``, when it is closed

    def reply(self, id: int) -> ReindexReply:
        reason = self.reason or (self._embedder.health.reason if self.state == "running" else None)
        if reason is None and self.error is not None:
            reason = self.error.message
        return ReindexReply(id, self.state, self.done, self.total, reason)

    @property
    def error(self) -> NeverforgetError | None:
        """Why what is opened cannot be stored now; it is tried again."""
        opened = self.opened
        return None if opened is None else opened.error

    def is_clean(self, end: int) -> bool:
        """As ``OpenIndexes.is_clean``; of files that are being made, or removed, nobody can say."""
        opened = self.opened
        return not self._has_folder if opened is None else opened.is_clean(end)

    @property
    def has_failed(self) -> bool:
        return self.state == "failed"

    @property
    def held(self) -> EmbedderFile:
        """What EMBEDDER is to say."""
        return self._embedder.held

    def step(self, current: EmbedderFile, index: LongTermIndex) -> bool:
        """``current`` and ``index``: what answers meanwhile. True: complete and on the disk; take
        over ``opened``.
        """
        if self.state != "running":
            return False
        if self.opened is not None:
            return self._fill(self.opened)
        if self._outcome is not None:
            outcome, self._outcome = self._outcome, None
            if isinstance(outcome, Exception):
                self.fail(outcome)
                return False
            self.opened = outcome
            return self._fill(self.opened)
        if not self._opening:
            self._find_out(current, index)
        return False

    def _find_out(self, current: EmbedderFile, index: LongTermIndex) -> None:
        if self._pumps is None:
            self._begin(EmbedderFile(NONE, None, 0, self._folder), current)
            return
        self._pumps.take_back(index)
        described = self._pumps.described
        if described is None:
            if isinstance(self._embedder.health.error, InvalidArgument | NotFound):
                self.fail(self._embedder.health.error)
            else:
                self._pumps.hand_out(index)
            return
        self._pumps.described = None
        held = EmbedderFile(self.name, described.model, described.dimension, self._folder)
        self._embedder.goes_over(held)
        self._pumps.close()
        self._begin(held, current)

    def _begin(self, held: EmbedderFile, current: EmbedderFile) -> None:
        same = (held.name, held.model, held.dimension)
        if same == (current.name, current.model, current.dimension):
            self.finished()
            return
        self._opening = self._has_folder = self._at_work = True

        def work() -> None:
            try:
                self._outcome = self._open_folder(held, self._go_on)
            except Exception as error:
                self._outcome = error
            if self._closed:
                self._close_outcome()
            self._at_work = False
            self._wake()

        self._thread.submit(work)

    def _go_on(self) -> None:
        if self._closed:
            raise Unavailable("it is given up", outcome="not_applied")

    def _fill(self, opened: OpenIndexes) -> bool:
        self.changed = opened.step()
        view = opened.index.view()
        self.total = int(view.rows.living.sum())
        self.done = max(0, self.total - view.waiting - opened.index.lag)
        if opened.more:
            self._wake()
        complete = opened.has_all_words and opened.has_all_vectors
        if self._target is None and complete:
            self._target = opened.index.upto
            opened.storing.store_now()
            self._wake()
        return self._target is not None and opened.stored.manifest.watermark >= self._target

    def finished(self) -> None:
        """And one of the two folders is removed."""
        self.opened, self._has_folder = None, False
        self.state = "done"
        self._thread.close(0.5)

    @property
    def leaves_folder(self) -> bool:
        return self._has_folder

    @property
    def is_opening(self) -> bool:
        """A thread is at work in its folder."""
        return self._at_work

    def removed(self) -> None:
        """The folder of one that failed."""
        self._has_folder = False

    def fail(self, error: Exception) -> None:
        self.state, self.reason = "failed", said(error, self._folder).message
        self.close()

    def give_up(self) -> None:
        """Somebody wants the store to stay with the embedder it has."""
        self.state, self.reason = "failed", "it was given up for the embedder that the store has"
        self.close()

    def deadlines(self) -> list[float]:
        if self.state != "running":
            return []
        if self.opened is not None:
            return self.opened.deadlines()
        retry_at = self._embedder.health.retry_at
        return [] if retry_at is None else [retry_at]

    def close(self) -> None:
        """Give it up; what it has made is removed when the store is opened."""
        self._closed = True
        self._thread.close(0.5)
        self._close_outcome()
        left, self.opened = self.opened, None
        if left is not None:
            left.close(orderly=False)
        elif self._pumps is not None:
            self._pumps.close()

    def _close_outcome(self) -> None:
        """On the thread that opens, when it has ended too late for ``close``."""
        with self._lock:
            outcome, self._outcome = self._outcome, None
        if isinstance(outcome, OpenIndexes):
            outcome.close(orderly=False)
