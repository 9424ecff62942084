"""The epoch: one number per region that grows with every owner, durable before that owner reads or
writes the log.

It stands twice in its file, each copy in a block of its own, written and synced one after the
other, in place. So a torn write or rot in one copy leaves the other, and taking over needs no free
disk space: a region on a full disk can still be opened and read.
"""

from __future__ import annotations

import struct
from pathlib import Path

import crc32c

from neverforget.storage.errors import Corrupt
from neverforget.storage.filesystem import File, FileSystem

EPOCH_FILE = "EPOCH"
EPOCH_MAX = 0xFFFFFFFF
_COPY_OFFSETS = (0, 4096)
_COPY = struct.Struct("<4sII")  # magic, epoch, CRC32C of both
_MAGIC = b"NFEP"
_FILE_BYTES = 8192


def create_epoch(fs: FileSystem, path: Path) -> None:
    """Make the EPOCH file, with no epoch given out, so that the first owner needs no space either.
    Durable when this returns; one that is there is left alone. OutOfSpace, OSError."""
    if not fs.exists(path):
        file = fs.open(path, create=True)
        try:
            file.allocate(_FILE_BYTES)
            file.fdatasync()
        finally:
            file.close()
    fs.sync_directory(path.parent)


def next_epoch(fs: FileSystem, path: Path, at_least: int = 0) -> int:
    """One more than the stored epoch and than ``at_least``; durable when this returns. ``path`` is
    the EPOCH file, made when it is missing. Corrupt when no copy in it can be read.
    """
    created = not fs.exists(path)
    file = fs.open(path, create=True) if created else fs.open(path)
    try:
        if file.size() < _FILE_BYTES:  # new, or its maker died early
            file.allocate(_FILE_BYTES)
        epoch = max(_stored(file), at_least) + 1
        assert epoch <= EPOCH_MAX, "four thousand million owners"
        payload = _COPY.pack(_MAGIC, epoch, _checksum(epoch))
        for offset in _COPY_OFFSETS:
            file.pwrite([payload], offset)
            file.fdatasync()
    finally:
        file.close()
    # Also when the file was there: its maker may have died before it synced the name.
    fs.sync_directory(path.parent)
    return epoch


def read_epoch(fs: FileSystem, path: Path) -> int:
    """The stored epoch, 0 when there is no file yet. Corrupt when no copy can be read."""
    if not fs.exists(path):
        return 0
    file = fs.open(path, read_only=True)
    try:
        return _stored(file)
    finally:
        file.close()


def _stored(file: File) -> int:
    found: list[int] = []
    blank = True
    for offset in _COPY_OFFSETS:
        raw = file.pread(_COPY.size, offset)
        blank = blank and not any(raw)
        if len(raw) == _COPY.size:
            magic, epoch, checksum = _COPY.unpack(raw)
            if magic == _MAGIC and checksum == _checksum(epoch):
                found.append(epoch)
    if found:
        return max(found)
    if blank:
        return 0  # the first owner died before it wrote: no epoch was ever given out
    raise Corrupt(
        f"{file.path} fails its checksums; put back the copy of a backup",
        file=str(file.path),
        offset=0,
        bytes=_FILE_BYTES,
    )


def _checksum(epoch: int) -> int:
    return crc32c.crc32c(_MAGIC + epoch.to_bytes(4, "little"))
