"""How far a log is known to be shipped, kept beside it so that the next start has less to look at.

    <region>/SHIPPED      {place, position, number, term, version}: below ``position`` the log holds
                          what the objects up to ``number`` hold; ``place`` is 32 random bits, drawn
                          when the file is made, by which objects tell one directory from another;
                          ``term``: the last one in which an owner here had caught up

It may lag behind, as it is replaced once in a while; it never runs ahead: a pair is written after
it was true, and what it says of this log stays true. Where it was lost the directory is another
place, and its owner serves only when told to.
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


class Mark(msgspec.Struct, frozen=True):
    place: int
    position: int = 0
    number: int = 0
    term: int = 0
    version: int = _VERSION

    def local_log(self, tail: int, *, expects: bool, takes_over: bool) -> LocalLog:
        """What a start begins with; see there. ``tail``: where the recovered log ends, 0 without a
        record. ``expects``: by what the opener knows; a mark that names an object expects it too.
        """
        expects = expects or self.number > 0
        return LocalLog(tail, self.position, self.number, expects, takes_over)


def write_mark(fs: FileSystem, directory: Path, mark: Mark) -> None:
    """Durable when it returns. Raises OutOfSpace, OSError."""
    write_checked(fs, directory / SHIPPED_FILE, msgspec.json.encode(mark) + b"\n")


def read_mark(fs: FileSystem, directory: Path, random_place: int) -> Mark:
    """The mark; where it is missing or damaged a new one, of ``random_place``, written before this
    returns. Raises UnsupportedFormat, OutOfSpace, OSError.
    """
    mark = marked(fs, directory)
    if mark is None:
        mark = Mark(random_place)
        write_mark(fs, directory, mark)
    return mark


def marked_term(fs: FileSystem, directory: Path) -> int:
    """The last term in which this log held all that counted; 0 where none is known."""
    mark = marked(fs, directory)
    return 0 if mark is None else mark.term


def marked(fs: FileSystem, directory: Path) -> Mark | None:
    """None: it is missing, or damaged."""
    path = directory / SHIPPED_FILE
    try:
        return read_versioned(fs, path, Mark, _VERSION, "does not say what was shipped")
    except (NotFound, Corrupt):
        return None
