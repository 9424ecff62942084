"""What a scan of the log means: what is accepted, what is torn, what is corrupt. Pure.

The durable mark is the highest position that any valid record, sealed segment or side file proves
to have been synced. Invalid beyond it: a torn tail, also when valid records follow (a group reaches
the disk in any order). Invalid before it: corruption."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from neverforget.storage.format import RecordFlag
from neverforget.storage.scan import claims
from neverforget.storage.segment import SEGMENT_HEADER_BYTES, Segment
from neverforget.storage.side_file import SideFile

Array = np.ndarray[Any, np.dtype[Any]]
Range = tuple[int, int]


@dataclass(slots=True)
class Part:
    """A segment under recovery: what its side file and the scan of the rest say, in log
    positions."""

    segment: Segment
    cut: bool  # the file was shorter than it should be
    heads: Array
    positions: Array
    body_ok: Array
    gaps: list[Range]
    data_end: int
    garbage_end: int
    side_file: SideFile | None
    stop_claimed: int = 0  # data reached at least here, somebody says


@dataclass(slots=True)
class Judgement:
    mark: int
    tail: int
    active: int  # which part appends continue in
    corrupt: list[Range]


def judge(parts: list[Part]) -> Judgement:
    """Pure: where the durable mark lies, what is corrupt before it and where the accepted log
    ends."""
    in_use = [i for i, p in enumerate(parts) if len(p.positions) or p.stop_claimed > p.data_end]
    last = in_use[-1] if in_use else 0
    mark = _durable_mark(parts)
    corrupt: list[Range] = []
    tail: int | None = None
    for index, part in enumerate(parts[: last + 1]):
        bad = [*part.gaps, *((int(p), int(p)) for p in part.positions[~part.body_ok] if p >= mark)]
        end = part.garbage_end if index == last else _end_of_sealed(part)
        end = max(end, part.stop_claimed)
        if end > part.data_end:
            bad.append((part.data_end, end))
        for start, stop in sorted(bad):
            if start < mark:
                corrupt.append((start, min(stop, mark)))
            if stop > mark or start >= mark:
                assert index == last, "a later segment with records proves this one durable"
                tail = max(start, mark)
                break
    if tail is None:
        tail = max(parts[last].data_end, parts[last].stop_claimed)
    return Judgement(mark, _without_half_a_batch(parts[last], mark, tail), last, corrupt)


def _end_of_sealed(part: Part) -> int:
    """Where the data of a segment ended that has a successor. Nobody can know better than what was
    claimed."""
    if part.cut:
        return part.segment.end
    return part.stop_claimed or part.garbage_end


def _durable_mark(parts: list[Part]) -> int:
    mark = parts[0].segment.base + SEGMENT_HEADER_BYTES
    for index, part in enumerate(parts):
        mark = max(mark, part.stop_claimed)  # by its side file; what records claim comes below
        if not len(part.positions):
            continue
        # Nothing is written to a segment before the one in front of it is synced as a whole.
        mark = max(mark, part.segment.base + SEGMENT_HEADER_BYTES)
        says = claims(part.heads, part.positions)
        mark = max(mark, int(says.max()))
        for claim in np.unique(says[(says > 0) & (says < part.segment.base)]).tolist():
            for earlier in parts[:index]:
                if earlier.segment.base < claim <= earlier.segment.end:
                    earlier.stop_claimed = max(earlier.stop_claimed, claim)
    return mark


def _without_half_a_batch(part: Part, mark: int, tail: int) -> int:
    """A batch beyond the mark without its last record is torn as a whole."""
    at = int(np.searchsorted(part.positions, np.uint64(tail))) - 1
    if at < 0 or part.positions[at] < mark or not part.heads["flags"][at] & RecordFlag.BATCH_MORE:
        return tail
    while part.positions[at] > mark and not part.heads["flags"][at] & RecordFlag.BATCH_FIRST:
        at -= 1
    return max(int(part.positions[at]), mark)
