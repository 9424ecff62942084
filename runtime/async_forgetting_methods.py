"""``AsyncStore``: forgetting, archiving, erasing, and what is on the record of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from neverforget.runtime import forgetting_operations as deleting
from neverforget.runtime.async_store_running import AsyncStoreRunning
from neverforget.runtime.memory_values import DeletionReport, Memory
from neverforget.runtime.scope import NamespaceLike
from neverforget.runtime.session_core import SessionCore
from neverforget.runtime.timeframe_argument import TimeframeLike
from neverforget.runtime.values import AuditEntry, Confirmation, ErasureReport, Page


class AsyncForgettingMethods(AsyncStoreRunning):
    """A part of ``AsyncStore``."""

    async def forget(
        self,
        id: str,
        *,
        confirm: Confirmation | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> AuditEntry:
        """As ``Store.forget``; as durable, a crash and a power loss included."""
        forgotten = deleting.forget(self._context, self._scope, "forget", id, confirm, reason, by)
        entry = await self._run(forgotten)
        assert entry is not None
        return entry

    async def undo_forget(self, id: str) -> None:
        """As ``Store.undo_forget``; as durable, a crash and a power loss included."""
        await self._run(deleting.restore(self._context, self._scope, "undo-forget", id))

    async def archive(
        self,
        id: str,
        *,
        confirm: Confirmation | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> None:
        """As ``Store.archive``; as durable, a crash and a power loss included."""
        await self._run(
            deleting.forget(self._context, self._scope, "archive", id, confirm, reason, by)
        )

    async def unarchive(self, id: str) -> None:
        """As ``Store.unarchive``; as durable, a crash and a power loss included."""
        await self._run(deleting.restore(self._context, self._scope, "unarchive", id))

    async def forget_where(
        self,
        *,
        namespace: NamespaceLike | None = None,
        tags: str | Iterable[str] | None = None,
        types: str | Iterable[str] | None = None,
        agent: str | None = None,
        where: Mapping[str, Any] | None = None,
        older_than: timedelta | datetime | None = None,
        dry_run: bool = False,
        confirm: Confirmation | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> int:
        """As ``Store.forget_where``; as durable, a crash and a power loss included."""
        filters = {
            "namespace": namespace,
            "tags": tags,
            "types": types,
            "agent": agent,
            "where": where,
            "older_than": older_than,
        }
        return await self._run(
            deleting.forget_where(
                self._context, self._scope, "forget", filters, dry_run, confirm, reason, by
            )
        )

    async def archive_where(
        self,
        *,
        namespace: NamespaceLike | None = None,
        tags: str | Iterable[str] | None = None,
        types: str | Iterable[str] | None = None,
        agent: str | None = None,
        where: Mapping[str, Any] | None = None,
        older_than: timedelta | datetime | None = None,
        dry_run: bool = False,
        confirm: Confirmation | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> int:
        """As ``Store.archive_where``; as durable, a crash and a power loss included."""
        filters = {
            "namespace": namespace,
            "tags": tags,
            "types": types,
            "agent": agent,
            "where": where,
            "older_than": older_than,
        }
        return await self._run(
            deleting.forget_where(
                self._context, self._scope, "archive", filters, dry_run, confirm, reason, by
            )
        )

    async def purge(
        self,
        *,
        older_than: timedelta | datetime,
        dry_run: bool = False,
        confirm: Confirmation | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> int:
        """As ``Store.purge``; as durable, a crash and a power loss included."""
        return await self._run(
            deleting.purge(self._context, self._scope, older_than, dry_run, confirm, reason, by)
        )

    async def erase(
        self,
        id: str,
        *,
        confirm: Confirmation | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> ErasureReport:
        """As ``Store.erase``; as durable, a crash and a power loss included."""
        return await self._run(deleting.erase(self._context, self._scope, id, confirm, reason, by))

    async def erase_where(
        self,
        *,
        namespace: NamespaceLike | None,
        dry_run: bool = False,
        confirm: Confirmation | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> ErasureReport:
        """As ``Store.erase_where``; as durable, a crash and a power loss included."""
        return await self._run(
            deleting.erase_where(
                self._context, self._scope, namespace, dry_run, confirm, reason, by
            )
        )

    # ---- on the record ---------------------------------------------------------------------------

    async def audit(
        self,
        *,
        operation: str | None = None,
        by: str | None = None,
        target: SessionCore | Memory | str | None = None,
        timeframe: TimeframeLike = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[AuditEntry]:
        """As ``Store.audit``."""
        return await self._run(self._audit(operation, by, target, timeframe, after, limit))

    async def deletion_report(self, timeframe: TimeframeLike) -> DeletionReport:
        """As ``Store.deletion_report``."""
        return await self._run(self._deletion_report(timeframe))
