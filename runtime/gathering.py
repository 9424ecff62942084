"""The copy of a deployed store, gathered from its nodes into one directory here.

Each owner tells what its copy is made of, and gives it piece by piece: a few MiB are in memory at a
time, whatever the store holds. A piece has a checksum, and what was written is read back before a
region is called complete. Whatever an erasure changed meanwhile is copied again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec
from crc32c import crc32c

from neverforget.actors.backup_messages import ListCopy, ListCopyReply, ReadCopy, ReadCopyReply
from neverforget.runtime.operation import LONGTERM, Call, Context, Operation
from neverforget.storage.copy_list import CopyFile
from neverforget.storage.embedder_file import (
    EMBEDDER_FILE,
    FIRST_FOLDER,
    read_embedder,
    write_embedder,
)
from neverforget.storage.errors import Conflict, Corrupt
from neverforget.storage.filesystem import FileSystem, LocalFileSystem
from neverforget.storage.segment import write_zeros

Progress = Callable[[int, int], None]
PIECE_BYTES = 4 << 20
_ATTEMPTS = 5


class Copied(NamedTuple):
    bytes: int
    durable: int


def gather(
    context: Context, regions: Path, longterm: Path, progress: Progress | None
) -> Operation[list[Copied]]:
    """Copy every region: of the partitions below ``regions``, of the memories to ``longterm``, in
    this order. Durable when it returns. Raises Unavailable, Corrupt, Conflict, OSError.
    """
    found: list[Copied] = []
    owners = context.owners
    for done, owner in enumerate(owners, 1):
        target = longterm if owner == LONGTERM else regions / f"p{owner}"
        found.append((yield from _region(owner, target)))
        if progress is not None:
            progress(done, len(owners))
    return found


def _region(owner: int, target: Path) -> Operation[Copied]:
    fs = LocalFileSystem()
    for _ in range(_ATTEMPTS):
        first: ListCopyReply = yield Call(owner, ListCopy(0), math.inf)
        copied = 0
        *files, identity = first.copy.files
        for file in files:
            yield from _file(fs, owner, target, file)
            copied += file.bytes
        again: ListCopyReply = yield Call(owner, ListCopy(0), math.inf)
        if again.copy.stamp != first.copy.stamp:
            continue  # written over, file by file
        if (target / EMBEDDER_FILE).exists():  # what is derived, the copy derives anew
            held = read_embedder(fs, target)
            write_embedder(fs, target, msgspec.structs.replace(held, folder=FIRST_FOLDER))
        yield from _file(fs, owner, target, identity)
        for folder in (*{(target / file.name).parent for file in files}, target, target.parent):
            fs.sync_directory(folder)
        return Copied(copied + identity.bytes, first.copy.durable)
    raise Conflict("erasures kept changing what was to be copied; back up again later", seq=None)


def _file(fs: FileSystem, owner: int, target: Path, file: CopyFile) -> Operation[None]:
    path = target / file.name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    size, crc, at = max(file.size, file.bytes), 0, 0
    with closing(fs.open(path, create=True)) as writer:
        if size:
            writer.allocate(size)
        while at < file.bytes:
            wanted = min(PIECE_BYTES, file.bytes - at)
            piece: ReadCopyReply = yield Call(owner, ReadCopy(0, file.name, at, wanted), math.inf)
            if crc32c(piece.data) != piece.crc:
                raise Corrupt(f"a piece of {path} was changed on its way here; back up again")
            if not piece.data:
                break  # the source is cut short: the copy has zeros there, as a reader sees it
            writer.pwrite([piece.data], at)
            crc = crc32c(piece.data, crc)
            at += len(piece.data)
        write_zeros(writer, at, size)
        writer.fdatasync()
    if _crc_of(fs, path, at) != crc:
        raise Corrupt(f"{path} does not hold what was written; the disk of the backup is failing")


def _crc_of(fs: FileSystem, path: Path, n_bytes: int) -> int:
    crc, at = 0, 0
    with closing(fs.open(path, read_only=True)) as reader:
        while at < n_bytes:
            piece = reader.pread(min(PIECE_BYTES, n_bytes - at), at)
            if not piece:
                break
            crc, at = crc32c(piece, crc), at + len(piece)
    return crc
