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
from collections.abc import Callable, Iterable
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
from neverforget.storage.text_overlay import CONTEXT, TEXT, TextDocument, TextOverlay
from neverforget.storage.text_snapshot import TextHits, TextSnapshot
from neverforget.storage.text_state import TextState
from neverforget.storage.vector_math import Array, sorted_ids

__all__ = ["CONTEXT", "TEXT", "Commit", "TextDocument", "TextHits", "TextIndex", "TextSnapshot"]

COMMIT_DOCUMENTS: Final = 1_000  # overlay rows or removed ids that make a commit due
COMMIT_WORDS: Final = 200_000

_HEAP_BYTES = 20_000_000
_LOAD_HEAP_BYTES = 60_000_000


@dataclass
class Commit:
    """What goes to disk, fixed when the commit began."""

    disk: TextDisk
    documents: list[TextDocument]
    removed: frozenset[int]  # hidden on disk when it began
    rows: int  # of the overlay, which it takes along
    dead: frozenset[int]  # of these rows, dead when it began
    watermark: int
    done: TextState | None = field(default=None, init=False)

    def run(self) -> None:
        """Write it to disk; durable when it returns. OutOfSpace: nothing is lost, the next commit
        brings it. Poisoned: build the index anew, this one takes no more.
        """
        # Ids of documents too: an attempt that failed late may have brought them already.
        gone = self.removed.union(document.id for document in self.documents)
        self.done = self.disk.write(self.documents, sorted(gone), self.watermark, _HEAP_BYTES)


class TextIndex:
    """See the module. Everything but ``snapshot`` is called by one writer."""

    def __init__(self, disk: TextDisk) -> None:
        self._disk = disk
        self._analyze: Callable[[str], list[str]] = analyzer().analyze
        self._guard = threading.Lock()  # held for moments: readers take snapshots under it
        self._overlay = TextOverlay(self._analyze)
        self._removed: set[int] = set()  # ids whose document on disk is gone or replaced
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
                    _sorted_array(self._removed),
                )
            return self._snapshot

    # ---- the writer ------------------------------------------------------------------------------

    def add(self, documents: Iterable[TextDocument]) -> None:
        """Make documents findable; one of an id that is there replaces it."""
        ready = list(map(_ready, documents))
        with self._guard:
            for document in ready:
                self._hide_on_disk(document.id)
                self._overlay.add(document)
            self._snapshot = None

    def remove(self, ids: Any) -> None:
        """No search finds these ids any more; those that are not there are passed over."""
        with self._guard:
            for key in sorted_ids(ids).tolist():
                self._hide_on_disk(key)
                self._overlay.remove(key)
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
        overlay = self._overlay
        self._committing = Commit(
            self._disk,
            overlay.view().living(),
            frozenset(self._removed),
            len(overlay),
            overlay.dead,
            watermark,
        )
        return self._committing

    def finish_commit(self, commit: Commit) -> None:
        """Change over to what ``commit`` has written. What was added and removed meanwhile stays
        so.
        """
        assert commit is self._committing and commit.done is not None, "run it first"
        self._disk.adopt(commit.done)
        searcher = self._disk.searcher()
        # Only the writer changes these, and that is the one who calls: readers need not wait.
        held = self._overlay
        # Of what the commit brought, these have been removed or replaced since it began.
        died = {held.documents[row].id for row in held.dead - commit.dead if row < commit.rows}
        removed = (self._removed - commit.removed) | died
        rest = held.since(commit.rows)
        with self._guard:
            self._removed, self._overlay = removed, rest
            self._searcher, self._snapshot = searcher, None
        self._committing = None

    def abandon_commit(self, commit: Commit) -> None:
        """Forget a commit that failed; what it held goes with the next one."""
        assert commit is self._committing, "not the commit that is under way"
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
        self._disk.adopt(done)
        searcher = self._disk.searcher()
        with self._guard:
            self._searcher, self._snapshot = searcher, None

    def close(self) -> None:
        """Release the directory. What is not committed is not on disk. Idempotent."""
        self._disk.close()

    # ---- inside ----------------------------------------------------------------------------------

    def _hide_on_disk(self, key: int) -> None:
        if self._searcher.doc_freq("id", key):
            self._removed.add(key)


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


def _sorted_array(ids: set[int]) -> Array:
    return np.sort(np.fromiter(ids, np.int64, len(ids)))
