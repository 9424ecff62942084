"""How far a log is known to be shipped, kept beside it so that the next start has less to look at.

    <region>/SHIPPED      {position, number, version}: below ``position`` the log holds what the
                          objects up to ``number`` hold

It may lag behind, as it is replaced once in a while; it never runs ahead: a pair is written after
it was true, and what it says of this log stays true. That it is there at all says that the log was
shipped: its objects must be found.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from neverforget.storage.atomic_file import write_checked
from neverforget.storage.errors import Corrupt, NotFound
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.shipping_start import LocalLog
from neverforget.storage.versioned_file import read_versioned

SHIPPED_FILE = "SHIPPED"
_VERSION = 1


class _Mark(msgspec.Struct, frozen=True):
    position: int
    number: int
    version: int = _VERSION


def write_shipped(fs: FileSystem, directory: Path, position: int, number: int) -> None:
    """Of a ``Shipped`` notice. Durable when it returns. Raises OutOfSpace, OSError."""
    content = msgspec.json.encode(_Mark(position, number)) + b"\n"
    write_checked(fs, directory / SHIPPED_FILE, content)


def local_log(fs: FileSystem, directory: Path, tail: int, *, expects: bool) -> LocalLog:
    """What a start begins with. ``tail``: where the recovered log ends, 0 without a record.
    ``expects``: whoever opens it knows that it was shipped before; so does whoever finds the file.
    A damaged one says no more than that. Raises UnsupportedFormat.
    """
    try:
        mark = read_versioned(
            fs, directory / SHIPPED_FILE, _Mark, _VERSION, "does not say what was shipped"
        )
    except NotFound:
        return LocalLog(tail, expects=expects)
    except Corrupt:
        return LocalLog(tail, expects=True)
    return LocalLog(tail, mark.position, mark.number, expects=True)
