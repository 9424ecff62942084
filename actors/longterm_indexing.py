"""The thread that keeps the indexes of an open region up with its log.

It opens what is derived, while the owner writes already; brings words in slices, so that a new view
is soon there; hands texts to the embedder and takes its vectors; and has generations stored. The
owner of the region tells it what was written (``notice``); nothing that was acknowledged depends on
it. What it cannot do now, it tries again after a pause, and says why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from neverforget.actors.embedding import Embedding
from neverforget.actors.embedding_pumps import EmbeddingPumps
from neverforget.actors.generation_storing import (
    PAUSE_S_MAX,
    PAUSE_S_MIN,
    QUICK_BYTES,
    Storing,
    said,
)
from neverforget.actors.known_speakers import KnownSpeakers
from neverforget.actors.longterm_spec import LongTermSpec
from neverforget.actors.query_preparation import prepare_text
from neverforget.actors.store_embedder import StoreEmbedder
from neverforget.storage.clock import Clock
from neverforget.storage.errors import EmbedderMismatch, NeverforgetError, Unavailable
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.longterm_generations import Generations
from neverforget.storage.longterm_index import LongTermIndex, Waiting
from neverforget.storage.longterm_moment import Moment
from neverforget.storage.results import Finding

SLICE: Final = 256  # memories whose words are brought at once
_LOOK_S: Final = 0.05
_END_S: Final = 15.0


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
        self.embedder = embedder
        self.speakers = KnownSpeakers()
        self.on_disk = OnDisk(0, 0, 0)
        self._spec = spec
        self._fs = fs
        self._clock = clock
        self._embedding = embedding
        self._health = embedder.health
        self._turn = turn
        self._news = news
        self._stored: Generations | None = None
        self._storing: Storing | None = None
        self._pumps: EmbeddingPumps | None = None
        self._woken = threading.Event()
        self._ending = threading.Event()
        self._error: NeverforgetError | None = None
        self._pause_s = PAUSE_S_MIN
        self._not_before = 0.0
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
    def error(self) -> NeverforgetError | None:
        """Why the indexes are not open, or could not be stored."""
        storing = self._storing
        return self._error or (None if storing is None else storing.error)

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
        return not view.waiting or self._health.state in ("none", "missing")

    def is_clean(self, end: int) -> bool:
        """No derived file holds what was erased in the log below ``end``."""
        index = self.index
        return index is not None and index.upto >= end and not index.erased

    @property
    def findings(self) -> list[Finding]:
        stored = self._stored
        return [*self.embedder.findings, *([] if stored is None else stored.findings)]

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
            self._let_go(orderly=True)

    def _step(self) -> None:
        if self._clock.monotonic() < self._not_before:
            return
        if self._stored is None:
            self._open()
        index, storing, pumps = self.index, self._storing, self._pumps
        assert index is not None and storing is not None
        before = index.view().words_upto
        left = index.bring(SLICE)
        if left or index.view().words_upto != before:
            self._changed(storing)
        if pumps is not None:
            if pumps.take_back(index):
                self._changed(storing)
            if pumps.described is not None and not storing.running:
                self._learn(pumps)
            pumps.hand_out(index)
        if left:
            self._woken.set()
        if (storing.running or not left) and storing.step():
            self._see_disk(self._clock.now_us())
            self._news()
            self._woken.set()  # for what waited until it was done

    def _changed(self, storing: Storing) -> None:
        storing.note_change()
        self._news()

    def _timeout(self) -> float | None:
        """How long nothing is due, unless it is woken."""
        now = self._clock.monotonic()
        dues = [self._not_before if self._stored is None or self._not_before > now else None]
        if self._storing is not None:
            dues.append(self._storing.deadline())
        if self._pumps is not None:
            dues += [self._health.retry_at, self._pumps.deadline()]
        known = [at for at in dues if at is not None]
        return max(0.0, min(known) - now) if known else None

    def _stumble(self, error: Exception) -> None:
        """Something failed that should not: everything derived is opened anew, after a pause."""
        self._error = said(error, self.directory)
        self._not_before = self._clock.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)
        self.index = None
        self._let_go(orderly=False)
        self._news()

    def _let_go(self, *, orderly: bool) -> None:
        pumps, self._pumps = self._pumps, None
        stored, self._stored = self._stored, None
        storing, self._storing = self._storing, None
        if pumps is not None:
            pumps.close()
        if storing is not None:
            quick = self.on_disk.bytes <= QUICK_BYTES
            if not storing.close(orderly=orderly and quick):
                return
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
            moment = Moment.of(self.region.state)
        try:
            stored = self._generations(moment, embedder.held.model, embedder.held.dimension)
        except EmbedderMismatch as error:  # words are found whatever became of the vectors
            self._health.failed(error)
            stored = self._generations(moment, None, 0)
        self._stored = stored
        self._storing = Storing(
            stored, self.region, self._clock.monotonic, self._owner_waits, self._woken.set
        )
        if embedder.is_used:
            assert self._embedding is not None
            self._pumps = EmbeddingPumps(
                self._embedding,
                embedder,
                self._prepared,
                self._clock.monotonic,
                self._woken.set,
            )
        with self._owner_waits():  # what was written meanwhile is in the first view
            stored.index.notice()
            self.index = stored.index
        self._error, self._pause_s = None, PAUSE_S_MIN
        self._see_disk(0)
        if stored.manifest.watermark < moment.upto:
            self._storing.note_change()
        self._news()

    def _generations(self, moment: Moment, model: str | None, dimension: int) -> Generations:
        return Generations.open(
            self._fs,
            self.directory,
            self.region.state,
            model=model,
            dimension=dimension,
            expects_vectors=self.embedder.is_used,
            moment=moment,
            role=self._spec.role,
        )

    def _learn(self, pumps: EmbeddingPumps) -> None:
        """The embedder has said what it is; if that was not known, vectors begin now."""
        described, pumps.described = pumps.described, None
        assert described is not None and self._stored is not None
        try:
            self.embedder.check(*described)
            if self._stored.index.vectors is None:
                self._stored.begin_vectors(*described)
            self.embedder.learn(*described)
        except (EmbedderMismatch, OSError) as error:
            self._health.failed(said(error, self.directory))
        self._news()

    def _see_disk(self, now_us: int) -> None:
        assert self._stored is not None
        number, stored_us = self._stored.manifest.number, self.on_disk.stored_us
        if number != self.on_disk.generation:
            stored_us = now_us
        self.on_disk = OnDisk(number, stored_us, _bytes_below(self._fs, self.directory))

    def _prepared(self, batch: list[Waiting]) -> list[str]:
        assert self.index is not None
        rows = self.index.view().rows
        return [prepare_text(one.text, self.speakers.of(rows, one.namespace)) for one in batch]


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
