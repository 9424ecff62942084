"""The seam between storage and the operating system. Tests put a file system that crashes behind
it.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from neverforget.storage.errors import OutOfSpace

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """One open file. Nothing is durable before ``fdatasync`` returns; a new name not before
    ``sync_directory``.
    """

    path: Path

    def size(self) -> int: ...

    def modified_us(self) -> int:
        """When it was last written, in microseconds since 1970; 0: it is not known."""
        ...

    def allocate(self, size: int) -> None:
        """Reserve ``size`` bytes from 0; new bytes read as zero. Raises OutOfSpace and leaves the
        size as it was.
        """
        ...

    def pwrite(self, buffers: Sequence[Buffer], offset: int) -> None:
        """Write all buffers, one after the other, or raise OSError. A short write is an error."""
        ...

    def pread(self, size: int, offset: int) -> bytes:
        """Up to ``size`` bytes; fewer only at the end of the file."""
        ...

    def fdatasync(self) -> None: ...

    def map(self) -> memoryview:
        """The whole file, read-only, sharing the page cache: later ``pwrite``s show through. Lives
        until ``close``.
        """
        ...

    def close(self) -> None:
        """Idempotent. Releases the map unless views of it are still held (then it goes with the
        last view).
        """
        ...


class FileSystem(Protocol):
    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> File:
        """``create`` makes the file and refuses an existing one (FileExistsError)."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Atomic; replaces ``target``. Durable only after ``sync_directory(target.parent)``."""
        ...

    def link(self, source: Path, target: Path) -> None:
        """A second name for a file, or FileExistsError: of many who try, one gets it. Durable only
        after ``sync_directory(target.parent)``.
        """
        ...

    def unlink(self, path: Path) -> None: ...

    def make_directory(self, path: Path) -> None:
        """With parents; exists already: fine."""
        ...

    def remove_directory(self, path: Path) -> None:
        """An empty one; OSError (ENOTEMPTY) for any other."""
        ...

    def is_directory(self, path: Path) -> bool: ...

    def sync_directory(self, path: Path) -> None: ...

    def list_directory(self, path: Path) -> list[str]: ...

    def exists(self, path: Path) -> bool: ...


class LocalFile:
    def __init__(self, path: Path, descriptor: int, read_only: bool) -> None:
        self.path = path
        self._descriptor = descriptor
        self._read_only = read_only
        self._map: mmap.mmap | None = None
        self._view: memoryview | None = None

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def modified_us(self) -> int:
        return os.fstat(self._descriptor).st_mtime_ns // 1_000

    def allocate(self, size: int) -> None:
        try:
            os.posix_fallocate(self._descriptor, 0, size)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise OutOfSpace(
                    f"no room for {size:,} bytes at {self.path}; free disk space and append again"
                ) from error
            raise

    def pwrite(self, buffers: Sequence[Buffer], offset: int) -> None:
        total = sum(len(b) for b in buffers)
        # IOV_MAX is 1024 on Linux: join beyond it, a copy costs less than a second system call.
        pieces: Sequence[Buffer] = buffers if len(buffers) <= 1000 else [b"".join(buffers)]
        written = os.pwritev(self._descriptor, pieces, offset)
        if written != total:
            raise OSError(
                errno.EIO, f"short write: {written} of {total} bytes at {offset}", str(self.path)
            )

    def pread(self, size: int, offset: int) -> bytes:
        return os.pread(self._descriptor, size, offset)

    def fdatasync(self) -> None:
        os.fdatasync(self._descriptor)

    def map(self) -> memoryview:
        if self._view is None:
            self._map = mmap.mmap(self._descriptor, self.size(), access=mmap.ACCESS_READ)
            self._view = memoryview(self._map)
        return self._view

    def close(self) -> None:
        if self._descriptor < 0:
            return
        os.close(self._descriptor)
        self._descriptor = -1
        if self._view is not None and self._map is not None:
            try:
                self._view.release()
                self._map.close()
            except BufferError:
                pass  # a reader still holds a view; the map is unmapped when it lets go
            self._view = self._map = None


class LocalFileSystem:
    """The real one. Linux; on macOS ``fdatasync`` must be F_FULLFSYNC: os.fsync is not."""

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> LocalFile:
        flags = os.O_RDONLY if read_only else os.O_RDWR
        if create:
            flags |= os.O_CREAT | os.O_EXCL
        return LocalFile(path, os.open(path, flags | os.O_CLOEXEC, 0o600), read_only)

    def rename(self, source: Path, target: Path) -> None:
        os.rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        os.link(source, target)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def make_directory(self, path: Path) -> None:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def remove_directory(self, path: Path) -> None:
        path.rmdir()

    def is_directory(self, path: Path) -> bool:
        return path.is_dir()

    def sync_directory(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def list_directory(self, path: Path) -> list[str]:
        return sorted(os.listdir(path))

    def exists(self, path: Path) -> bool:
        return path.exists()
