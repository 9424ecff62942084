"""A file system in memory that keeps the page cache and the media apart, and dies on command.

The fault model, worse than a good disk but no worse than POSIX allows:

* A write lands in the page cache. It reaches the media at ``fdatasync`` at the latest, or any time
  before: at a power cut each dirty page is found as it was, as it is, as it was between two writes,
  or torn at 512-byte sectors, on its own. The size of a file is such a thing too.
* A new name, a rename (atomic) and an unlink are lost or kept on their own until the directory is
  synced. Syncing a file does not make its name durable.
* After a failed ``fdatasync`` the dirty pages count as clean: what is on the media is anybody's
  guess, the cache still shows the new bytes, and the next ``fdatasync`` succeeds without writing
  them (Linux after EIO). Writing a page again makes it dirty again.
* Within a sector nothing tears, and what was synced stays, except by ``flip_bit``.

Two deaths: ``process_death`` (kill -9: the page cache lives on) and ``power_cut``. Both return the
file system as the next process finds it; the old one answers every call with ``Killed``.

Every call that changes something is counted in ``calls``; ``inject`` makes one of them fail, write
short, or be the last one; ``before_each`` is told of each. All choices come from one seeded
generator. What each of many deaths leaves is found in one run by ``deaths`` (``deaths.py``).
"""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

from neverforget.storage.errors import OutOfSpace
from neverforget.storage.filesystem import Buffer
from tests.fakes.crash_media import PAGE_BYTES, Inode

ROOT = Path("/disk")

Op = Literal[
    "create", "allocate", "pwrite", "fdatasync", "rename", "link", "unlink",
    "make_directory", "remove_directory", "sync_directory", "pread", "map",
]  # fmt: skip


# By their whole names: texts are compared much faster than paths. None stands for a directory.
Names = dict[str, Inode | None]


class Killed(BaseException):
    """The process died here. Not an Exception: no code under test may catch it and go on."""


class Call(NamedTuple):
    op: Op
    path: Path


@dataclass
class Fault:
    """What happens at the ``nth`` call (1 is the next) of ``op`` whose path contains ``path``.

    ``error``: this errno is raised, and nothing is done (a failed fdatasync forgets dirty pages).
    ``short``: a pwrite writes so many bytes, then raises EIO as the real one does.
    ``kill``: the process dies "before" or "after" the call, or "amid" a pwrite.
    ``count``: so many calls in a row are hit.
    """

    op: Op
    nth: int = 1
    error: int | None = None
    short: int | None = None
    kill: Literal["before", "amid", "after"] | None = None
    path: str = ""
    count: int = 1
    seen: int = field(default=0, init=False)

    def hits(self, call: Call) -> bool:
        if call.op != self.op or self.path not in str(call.path):
            return False
        self.seen += 1
        return self.nth <= self.seen < self.nth + self.count


@dataclass(frozen=True, eq=False)
class _Change:
    """A change of names that is in the cache and not yet on the media."""

    directories: set[str]
    added: Names
    removed: str | None = None

    def apply(self, names: Names) -> None:
        if self.removed is not None:
            names.pop(self.removed, None)
        names.update(self.added)


class CrashFileSystem:
    """Behind the seam of ``storage/filesystem.py``. ``root`` is there and durable from the start.

    ``syncs_lie``: a device that acknowledges syncs and does nothing, for controls that must lose.
    ``capacity_bytes``: allocations beyond it raise OutOfSpace.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        root: Path = ROOT,
        capacity_bytes: int | None = None,
        syncs_lie: bool = False,
    ) -> None:
        self.root = root
        self.capacity_bytes = capacity_bytes
        self.syncs_lie = syncs_lie
        self.calls: list[Call] = []
        self.before_each: Callable[[Call], None] | None = None
        self.dead = False
        self._random = random.Random(seed)
        self._faults: list[Fault] = []
        self._kill_at: tuple[int, bool] | None = None
        self._names: Names = {str(root): None}
        self._durable: Names = {str(root): None}
        self._changes: list[_Change] = []
        self._guard = threading.RLock()  # segments are made by a worker thread

    # ---- what a test does ------------------------------------------------------------------------

    def inject(self, fault: Fault) -> Fault:
        self._faults.append(fault)
        return fault

    def kill_at(self, call: int, *, after: bool = False) -> None:
        """Die before (or just ``after``) the call with this index in ``calls``."""
        self._kill_at = (call, after)

    def syncs(self) -> list[int]:
        """The indexes in ``calls`` of everything that makes something durable."""
        return [
            i for i, call in enumerate(self.calls) if call.op in ("fdatasync", "sync_directory")
        ]

    def copy(self, seed: int) -> CrashFileSystem:
        """The same cache and media for itself. What is open or mapped stays with this one."""
        twin = self._like(seed)
        inodes: dict[int, Inode] = {}

        def own(names: Names) -> Names:
            for inode in names.values():
                if inode is not None and id(inode) not in inodes:
                    inodes[id(inode)] = inode.copy()
            return {name: inode and inodes[id(inode)] for name, inode in names.items()}

        twin._names, twin._durable = own(self._names), own(self._durable)
        twin._changes = [replace(each, added=own(each.added)) for each in self._changes]
        return twin

    def process_death(self) -> CrashFileSystem:
        """kill -9: nothing is lost, and nothing has become durable by it."""
        after = self._successor()
        after._names, after._durable = self._names, self._durable
        after._changes = self._changes
        self.dead = True
        return after

    def power_cut(self) -> CrashFileSystem:
        """What the next boot finds, one of the many possibilities."""
        names = dict(self._durable)
        for change in self._changes:
            if self._random.random() < 0.5:
                change.apply(names)
        after = self._successor()
        survivors: dict[int, Inode] = {}
        for name in sorted(names, key=lambda name: name.split("/")):
            inode = names[name]
            if not all(folder in names for folder in self._folders(name)):
                continue  # in a directory that was lost
            if inode is not None:
                if id(inode) not in survivors:
                    survivors[id(inode)] = inode.after_power_cut(self._random)
                inode = survivors[id(inode)]
            after._names[name] = inode
        after._durable = dict(after._names)
        self.dead = True
        return after

    def flip_bit(self, path: Path, bit: int) -> None:
        """Rot: in the media, and seen by whoever reads it next."""
        self._inode(path).flip_bit(bit)

    def content(self, path: Path) -> bytes:
        """What a reader sees now, uncounted."""
        return self._inode(path).read(self._inode(path).size, 0)

    def durable_content(self, path: Path) -> bytes | None:
        """What is surely there after a power cut, None if the name is not (or not surely)."""
        inode = self._durable.get(str(path))
        return None if inode is None else inode.media_content()

    def _successor(self) -> CrashFileSystem:
        return self._like(self._random.getrandbits(32))

    def _like(self, seed: int) -> CrashFileSystem:
        return CrashFileSystem(
            seed,
            root=self.root,
            capacity_bytes=self.capacity_bytes,
            syncs_lie=self.syncs_lie,
        )

    # ---- the seam --------------------------------------------------------------------------------

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> CrashFile:
        with self._guard:
            self._check_alive()
            name, folder = str(path), _folder(path)
            self._directory(folder)
            if name not in self._names:
                if not create:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
                with self._counted("create", path):
                    self._change({folder}, {name: Inode()})
            elif create:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            found = self._names[name]
            if found is None:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            return CrashFile(self, path, found, read_only)

    def rename(self, source: Path, target: Path) -> None:
        with self._guard, self._counted("rename", target):
            inode = self._inode(source)
            self._directory(_folder(target))
            old, new = str(source), str(target)
            if new in self._names and self._names[new] is None:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), new)
            self._change({_folder(source), _folder(target)}, {new: inode}, removed=old)

    def link(self, source: Path, target: Path) -> None:
        with self._guard, self._counted("link", target):
            inode = self._inode(source)
            name, folder = str(target), _folder(target)
            self._directory(folder)
            if name in self._names:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
            self._change({folder}, {name: inode})

    def unlink(self, path: Path) -> None:
        with self._guard, self._counted("unlink", path):
            self._inode(path)
            self._change({_folder(path)}, {}, removed=str(path))

    def make_directory(self, path: Path) -> None:
        with self._guard:
            self._check_alive()
            for folder in [*reversed(self._folders(str(path))), str(path)]:
                if folder not in self._names:
                    with self._counted("make_directory", Path(folder)):
                        self._change({_folder(folder)}, {folder: None})
                elif self._names[folder] is not None:
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), folder)

    def remove_directory(self, path: Path) -> None:
        with self._guard, self._counted("remove_directory", path):
            name = str(path)
            self._directory(name)
            if any(_folder(other) == name for other in self._names):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), name)
            self._change({_folder(name)}, {}, removed=name)

    def is_directory(self, path: Path) -> bool:
        with self._guard:
            self._check_alive()
            return self._names.get(str(path), self) is None

    def sync_directory(self, path: Path) -> None:
        with self._guard, self._counted("sync_directory", path):
            name = str(path)
            self._directory(name)
            if self.syncs_lie:
                return
            for change in [c for c in self._changes if name in c.directories]:
                change.apply(self._durable)
                self._changes.remove(change)

    def list_directory(self, path: Path) -> list[str]:
        with self._guard:
            self._check_alive()
            self._directory(str(path))
            start = f"{path}/"
            below = [name[len(start) :] for name in self._names if name.startswith(start)]
            return sorted(name for name in below if "/" not in name)

    def exists(self, path: Path) -> bool:
        with self._guard:
            self._check_alive()
            return str(path) in self._names

    # ---- inside ----------------------------------------------------------------------------------

    def _change(self, directories: set[str], added: Names, removed: str | None = None) -> None:
        change = _Change(directories, added, removed)
        change.apply(self._names)
        self._changes.append(change)

    def _folders(self, name: str) -> list[str]:
        """Those that it lies in, the innermost first, up to the root."""
        found = []
        while name not in ("", str(self.root)):
            found.append(name := _folder(name))
        return found

    def _directory(self, name: str) -> None:
        if name not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        if self._names[name] is not None:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)

    def _inode(self, path: Path) -> Inode:
        inode = self._names.get(str(path))
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return inode

    def _check_alive(self) -> None:
        if self.dead:
            raise Killed

    def _die(self) -> None:
        self.dead = True
        raise Killed

    def _used_bytes(self) -> int:
        return sum(inode.size for inode in self._names.values() if inode is not None)

    def _counted(self, op: Op, path: Path) -> _Counted:
        return _Counted(self, op, path)


def _folder(path: Path | str) -> str:
    return str(path).rpartition("/")[0]


class _Counted:
    """Counts a call, makes its fault happen, and dies around it where that was asked for."""

    def __init__(self, fs: CrashFileSystem, op: Op, path: Path) -> None:
        self._fs, self._call = fs, Call(op, path)
        self.fault: Fault | None = None
        self._index = -1

    def __enter__(self) -> _Counted:
        fs = self._fs
        fs._check_alive()
        self._index = len(fs.calls)
        if fs.before_each is not None:
            fs.before_each(self._call)
        fs.calls.append(self._call)
        hits = [fault for fault in fs._faults if fault.hits(self._call)]
        self.fault = hits[0] if hits else None
        if fs._kill_at == (self._index, False) or (self.fault and self.fault.kill == "before"):
            fs._die()
        if self.fault and self.fault.error is not None and self._call.op != "fdatasync":
            raise OSError(self.fault.error, os.strerror(self.fault.error), str(self._call.path))
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None and (
            self._fs._kill_at == (self._index, True) or (self.fault and self.fault.kill == "after")
        ):
            self._fs._die()


class CrashFile:
    def __init__(self, fs: CrashFileSystem, path: Path, inode: Inode, read_only: bool) -> None:
        self.path = path
        self._fs = fs
        self._inode = inode
        self._read_only = read_only
        self._open = True

    def size(self) -> int:
        with self._fs._guard:
            self._check()
            return self._inode.size

    def modified_us(self) -> int:
        return 0

    def allocate(self, size: int) -> None:
        fs = self._fs
        with fs._guard:
            self._check(writes=True)
            try:
                with fs._counted("allocate", self.path):
                    more = max(0, size - self._inode.size)
                    if (
                        fs.capacity_bytes is not None
                        and fs._used_bytes() + more > fs.capacity_bytes
                    ):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
                    self._inode.grow(size)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise OutOfSpace(f"no room for {size:,} bytes at {self.path}") from error
                raise

    def pwrite(self, buffers: Sequence[Buffer], offset: int) -> None:
        with self._fs._guard:
            self._check(writes=True)
            data = b"".join(buffers)
            with self._fs._counted("pwrite", self.path) as counted:
                fault = counted.fault
                if fault is not None and fault.kill == "amid":
                    pages = max(1, len(data) // PAGE_BYTES)
                    self._inode.write(
                        data[: self._fs._random.randrange(pages) * PAGE_BYTES], offset
                    )
                    self._fs._die()
                if fault is not None and fault.short is not None and fault.short < len(data):
                    self._inode.write(data[: fault.short], offset)
                    raise OSError(
                        errno.EIO, f"short write: {fault.short} of {len(data)}", str(self.path)
                    )
                self._inode.write(data, offset)

    def pread(self, size: int, offset: int) -> bytes:
        with self._fs._guard:
            self._check()
            with self._fs._counted("pread", self.path):
                return self._inode.read(size, offset)

    def fdatasync(self) -> None:
        with self._fs._guard:
            self._check()
            with self._fs._counted("fdatasync", self.path) as counted:
                if counted.fault is not None and counted.fault.error is not None:
                    self._inode.fail_sync(self._fs._random)
                    number = counted.fault.error
                    raise OSError(number, os.strerror(number), str(self.path))
                if not self._fs.syncs_lie:
                    self._inode.sync()

    def map(self) -> memoryview:
        with self._fs._guard:
            self._check()
            with self._fs._counted("map", self.path):
                return self._inode.view()

    def close(self) -> None:
        """Also after death: ``finally`` blocks run there, and must not hide ``Killed``."""
        self._open = False

    def _check(self, *, writes: bool = False) -> None:
        self._fs._check_alive()
        if not self._open or (writes and self._read_only):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), str(self.path))
