"""``AsyncWorkingMemory``: what an agent has in mind, on the event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from neverforget.runtime import working_operations as asking
from neverforget.runtime.async_session import AsyncSession
from neverforget.runtime.memory_values import Hits, Memory
from neverforget.runtime.operation import Operation
from neverforget.runtime.working_core import WorkingAddress, WorkingCore
from neverforget.runtime.working_values import (
    Context,
    ContextStrategy,
    WorkingItem,
    WorkingMember,
)

if TYPE_CHECKING:
    from neverforget.runtime.async_finding_methods import AsyncFindingMethods

T = TypeVar("T")


class AsyncWorkingMemory(WorkingCore):
    """``WorkingMemory`` for event loops: the same names and arguments, every call that asks the
    owner a coroutine. ``async for item in wm``, ``await wm.utilization``; ``await wm.count()``
    stands for len.
    """

    def __init__(
        self, store: AsyncFindingMethods, agent: str | None, group: str | None, max_tokens: int
    ) -> None:
        super().__init__(store, agent, group, max_tokens)
        self._store = store

    async def _run(self, operation: Operation[T]) -> T:
        return await self._store._run(operation)

    async def add(self, memory: Memory | str, *, pinned: bool = False) -> tuple[str, ...]:
        """As ``WorkingMemory.add``; survives a process crash and a power loss alike."""
        return await self._run(asking.add(self._asker, memory, pinned))

    async def recall(self, query: str, **as_recall: Any) -> Hits:
        """As ``WorkingMemory.recall``; survives a process crash and a power loss alike."""
        hits = await self._store.recall(query, **as_recall)
        await self._run(asking.take(self._asker, hits))
        return hits

    async def remove(self, id: Memory | str) -> None:
        """As ``WorkingMemory.remove``; survives a process crash and a power loss alike."""
        await self._run(asking.change(self._asker, "remove", id))

    async def pin(self, id: Memory | str) -> None:
        """As ``WorkingMemory.pin``; survives a process crash and a power loss alike."""
        await self._run(asking.change(self._asker, "pin", id))

    async def unpin(self, id: Memory | str) -> None:
        """As ``WorkingMemory.unpin``; survives a process crash and a power loss alike."""
        await self._run(asking.change(self._asker, "unpin", id))

    async def count(self) -> int:
        """How many memories are in it: ``len`` of a ``WorkingMemory``."""
        return (await self._run(asking.filling(self._asker))).memories

    async def __aiter__(self) -> AsyncIterator[WorkingItem]:
        """What is in it, in the order it was added, fetched as needed."""
        after: int | None = 0
        while after is not None:
            items, after = await self._run(asking.some(self._asker, after))
            for item in items:
                yield item

    @property
    def utilization(self) -> Coroutine[Any, Any, float]:
        """``await wm.utilization``: how much of its budget is used, 0 to 1."""
        return self._run(asking.utilization(self._asker))

    async def context(
        self,
        strategy: ContextStrategy = "balanced",
        *,
        max_tokens: int | None = None,
        conversation: AsyncSession | None = None,
    ) -> Context:
        """As ``WorkingMemory.context``."""
        return await self._run(self._in_context(strategy, max_tokens, conversation))

    async def join(self) -> None:
        """As ``WorkingMemory.join``; survives a process crash and a power loss alike."""
        await self._run(asking.attend(self._asker, "join"))

    async def leave(self) -> None:
        """As ``WorkingMemory.leave``; survives a process crash and a power loss alike."""
        await self._run(asking.attend(self._asker, "leave"))

    async def members(self) -> list[WorkingMember]:
        """As ``WorkingMemory.members``."""
        return await self._run(asking.members(self._asker))

    async def __aenter__(self) -> AsyncWorkingMemory:
        self._store._lease.check()
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._owns_lease:  # it was unpickled: nobody else closes what it attached to
            self._store._lease.end()

    def __reduce__(self) -> Any:
        return _attach, (self._pickled(),)

    def __copy__(self) -> AsyncWorkingMemory:
        return AsyncWorkingMemory(self._store, self._agent, self._group, self._max_tokens)

    def __deepcopy__(self, memo: dict[int, Any]) -> AsyncWorkingMemory:
        return self.__copy__()


def _attach(address: WorkingAddress) -> AsyncWorkingMemory:
    from neverforget.runtime.async_store import AsyncStore

    store = AsyncStore(*address.store.attach())
    found = AsyncWorkingMemory(store, address.agent, address.group, address.max_tokens)
    found._owns_lease = True
    return found
