"""Reading a segment with every CRC checked: for ``verify``, and for the side file of a sealed
segment."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator
from pathlib import Path

import numpy as np

from neverforget.storage.errors import Corrupt
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.format import HEADER, HEADER_BYTES
from neverforget.storage.record import log_seed
from neverforget.storage.results import Finding
from neverforget.storage.scan import Scan, gather_heads, scan
from neverforget.storage.segment import (
    SEGMENT_HEADER_BYTES,
    Segment,
    decode_segment_header,
    read_whole_by_pread,
)
from neverforget.storage.side_file import SideFile, encode_side_file, load_side_file, side_path


def build_side_file(segment: Segment, stop: int, log_id: int, *, gently: bool) -> bytes:
    """The side file over [base, stop) from what stands in the segment. ``gently``: beside a busy
    thread. Corrupt when the disk cannot read all of it: a side file outlives the error, and would
    make the loss permanent."""
    base = segment.base
    view, unreadable = segment.whole(SEGMENT_HEADER_BYTES)
    if unreadable:
        raise Corrupt(
            f"{segment.path} cannot be read in {len(unreadable)} places; no side file is made",
            file=str(segment.path),
            offset=unreadable[0][0],
            bytes=sum(n_bytes for _, n_bytes in unreadable),
        )
    view = view[: stop - base]
    found = scan(
        view,
        base=base,
        start=SEGMENT_HEADER_BYTES,
        size=segment.size,
        seed=log_seed(log_id),
        pause=_let_others_run if gently else None,
    )
    offsets = np.array(found.offsets, dtype=np.int64)
    gaps = [(base + a, base + b) for a, b in found.gaps]
    if base + found.data_end < stop:
        gaps.append((base + found.data_end, stop))
    return encode_side_file(
        log_id=log_id,
        base=base,
        size=segment.size,
        stop=stop,
        heads=gather_heads(view, offsets),
        positions=offsets.astype(np.uint64) + np.uint64(base),
        body_ok=~np.isin(offsets, found.bad_bodies),
        gaps=gaps,
    )


def _let_others_run() -> None:
    """Give up the interpreter: the owner's loop would otherwise wait 5 ms for it, at each of its
    turns."""
    time.sleep(0)


def verify_segment(
    fs: FileSystem,
    path: Path,
    *,
    base: int,
    size: int,
    stop: int | None,
    log_id: int,
    erased: Container[int],
) -> Iterator[Finding]:
    """Everything wrong in one segment, read by pread past the map. ``stop``: look no further than
    this position (it is the active segment); None: to its end. Bad bodies at positions in
    ``erased`` must be zero, and are fine then."""
    name = path.name
    try:
        file = fs.open(path, read_only=True)
    except OSError as error:
        yield Finding("missing_segment", "error", name, 0, size, f"cannot be opened: {error}")
        return
    try:
        length = min(size, file.size())
        end = length if stop is None else min(length, stop - base)
        if length < size:
            message = f"the file ends at byte {length:,} of {size:,}"
            yield Finding("short_segment", "error", name, length, size - length, message)
        view, unreadable = read_whole_by_pread(file, 0, max(end, min(length, SEGMENT_HEADER_BYTES)))
    finally:
        file.close()
    for offset, n_bytes in unreadable:
        yield Finding(
            "read_error", "error", name, offset, n_bytes, "the disk cannot read this range"
        )
    header = decode_segment_header(bytes(view[:SEGMENT_HEADER_BYTES]), path)
    if header is None or (header.log_id, header.base, header.size) != (log_id, base, size):
        yield Finding(
            "corrupt_header", "error", name, 0, SEGMENT_HEADER_BYTES, "the segment's header is bad"
        )
    found = scan(
        view[:end],
        base=base,
        start=SEGMENT_HEADER_BYTES,
        size=size,
        seed=log_seed(log_id),
        pause=_let_others_run,
    )
    yield from _records(view, found, base, name, erased)
    side, problem = _side_file(fs, path.parent, base, log_id)
    if problem is not None:
        yield Finding("bad_side_file", "repaired", side_path(path.parent, base).name, 0, 0, problem)
    known_stop = (
        end if stop is not None else (side.stop - base if side is not None else found.garbage_end)
    )
    if found.data_end < known_stop:
        yield _lost(name, found.data_end, known_stop)
    if found.garbage_end > max(found.data_end, known_stop):
        message = "bytes that are not zero stand behind the last record; no record is touched"
        yield Finding(
            "corrupt_padding",
            "repaired",
            name,
            found.data_end,
            found.garbage_end - found.data_end,
            message,
        )
    if side is not None:
        # By now it may cover more than was durable when this began.
        expected = side.positions[side.positions < base + end].astype(np.int64) - base
        seen = np.array(found.offsets, dtype=np.int64)
        if not np.array_equal(expected, seen[: len(expected)]):
            name = side.path.name
            yield Finding("bad_side_file", "repaired", name, 0, 0, "does not fit its segment")
        side.close()


def _records(
    view: memoryview, found: Scan, base: int, name: str, erased: Container[int]
) -> Iterator[Finding]:
    for start, stop in found.gaps:
        yield _lost(name, start, stop)
    for offset in found.bad_bodies:
        length = HEADER.unpack_from(view, offset)[7]
        body = view[offset + HEADER_BYTES : offset + HEADER_BYTES + length]
        if base + offset not in erased:
            message = f"the body of the record at position {base + offset} fails its CRC"
            yield Finding("corrupt_body", "error", name, offset, length, message)
        elif np.frombuffer(body, dtype=np.uint8).any():
            message = f"the record at position {base + offset} was to be erased and is not"
            yield Finding("unfinished_erasure", "error", name, offset, length, message)
    for offset in found.bad_padding:
        message = "the padding behind this record is not zero; the record itself is intact"
        yield Finding("corrupt_padding", "repaired", name, offset, 0, message)


def _lost(name: str, start: int, stop: int) -> Finding:
    return Finding(
        "corrupt_header", "error", name, start, stop - start, "records in this range are lost"
    )


def _side_file(
    fs: FileSystem, directory: Path, base: int, log_id: int
) -> tuple[SideFile | None, str | None]:
    path = side_path(directory, base)
    if not fs.exists(path):
        return None, None
    try:
        return load_side_file(fs, path, log_id), None
    except (Corrupt, OSError) as error:
        return None, str(error)
