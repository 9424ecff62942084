"""The headers of everything in a log, without reading the bodies that side files answer for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neverforget.storage.log import Log
from neverforget.storage.scan import gather_heads, scan
from neverforget.storage.segment import SEGMENT_HEADER_BYTES

Array = NDArray[Any]


def heads_of(log: Log, seed: int) -> Iterator[tuple[Array, Array]]:
    """(headers, positions) of all that is written and sound, in log order. What lies in a side file
    comes from there, the rest is walked.
    """
    for segment, side in log.segments_with_side_files():
        start = SEGMENT_HEADER_BYTES
        if side is not None:
            yield side.heads, side.positions
            start = side.stop - segment.base
        stop = min(segment.end, log.written) - segment.base
        if stop <= start:
            continue
        view, _ = segment.whole(start)
        found = scan(view[:stop], base=segment.base, start=start, size=segment.size, seed=seed)
        offsets = np.array(found.offsets, np.int64)
        yield gather_heads(view, offsets), offsets.astype(np.uint64) + np.uint64(segment.base)
