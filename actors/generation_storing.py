"""When a generation of the indexes is stored, and that nobody waits for it: what is fixed at the
beginning and changed at the end takes moments, the long part runs on a thread of its own. Another
thread makes and stores vectors, which takes longest: rows, words and table do not wait for them.

It is due when searches pay for what is not stored, when much of the log lies behind the last one,
when nothing has happened for a while, at once after an erasure, and at an orderly end where that is
quick. What fails is tried again after pauses that grow.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from neverforget.actors.ports import internal_error
from neverforget.actors.worker_threads import WorkerThreads
from neverforget.storage.errors import NeverforgetError, OutOfSpace, Unavailable
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.longterm_folding import FoldingTurn
from neverforget.storage.longterm_generations import Generations
from neverforget.storage.longterm_publishing import Publication, Superseded

log = logging.getLogger(__name__)

IDLE_S: Final = 5.0  # after the last change
LOG_BYTES_MAX: Final = 64 * 1024 * 1024  # behind the last generation
QUICK_BYTES: Final = 64 * 1024 * 1024  # of what is stored, that an orderly end may write once more
QUICK_CHANGES: Final = 2_000
PAUSE_S_MIN: Final = 0.5
PAUSE_S_MAX: Final = 60.0
_LOOK_S: Final = 0.05  # until a log that has failed is opened anew
_END_S: Final = 10.0
_SLICE: Final = 256
_IDLE_SHARE: Final = 100  # vectors in memory alone that an idle owner stores, of all: a hundredth


class Storing:
    """Of one opening of the indexes; called by the indexer. ``owner_waits``: while it is held, the
    owner changes nothing. ``wake``: a generation is done.
    """

    def __init__(
        self,
        stored: Generations,
        region: LongTermRegion,
        monotonic: Callable[[], float],
        owner_waits: Callable[[], AbstractContextManager[None]],
        wake: Callable[[], None],
    ) -> None:
        self.error: NeverforgetError | None = None  # why the last one could not be stored
        self._stored = stored
        self._region = region
        self._monotonic = monotonic
        self._owner_waits = owner_waits
        self._wake = wake
        self._thread = WorkerThreads("neverforget-generation", 1)
        self._running: Publication | None = None
        self._outcome: bool | Exception | None = None
        self._vectors_thread = WorkerThreads("neverforget-vectors", 1)
        self._folding: FoldingTurn | None = None
        self._folded: bool | Exception | None = None
        self._changed_at: float | None = None  # since the last one was begun
        self._pause_s = PAUSE_S_MIN
        self._not_before = 0.0
        self._wanted = self._with_vectors = self._anew = False
        self._ending = False
        self._vectors_wait = False  # they are stored, and no generation names them yet

    @property
    def running(self) -> bool:
        return self._running is not None or self._folding is not None

    def note_change(self) -> None:
        self._changed_at = self._monotonic()

    def store_now(self) -> None:
        """The next step begins one, with all vectors, whatever else."""
        self._wanted = self._with_vectors = True

    def store_anew(self) -> None:
        """What is stored is damaged: the next step begins one that copies nothing of it."""
        self._stored.distrust()
        self._wanted = self._anew = True

    def step(self) -> bool:
        """Begin or finish one. True: there is a new generation, or the news that there is none."""
        news = self._folding is not None and self._finish_folding(self._folding)
        if self._running is not None:
            return self._finish(self._running) or news
        if self._monotonic() < self._not_before:
            return news
        try:
            if self._folding_due():
                self._begin_folding()
            if self._may_begin():
                self._begin()
        except (NeverforgetError, OSError) as error:
            self._failed(error)
            return True
        return news

    def deadline(self) -> float | None:
        if self._running is not None:
            return None  # it wakes by itself
        if self._may_begin() or self._folding_due():
            return self._not_before
        if self._is_due():
            return None  # when the vectors are done
        if self._changed_at is None:
            return None
        return max(self._changed_at + IDLE_S, self._not_before)

    def close(self, *, orderly: bool) -> bool:
        """Give up what is under way. ``orderly``: store once more, where that is quick. False: the
        disk hangs, and nothing that it uses may be closed.
        """
        self._ending = True
        if self._running is not None:
            self._running.superseded = lambda: True
        if not (self._thread.close(_END_S) and self._vectors_thread.close(_END_S)):
            return False
        try:
            if self._folding is not None:
                self._finish_folding(self._folding)
            if self._running is not None:
                self._finish(self._running)
            if orderly and (self._vectors_wait or self._changed_at is not None):
                self._store_now()
        except Exception as error:
            said(error, self._stored.directory)
        return True

    def _go_on(self) -> None:
        if self._ending:
            raise Unavailable("the owner ends", outcome="not_applied")

    def _go_on_folding(self) -> None:
        """What holds what was erased is of no use to anybody, and the next generation waits."""
        self._go_on()
        if self._stored.index.erased:
            raise Superseded

    # ---- inside ----------------------------------------------------------------------------------

    def _is_due(self) -> bool:
        index = self._stored.index
        if self._wanted or self._vectors_wait or index.erased or index.text.commit_due():
            return True
        if self._region.durable - self._stored.manifest.watermark > LOG_BYTES_MAX:
            return self._changed_at is not None
        return self._is_idle()

    def _is_idle(self) -> bool:
        return self._changed_at is not None and self._monotonic() >= self._changed_at + IDLE_S

    def _may_begin(self) -> bool:
        """Vectors that are under way are waited for where they have to be in, or where nothing is
        urgent.
        """
        waits = self._makes_vectors or self._is_idle()
        return self._is_due() and not (waits and self._folding is not None)

    @property
    def _makes_vectors(self) -> bool:
        """The next generation does, itself."""
        return self._with_vectors or self._anew or self._stored.index.erased

    def _begin(self) -> None:
        if self._stored.is_damaged():
            self.store_anew()
        with self._owner_waits():
            if self._region.poisoned is not None:  # its owner opens another
                self._not_before = self._monotonic() + _LOOK_S
                return
            if self._stored.index.upto < self._region.written:
                self._stored.index.notice()  # the owner has put it off
            if not self._may_begin():
                return  # after an erasure or damage: for the vectors that are under way
            self._region.sync()  # what is stored must not be newer than what is safe
            publication = self._stored.begin(anew=self._anew, vectors=self._with_vectors)
        self._running, self._outcome, self._changed_at = publication, None, None
        self._vectors_wait = False
        if not self._thread.submit(lambda: self._run(publication)):
            self._outcome = Unavailable("the owner ends", outcome="not_applied")

    def _run(self, publication: Publication) -> None:
        try:
            self._outcome = publication.run()
        except Exception as error:
            self._outcome = error
        self._wake()

    def _finish(self, publication: Publication) -> bool:
        outcome = self._outcome
        if outcome is None:
            return False
        self._running = self._outcome = None
        if isinstance(outcome, Exception):
            self._stored.abandon(publication)
            self.note_change()
            self._failed(outcome)
            return True
        try:
            manifest = self._stored.finish(publication)
        except OutOfSpace as error:  # the generation stands, the words go with the next one
            self.note_change()
            self._failed(error)
            return True
        if manifest is None:
            self.note_change()  # something was erased meanwhile: it is due again
        else:
            self.error, self._pause_s = None, PAUSE_S_MIN
            self._wanted = self._with_vectors = self._anew = False
        return True

    # ---- vectors ---------------------------------------------------------------------------------

    def _folding_due(self) -> bool:
        vectors = self._stored.index.vectors
        if vectors is None or self._folding is not None:
            return False
        if self._makes_vectors:
            return False
        return vectors.fold_due() or self._vectors_to_store()

    def _vectors_to_store(self) -> bool:
        """Few of them are stored when nobody does anything."""
        stored = self._stored
        assert stored.index.vectors is not None
        if stored.vectors_due:
            return True
        unsaved = stored.unsaved_vectors
        return self._is_idle() and unsaved > len(stored.index.vectors) // _IDLE_SHARE

    def _begin_folding(self) -> None:
        turn = self._stored.begin_folding(store=self._vectors_to_store())
        turn.go_on = self._go_on_folding
        self._folding, self._folded = turn, None
        if not self._vectors_thread.submit(lambda: self._fold(turn)):
            self._folded = Unavailable("the owner ends", outcome="not_applied")

    def _fold(self, turn: FoldingTurn) -> None:
        try:
            turn.run()
            self._folded = True
        except Exception as error:
            self._folded = error
        self._wake()

    def _finish_folding(self, turn: FoldingTurn) -> bool:
        folded = self._folded
        if folded is None:
            return False
        self._folding = self._folded = None
        if isinstance(folded, Exception):
            self._stored.abandon_folding(turn)
            if not self._ending and not isinstance(folded, Superseded):
                self._failed(folded)
            return True
        self._stored.finish_folding(turn)
        if turn.part is not None:
            self._vectors_wait = True
        return True

    # ---- the end ---------------------------------------------------------------------------------

    def _store_now(self) -> None:
        """Words and rows of what is new, and vectors where they are not many."""
        stored, index = self._stored, self._stored.index
        if self._region.poisoned is not None:
            return
        index.notice()
        if stored.bytes_anew(vectors=False) > QUICK_BYTES:
            return
        while index.bring(_SLICE):
            if index.lag > QUICK_CHANGES:
                return
        trains = index.vectors is not None and index.vectors.fold_trains()
        if trains and index.erased:
            return  # the next owner sees to that when it opens them
        if self._region.durable >= index.upto:
            small = stored.bytes_anew(vectors=True) <= QUICK_BYTES
            stored.publish(vectors=small and not trains)

    def _failed(self, error: Exception) -> None:
        """It is tried again after a pause. A mistake of ours is raised."""
        if isinstance(error, Unavailable):
            log.debug("the search index in %s: %s", self._stored.directory, error)
            return  # the owner ends, and is not to be warned of that
        if not isinstance(error, NeverforgetError | OSError):
            raise error
        self.error = said(error, self._stored.directory)
        self._not_before = self._monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)


def said(error: BaseException, directory: object) -> NeverforgetError:
    """Logged, and as callers are told."""
    if isinstance(error, NeverforgetError):
        log.warning("the search index in %s: %s", directory, error)
        return error
    if isinstance(error, OSError):
        log.warning("the search index in %s: %s", directory, error)
        return Unavailable(f"the search index cannot be kept: {error}", outcome="not_applied")
    log.exception("the search index in %s has failed", directory, exc_info=error)
    return internal_error(error)
