"""One embedder's queue: texts of all callers in common batches, urgent ones first.

Long texts are cut into windows here, and a batch is so many windows, so that no text, however long,
holds the line for longer than one batch. Callers take turns within a batch. A batch of urgent texts
has no others in it: it is done sooner alone. An embedder that may run in several threads has a
thread for urgent texts of its own.

Invariants
* Every job is answered exactly once: by its vectors, by an error, or when its time is up, whatever
  the embedder does. Which of a job's texts got vectors, failed or wait is said for each.
* Jobs and their characters are bounded; beyond that ``Overloaded``.
* Only the line's own threads call the embedder, so an embedder that hangs blocks nobody else.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from neverforget.actors.embedder_checked import CheckedEmbedder, Embedded
from neverforget.actors.embedder_contract import Vectors
from neverforget.actors.embedder_job import Job, Window
from neverforget.actors.ports import internal_error
from neverforget.storage.errors import (
    InvalidArgument,
    NeverforgetError,
    Overloaded,
    Unavailable,
)

log = logging.getLogger(__name__)
JOBS_MAX = 1024  # of one kind, urgent or not
CHARACTERS_MAX = 64 * 1024 * 1024  # of all waiting jobs of one kind
_SHARE = 8  # windows that one job brings before the next one has its turn
_END_S = 1.0


class EmbedderLine:
    """``make`` gives the embedder when it is first needed, None: it embeds nothing. What it raises
    is told to those who wait, and it is asked again for the next ones. ``lent``: it is somebody
    else's, who closes it.
    """

    def __init__(
        self, name: str, make: Callable[[str], CheckedEmbedder | None], *, lent: bool = False
    ) -> None:
        self.name = name
        self._lent = lent
        self._make = make
        self._embedder: CheckedEmbedder | None = None
        self._changed = threading.Condition()
        self._queues: dict[bool, deque[Job]] = {True: deque(), False: deque()}
        self._characters = {True: 0, False: 0}
        self._busy: set[Job] = set()
        self._closed = False
        self._threads: list[threading.Thread] = []

    @property
    def made(self) -> bool:
        """The embedder was there when it was needed."""
        return self._embedder is not None

    def submit(self, job: Job) -> None:
        """Raises Overloaded, or Unavailable when the line is closed."""
        with self._changed:
            if self._closed:
                raise _ended()
            if self._is_full(job):
                self._drop_answered(job.urgent)
                if self._is_full(job):
                    raise Overloaded("too many texts wait to be embedded; bring them again later")
            self._put(job)
            if not self._threads:
                self._start((True, False))

    def close(self) -> None:
        """Whoever waits is told. A call that hangs is left behind."""
        with self._changed:
            self._closed = True
            waiting = [*self._queues[True], *self._queues[False], *self._busy]
            self._changed.notify_all()
        for job in waiting:
            job.stop(_ended())
        self._join()
        if self._embedder is not None and not self._lent:
            self._embedder.close()
            self._join()  # one that can be ended has ended

    def _join(self) -> None:
        for thread in self._threads:
            thread.join(_END_S)

    # ---- its threads -----------------------------------------------------------------------------

    def _start(self, kinds: tuple[bool, ...]) -> None:
        name = f"embed-{'urgent' if kinds[0] else 'others'}"
        thread = threading.Thread(target=self._work, args=[kinds], name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self, kinds: tuple[bool, ...]) -> None:
        """Embed what comes; ``kinds``: whether urgent or not, in the order of their precedence."""
        while (job := self._wait(kinds)) is not None:
            try:
                embedder = self._made()
                if kinds == (True, False) and _runs_in_threads(embedder):
                    kinds = (True,)
                    with self._changed:
                        self._start((False,))
                        if not job.urgent:  # the new thread's
                            self._put(job)
                            continue
                self._embed(job, embedder)
            except NeverforgetError as error:
                job.stop(error)
            except Exception as error:  # a mistake of ours, or of who made it: the line goes on
                log.exception("a batch for %s failed", self.name)
                self._stop_busy(kinds, internal_error(error))
            finally:
                with self._changed:
                    self._busy = {j for j in self._busy if not j.over}

    def _wait(self, kinds: tuple[bool, ...]) -> Job | None:
        with self._changed:
            while not self._closed:
                for kind in kinds:
                    if (job := self._pop(kind)) is not None:
                        return job
                self._changed.wait()
        return None

    def _pop(self, kind: bool) -> Job | None:
        queue = self._queues[kind]
        while queue and not self._closed:
            job = queue.popleft()
            self._characters[kind] -= job.characters
            if not job.over:
                self._busy.add(job)
                return job
        return None

    def _put(self, job: Job) -> None:
        self._queues[job.urgent].append(job)
        self._characters[job.urgent] += job.characters
        self._busy.discard(job)
        self._changed.notify_all()
        if self._closed:
            job.stop(_ended())

    def _is_full(self, job: Job) -> bool:
        queue = self._queues[job.urgent]
        characters = self._characters[job.urgent] + job.characters
        return bool(queue) and (len(queue) >= JOBS_MAX or characters > CHARACTERS_MAX)

    def _drop_answered(self, kind: bool) -> None:
        self._queues[kind] = deque(job for job in self._queues[kind] if not job.over)
        self._characters[kind] = sum(job.characters for job in self._queues[kind])

    def _stop_busy(self, kinds: tuple[bool, ...], error: NeverforgetError) -> None:
        with self._changed:
            stopped = [job for job in self._busy if job.urgent in kinds]
        for job in stopped:
            job.stop(error)

    def _made(self) -> CheckedEmbedder:
        if self._embedder is None:
            self._embedder = self._make(self.name)
            if self._embedder is None:
                raise InvalidArgument(f'embedder="{self.name}" embeds nothing')
        return self._embedder

    def _embed(self, job: Job, embedder: CheckedEmbedder) -> None:
        """One batch, with ``job`` and what is in its queue besides."""
        if job.texts is None:
            job.answer((embedder.model_id, embedder.dimension))
            return
        jobs = [job]
        try:
            batch = self._batch(jobs, embedder)
            if batch:
                _share_out(batch, embedder.embed_all([window.text for window in batch]))
        except NeverforgetError as error:
            for each in jobs:
                each.stop(error)
            return
        for each in jobs:
            each.end_if_complete()
            if not each.over:
                with self._changed:
                    self._put(each)

    def _batch(self, jobs: list[Job], embedder: CheckedEmbedder) -> list[Window]:
        """The windows of the next call; whose they are, is added to ``jobs``."""
        batch: list[Window] = []
        kind = jobs[0].urgent
        turns = deque(jobs)
        while len(batch) < embedder.batch_texts_max:
            with self._changed:
                other = self._next_with_texts(kind)
            if other is not None:
                jobs.append(other)
                turns.append(other)
            if not turns:
                break
            job = turns.popleft()
            batch += job.take(min(_SHARE, embedder.batch_texts_max - len(batch)), embedder)
            if job.has_more:
                turns.append(job)
        return batch

    def _next_with_texts(self, kind: bool) -> Job | None:
        queue = self._queues[kind]
        if queue and queue[0].texts is None:
            return None  # that one is no part of a batch
        return self._pop(kind)


def _share_out(batch: list[Window], found: Embedded) -> None:
    rows: list[list[Vectors]] = [[] for _ in batch]
    for number, row in zip(found.owners.tolist(), found.vectors):
        rows[number].append(row)
    for number, window in enumerate(batch):
        window.job.bring(
            window.owner, rows[number], found.failed.get(number), found.waiting.get(number)
        )


def _runs_in_threads(embedder: CheckedEmbedder) -> bool:
    inner: Any = embedder.inner
    return getattr(inner, "thread_safe", False) is True


def _ended() -> Unavailable:
    return Unavailable("the embedder has ended; ask again", outcome="not_applied")
