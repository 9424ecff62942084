"""Files that are written once, whole, and never changed: Arrow generations and FAISS indexes.

Their writers neither sync nor keep checksums, and destroy the old version when they write in place
on a full disk. So they write into a ``Sink`` here: a temporary beside the target, digested on the
way, synced, renamed, the directory synced. What comes out is a ``Seal``: size and digests, which
the manifest keeps. After a crash the target is the old file, the new one, or not there; never a
part of one.

A seal has two digests because they cost differently. CRC32C (about 7 GB/s) finds every single
flipped byte and is checked whenever a file is loaded; SHA-256 (0.2-1 GB/s) also finds a file that
was exchanged on purpose or by a bad copy, and is checked in the background.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal

import msgspec
from crc32c import crc32c

from neverforget.storage.atomic_file import TEMPORARY_SUFFIX
from neverforget.storage.errors import Corrupt, OutOfSpace
from neverforget.storage.filesystem import Buffer, File, FileSystem

Depth = Literal["size", "crc", "sha"]

_PIECE_BYTES = 1 << 20
_UNSYNCED_MAX = 4 << 20  # bytes that one sync writes: an append's sync waits behind it
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Seal(msgspec.Struct, frozen=True):
    """What a sealed file is, byte for byte."""

    size: int
    crc32c: int
    sha256: str


class Sink:
    """Where a library writes a file from front to back; ``write`` is all of it that they use.

    Small writes are gathered, so that each one is not a system call of its own.
    """

    def __init__(self, file: File) -> None:
        self._file = file
        self._gathered = bytearray()
        self._offset = self._synced = 0
        self._crc = 0
        self._sha = hashlib.sha256()

    def write(self, data: Buffer) -> int:
        view = memoryview(data).cast("B")
        if len(self._gathered) + len(view) < _PIECE_BYTES:
            self._gathered += view
        else:
            self.flush()
            self._put(view)
        return len(view)

    def flush(self) -> None:
        """Hand what is gathered to the file; not a sync."""
        if self._gathered:
            gathered, self._gathered = self._gathered, bytearray()
            self._put(gathered)

    def _put(self, data: Buffer) -> None:
        for at in range(0, len(data), _PIECE_BYTES):
            piece = memoryview(data)[at : at + _PIECE_BYTES]
            # A full disk shows here, as OutOfSpace, and not as a short write.
            self._file.allocate(self._offset + len(piece))
            self._file.pwrite([piece], self._offset)
            self._offset += len(piece)
            if self._offset - self._synced >= _UNSYNCED_MAX:
                self._file.fdatasync()
                self._synced = self._offset
            self._crc = crc32c(piece, self._crc)
            self._sha.update(piece)

    def seal(self) -> Seal:
        self.flush()
        return Seal(self._offset, self._crc, self._sha.hexdigest())


def write_sealed(fs: FileSystem, path: Path, produce: Callable[[Sink], object]) -> Seal:
    """Make ``path`` of what ``produce`` writes. It survives power loss when this returns.

    When it raises, whatever stood at ``path`` stands there unchanged (after a failed sync of the
    directory, the new file may): OutOfSpace when the disk is full, OSError for other faults of it,
    and everything that ``produce`` raises.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    if fs.exists(temporary):
        fs.unlink(temporary)
    try:
        with closing(fs.open(temporary, create=True)) as file:
            sink = Sink(file)
            produce(sink)
            seal = sink.seal()
            file.fdatasync()
        fs.rename(temporary, path)
    except Exception as error:
        # The first error is the one to report; what is left of the temporary is replaced by the
        # next write or collected as unreferenced.
        with suppress(OSError):
            fs.unlink(temporary)
        if isinstance(error, OSError) and error.errno in _FULL:
            raise OutOfSpace(f"no room for {path}; free disk space and try again") from error
        raise
    fs.sync_directory(path.parent)
    return seal


def check_seal(fs: FileSystem, path: Path, seal: Seal, depth: Depth) -> None:
    """Corrupt unless ``path`` is the sealed file, looked at no deeper than ``depth``. Reads with
    pread, so a media error is an OSError and not the end of the process.
    """
    try:
        file = fs.open(path, read_only=True)
    except FileNotFoundError as error:
        raise Corrupt(f"{path} is missing", file=str(path), offset=0, bytes=seal.size) from error
    with closing(file):
        check_open_file(file, seal, depth)


def check_open_file(file: File, seal: Seal, depth: Depth) -> None:
    size = file.size()
    if size != seal.size:
        how = "cut short or half written" if size < seal.size else "longer than it was written"
        raise _damaged(file, seal, f"is {how}: {size:,} bytes instead of {seal.size:,}")
    if depth == "size":
        return
    crc, sha, at = 0, hashlib.sha256(), 0
    while at < size:
        piece = file.pread(_PIECE_BYTES, at)
        if not piece:
            raise _damaged(file, seal, f"ends at {at:,} of {size:,} bytes while it is read")
        at += len(piece)
        crc = crc32c(piece, crc)
        if depth == "sha":
            sha.update(piece)
    if crc != seal.crc32c or (depth == "sha" and sha.hexdigest() != seal.sha256):
        raise _damaged(file, seal, "is not what was written: its digest differs")


def _damaged(file: File, seal: Seal, how: str) -> Corrupt:
    return Corrupt(
        f"{file.path} {how}; it is rebuilt from the log",
        file=str(file.path),
        offset=0,
        bytes=seal.size,
    )
