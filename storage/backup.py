"""A consistent copy of what is durable: a directory that opens as this region.

Segments are copied up to the durable mark, then the side files, the epoch, what recovery set aside,
and the identity last: what has no identity is no finished copy. Locks are not copied. May run
beside the owner's thread; an erasure that falls into the copying makes it begin again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from neverforget.storage.epoch import EPOCH_FILE
from neverforget.storage.errors import Conflict, InvalidArgument
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.identity import IDENTITY_FILE
from neverforget.storage.log import SegmentInfo
from neverforget.storage.log_state import LogState
from neverforget.storage.segment import SEGMENT_HEADER_BYTES, write_zeros
from neverforget.storage.set_aside import QUARANTINE_DIRECTORY, TORN_DIRECTORY
from neverforget.storage.side_file import side_path

LOG_DIRECTORY = "log"
_PIECE_BYTES = 1 << 20
_ATTEMPTS = 5


def back_up(state: LogState, target: Path, before_each: Callable[[], None]) -> tuple[int, int]:
    """(bytes copied, durable mark of the copy). ``target`` must be new or empty. ``before_each``
    segment is called, and may end it all by raising; what is there then has no identity.

    Durable when it returns. Raises InvalidArgument, OutOfSpace, OSError, Conflict.
    """
    fs = state.fs
    if fs.exists(target) and fs.list_directory(target):
        raise InvalidArgument(f"{target} is not empty; back up into a new directory")
    fs.make_directory(target)
    for _ in range(_ATTEMPTS):
        erasures = state.erasures
        durable = state.log.durable
        copied = _copy(state, target, durable, before_each)
        if state.erasures == erasures:
            copied += _copy_file(fs, state.directory / IDENTITY_FILE, target / IDENTITY_FILE)
            fs.sync_directory(target)
            fs.sync_directory(target.parent)
            return copied, durable
        _remove(fs, target)
    raise Conflict("erasures kept changing what was to be copied; back up again later", seq=None)


def _copy(state: LogState, target: Path, durable: int, before_each: Callable[[], None]) -> int:
    fs, source = state.fs, state.directory
    log = target / LOG_DIRECTORY
    fs.make_directory(log)
    copied = 0
    for at, segment in enumerate(state.log.segments()):
        before_each()
        stop = min(durable, segment.base + segment.size)
        if at and stop <= segment.base + SEGMENT_HEADER_BYTES:
            break  # nothing in it is durable yet
        copied += _copy_segment(fs, segment, log / segment.path.name, stop - segment.base)
        side = side_path(segment.path.parent, segment.base)
        if segment.sealed and fs.exists(side):
            copied += _copy_file(fs, side, log / side.name)
    fs.sync_directory(log)
    for name in (TORN_DIRECTORY, QUARANTINE_DIRECTORY):
        if not fs.exists(source / name):
            continue
        fs.make_directory(target / name)
        for file_name in fs.list_directory(source / name):
            if not file_name.endswith(".tmp"):
                copied += _copy_file(fs, source / name / file_name, target / name / file_name)
        fs.sync_directory(target / name)
    return copied + _copy_file(fs, source / EPOCH_FILE, target / EPOCH_FILE)


def _copy_segment(fs: FileSystem, segment: SegmentInfo, target: Path, n_bytes: int) -> int:
    """The first ``n_bytes`` of a segment; the rest reads as zero, as it does in a new one."""
    return _copy_file(fs, segment.path, target, max(n_bytes, SEGMENT_HEADER_BYTES), segment.size)


def _copy_file(
    fs: FileSystem, source: Path, target: Path, n_bytes: int | None = None, size: int = 0
) -> int:
    reader = fs.open(source, read_only=True)
    try:
        wanted = reader.size() if n_bytes is None else n_bytes
        writer = fs.open(target, create=True)
        try:
            writer.allocate(max(size, wanted))
            at = 0
            while at < wanted:
                piece = reader.pread(min(_PIECE_BYTES, wanted - at), at)
                if not piece:
                    break  # the source is cut short: the copy has zeros there, as a reader sees it
                writer.pwrite([piece], at)
                at += len(piece)
            write_zeros(writer, at, max(size, wanted))
            writer.fdatasync()
        finally:
            writer.close()
    finally:
        reader.close()
    return wanted


def _remove(fs: FileSystem, target: Path) -> None:
    """Unlink the files of a copy that has to begin again; the directories stay."""
    for folder in (LOG_DIRECTORY, TORN_DIRECTORY, QUARANTINE_DIRECTORY):
        if fs.exists(target / folder):
            for name in fs.list_directory(target / folder):
                fs.unlink(target / folder / name)
    if fs.exists(target / EPOCH_FILE):
        fs.unlink(target / EPOCH_FILE)
