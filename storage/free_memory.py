"""Giving back to the system what opening a log needed for a moment.

The C library keeps the freed arrays of a large loading (84 MiB for a million turns, where the index
itself takes 17) for an owner that will never need them again.
"""

from __future__ import annotations

import ctypes
import gc
import sys


def give_back_free_memory() -> None:
    """A hint: does nothing where the C library has no such call."""
    if not sys.platform.startswith("linux"):
        return
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return  # another C library
    trim(0)


def hide_from_collector() -> None:
    """What a recovered region holds lives as long as the process: a full collection, 30 ms for
    200,000 sessions, need not walk it."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
