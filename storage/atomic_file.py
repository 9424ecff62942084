"""Small files that are replaced as a whole: after a crash the old or the new content is there,
never a mix.

The new content goes to a temporary beside the target, is synced, renamed over the target, and the
directory is synced. A temporary left by a crash is replaced by the next write; readers never look
at it. One writer per path (the holder of the directory's lock), any number of readers.

``write_checked`` adds a last line ``crc32c xxxxxxxx`` over everything before it, and
``read_checked`` insists on it: such a file stays readable for a person, and a flipped bit in it is
noticed.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import crc32c

from neverforget.storage.errors import Corrupt, NotFound
from neverforget.storage.filesystem import Buffer, FileSystem

TEMPORARY_SUFFIX = ".tmp"
_LABEL = b"crc32c "
_LAST_LINE_BYTES = len(_LABEL) + 8 + 1


def write_atomic(fs: FileSystem, path: Path, data: Buffer) -> None:
    """Replace ``path`` by ``data``. When this returns the new content survives power loss; when it
    raises, the old content does. OutOfSpace when there is no room, OSError for every other fault.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    if fs.exists(temporary):
        fs.unlink(temporary)
    try:
        file = fs.open(temporary, create=True)
        try:
            if len(data):
                file.allocate(len(data))  # so that a full disk shows here, as OutOfSpace
                file.pwrite([data], 0)
            file.fdatasync()
        finally:
            file.close()
        fs.rename(temporary, path)
    except OSError:
        # The first error is the one to report; what is left of the temporary is replaced by the
        # next write.
        with suppress(OSError):
            fs.unlink(temporary)
        raise
    fs.sync_directory(path.parent)


def read_whole(fs: FileSystem, path: Path) -> bytes:
    """All bytes of ``path``; NotFound when it is not there."""
    try:
        file = fs.open(path, read_only=True)
    except FileNotFoundError as error:
        raise NotFound(f"{path} is not there") from error
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()


def write_checked(fs: FileSystem, path: Path, content: bytes) -> None:
    """``write_atomic`` of ``content`` with its checksum as the last line. ``content`` ends with a
    newline.
    """
    assert content.endswith(b"\n"), "a checked file is made of lines"
    write_atomic(fs, path, content + _last_line(content))


def read_checked(fs: FileSystem, path: Path) -> bytes:
    """The content that ``write_checked`` wrote. NotFound when missing, Corrupt when a bit of it is
    not as written.
    """
    whole = read_whole(fs, path)
    content, last_line = whole[:-_LAST_LINE_BYTES], whole[-_LAST_LINE_BYTES:]
    if not content or last_line != _last_line(content):
        raise Corrupt(
            f"{path} fails its checksum; put back the copy of a backup",
            file=str(path),
            offset=0,
            bytes=len(whole),
        )
    return content


def _last_line(content: bytes) -> bytes:
    return b"%s%08x\n" % (_LABEL, crc32c.crc32c(content))
