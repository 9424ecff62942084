"""A real file system whose writes or syncs of chosen files fail while it is told so."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path

from neverforget.storage.errors import OutOfSpace
from neverforget.storage.filesystem import Buffer, LocalFile, LocalFileSystem


class FailingFile(LocalFile):
    owner: FailingFileSystem

    def fdatasync(self) -> None:
        self.owner.check("sync", self.path)
        super().fdatasync()

    def pwrite(self, buffers: Sequence[Buffer], offset: int) -> None:
        self.owner.check("write", self.path)
        super().pwrite(buffers, offset)


class FailingFileSystem(LocalFileSystem):
    """``fails``: which calls on which files fail now. ``full``: whether as on a full disk."""

    def __init__(self) -> None:
        self.fails: Callable[[str, Path], bool] = lambda op, path: False
        self.full = False

    def mend(self) -> None:
        self.fails = lambda op, path: False

    def check(self, op: str, path: Path) -> None:
        if self.fails(op, path):
            if self.full:
                raise OutOfSpace(f"no room for {path}")
            raise OSError(errno.EIO, "made to fail", str(path))

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> LocalFile:
        if create:
            self.check("create", path)
        file = super().open(path, create=create, read_only=read_only)
        file.__class__ = FailingFile
        assert isinstance(file, FailingFile)
        file.owner = self
        return file
