"""Which world a region holds after a crash, of those that a model has noted by log position."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

W = TypeVar("W")


def survivor(
    snapshots: Sequence[tuple[int, W]],
    ends: Collection[int],
    observed: Callable[[], Any],
    expected: Callable[[W], Any],
) -> W:
    """A copy of the newest world, as of one of the positions ``ends``, that looks as what is
    observed. Where none does the assertion shows how the newest one differs.
    """
    reached = ([w for at, w in snapshots if at <= end] for end in sorted(ends, reverse=True))
    candidates = [worlds[-1] for worlds in reached if worlds]
    for world in candidates:
        if observed() == expected(world):
            return copy.deepcopy(world)
    assert observed() == expected(candidates[0])
    raise AssertionError("it looked otherwise a moment ago")
