"""Which segments of a log are there: opened, their headers checked, what is missing named.

A crash never leaves a short segment, a bad segment header or a hole between segments, because each
appears complete by a rename: those are damage. A hole or a short file costs what was in it; where
nothing would be left to prove what was there (no segment at all, the last one gone or cut to
nothing) the log refuses to open, since unreadable is not empty."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from neverforget.storage.errors import Corrupt
from neverforget.storage.filesystem import File, FileSystem
from neverforget.storage.results import Finding
from neverforget.storage.segment import (
    SEGMENT_HEADER_BYTES,
    ReadBy,
    Segment,
    SegmentHeader,
    base_of,
    decode_segment_header,
    encode_segment_header,
    segment_path,
    whole_pages,
    write_zeros,
)
from neverforget.storage.side_file import SIDE_SUFFIX


@dataclass(slots=True)
class Inventory:
    """``missing``: [start, stop) positions without a file. ``lengths``: what each file held, by
    base."""

    segments: list[Segment] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    missing: list[tuple[int, int]] = field(default_factory=list)
    lengths: dict[int, int] = field(default_factory=dict)

    def close(self) -> None:
        for segment in self.segments:
            segment.close()


def take_inventory(
    fs: FileSystem, directory: Path, *, log_id: int, read_by: ReadBy, read_only: bool
) -> Inventory:
    """Open every segment in order; bad headers are written again and a cut last file gets its size
    back, unless ``read_only``. Raises Corrupt, UnsupportedFormat, OutOfSpace, OSError; no file
    stays open then."""
    try:
        names = fs.list_directory(directory)
    except FileNotFoundError:
        names = []  # as bad as an empty one, see _bases
    if not read_only:
        for name in names:
            if name.endswith(".tmp"):
                fs.unlink(directory / name)
    bases = _bases(directory, names)
    if not read_only:
        # Whoever made the last of them may have died between its rename and this.
        fs.sync_directory(directory)
    found = Inventory()
    try:
        for index, base in enumerate(bases):
            expected = found.segments[-1].end if found.segments else 0
            if base != expected:
                _note_missing(found, directory, expected, base)
            following = bases[index + 1] if index + 1 < len(bases) else None
            path = segment_path(directory, base)
            file = fs.open(path, read_only=read_only)
            try:
                size = _size(found, file, base, following, log_id, read_only)
                found.lengths[base] = min(size, file.size())
                if file.size() < size and following is None and not read_only:
                    length = file.size()
                    file.allocate(size)
                    write_zeros(file, length, size)
            except BaseException:
                file.close()
                raise
            found.segments.append(Segment(file, base, size, read_by))
    except BaseException:
        found.close()
        raise
    return found


def _bases(directory: Path, names: list[str]) -> list[int]:
    bases = sorted(base for name in names if (base := base_of(name)) is not None)
    if not bases:
        raise Corrupt(
            f"{directory} holds no log segment though a log belongs there; restore it or its disk",
            file=str(directory),
        )
    described = [int(n.removesuffix(SIDE_SUFFIX), 16) for n in names if n.endswith(SIDE_SUFFIX)]
    if described and max(described) > bases[-1]:
        path = segment_path(directory, max(described))
        raise Corrupt(f"{path} is gone, its side file is there; restore it", file=str(path))
    return bases


def _note_missing(found: Inventory, directory: Path, expected: int, base: int) -> None:
    if base < expected:
        path = segment_path(directory, base)
        raise Corrupt(
            f"{path} begins inside the segment before it; a file was renamed", file=str(path)
        )
    found.missing.append((expected, base))
    name, message = f"{expected:016x}.seg", "one or more segments are gone"
    found.findings.append(Finding("missing_segment", "error", name, 0, base - expected, message))


def _size(
    found: Inventory, file: File, base: int, following: int | None, log_id: int, read_only: bool
) -> int:
    """What the segment's header says, or what else tells it when the header is damaged."""
    path, length = file.path, file.size()
    header = decode_segment_header(file.pread(SEGMENT_HEADER_BYTES, 0), path)
    if header is None:
        if length <= SEGMENT_HEADER_BYTES and following is None:
            raise Corrupt(
                f"{path} is cut to {length} bytes, its header is gone; restore it from a copy",
                file=str(path),
                offset=0,
                bytes=SEGMENT_HEADER_BYTES,
            )
        size = following - base if following is not None else whole_pages(length)
        header = SegmentHeader(log_id, base, size, 0)
        found.findings.append(
            Finding(
                "corrupt_header",
                "repaired",
                path.name,
                0,
                SEGMENT_HEADER_BYTES,
                "the segment's header failed its CRC; no record is touched",
            )
        )
        if length > SEGMENT_HEADER_BYTES and not read_only:
            file.pwrite([encode_segment_header(header)], 0)
            file.fdatasync()
    if header.log_id != log_id or header.base != base:
        raise Corrupt(
            f"{path} belongs to another log or place; it was copied or renamed", file=str(path)
        )
    if length < header.size:
        message = f"the file ends at byte {length:,} of {header.size:,}"
        lost = header.size - length
        found.findings.append(Finding("short_segment", "error", path.name, length, lost, message))
    return header.size
