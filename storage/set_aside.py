"""The copies of log bytes that recovery set aside, and erasing in them.

``torn/``: bytes beyond the durable mark that were cut off; their positions were given to other
records since. ``quarantine/``: bytes before it that are corrupt; the log still has them at the same
positions. ``aside/``: sound records, where an owner found others in the objects at their positions;
they wait to be salvaged. All are named by the positions they were copied from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from neverforget.storage.filesystem import FileSystem
from neverforget.storage.format import HEADER_BYTES
from neverforget.storage.record import Header, read_header
from neverforget.storage.scan import scan

TORN_DIRECTORY = "torn"
QUARANTINE_DIRECTORY = "quarantine"
ASIDE_DIRECTORY = "aside"

_NAME = re.compile(r"([0-9a-f]{16})-[0-9a-f]{16}.*")

Range = tuple[int, int]  # position, length


def erase_copies(
    fs: FileSystem,
    directory: Path,
    seed: int,
    doomed_by: Callable[[Header], bool],
    ranges: Iterable[Sequence[int]],
    doomed_aside: Callable[[Header], bool] | None = None,
) -> None:
    """Zero the bodies of the records that ``doomed_by`` picks in every copy, whatever of a torn
    copy, or one set aside, belongs to no record that can be told, and the log ``ranges`` in
    quarantined ones. Durable when it returns. ``doomed_aside``: which of those that were set aside,
    whose seqs are others than the log's.
    """
    for name in (TORN_DIRECTORY, QUARANTINE_DIRECTORY, ASIDE_DIRECTORY):
        folder = directory / name
        if not fs.exists(folder):
            continue
        for file_name in fs.list_directory(folder):
            named = _NAME.fullmatch(file_name)
            if named is None:
                continue
            base = int(named[1], 16)
            file = fs.open(folder / file_name)
            try:
                raw = file.pread(file.size(), 0)
                here = doomed_aside if name == ASIDE_DIRECTORY else None
                doomed = list(_records_of(raw, base, seed, here or doomed_by))
                if name == QUARANTINE_DIRECTORY:
                    doomed += _overlaps(ranges, base, len(raw))
                else:
                    doomed += _unattributed(raw, base, seed)
                for offset, length in doomed:
                    file.pwrite([bytes(length)], offset)
                if doomed:
                    file.fdatasync()
            finally:
                file.close()


def _records_of(
    raw: bytes, base: int, seed: int, doomed_by: Callable[[Header], bool]
) -> Iterator[Range]:
    found = scan(memoryview(raw), base=base, start=0, size=len(raw), seed=seed)
    for offset in found.offsets:
        header = read_header(raw, offset)
        if doomed_by(header):
            body_at = offset + HEADER_BYTES
            yield body_at, min(header.body_length, len(raw) - body_at)


def _unattributed(raw: bytes, base: int, seed: int) -> list[Range]:
    """What no sound header accounts for: nobody can tell whose text it is."""
    found = scan(memoryview(raw), base=base, start=0, size=len(raw), seed=seed)
    parts = [*found.gaps, (found.data_end, len(raw))]
    return [(start, stop - start) for start, stop in parts if start < stop]


def _overlaps(ranges: Iterable[Sequence[int]], base: int, length: int) -> Iterator[Range]:
    for position, n_bytes in ranges:
        start, stop = max(position, base), min(position + n_bytes, base + length)
        if start < stop:
            yield start - base, stop - start
