"""A sync that fails, in the middle of a change to a long-term region: each of them in turn."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from neverforget.storage.errors import Poisoned
from tests.fakes.crash_filesystem import CrashFileSystem, Fault
from tests.storage.small_longterm import LongTermBench

A = TypeVar("A")
S = TypeVar("S")


def after_failed_syncs(
    furnished: Callable[[CrashFileSystem], LongTermBench],
    change: Callable[[LongTermBench], A],
    seen: Callable[[LongTermBench], S],
) -> Iterator[tuple[S, A, LongTermBench]]:
    """For each sync of ``change``, which fails in it while later ones succeed falsely: what is seen
    when the region is opened again, what ``change`` answers then, and the region after a power cut.
    """
    counted = CrashFileSystem()
    b = furnished(counted)
    first = len(counted.calls)
    change(b)
    syncs = sum(call.op == "fdatasync" for call in counted.calls[first:])
    assert syncs
    for nth in range(1, syncs + 1):
        fs = CrashFileSystem(nth)
        b = furnished(fs)
        fs.inject(Fault("fdatasync", nth=nth, error=errno.EIO))
        with pytest.raises((Poisoned, OSError)):
            change(b)
        b.region.close()
        b.region = b.open()
        found = seen(b)
        answer = change(b)
        b.region.close()
        b.fs = fs.power_cut()
        b.region = b.open()
        yield found, answer, b
