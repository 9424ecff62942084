"""A segment: one preallocated file of the log, ``{base:016x}.seg``.

Position is the address in the log: a segment with base B and size S covers [B, B+S), its first
record stands at B+64, the next segment's base is B+S. A segment appears complete or not at all
(temporary, allocated, header, synced, renamed, directory synced), so a short file or a bad header
is damage, never a crash. Bytes: ``FORMAT.md``."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Literal, NamedTuple

from crc32c import crc32c

from neverforget.storage.errors import Corrupt, OutOfSpace, UnsupportedFormat
from neverforget.storage.filesystem import File, FileSystem

ReadBy = Literal["map", "pread"]

SEGMENT_MAGIC = 0x4753464E  # "NFSG" in the file
SEGMENT_VERSION = 1
SEGMENT_HEADER_BYTES = 64
SEGMENT_SUFFIX = ".seg"
TEMPORARY_SUFFIX = ".seg.tmp"
PAGE_BYTES = 4096
_ZEROS_BYTES = 1 << 20
_ZEROS = bytes(_ZEROS_BYTES)
_READ_BYTES = 1 << 20

# magic version | log_id | base | size | epoch of its maker | 24 zero bytes | CRC32C of the first 60
_HEADER = Struct("<IIQQQI24xI")
assert _HEADER.size == SEGMENT_HEADER_BYTES


class SegmentHeader(NamedTuple):
    log_id: int
    base: int
    size: int
    epoch: int


def segment_path(directory: Path, base: int) -> Path:
    return directory / f"{base:016x}{SEGMENT_SUFFIX}"


def base_of(name: str) -> int | None:
    """The base that a file name says, or None when it is not a segment's name."""
    stem = name.removesuffix(SEGMENT_SUFFIX)
    if stem == name or len(stem) != 16:
        return None
    with suppress(ValueError):
        return int(stem, 16)
    return None


def whole_pages(n_bytes: int) -> int:
    return -(-n_bytes // PAGE_BYTES) * PAGE_BYTES


def encode_segment_header(header: SegmentHeader) -> bytes:
    made = _HEADER.pack(SEGMENT_MAGIC, SEGMENT_VERSION, *header, 0)
    return made[:60] + crc32c(made[:60]).to_bytes(4, "little")


def decode_segment_header(data: bytes, path: Path) -> SegmentHeader | None:
    """None when the bytes are damaged. UnsupportedFormat when they are sound and of a newer
    version."""
    if len(data) < SEGMENT_HEADER_BYTES or crc32c(data[:60]).to_bytes(4, "little") != data[60:64]:
        return None
    magic, version, log_id, base, size, epoch, _ = _HEADER.unpack(data[:64])
    if magic != SEGMENT_MAGIC:
        return None
    if version != SEGMENT_VERSION:
        raise UnsupportedFormat(
            f"{path} is a segment of version {version}; this neverforget reads "
            f"{SEGMENT_VERSION}: install a newer one"
        )
    return SegmentHeader(log_id, base, size, epoch)


class Segment:
    """An open segment. ``length`` is what the file really holds: less than ``size`` only when it
    was damaged."""

    __slots__ = ("base", "end", "file", "length", "path", "read_by", "size", "view")

    def __init__(self, file: File, base: int, size: int, read_by: ReadBy) -> None:
        self.file = file
        self.path = file.path
        self.base = base
        self.size = size
        self.end = base + size
        self.read_by: ReadBy = read_by
        self.length = min(size, file.size())
        self.view: memoryview | None = None
        if read_by == "map" and self.length:
            self.view = file.map()[: self.length]

    def slice(self, offset: int, n_bytes: int) -> memoryview:
        """``n_bytes`` at ``offset``, fewer where the file ends. A media error is Corrupt (by
        pread), SIGBUS (by map)."""
        if self.view is not None:
            return self.view[offset : offset + n_bytes]
        try:
            return memoryview(self.file.pread(min(n_bytes, max(0, self.length - offset)), offset))
        except OSError as error:
            raise Corrupt(
                f"{self.path} cannot be read at {offset}: {error}; the disk is failing, "
                "restore it from a copy",
                file=str(self.path),
                offset=offset,
                bytes=n_bytes,
            ) from error

    def whole(
        self, start: int, stop: int | None = None
    ) -> tuple[memoryview, list[tuple[int, int]]]:
        """The file from its first byte, of which only [``start``, ``stop``) is to be looked at, and
        the (offset, bytes) that the disk could not read, which read as zero. ``stop`` None: to the
        end."""
        if self.view is not None:
            return self.view, []
        stop = self.length if stop is None else min(stop, self.length)
        return read_whole_by_pread(self.file, start, stop)

    def copy(self, start: int, stop: int) -> bytes:
        """[start, stop) as it is now. A media error is an OSError (by pread), SIGBUS (by map)."""
        if self.view is not None:
            return bytes(self.view[start:stop])
        return self.file.pread(min(stop, self.length) - start, start)

    def retire(self) -> None:
        """Nothing is appended any more. A mapped segment then needs no descriptor of its own: the
        map has one, and there may be thousands of segments."""
        if self.view is not None:
            self.file.close()

    def close(self) -> None:
        """Views handed out stay valid; the map goes with the last of them."""
        self.view = None
        self.file.close()


def read_whole_by_pread(
    file: File, start: int, stop: int
) -> tuple[memoryview, list[tuple[int, int]]]:
    """[start, stop) of a file in a buffer that begins at 0; media errors are narrowed down to
    pages."""
    buffer = memoryview(bytearray(stop))
    unreadable: list[tuple[int, int]] = []
    for at in range(start, stop, _READ_BYTES):
        size = min(_READ_BYTES, stop - at)
        try:
            buffer[at : at + size] = file.pread(size, at)
            continue
        except OSError:
            pass  # one page of this piece is bad: find out which, the rest is good
        page = at
        while page < at + size:
            n_bytes = min(PAGE_BYTES - page % PAGE_BYTES, at + size - page)
            try:
                buffer[page : page + n_bytes] = file.pread(n_bytes, page)
            except OSError:
                unreadable.append((page, n_bytes))
            page += n_bytes
    return buffer, unreadable


def write_zeros(file: File, start: int, stop: int) -> None:
    """Make [start, stop) of a file zeros that are on the disk.

    A segment's space must have been *written*, not only allocated: the journal turns an extent that
    never was into a written one, and when its commit fails, one of two syncs that wait for it may
    be told that all is well (ext4; seen: acknowledged turns were zero after the boot). Storage
    thinner than its file system believes runs out here too, before anything is in the segment.
    Synced in steps, so that an append beside it waits for one of them at most."""
    for at in range(start, stop, _ZEROS_BYTES):
        file.pwrite([_ZEROS[: stop - at]], at)
        file.fdatasync()


def create_segment(
    fs: FileSystem,
    directory: Path,
    header: SegmentHeader,
    read_by: ReadBy,
    *,
    replace_spare: bool = False,
) -> Segment:
    """Make a segment and open it. When this returns, the empty segment survives power loss.

    Raises OutOfSpace, and leaves nothing behind, when there is no room; FileExistsError when there
    is a file of that name, which may hold acknowledged records. ``replace_spare``: the caller knows
    it for an empty spare, which gives way."""
    path = segment_path(directory, header.base)
    if not replace_spare and fs.exists(path):
        raise FileExistsError(errno.EEXIST, "a segment of that name is in use", str(path))
    temporary = path.with_suffix(TEMPORARY_SUFFIX)
    if fs.exists(temporary):
        fs.unlink(temporary)
    try:
        file = fs.open(temporary, create=True)
        try:
            file.allocate(header.size)
            write_zeros(file, 0, header.size)
            file.pwrite([encode_segment_header(header)], 0)
            file.fdatasync()
        finally:
            file.close()
        fs.rename(temporary, path)
        fs.sync_directory(directory)
    except OSError as error:
        with suppress(OSError):
            fs.unlink(temporary)
        if error.errno in (errno.ENOSPC, errno.EDQUOT) and not isinstance(error, OutOfSpace):
            raise OutOfSpace(
                f"no room for a segment of {header.size:,} bytes in {directory}; "
                "free disk space and append again"
            ) from error
        raise
    return Segment(fs.open(path), header.base, header.size, read_by)
