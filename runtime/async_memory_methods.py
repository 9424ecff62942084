"""``AsyncStore``: remembering, and what is said of memories later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import UNSET, UnsetType

from neverforget.runtime import memory_operations as writing
from neverforget.runtime import memory_reading as reading
from neverforget.runtime.async_store_running import AsyncStoreRunning
from neverforget.runtime.config import SyncLevel
from neverforget.runtime.memory_values import Memory, Relation
from neverforget.runtime.scope import NamespaceLike
from neverforget.runtime.session_core import NOTHING
from neverforget.runtime.times import Moment
from neverforget.runtime.values import TurnRef


class AsyncMemoryMethods(AsyncStoreRunning):
    """A part of ``AsyncStore``."""

    async def remember(
        self,
        text: str,
        *,
        key: str | None = None,
        on_conflict: writing.OnConflict = "raise",
        type: str = "fact",
        tags: str | Iterable[str] = (),
        importance: float = 1.0,
        confidence: float = 1.0,
        source: str | None = None,
        agent: str | None = None,
        speaker: str | None = None,
        namespace: NamespaceLike = (),
        metadata: Mapping[str, Any] = NOTHING,
        related_to: writing.RelatedTo = (),
        occurred_at: Moment | None = None,
        context: str | None = None,
        valid_from: Moment | None = None,
        valid_to: Moment | None = None,
        sync: SyncLevel | None = None,
    ) -> Memory:
        """As ``Store.remember``; as durable, a crash and a power loss included."""
        item = {
            "text": text,
            "key": key,
            "on_conflict": on_conflict,
            "type": type,
            "tags": tags,
            "importance": importance,
            "confidence": confidence,
            "source": source,
            "agent": agent,
            "speaker": speaker,
            "namespace": namespace,
            "metadata": metadata,
            "related_to": related_to,
            "occurred_at": occurred_at,
            "context": context,
            "valid_from": valid_from,
            "valid_to": valid_to,
            "sync": sync,
        }
        return await self._run(writing.remember(self._context, self._scope, item))

    async def remember_many(self, items: Iterable[Mapping[str, Any]]) -> list[Memory]:
        """As ``Store.remember_many``; as durable, a crash and a power loss included."""
        return await self._run(writing.remember_many(self._context, self._scope, items))

    # ---- later versions --------------------------------------------------------------------------

    async def revise(
        self,
        id: str,
        *,
        text: str | UnsetType = UNSET,
        type: str | UnsetType = UNSET,
        importance: float | UnsetType = UNSET,
        confidence: float | UnsetType = UNSET,
        metadata: Mapping[str, Any] | UnsetType = UNSET,
        valid_to: Moment | UnsetType | None = UNSET,
        valid_from: Moment | UnsetType | None = UNSET,
        occurred_at: Moment | UnsetType | None = UNSET,
        tags: str | Iterable[str] | UnsetType = UNSET,
        source: str | UnsetType | None = UNSET,
        agent: str | UnsetType | None = UNSET,
        speaker: str | UnsetType | None = UNSET,
        context: str | UnsetType | None = UNSET,
        expect_version: int | None = None,
    ) -> Memory:
        """As ``Store.revise``; as durable, a crash and a power loss included."""
        changes = {
            "text": text,
            "type": type,
            "tags": tags,
            "importance": importance,
            "confidence": confidence,
            "source": source,
            "agent": agent,
            "speaker": speaker,
            "metadata": metadata,
            "occurred_at": occurred_at,
            "context": context,
            "valid_from": valid_from,
            "valid_to": valid_to,
        }
        return await self._run(
            writing.revise(self._context, self._scope, id, changes, expect_version)
        )

    async def history(self, id: str) -> list[Memory]:
        """As ``Store.history``."""
        return await self._run(reading.history(self._scope, id))

    async def revert(self, id: str, version: int) -> Memory:
        """As ``Store.revert``; as durable, a crash and a power loss included."""
        return await self._run(writing.revert(self._context, self._scope, id, version))

    # ---- tags and relations ----------------------------------------------------------------------

    async def tag(self, id: str, *tags: str) -> None:
        """As ``Store.tag``; as durable, a crash and a power loss included."""
        await self._run(writing.tag(self._context, self._scope, id, tags, True))

    async def untag(self, id: str, *tags: str) -> None:
        """As ``Store.untag``; as durable, a crash and a power loss included."""
        await self._run(writing.tag(self._context, self._scope, id, tags, False))

    async def relate(
        self, source: str, target: str | TurnRef, kind: str, *, weight: float = 1.0
    ) -> None:
        """As ``Store.relate``; as durable, a crash and a power loss included."""
        await self._run(writing.relate(self._context, self._scope, source, target, kind, weight))

    async def unrelate(self, source: str, target: str | TurnRef, kind: str) -> None:
        """As ``Store.unrelate``; as durable, a crash and a power loss included."""
        await self._run(writing.relate(self._context, self._scope, source, target, kind, None))

    async def relations(
        self, id: str, *, kind: str | None = None, direction: reading.Direction = "both"
    ) -> list[Relation]:
        """As ``Store.relations``."""
        return await self._run(reading.relations(self._scope, id, kind, direction))

    async def provenance(self, id: str) -> list[TurnRef]:
        """As ``Store.provenance``."""
        return await self._run(reading.provenance(self._scope, id))
