"""The part of the text index on disk: one tantivy directory, its lock, and its STATE.

tantivy syncs what it writes and survives kill -9 by itself. Here it is held still between commits:
a commit waits for its merges, so that STATE can name every file of the directory.
"""

from __future__ import annotations

import errno
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import tantivy

from neverforget.storage.directory_lock import LOCK_FILE, DirectoryLock, Role
from neverforget.storage.errors import (
    Corrupt,
    NeverforgetError,
    NotFound,
    OutOfSpace,
    Poisoned,
    UnsupportedFormat,
)
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.text_analysis import ANALYSIS_VERSION
from neverforget.storage.text_document import CONTEXT, TEXT, CorpusSize, TextDocument
from neverforget.storage.text_state import (
    TANTIVY_TEMPORARY,
    TextState,
    check_files,
    read_state,
    sum_files,
    write_state,
)
from neverforget.storage.text_statistics import DiskSearcher

ENGINE: Final[str] = vars(tantivy)["__version__"]  # "tantivy v0.27.0, index_format v7"

_ANALYZER = "neverforget"
_WRITER_LOCK = ".tantivy-writer.lock"
_DISK_FULL = ("os error 28", "os error 122", "os error 27")  # ENOSPC, EDQUOT, EFBIG


def analyzer() -> tantivy.TextAnalyzer:
    """Index words of a prepared text (``text_analysis``)."""
    make = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    for step in (
        tantivy.Filter.lowercase(),
        tantivy.Filter.ascii_fold(),
        tantivy.Filter.stemmer("english"),
    ):
        make = make.filter(step)
    return make.build()


def _is_full(error: BaseException) -> bool:
    """tantivy's errors are ValueErrors with the system's number in their text."""
    if isinstance(error, OutOfSpace):
        return True
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return True
    return isinstance(error, ValueError | OSError) and any(n in str(error) for n in _DISK_FULL)


def _no_room(directory: Path) -> OutOfSpace:
    return OutOfSpace(
        f"no room for the text index in {directory}; free disk space, its next commit brings "
        "everything"
    )


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("id", indexed=True, fast=True)
    builder.add_text_field(TEXT, tokenizer_name=_ANALYZER, index_option="freq")
    builder.add_text_field(CONTEXT, tokenizer_name=_ANALYZER, index_option="freq")
    builder.add_text_field("label", tokenizer_name="raw", index_option="basic")
    return builder.build()


class TextDisk:
    """``state`` is what STATE says was last committed and adopted."""

    def __init__(
        self, fs: FileSystem, directory: Path, lock: DirectoryLock, index: Any, state: TextState
    ) -> None:
        self._fs, self.directory, self._lock = fs, directory, lock
        self._index = index
        self._index.register_tokenizer(_ANALYZER, analyzer())
        self._index.config_reader(reload_policy="manual")
        self.state = state
        self._poisoned: str | None = None

    @classmethod
    def create(cls, fs: FileSystem, directory: Path, watermark: int, role: Role) -> TextDisk:
        fs.make_directory(directory)
        lock = DirectoryLock.acquire(directory, role=role)
        try:
            for name in fs.list_directory(directory):
                if name != LOCK_FILE:
                    fs.unlink(directory / name)
            index = tantivy.Index(_schema(), str(directory), reuse=False)
            files = sum_files(fs, directory, {})
            incarnation = secrets.token_hex(8)
            state = TextState(
                ENGINE, ANALYSIS_VERSION, incarnation, watermark, "committed", CorpusSize(), files
            )
            write_state(fs, directory, state)
            fs.sync_directory(directory.parent)
            return cls(fs, directory, lock, index, state)
        except BaseException as error:
            lock.release()
            if _is_full(error):
                raise _no_room(directory) from error
            raise

    @classmethod
    def open(cls, fs: FileSystem, directory: Path, role: Role) -> TextDisk:
        if not fs.exists(directory):
            raise NotFound(f"{directory} is not there; the text index is rebuilt")
        lock = DirectoryLock.acquire(directory, role=role)
        try:
            state = read_state(fs, directory)
            if (state.engine, state.analysis) != (ENGINE, ANALYSIS_VERSION):
                raise UnsupportedFormat(
                    f"{directory} was made by {state.engine}, analysis {state.analysis}; this is "
                    f"{ENGINE}, analysis {ANALYSIS_VERSION}: it is rebuilt"
                )
            check_files(fs, directory, state)
            for name in fs.list_directory(directory):
                if name.startswith(TANTIVY_TEMPORARY):
                    fs.unlink(directory / name)
            try:
                return cls(fs, directory, lock, tantivy.Index.open(str(directory)), state)
            except ValueError as error:
                raise Corrupt(
                    f"{directory} cannot be opened: {error}; it is rebuilt", file=str(directory)
                ) from error
        except BaseException:
            lock.release()
            raise

    def searcher(self) -> DiskSearcher:
        """Of what was last committed. It stays as it is, whatever is committed or merged later."""
        self._index.reload()
        return DiskSearcher(self._index.searcher(), self._index.schema)

    def write(
        self, documents: Iterable[TextDocument], removed: list[int], watermark: int, heap_bytes: int
    ) -> TextState:
        """Commit: ``removed`` go, then documents come. Durable when it returns the state that
        ``adopt`` makes current.

        OutOfSpace: run it again when there is room. Poisoned: this directory takes no more, nor
        after an error of ``documents``, which is raised as it is.
        """
        if self._poisoned is not None:
            raise Poisoned(f"{self.directory} failed before ({self._poisoned}); rebuild it")
        begun = msgspec.structs.replace(self.state, phase="committing")
        try:
            write_state(self._fs, self.directory, begun)
            added = self._commit(documents, removed, heap_bytes)
            state = msgspec.structs.replace(
                self.state,
                watermark=watermark,
                size=self.state.size.plus(added),
                files=sum_files(self._fs, self.directory, self.state.files),
            )
            write_state(self._fs, self.directory, state)
            return state
        except NeverforgetError as error:  # of whoever gives the documents: the owner ends
            if _is_full(error):
                raise _no_room(self.directory) from error
            self._poisoned = str(error)
            raise
        except (ValueError, OSError) as error:
            if _is_full(error):
                raise _no_room(self.directory) from error
            self._poisoned = str(error)
            raise Poisoned(
                f"writing to {self.directory} failed: {error}; the text index is rebuilt elsewhere"
            ) from error

    def adopt(self, state: TextState) -> None:
        self.state = state

    def close(self) -> None:
        self._lock.release()

    def _commit(
        self, documents: Iterable[TextDocument], removed: list[int], heap_bytes: int
    ) -> CorpusSize:
        writer: tantivy.IndexWriter | None = self._writer(heap_bytes)
        try:
            assert writer is not None
            for key in removed:
                writer.delete_documents_by_term("id", key)
            count, words = 0, [0, 0]
            for one in documents:
                document = tantivy.Document()
                document.add_integer("id", one.id)
                for at, (name, text) in enumerate(((TEXT, one.text), (CONTEXT, one.context))):
                    if text:
                        document.add_text(name, text)
                        words[at] += text.count(" ") + 1
                for label in one.labels:
                    document.add_text("label", label)
                writer.add_document(document)
                count += 1
            writer.commit()
            writer.wait_merging_threads()
            return CorpusSize(count, (words[0], words[1]))
        finally:
            # An error keeps this frame, and with it the writer and its lock: let go of it here.
            writer = None

    def _writer(self, heap_bytes: int) -> tantivy.IndexWriter:
        try:
            writer: tantivy.IndexWriter = self._index.writer(heap_bytes, 1)
        except ValueError as error:
            if "LockBusy" not in str(error):
                raise
            # The directory is ours by its LOCK: this one is held by a forked child that lives on,
            # or by a writer that failed. A new lock file is another lock.
            with suppress(FileNotFoundError):
                self._fs.unlink(self.directory / _WRITER_LOCK)
            writer = self._index.writer(heap_bytes, 1)
        return writer
