"""When a generation of the indexes is stored, and that nobody waits for it: what is fixed at the
beginning and changed at the end takes moments, the long part runs on a thread of its own.

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
from neverforget.storage.longterm_generations import Generations
from neverforget.storage.longterm_publishing import Publication

log = logging.getLogger(__name__)

IDLE_S: Final = 5.0  # after the last change
LOG_BYTES_MAX: Final = 64 * 1024 * 1024  # behind the last generation
QUICK_BYTES: Final = 64 * 1024 * 1024  # of derived files, that an orderly end may write anew
QUICK_CHANGES: Final = 2_000
PAUSE_S_MIN: Final = 0.5
PAUSE_S_MAX: Final = 60.0
_LOOK_S: Final = 0.05  # until what was written is synced
_END_S: Final = 10.0
_SLICE: Final = 256


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
        self._changed_at: float | None = None  # since the last one was begun
        self._pause_s = PAUSE_S_MIN
        self._not_before = 0.0
        self._wanted = False

    @property
    def running(self) -> bool:
        return self._running is not None

    def note_change(self) -> None:
        self._changed_at = self._monotonic()

    def store_now(self) -> None:
        """The next step begins one, whatever else."""
        self._wanted = True

    def step(self) -> bool:
        """Begin or finish one. True: there is a new generation, or the news that there is none."""
        if self._running is not None:
            return self._finish(self._running)
        if self._is_due() and self._monotonic() >= self._not_before:
            try:
                self._begin()
            except (NeverforgetError, OSError) as error:
                self._failed(error)
                return True
        return False

    def deadline(self) -> float | None:
        if self._running is not None:
            return None  # it wakes by itself
        if self._is_due():
            return self._not_before
        if self._changed_at is None:
            return None
        return max(self._changed_at + IDLE_S, self._not_before)

    def close(self, *, orderly: bool) -> bool:
        """Give up what is under way. ``orderly``: store once more, where that is quick. False: the
        disk hangs, and nothing that it uses may be closed.
        """
        if self._running is not None:
            self._running.superseded = lambda: True
        if not self._thread.close(_END_S):
            return False
        try:
            if self._running is not None:
                self._finish(self._running)
            if orderly and self._changed_at is not None:
                self._store_now()
        except Exception as error:
            said(error, self._stored.directory)
        return True

    # ---- inside ----------------------------------------------------------------------------------

    def _is_due(self) -> bool:
        index, now = self._stored.index, self._monotonic()
        if self._wanted or index.erased or index.text.commit_due():
            return True
        if index.vectors is not None and index.vectors.fold_due():
            return True
        if self._region.durable - self._stored.manifest.watermark > LOG_BYTES_MAX:
            return self._changed_at is not None
        return self._changed_at is not None and now >= self._changed_at + IDLE_S

    def _begin(self) -> None:
        with self._owner_waits():
            self._stored.index.notice()  # the owner may have put it off
            if self._region.durable < self._stored.index.upto:
                # What is stored must not be newer than what is safe: a sync is due.
                self._not_before = self._monotonic() + _LOOK_S
                return
            publication = self._stored.begin()
        self._running, self._outcome, self._changed_at = publication, None, None
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
            if not isinstance(outcome, NeverforgetError | OSError):
                raise outcome
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
            self._wanted = False
        return True

    def _store_now(self) -> None:
        index = self._stored.index
        index.notice()
        while index.bring(_SLICE):
            if index.lag > QUICK_CHANGES:
                return
        if self._region.poisoned is None and self._region.durable >= index.upto:
            self._stored.publish()

    def _failed(self, error: Exception) -> None:
        self.error = said(error, self._stored.directory)
        self._not_before = self._monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)


def said(error: Exception, directory: object) -> NeverforgetError:
    """Logged, and as callers are told."""
    if isinstance(error, NeverforgetError):
        log.warning("the search index in %s: %s", directory, error)
        return error
    if isinstance(error, OSError):
        log.warning("the search index in %s: %s", directory, error)
        return Unavailable(f"the search index cannot be kept: {error}", outcome="not_applied")
    log.exception("the search index in %s has failed", directory, exc_info=error)
    return internal_error(error)
