"""Objects in a folder: of a disk that outlives this machine, or on a file server.

    put: temporary, fdatasync, link (which refuses a name that is taken), fsync the directory

A key is a path below the root. Every step may be the last one before a power cut: then there is
the whole object or none, and perhaps a temporary, which the next owner's first put sweeps away. An
object that somebody put and whose name was not synced yet is synced by whoever finds it taken. The
root itself must be there (``make_root``): a folder that is not mounted is not an empty one.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from neverforget.storage.errors import InvalidArgument, OutOfSpace, Unavailable
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.object_store import Stored

TEMPORARY_SUFFIX = ".tmp"
_PARTS = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*[A-Za-z0-9_-][A-Za-z0-9._-]*")


@contextmanager
def flock_directory(path: Path) -> Iterator[None]:
    """Nobody else is in here with the same directory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class FolderStore:
    """An ``ObjectStore``. ``exclusive``: keeps others from replacing in the same directory."""

    def __init__(
        self,
        fs: FileSystem,
        root: Path,
        exclusive: Callable[[Path], AbstractContextManager[None]] = flock_directory,
    ) -> None:
        self.name = str(root)
        self._fs = fs
        self._root = root
        self._exclusive = exclusive
        self._ready: set[Path] = set()  # directories that are durable and were swept
        self._readying = threading.Lock()  # no put of ours begins before the sweep has ended

    def make_root(self) -> None:
        """For a store that is new. Durable when it returns. Raises Unavailable."""
        there = next(path for path in self._root.parents if self._fs.exists(path))
        try:
            self._fs.make_directory(self._root)
            for folder in (self._root, *self._root.parents):
                self._fs.sync_directory(folder)
                if folder == there:
                    break
        except OSError as error:
            self._fail(error, "root", "not_applied")

    # ---- the seam --------------------------------------------------------------------------------

    def put_new(self, key: str, data: bytes, *, behind: str | None = None) -> bool:
        path = self._path(key)
        self._check_behind(behind, "not_applied")
        try:
            self._make_ready(path.parent)
            temporary = self._write_temporary(path, data)
        except OSError as error:
            self._fail(error, key, "not_applied")
        try:
            try:
                self._fs.link(temporary, path)
                created = True
            except FileExistsError:
                created = False
                self._put_again(temporary, path, data)
            self._fs.sync_directory(path.parent)
        except OSError as error:
            self._fail(error, key, "unknown")
        finally:
            with suppress(OSError):
                self._fs.unlink(temporary)
        self._check_behind(behind, "unknown")
        return created

    def get(self, key: str) -> Stored | None:
        data = self._read(key, None)
        return None if data is None else Stored(data, _tag(data))

    def get_start(self, key: str, n_bytes: int) -> bytes | None:
        assert n_bytes > 0, "the start of an object has bytes"
        return self._read(key, n_bytes)

    def head(self, key: str) -> int | None:
        try:
            with closing(self._fs.open(self._path(key), read_only=True)) as file:
                return file.size()
        except (FileNotFoundError, NotADirectoryError) as error:
            self._check_root(error, key)
            return None
        except OSError as error:
            self._fail(error, key, "not_applied")

    def replace(self, key: str, data: bytes, tag: str) -> bool:
        path = self._path(key)
        try:
            if not self._fs.is_directory(path.parent):
                self._check_root(FileNotFoundError("not there"), key)
                return False
            with self._exclusive(path.parent):
                # What a dead put left behind may hold what is to be erased.
                self._sweep(path.parent)
                current = self._read(key, None)
                if current is None or _tag(current) != tag:
                    return False
                temporary = self._write_temporary(path, data)
                self._fs.rename(temporary, path)
                self._fs.sync_directory(path.parent)
        except OSError as error:
            self._fail(error, key, "unknown")
        return True

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        assert not prefix or prefix.endswith("/"), "a prefix is whole parts of keys"
        folder = self._root / self._path(prefix[:-1]) if prefix else self._root
        yield from sorted(self._walk(folder, prefix))

    # ---- inside ----------------------------------------------------------------------------------

    def _path(self, key: str) -> Path:
        if _PARTS.fullmatch(key) is None or key.endswith(TEMPORARY_SUFFIX):
            raise InvalidArgument(f"{key!r} is not the key of an object")
        return self._root / key

    def _key(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _walk(self, folder: Path, prefix: str) -> Iterator[tuple[str, int]]:
        try:
            if not self._fs.is_directory(folder):
                self._check_root(FileNotFoundError("not there"), prefix)
                return
            names = self._fs.list_directory(folder)
        except OSError as error:
            self._fail(error, prefix, "not_applied")
        for name in names:
            if name.endswith(TEMPORARY_SUFFIX):
                continue
            if self._fs.is_directory(folder / name):
                yield from self._walk(folder / name, f"{prefix}{name}/")
            else:
                size = self.head(prefix + name)
                if size is not None:
                    yield prefix + name, size

    def _read(self, key: str, n_bytes: int | None) -> bytes | None:
        try:
            with closing(self._fs.open(self._path(key), read_only=True)) as file:
                size = file.size()
                return file.pread(size if n_bytes is None else min(size, n_bytes), 0)
        except (FileNotFoundError, NotADirectoryError) as error:
            self._check_root(error, key)
            return None
        except OSError as error:
            self._fail(error, key, "not_applied")

    def _make_ready(self, directory: Path) -> None:
        """Made, durable below the root, and without temporaries of the dead."""
        with self._readying:
            if directory in self._ready:
                return
            if not self._fs.is_directory(self._root):
                raise FileNotFoundError(errno.ENOENT, "the folder is not there", str(self._root))
            self._fs.make_directory(directory)
            for folder in (directory, *directory.parents):
                self._fs.sync_directory(folder)
                if folder == self._root:
                    break
            self._sweep(directory)
            self._ready.add(directory)

    def _put_again(self, temporary: Path, path: Path, data: bytes) -> None:
        """Where the same bytes stand there, the same put came before and its sync may have failed.
        The next one may then succeed without having written anything: so the name is made anew.
        """
        with self._exclusive(path.parent):
            if self._read(self._key(path), None) == data:
                self._fs.rename(temporary, path)

    def _sweep(self, directory: Path) -> None:
        """Whoever lives and loses a temporary by this cannot link it, and puts again."""
        for name in self._fs.list_directory(directory):
            if name.endswith(TEMPORARY_SUFFIX):
                with suppress(FileNotFoundError):
                    self._fs.unlink(directory / name)

    def _write_temporary(self, path: Path, data: bytes) -> Path:
        temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}{TEMPORARY_SUFFIX}")
        try:
            with closing(self._fs.open(temporary, create=True)) as file:
                if data:
                    file.allocate(len(data))  # so that a full disk shows here, as OutOfSpace
                    file.pwrite([data], 0)
                file.fdatasync()
        except OSError:
            # The first error is the one to report; the next owner sweeps what is left.
            with suppress(OSError):
                self._fs.unlink(temporary)
            raise
        return temporary

    def _check_behind(self, behind: str | None, outcome: str) -> None:
        """Where nothing is mounted any more an empty folder takes every put."""
        if behind is not None and not self._fs.exists(self._path(behind)):
            error = FileNotFoundError(errno.ENOENT, "it was there; another folder is by now")
            self._fail(error, behind, outcome)

    def _check_root(self, error: OSError, key: str) -> None:
        if not self._fs.is_directory(self._root):
            self._fail(error, key, "not_applied")

    def _fail(self, error: OSError, key: str, outcome: str) -> NoReturn:
        self._ready.clear()  # another disk may be mounted there by now
        if isinstance(error, Unavailable):  # it has been said
            raise error
        what = f"object {key}" if key else "the objects"
        remedy = (
            "free space there"
            if isinstance(error, OutOfSpace)
            else "mount that folder, or see to it"
        )
        raise Unavailable(
            f"{what} in {self._root}: {error.strerror or error}; {remedy}", outcome=outcome
        ) from error


def _tag(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
