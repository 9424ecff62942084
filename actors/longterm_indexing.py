"""The thread that keeps the indexes of an open region up with its log.

It opens what is derived, while the owner writes already; brings words in slices, so that a new view
is soon there; hands texts to the embedder and takes its vectors; and has generations stored. The
owner of the region tells it what was written (``notice``); nothing that was acknowledged depends on
it. What it cannot do now, it tries again after a pause, and says why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from neverforget.actors.embedder_change import EmbedderChange
from neverforget.actors.embedding import Embedding
from neverforget.actors.embedding_pumps import Description
from neverforget.actors.generation_storing import PAUSE_S_MAX, PAUSE_S_MIN, said
from neverforget.actors.index_folders import IndexFolders, OnDisk
from neverforget.actors.known_speakers import KnownSpeakers
from neverforget.actors.longterm_spec import LongTermSpec
from neverforget.actors.open_indexes import OpenIndexes
from neverforget.actors.query_preparation import prepare_text
from neverforget.actors.reindexing import Reindexing
from neverforget.actors.store_embedder import StoreEmbedder
from neverforget.actors.suspected_damage import SuspectedDamage
from neverforget.actors.worker_threads import joined
from neverforget.storage.clock import Clock
from neverforget.storage.embedder_file import EmbedderFile, collect_folders
from neverforget.storage.errors import EmbedderMismatch, NeverforgetError, Unavailable
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.longterm_index import LongTermIndex, Waiting
from neverforget.storage.results import Finding

_LOOK_S: Final = 0.05
_END_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Searched:
    """What recalls look into, and by which embedder its vectors are. ``since``: what the log held
    below it was there before; vectors that are missing of that were lost, or never made.
    """

    index: LongTermIndex
    embedder: str
    since: int = 0


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
        self.searched: Searched | None = None
        self.embedder = embedder
        self.speakers = KnownSpeakers()
        self.on_disk = OnDisk(0, 0, 0)
        self._spec = spec
        self._fs = fs
        self._clock = clock
        self._health = embedder.health
        self._turn = turn
        self._news = news
        self._current: OpenIndexes | None = None
        self._woken = threading.Event()
        self._ending = threading.Event()
        self._error: NeverforgetError | None = None
        self._damage: list[Finding] = []  # that somebody has found since
        self._is_damaged = False
        self._suspected = SuspectedDamage(fs, clock, region, lambda: self.directory)
        self._pause_s = PAUSE_S_MIN
        self._not_before = 0.0
        self._folders = IndexFolders(
            spec,
            fs,
            clock,
            region,
            embedding,
            self._owner_waits,
            self._prepared,
            self._woken.set,
            self._go_on,
        )
        self.change = EmbedderChange(fs, self._folders, embedder, self._woken.set)
        self._thread = threading.Thread(
            target=self._run, name=f"neverforget-indexer-lt{spec.shard}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    # ---- the owner -------------------------------------------------------------------------------

    def notice(self) -> None:
        """What was written is in effect for every view from now on."""
        if self.index is None:
            return
        news = self.index.notice()
        self.change.notice()
        if news or self.index.erased:
            self._woken.set()

    def look(self) -> None:
        """Something may be due now."""
        self._woken.set()

    def want_embedder(self) -> None:
        """Somebody searches by meaning: have it say what it is, if it has not."""
        current = self._current
        if current is not None and current.pumps is not None and not current.pumps.wanted:
            current.pumps.wanted = True
            self._woken.set()

    @property
    def index(self) -> LongTermIndex | None:
        return None if self.searched is None else self.searched.index

    @property
    def error(self) -> NeverforgetError | None:
        """Why the indexes are not open, or could not be stored."""
        current = self._current
        return self._error or (current and current.error) or self.change.error

    @property
    def idle(self) -> bool:
        """Nothing is left to be brought or embedded. What cannot be embedded, or by nobody, is not
        waited for.
        """
        current = self._current
        if current is None or self.index is None or self.change.to is not None:
            return False
        hopeless = self._health.state in ("none", "missing")
        return current.has_all_words and (hopeless or current.has_all_vectors)

    def is_clean(self, end: int) -> bool:
        """No derived file holds what was erased in the log below ``end``."""
        current = self._current
        if self.index is None or current is None or not current.is_clean(end):
            return False
        return self.change.is_clean(end)

    @property
    def findings(self) -> list[Finding]:
        """What was wrong with derived files; it is, or was, made anew."""
        current = self._current
        opened = [] if current is None else current.stored.findings
        return unique([*self.embedder.findings, *opened, *self._damage])

    def heal(self, damage: Sequence[Finding]) -> None:
        """Somebody has found these: have the derived files stored anew. Any thread."""
        self._damage = unique([*self._damage, *damage])
        self._is_damaged = True
        self._woken.set()

    def suspect(self) -> None:
        """A search has failed as damaged files make it fail. Any thread."""
        self._suspected.suspect()
        self._woken.set()

    @property
    def directory(self) -> Path:
        return self._folders.directory / self.embedder.held.folder

    def close(self) -> bool:
        """End in order; what is not stored is derived again. False: it still hangs in a disk."""
        self._ending.set()
        self._woken.set()
        return joined(self._thread, _END_S)

    # ---- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                try:
                    self._step()
                    self._woken.wait(self._timeout())
                except BaseException as error:  # a panic of the text index is no Exception
                    if not (self._ending.is_set() and isinstance(error, Unavailable)):
                        self._stumble(error)
                self._woken.clear()
        finally:
            self._let_go(orderly=True)

    def _step(self) -> None:
        if self._clock.monotonic() < self._not_before:
            return
        if self._current is None:
            self._open()
        current = self._current
        assert current is not None
        if damage := self._suspected.found():
            self.heal(damage)
        if self._is_damaged:
            self._is_damaged = False
            current.storing.store_anew()
        generation = current.stored.manifest.number
        news = current.step()
        if (described := current.described()) is not None:
            self._learn(current, described)
            news = True
        if current.more:
            self._woken.set()
        if current.stored.manifest.number != generation:
            self._see_disk(self._clock.now_us())
        news = self._step_change(current) or news
        if news:
            self._news()

    def _timeout(self) -> float | None:
        """How long nothing is due, unless it is woken."""
        now = self._clock.monotonic()
        if self._current is None or self._not_before > now:
            return max(0.0, self._not_before - now)
        dues = [*self._current.deadlines(), *self.change.deadlines()]
        return max(0.0, min(dues) - now) if dues else None

    def _stumble(self, error: BaseException) -> None:
        """Something failed that should not: everything derived is opened anew, after a pause."""
        self._error = said(error, self.directory)
        self._not_before = self._clock.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)
        self.searched = None
        self._let_go(orderly=False)
        self._news()

    def _let_go(self, *, orderly: bool) -> None:
        current, self._current = self._current, None
        self.change.close()
        if current is not None:
            current.close(orderly=orderly)

    def _go_on(self) -> None:
        if self._ending.is_set():
            raise Unavailable("the owner ends", outcome="not_applied")

    @contextmanager
    def _owner_waits(self) -> Iterator[None]:
        while not self._turn.acquire(timeout=_LOOK_S):
            self._go_on()  # the owner may be the one that waits for this thread
        try:
            yield
        finally:
            self._turn.release()

    # ---- opening ---------------------------------------------------------------------------------

    def _open(self) -> None:
        embedder, directory = self.embedder, self._folders.directory
        embedder.read()
        collect_folders(self._fs, directory, embedder.held.folder)
        try:
            current = self._folders.open(embedder.held, embedder)
        except EmbedderMismatch as error:  # words are found whatever became of the vectors
            self._health.failed(error)
            without = EmbedderFile(embedder.name, None, 0, embedder.held.folder)
            current = self._folders.open(without, embedder)
        self._current = current
        with self._owner_waits():  # what was written meanwhile is in the first view
            current.index.notice()
            self.searched = Searched(current.index, embedder.name, current.index.upto)
        self._error, self._pause_s = None, PAUSE_S_MIN
        self._see_disk(self._folders.stored_us(self.embedder.held.folder))
        self._news()

    def _learn(self, current: OpenIndexes, described: Description) -> None:
        """The embedder has said what it is; if that was not known, vectors begin now."""
        try:
            self.embedder.check(*described)
            if current.index.vectors is None:
                current.stored.begin_vectors(*described)
            self.embedder.learn(*described)
            self._woken.set()
        except (EmbedderMismatch, OSError) as error:
            self._health.failed(said(error, self.directory))

    # ---- another embedder ------------------------------------------------------------------------

    def _step_change(self, current: OpenIndexes) -> bool:
        """True: there is something to see."""
        running = self.change.running
        unopened = running is None or running.opened is None
        complete, news = self.change.step(current)
        running = self.change.running
        if unopened and running is not None and running.opened is not None:
            with self._owner_waits():
                running.opened.index.notice()
        if complete:
            assert running is not None
            self._go_over(running, current)
        return news or complete

    def _go_over(self, reindexing: Reindexing, former: OpenIndexes) -> None:
        """Swap. The file decides which one a crash leaves."""
        opened, held = reindexing.opened, reindexing.held
        assert opened is not None
        with self._owner_waits():
            self.embedder.goes_over(held)
            if opened.pumps is not None:
                opened.pumps.go_over(self.embedder)
            self.searched = Searched(opened.index, held.name)
            self._current = opened
            reindexing.opened = None
        former.close(orderly=False)
        collect_folders(self._fs, self._folders.directory, held.folder)
        self._see_disk(self._clock.now_us())
        reindexing.finished()

    # ---- looking ---------------------------------------------------------------------------------

    def _see_disk(self, now_us: int) -> None:
        assert self._current is not None
        number = self._current.stored.manifest.number
        n_bytes = self._folders.bytes_in(self.embedder.held.folder)
        self.on_disk = OnDisk(number, now_us, n_bytes)

    def _prepared(self, batch: list[Waiting]) -> list[str]:
        assert self.index is not None
        rows = self.index.view().rows
        return [prepare_text(one.text, self.speakers.of(rows, one.namespace)) for one in batch]


def unique(findings: Sequence[Finding]) -> list[Finding]:
    """One of each kind and file."""
    return list({(one.kind, one.file): one for one in reversed(findings)}.values())[::-1]
