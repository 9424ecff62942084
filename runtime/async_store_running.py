"""The async half of a store's handle: operations run on the caller's event loop."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from neverforget.runtime.async_channel import run
from neverforget.runtime.operation import Operation
from neverforget.runtime.store_core import StoreCore

T = TypeVar("T")


class AsyncStoreRunning(StoreCore):
    """What the groups of an ``AsyncStore``'s methods stand on."""

    async def _run(self, operation: Operation[T]) -> T:
        return await run(
            operation, self._lease.channel_here(asyncio.get_running_loop()), self._scope.deadline_s
        )
