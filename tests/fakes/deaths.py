"""What a process leaves that dies at any call of its work, found while the work is done once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tests.fakes.crash_filesystem import Call, CrashFileSystem

T = TypeVar("T")


@dataclass(frozen=True)
class Death(Generic[T]):
    """Of a process that had made ``call`` calls. ``told``: what was told of it until then."""

    call: int
    told: T
    _disk: CrashFileSystem

    def found(self, death: str) -> CrashFileSystem:
        """Once: by the next process after "process_death", which is kill -9, or "power_cut"."""
        return self._disk.power_cut() if death == "power_cut" else self._disk.process_death()


def deaths(
    fs: CrashFileSystem, work: Callable[[], object], told: Callable[[], T]
) -> list[Death[T]]:
    """Before each call of ``work`` that changes something, and behind the last. A death right
    behind a call leaves what one before the next leaves, when ``told`` may tell more: it returns
    what the clients know, as a copy. The choices at a power cut are seeded with the call.
    """
    found: list[Death[T]] = []

    def dies() -> None:
        call = len(fs.calls)
        found.append(Death(call, told(), fs.copy(call)))

    def before(call: Call) -> None:
        if call.op not in ("pread", "map"):
            dies()

    fs.before_each = before
    try:
        work()
    finally:
        fs.before_each = None
    dies()
    return found
