"""``AsyncStore``: getting, listing and recalling memories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, tzinfo
from typing import Any, TypeVar, overload

from neverforget.runtime import agents, chunk_reading, recalling
from neverforget.runtime import memory_reading as reading
from neverforget.runtime.agent_values import AgentInfo
from neverforget.runtime.arguments import RAISE, checked_cursor, checked_limit
from neverforget.runtime.async_store_running import AsyncStoreRunning
from neverforget.runtime.memory_arguments import memory_filter
from neverforget.runtime.memory_values import Hits, Memory, MemoryStatus
from neverforget.runtime.scope import NamespaceLike
from neverforget.runtime.timeframe_argument import TimeframeLike
from neverforget.runtime.times import Moment
from neverforget.runtime.values import Page
from neverforget.storage.errors import NotFound

D = TypeVar("D")


class AsyncFindingMethods(AsyncStoreRunning):
    """A part of ``AsyncStore``."""

    @overload
    async def get(
        self,
        id: str | None = None,
        *,
        key: str | None = None,
        namespace: NamespaceLike = (),
        include_forgotten: bool = False,
    ) -> Memory: ...
    @overload
    async def get(
        self,
        id: str | None = None,
        *,
        key: str | None = None,
        namespace: NamespaceLike = (),
        default: D,
        include_forgotten: bool = False,
    ) -> Memory | D: ...
    async def get(
        self,
        id: str | None = None,
        *,
        key: str | None = None,
        namespace: NamespaceLike = (),
        default: Any = RAISE,
        include_forgotten: bool = False,
    ) -> Any:
        """As ``Store.get``."""
        try:
            return await self._run(reading.get(self._scope, id, key, namespace, include_forgotten))
        except NotFound:
            if default is RAISE:
                raise
            return default

    async def get_many(self, ids: Iterable[str]) -> list[Memory | None]:
        """As ``Store.get_many``."""
        return await self._run(reading.get_many(self._scope, ids))

    async def memories(
        self,
        *,
        namespace: NamespaceLike | None = None,
        types: str | Iterable[str] | None = None,
        tags: str | Iterable[str] | None = None,
        agent: str | None = None,
        where: Mapping[str, Any] | None = None,
        timeframe: TimeframeLike = None,
        status: MemoryStatus | None = "active",
        derived: bool = False,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[Memory]:
        """As ``Store.memories``."""
        wanted = memory_filter(
            self._scope,
            self._context.clock,
            namespace=namespace,
            types=types,
            tags=tags,
            agent=agent,
            where=where,
            timeframe=timeframe,
            status=status,
            derived=derived,
        )
        cursor = checked_cursor(after)
        return await self._run(reading.memories(wanted, timeframe, cursor, checked_limit(limit)))

    async def chunks(self, id: str) -> list[Memory]:
        """As ``Store.chunks``."""
        return await self._run(chunk_reading.chunks(self._scope, id))

    async def original(self, chunk_id: str) -> Memory:
        """As ``Store.original``."""
        return await self._run(chunk_reading.original(self._scope, chunk_id))

    async def recall(
        self,
        query: str,
        *,
        timeframe: TimeframeLike = None,
        limit: int = 10,
        offset: int = 0,
        strategy: recalling.Strategy = "hybrid",
        fusion: recalling.Fusion = "weighted",
        types: str | Iterable[str] | None = None,
        tags: str | Iterable[str] | None = None,
        agent: str | None = None,
        namespace: NamespaceLike | None = None,
        where: Mapping[str, Any] | None = None,
        as_of: Moment | None = None,
        include_archived: bool = False,
        tz: str | tzinfo | None = None,
        now: datetime | None = None,
        explain: bool = False,
        wait: float = 30.0,
    ) -> Hits:
        """As ``Store.recall``."""
        filters = {
            "namespace": namespace,
            "types": types,
            "tags": tags,
            "agent": agent,
            "where": where,
            "as_of": as_of,
        }
        asked = recalling.question(
            self._context,
            self._scope,
            query,
            timeframe,
            tz,
            now,
            include_archived,
            filters,
            strategy=strategy,
            fusion=fusion,
            limit=limit,
            offset=offset,
            explain=explain,
            wait=wait,
        )
        return await self._run(recalling.recall(self._context, self._scope, asked))

    async def agents(self) -> list[AgentInfo]:
        """As ``Store.agents``."""
        return await self._run(agents.agents(self._context, self._scope.root))
