"""Giving back to the system what opening a log needed for a moment.

The C library keeps the freed arrays of a large loading (84 MiB for a million turns, where the index
itself takes 17) for an owner that will never need them again.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Final

_RECORDS_MIN: Final = 10_000  # below that it is less than a megabyte, and looking for it costs more


def give_back_free_memory(records: int) -> None:
    """A hint, after so many were recovered: does nothing where the C library has no such call."""
    if records < _RECORDS_MIN or not sys.platform.startswith("linux"):
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
