"""Checking and copying a long-term store: its region, and what is derived from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from neverforget.actors.checks import Verified
from neverforget.actors.longterm_indexing import Indexing
from neverforget.storage.copy_list import CopyList
from neverforget.storage.embedder_file import FIRST_FOLDER, EmbedderFile, write_embedder
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.identity import read_identity
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.manifest import examine_in_use
from neverforget.storage.results import Finding


class CheckedLongTerm:
    """A ``Checked``, asked on another thread than the owner's."""

    def __init__(self, fs: FileSystem, region: LongTermRegion, indexing: Indexing | None) -> None:
        self._fs = fs
        self._region = region
        self._indexing = indexing

    def verify(self, go_on: Callable[[], None], /) -> Verified:
        return _Verification(self._fs, self._region, self._indexing, go_on)

    def backup(self, directory: Path, go_on: Callable[[], None], /) -> tuple[int, int]:
        """The log, which is all there is, and the name of the embedder. What is derived the copy
        derives anew.
        """
        copied = self._region.backup(directory, go_on)
        if self._indexing is not None:
            held = self._indexing.embedder.held
            fresh = EmbedderFile(held.name, held.model, held.dimension, FIRST_FOLDER)
            write_embedder(self._fs, directory, fresh)
        return copied

    def list_copy(self) -> CopyList:
        return self._region.list_copy()

    def read_copy(self, name: str, offset: int, n_bytes: int, /) -> bytes:
        return self._region.read_copy(name, offset, n_bytes)


class _Verification:
    """``records`` and ``bytes`` are the log's, the bytes those of the derived files besides."""

    def __init__(
        self,
        fs: FileSystem,
        region: LongTermRegion,
        indexing: Indexing | None,
        go_on: Callable[[], None],
    ) -> None:
        self._fs = fs
        self._region = region
        self._indexing = indexing
        self._go_on = go_on
        self.records = 0
        self.bytes = 0

    def __iter__(self) -> Iterator[Finding]:
        log = self._region.verify(self._go_on)
        yield from log
        self.records, self.bytes = log.records, log.bytes
        if self._indexing is None:
            return
        seen = []
        for finding in self._indexing.findings:
            seen.append((finding.kind, finding.file))
            yield finding
        for finding in self._derived(self._indexing):
            if (finding.kind, finding.file) not in seen:
                yield finding

    def _derived(self, indexing: Indexing) -> tuple[Finding, ...]:
        """What is wrong with the newest generation, every digest checked. It is stored anew then,
        from the log and from what is in memory.
        """
        log_id = read_identity(self._fs, self._region.state.directory).log_id
        found = examine_in_use(self._fs, lambda: indexing.directory, log_id, self._go_on)
        lasting = found.findings
        if lasting:
            indexing.heal(lasting)
        self.bytes += sum(part.seal.size for part in found.usable if part.seal is not None)
        return lasting
