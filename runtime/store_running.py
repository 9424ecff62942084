"""The sync half of a store's handle: operations run in the caller's thread."""

from __future__ import annotations

from typing import TypeVar

from neverforget.runtime.channel import run
from neverforget.runtime.operation import Operation
from neverforget.runtime.store_core import StoreCore

T = TypeVar("T")


class StoreRunning(StoreCore):
    """What the groups of a ``Store``'s methods stand on."""

    def _run(self, operation: Operation[T]) -> T:
        self._lease.check()
        return run(operation, self._engine.channel, self._scope.deadline_s)
