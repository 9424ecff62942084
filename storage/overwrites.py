"""Zeroing bodies in place, for erasure: the one change that is ever made to a record."""

from __future__ import annotations

from neverforget.storage.filesystem import File, FileSystem
from neverforget.storage.segment import Segment


class Overwrites:
    """Since the last sync. A sealed segment is opened for writing again, and closed by ``sync``."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._files: dict[int, File] = {}
        self._in_active = False

    @property
    def pending(self) -> bool:
        return self._in_active or bool(self._files)

    def zero(self, segment: Segment, offset: int, n_bytes: int, *, active: bool) -> None:
        if active:
            self._in_active = True
            file = segment.file
        else:
            if segment.base not in self._files:
                self._files[segment.base] = self._fs.open(segment.path)
            file = self._files[segment.base]
        file.pwrite([bytes(n_bytes)], offset)

    def sync(self) -> None:
        """Make those in sealed segments durable; the active one is synced by the log itself."""
        for file in self._files.values():
            file.fdatasync()

    def clear(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._in_active = False
