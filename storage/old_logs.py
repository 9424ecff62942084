"""Where the end of an old log lies: in the segments of a directory that nobody owns, or in files
that were set aside when this directory's log was cut (``shipping_local``).
"""

from __future__ import annotations

import re
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from neverforget.storage.filesystem import FileSystem
from neverforget.storage.salvage_reading import Part
from neverforget.storage.segment import SEGMENT_HEADER_BYTES, base_of, segment_path
from neverforget.storage.set_aside import ASIDE_DIRECTORY

_ASIDE = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{8})\.aside")


class Aside(NamedTuple):
    """What one cut set aside. ``parting``: up to there the log stayed as it was."""

    parting: int
    paths: list[Path]
    parts: list[Part]


def asides(fs: FileSystem, directory: Path) -> list[Aside]:
    """Of the region in ``directory``, the oldest cut first."""
    folder = directory / ASIDE_DIRECTORY
    if not fs.exists(folder):
        return []
    by_epoch: dict[int, list[tuple[int, int, Path]]] = {}
    for name in fs.list_directory(folder):
        if (named := _ASIDE.fullmatch(name)) is not None:
            first, stop, epoch = (int(part, 16) for part in named.groups())
            by_epoch.setdefault(epoch, []).append((first, stop, folder / name))
    found = []
    for _, files in sorted(by_epoch.items()):
        files.sort()
        parts = [Part(partial(_read, fs, path, first), first, stop) for first, stop, path in files]
        found.append(Aside(files[0][0], [path for _, _, path in files], parts))
    return found


def let_go(fs: FileSystem, aside: Aside) -> None:
    """Nothing of it is needed any more; durable when this returns. May be repeated."""
    for path in aside.paths:
        if fs.exists(path):
            fs.unlink(path)
    fs.sync_directory(aside.paths[0].parent)


def parts_of_log(fs: FileSystem, log: Path, since: int) -> list[Part]:
    """What stands in the segments in ``log`` from position ``since`` on."""
    parts = []
    for base in sorted(b for name in fs.list_directory(log) if (b := base_of(name)) is not None):
        path = segment_path(log, base)
        with closing(fs.open(path, read_only=True)) as file:
            stop = base + file.size()
        first = max(since, base + SEGMENT_HEADER_BYTES)
        if first < stop:
            parts.append(Part(partial(_read, fs, path, base), first, stop))
    return parts


def _read(fs: FileSystem, path: Path, base: int, position: int, size: int) -> bytes:
    with closing(fs.open(path, read_only=True)) as file:
        return file.pread(size, position - base)
