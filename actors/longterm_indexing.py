"""The thread that keeps the indexes of an open region up with its log.

It opens what is derived, brings words in slices, so that a new view is soon there, hands texts to
the embedder and takes its vectors, and stores generations. The owner of the region tells it what
was written (``notice``); nothing that was acknowledged depends on it. What it cannot do now, it
tries again after a pause, and says why.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from neverforget.actors.embedding import Embedding
from neverforget.actors.embedding_pumps import EmbeddingPumps
from neverforget.actors.known_speakers import KnownSpeakers
from neverforget.actors.longterm_spec import LongTermSpec
from neverforget.actors.ports import internal_error
from neverforget.actors.query_preparation import prepare_text
from neverforget.actors.store_embedder import StoreEmbedder
from neverforget.storage.clock import Clock
from neverforget.storage.errors import EmbedderMismatch, NeverforgetError, Unavailable
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.longterm_generations import Generations
from neverforget.storage.longterm_index import LongTermIndex, Waiting
from neverforget.storage.longterm_view import LongTermView
from neverforget.storage.results import Finding

log = logging.getLogger(__name__)

SLICE: Final = 256  # memories whose words are brought at once
IDLE_S: Final = 5.0  # after the last change, before a generation is stored
PUBLISH_LOG_BYTES: Final = 64 * 1024 * 1024  # behind a generation make the next one due
QUICK_BYTES: Final = 64 * 1024 * 1024  # of derived files, that an orderly end stores anew
QUICK_CHANGES: Final = 2_000
_PAUSE_S_MIN, _PAUSE_S_MAX = 0.5, 60.0  # after what has failed
_LOOK_S: Final = 0.05  # until what was written is synced
_END_S: Final = 10.0


class OnDisk(NamedTuple):
    """The newest generation: its number (0: none), when it was stored here (0: before), and the
    bytes of all derived files.
    """

    generation: int
    stored_us: int
    bytes: int


class Indexing:
    """Of one open region. ``turn`` is held by the owner while it changes the region. ``news`` is
    called, on any thread, when there is something to see.
    """

    def __init__(
        self,
        spec: LongTermSpec,
        fs: FileSystem,
        clock: Clock,
        region: LongTermRegion,
        embedding: Embedding | None,
        embedder: StoreEmbedder,
        turn: threading.Lock,
        news: Callable[[], None],
    ) -> None:
        self.region = region
        self.index: LongTermIndex | None = None
        self.speakers = KnownSpeakers()
        self.error: NeverforgetError | None = None  # why the indexes are not open, or not stored
        self.clean_upto = 0  # no derived file holds what was erased below
        self.on_disk = OnDisk(0, 0, 0)
        self._spec = spec
        self._fs = fs
        self._clock = clock
        self._embedding = embedding
        self.embedder = embedder
        self._health = embedder.health
        self._turn = turn
        self._news = news
        self._stored: Generations | None = None
        self._pumps: EmbeddingPumps | None = None
        self._woken = threading.Event()
        self._ending = threading.Event()
        self._changed_at: float | None = None  # since the last generation
        self._pause_s = _PAUSE_S_MIN
        self._not_before = 0.0  # anything
        self._store_not_before = 0.0
        self._thread = threading.Thread(
            target=self._run, name=f"neverforget-indexer-lt{spec.shard}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    # ---- the owner -------------------------------------------------------------------------------

    def notice(self) -> None:
        """What was written is in effect for every view from now on."""
        if self.index is not None and self.index.notice():
            self._woken.set()

    def look(self) -> None:
        """Something may be due now."""
        self._woken.set()

    @property
    def idle(self) -> bool:
        """Nothing is left to be brought or embedded. What cannot be embedded, or by nobody, is not
        waited for.
        """
        index = self.index
        if index is None:
            return False
        view = index.view()
        if view.lagging or view.words_upto < index.upto:
            return False
        return not self.waiting(view) or self._health.state in ("none", "missing")

    def is_clean(self, end: int) -> bool:
        """No derived file holds what was erased in the log below ``end``."""
        index = self.index
        if index is None:
            return False
        return self.clean_upto >= end or (index.upto >= end and not index.erased)

    def waiting(self, view: LongTermView) -> int:
        """Memories that are to be embedded."""
        if view.vectors is None and self.embedder.is_used:
            return int(view.rows.living.sum())
        return view.waiting

    @property
    def findings(self) -> list[Finding]:
        stored = [] if self._stored is None else self._stored.findings
        return [*self.embedder.findings, *stored]

    @property
    def directory(self) -> Path:
        return Path(self._spec.directory) / self.embedder.held.folder

    def close(self) -> bool:
        """End in order; what is not stored is derived again. False: it still hangs in a disk."""
        self._ending.set()
        self._woken.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_END_S)
        return not self._thread.is_alive()

    # ---- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                try:
                    self._step()
                except Exception as error:
                    self._stumble(error)
                self._woken.wait(self._timeout())
                self._woken.clear()
        finally:
            self._store_at_the_end()
            self._let_go()

    def _step(self) -> None:
        if self._clock.monotonic() < self._not_before:
            return
        if self._stored is None:
            self._open()
        index = self.index
        assert index is not None
        left = self._bring(index)
        if self._pumps is not None:
            if self._pumps.take_back(index):
                self._note_change()
            if self._pumps.described is not None and self._learn(self._pumps):
                return
            self._pumps.hand_out(index)
        if left:
            self._woken.set()
        else:
            self._publish_if_due(index)

    def _bring(self, index: LongTermIndex) -> int:
        before = index.view().words_upto
        left = index.bring(SLICE)
        if left or index.view().words_upto != before:
            self._note_change()
        return left

    def _note_change(self) -> None:
        self._changed_at = self._clock.monotonic()
        self._news()

    def _timeout(self) -> float | None:
        """Until when nothing is due, unless it is woken."""
        now = self._clock.monotonic()
        dues = [at for at in (self._health.retry_at,) if at is not None and self._pumps is not None]
        if self._stored is None or self._not_before > now:
            dues.append(self._not_before)
        elif self.index is not None and self._is_due(self.index, now):
            dues.append(self._store_not_before)
        elif self._changed_at is not None:
            dues.append(max(self._changed_at + IDLE_S, self._store_not_before))
        if self._pumps is not None and (at := self._pumps.deadline()) is not None:
            dues.append(at)
        return max(0.0, min(dues) - now) if dues else None

    def _stumble(self, error: Exception) -> None:
        """Something failed that should not: everything derived is opened anew, after a pause."""
        self.error = _said(error, self._spec.directory)
        self._not_before = self._clock.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _PAUSE_S_MAX)
        self.index = None
        self._let_go()
        self._news()

    def _let_go(self) -> None:
        pumps, self._pumps = self._pumps, None
        stored, self._stored = self._stored, None
        if pumps is not None:
            pumps.close()
        if stored is not None:
            stored.close()

    @contextmanager
    def _owner_waits(self) -> Iterator[None]:
        while not self._turn.acquire(timeout=_LOOK_S):
            if self._ending.is_set():  # the owner may be the one that waits for this thread
                raise Unavailable("the owner ends", outcome="not_applied")
        try:
            yield
        finally:
            self._turn.release()

    # ---- opening ---------------------------------------------------------------------------------

    def _open(self) -> None:
        embedder = self.embedder
        embedder.read()
        with self._owner_waits():
            stored = Generations.open(
                self._fs,
                self.directory,
                self.region.state,
                model=embedder.held.model,
                dimension=embedder.held.dimension,
                role=self._spec.role,
            )
        self._stored = stored
        self.error, self._pause_s = None, _PAUSE_S_MIN
        if embedder.is_used:
            assert self._embedding is not None
            self._pumps = EmbeddingPumps(
                self._embedding,
                embedder,
                self._prepared,
                self._clock.monotonic,
                self._woken.set,
            )
        self._see_disk(stored, 0)
        self.index = stored.index
        self._note_change()

    def _learn(self, pumps: EmbeddingPumps) -> bool:
        """The embedder has said what it is. True: the store gets vectors from now on, and what is
        derived is opened anew with them.
        """
        described, pumps.described = pumps.described, None
        assert described is not None
        try:
            news = self.embedder.learn(described.model, described.dimension)
        except EmbedderMismatch as error:
            self._health.failed(error)
            return False
        if news:
            self.index = None
            self._let_go()
            self._woken.set()
        self._news()
        return news

    def _prepared(self, batch: list[Waiting]) -> list[str]:
        assert self.index is not None
        rows = self.index.view().rows
        return [prepare_text(one.text, self.speakers.of(rows, one.namespace)) for one in batch]

    # ---- storing ---------------------------------------------------------------------------------

    def _publish_if_due(self, index: LongTermIndex) -> None:
        now = self._clock.monotonic()
        if now < self._store_not_before or not self._is_due(index, now):
            return
        try:
            published = self._publish(index)
        except (NeverforgetError, OSError) as error:
            self.error = _said(error, self._spec.directory)
            self._store_not_before = now + self._pause_s
            self._pause_s = min(2 * self._pause_s, _PAUSE_S_MAX)
            self._news()
            return
        if not published:
            self._store_not_before = now + _LOOK_S

    def _publish(self, index: LongTermIndex) -> bool:
        """False: not yet, what would be stored is newer than what is safe."""
        assert self._stored is not None
        with self._owner_waits():
            if self.region.durable < index.upto or index.bring():
                return False
            manifest = self._stored.publish()
        self._changed_at, self._pause_s = None, _PAUSE_S_MIN
        self.error = None
        self.clean_upto = manifest.watermark
        self._see_disk(self._stored, self._clock.now_us())
        self._news()
        return True

    def _see_disk(self, stored: Generations, at_us: int) -> None:
        self.on_disk = OnDisk(stored.manifest.number, at_us, _bytes_below(self._fs, self.directory))

    def _store_at_the_end(self) -> None:
        """Where that is quick: vectors took longer to come by than to store."""
        index = self.index
        if index is None or self._changed_at is None or self.on_disk.bytes > QUICK_BYTES:
            return
        try:
            while index.bring(SLICE):
                if index.lag > QUICK_CHANGES:
                    return
            if self.region.poisoned is None:
                self._publish(index)
        except Exception as error:
            _said(error, self._spec.directory)

    def _is_due(self, index: LongTermIndex, now: float) -> bool:
        if index.erased or index.text.commit_due():
            return True
        if index.vectors is not None and index.vectors.fold_due():
            return True
        assert self._stored is not None
        if self.region.durable - self._stored.manifest.watermark > PUBLISH_LOG_BYTES:
            return True
        return self._changed_at is not None and now >= self._changed_at + IDLE_S


def _bytes_below(fs: FileSystem, directory: Path) -> int:
    total = 0
    for name in fs.list_directory(directory):
        path = directory / name
        if fs.is_directory(path):
            total += _bytes_below(fs, path)
        else:
            file = fs.open(path, read_only=True)
            total += file.size()
            file.close()
    return total


def _said(error: Exception, directory: str) -> NeverforgetError:
    """Logged, and as callers are told."""
    if isinstance(error, NeverforgetError):
        log.warning("the search index of %s: %s", directory, error)
        return error
    if isinstance(error, OSError):
        log.warning("the search index of %s: %s", directory, error)
        return Unavailable(f"the search index cannot be kept: {error}", outcome="not_applied")
    log.exception("the search index of %s has failed", directory, exc_info=error)
    return internal_error(error)
