"""A real file system whose syncs wait until they are let go."""

from __future__ import annotations

import threading
from pathlib import Path

from neverforget.storage.filesystem import LocalFile, LocalFileSystem


class HeldFile(LocalFile):
    gate: threading.Event
    reached: threading.Event

    def fdatasync(self) -> None:
        if not self.gate.is_set():
            self.reached.set()
            self.gate.wait()
        super().fdatasync()


class HeldSyncFileSystem(LocalFileSystem):
    """``hold`` makes every fdatasync wait for ``let_go``; ``reached``: one does."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.reached = threading.Event()

    def hold(self) -> None:
        self.gate.clear()

    def let_go(self) -> None:
        self.gate.set()

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> LocalFile:
        file = super().open(path, create=create, read_only=read_only)
        file.__class__ = HeldFile
        assert isinstance(file, HeldFile)
        file.gate, file.reached = self.gate, self.reached
        return file
