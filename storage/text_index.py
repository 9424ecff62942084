"""The text index: one writer adds and removes, readers search snapshots that stand still.

    index = TextIndex.create(fs, directory)          # or TextIndex.open(fs, directory)
    index.add(documents); index.remove(ids)          # the writer; at once in the next snapshot
    index.snapshot().search("words", 100, field=TEXT, allowed=...)    # any thread

    if index.commit_due():                           # the writer, from time to time
        commit = index.begin_commit(watermark)
        commit.run()                                 # 10-100 ms, longer when segments merge; any
        index.finish_commit(commit)                  # thread, while the writer goes on

It is derived from the log: ``watermark`` is the log position up to which everything is on disk, and
what came after is added again on opening. Adding a document replaces the one of the same id, so
adding too much again does no harm. A directory that fails ``open`` is rebuilt: ``create`` another
one and ``load`` it.

Words of removed documents stay in tantivy's files until segments merge. To be rid of them
(erasure), rebuild.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from neverforget.storage.directory_lock import Role
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.surrogates import escaped
from neverforget.storage.text_analysis import prepared
from neverforget.storage.text_disk import TextDisk, analyzer
from neverforget.storage.text_document import CONTEXT, TEXT, TextDocument
from neverforget.storage.text_overlay import FrozenLayers, TextOverlay
from neverforget.storage.text_snapshot import TextHits, TextSnapshot
from neverforget.storage.text_state import TextState
from neverforget.storage.vector_math import NO_IDS, Array, members, sorted_ids

__all__ = ["CONTEXT", "TEXT", "Commit", "TextDocument", "TextHits", "TextIndex", "TextSnapshot"]

COMMIT_DOCUMENTS: Final = 1_000  # overlay rows or removed ids that make a commit due
COMMIT_WORDS: Final = 200_000
PAUSE_DOCUMENTS: Final = 16  # between two pauses

_HEAP_BYTES = 20_000_000
_LOAD_HEAP_BYTES = 60_000_000


@dataclass
class Commit:
    """What goes to disk, fixed when the commit began. ``removed``: hidden on disk, sorted."""

    disk: TextDisk
    layers: FrozenLayers
    removed: Array
    watermark: int
    done: TextState | None = field(default=None, init=False)

    def run(self, pause: Callable[[], object] = lambda: None) -> None:
        """Write it to disk; durable when it returns. OutOfSpace: nothing is lost, the next commit
        brings it. Poisoned: build the index anew, this one takes no more. ``pause`` is called now
        and then.
        """
        # Ids of documents too: an attempt that failed late may have brought them already.
        gone = np.union1d(self.removed, self.layers.ids())
        self.done = self.disk.write(
            with_pauses(self.layers.living(), pause), gone.tolist(), self.watermark, _HEAP_BYTES
        )


class TextIndex:
    """See the module. Everything but ``snapshot`` is called by one writer."""

    def __init__(self, disk: TextDisk) -> None:
        self._disk = disk
        self._analyze: Callable[[str], list[str]] = analyzer().analyze
        self._guard = threading.Lock()  # held for moments: readers take snapshots under it
        self._overlay = TextOverlay()
        self._removed = HiddenIds()  # whose document on disk is gone or replaced
        self._searcher = disk.searcher()
        self._snapshot: TextSnapshot | None = None
        self._committing: Commit | None = None

    @classmethod
    def create(
        cls, fs: FileSystem, directory: Path, *, watermark: int = 0, role: Role = "application"
    ) -> TextIndex:
        """A new, empty index in ``directory``, which is made; what was begun there is lost.
        StoreLocked while another writer has it.
        """
        return cls(TextDisk.create(fs, directory, watermark, role))

    @classmethod
    def open(cls, fs: FileSystem, directory: Path, *, role: Role = "application") -> TextIndex:
        """Open, after checking every byte. Rebuild it after NotFound, Corrupt, or UnsupportedFormat
        (another version of tantivy or of the analysis made it). StoreLocked while another writer
        has it.
        """
        disk = TextDisk.open(fs, directory, role)
        try:
            return cls(disk)
        except BaseException:
            disk.close()
            raise

    # ---- what is there ---------------------------------------------------------------------------

    @property
    def watermark(self) -> int:
        """Everything below this log position is on disk."""
        return self._disk.state.watermark

    @property
    def incarnation(self) -> str:
        """Tells this directory from any other and from one built anew; for the manifest."""
        return self._disk.state.incarnation

    def snapshot(self) -> TextSnapshot:
        """What is there now, unchanged for as long as it is held. Cheap; any thread."""
        with self._guard:
            if self._snapshot is None:
                self._snapshot = TextSnapshot(
                    self._searcher,
                    self._analyze,
                    self._overlay.view(),
                    self._disk.state.size,
                    self._removed.sorted(),
                )
            return self._snapshot

    # ---- the writer ------------------------------------------------------------------------------

    def add(self, documents: Iterable[TextDocument]) -> None:
        """Make documents findable; one of an id that is there replaces it."""
        # Who takes a snapshot need not wait for the analysis.
        ready = [(document, self._words_of(document)) for document in map(_ready, documents)]
        with self._guard:
            for document, words in ready:
                self._take_out(document.id)
                self._overlay.add(document, words)
            self._snapshot = None

    def remove(self, ids: Any) -> None:
        """No search finds these ids any more; those that are not there are passed over."""
        with self._guard:
            for key in sorted_ids(ids).tolist():
                self._take_out(key)
            self._snapshot = None

    def commit_due(self) -> bool:
        """Whether searches pay for what a commit would take to disk."""
        return self._committing is None and (
            max(len(self._overlay), len(self._removed)) >= COMMIT_DOCUMENTS
            or sum(self._overlay.size.words) >= COMMIT_WORDS
        )

    def begin_commit(self, watermark: int) -> Commit:
        """Fix what goes to disk: all that was added and removed. ``watermark``: the log position
        that this brings the disk to. One commit at a time.
        """
        assert self._committing is None, "a commit is under way"
        assert watermark >= self.watermark, "the log only grows"
        with self._guard:  # a snapshot that is taken now sorts the removed ids as well
            layers, removed = self._overlay.freeze(), self._removed.freeze()
        self._committing = Commit(self._disk, layers, removed, watermark)
        return self._committing

    def finish_commit(self, commit: Commit) -> None:
        """Change over to what ``commit`` has written. What was added and removed meanwhile stays
        so.
        """
        assert commit is self._committing and commit.done is not None, "run it first"
        searcher = self._disk.searcher()
        with self._guard:  # the numbers of the disk with what is in memory no more, or neither
            self._disk.adopt(commit.done)
            self._removed.drop_frozen()
            self._overlay.drop(commit.layers)
            self._searcher, self._snapshot = searcher, None
        self._committing = None
        commit.layers.drop_documents()

    def abandon_commit(self, commit: Commit) -> None:
        """Forget a commit that failed; what it held goes with the next one."""
        assert commit is self._committing, "not the commit that is under way"
        self._removed.thaw()
        self._committing = None

    def commit(self, watermark: int) -> None:
        """The three steps of a commit at once, in the writer's thread."""
        commit = self.begin_commit(watermark)
        try:
            commit.run()
        except BaseException:
            self.abandon_commit(commit)
            raise
        self.finish_commit(commit)

    def load(
        self, documents: Iterable[TextDocument], watermark: int, removed: Iterable[int] = ()
    ) -> None:
        """Add many documents straight to disk: they are found, and durable, when it returns. Ids
        that are on disk must be among ``removed``, which go first. For opening and rebuilding,
        while nothing is in memory alone: 20 us a document. Errors as ``Commit.run``; after any of
        them build anew.
        """
        assert self._committing is None, "a commit is under way"
        assert not len(self._overlay) and not self._removed, "commit first"
        gone = sorted(removed)
        done = self._disk.write(map(_ready, documents), gone, watermark, _LOAD_HEAP_BYTES)
        searcher = self._disk.searcher()
        with self._guard:
            self._disk.adopt(done)
            self._searcher, self._snapshot = searcher, None

    def close(self) -> None:
        """Release the directory. What is not committed is not on disk. Idempotent."""
        self._disk.close()

    # ---- inside ----------------------------------------------------------------------------------

    def _words_of(self, document: TextDocument) -> list[list[str]]:
        return [self._analyze(text) if text else [] for text in document.texts]

    def _take_out(self, key: int) -> None:
        """What is there of ``key``, and what a commit that is under way will bring of it."""
        layer, commit = self._overlay.remove(key), self._committing
        brought = commit is not None and layer in commit.layers.layers
        if brought or (self._searcher.doc_freq("id", key) and not self._removed.is_frozen(key)):
            self._removed.add(key)


def with_pauses(
    documents: Iterable[TextDocument], pause: Callable[[], object]
) -> Iterator[TextDocument]:
    """What makes Python work for long lets others have the interpreter between two slices."""
    for number, document in enumerate(documents):
        if number % PAUSE_DOCUMENTS == 0:
            pause()
        yield document


def _ready(document: TextDocument) -> TextDocument:
    """The document as it is indexed: texts prepared, the date part of the text."""
    text = prepared(document.text)
    return msgspec.structs.replace(
        document,
        text=f"{document.date} {text}" if document.date else text,
        context=prepared(document.context),
        date="",
        labels=tuple(map(escaped, document.labels)),
    )


class HiddenIds:
    """Ids that searches pass over on disk. Those that a commit takes away are frozen until it has
    ended; what is hidden meanwhile stays so.
    """

    def __init__(self) -> None:
        self._frozen: Array = NO_IDS
        self._since: set[int] = set()
        self._sorted: Array = NO_IDS  # both, but for
        self._new: list[int] = []

    def __len__(self) -> int:
        return len(self._frozen) + len(self._since)

    def add(self, key: int) -> None:
        if key not in self._since:
            self._since.add(key)
            self._new.append(key)

    def is_frozen(self, key: int) -> bool:
        return bool(members(np.array([key]), self._frozen)[0])

    def sorted(self) -> Array:
        """The same array until something is added."""
        if self._new:
            self._sorted, self._new = np.union1d(self._sorted, self._new), []
        return self._sorted

    def freeze(self) -> Array:
        self._frozen, self._since = self.sorted(), set()
        return self._frozen

    def thaw(self) -> None:
        """The commit has failed: the next one takes them."""
        self._since.update(self._frozen.tolist())
        self._frozen = NO_IDS

    def drop_frozen(self) -> None:
        """They are gone from disk."""
        self._frozen, self._new = NO_IDS, []
        self._sorted = sorted_ids(self._since)
