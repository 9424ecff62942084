"""``Store``: forgetting, archiving, erasing, and what is on the record of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from neverforget.runtime import forgetting_operations as deleting
from neverforget.runtime.memory_values import DeletionReport, Memory
from neverforget.runtime.scope import NamespaceLike
from neverforget.runtime.session import Session
from neverforget.runtime.store_running import StoreRunning
from neverforget.runtime.timeframe_argument import TimeframeLike
from neverforget.runtime.values import AuditEntry, Confirmation, ErasureReport, Page


class ForgettingMethods(StoreRunning):
    """A part of ``Store``."""

    def forget(
        self,
        id: str,
        *,
        confirm: Confirmation | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> AuditEntry:
        """Forget a memory, with its tags, relations, chunks and summary: no search, listing or get
        finds it from now on, and its key is free. ``undo_forget`` brings it back, until a purge.

        ``confirm`` must be ``nf.CONFIRMED``; anything else raises ConfirmationRequired and is
        audited as ``forget-refused``. ``by``: who does it, else the view's agent. Returns the audit
        entry, which is on disk before the memory is gone: both survive a crash of any process and
        a power loss. Forgetting it again returns the first entry. Raises NotFound.
        """
        forgotten = deleting.forget(self._context, self._scope, "forget", id, confirm, reason, by)
        entry = self._run(forgotten)
        assert entry is not None
        return entry

    def undo_forget(self, id: str) -> None:
        """Bring a forgotten memory back, with all that went with it. Audited; survives a crash of
        any process and a power loss. NotFound when it was purged, Conflict when it is not
        forgotten, or when another memory has its key by now.
        """
        self._run(deleting.restore(self._context, self._scope, "undo-forget", id))

    def archive(
        self,
        id: str,
        *,
        confirm: Confirmation | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> None:
        """Keep a memory, and its key, but leave it out of searches and listings that do not ask for
        archived ones. Confirmed, audited and durable as ``forget``: it survives a crash and a power
        loss. One that is archived stays so.
        """
        self._run(deleting.forget(self._context, self._scope, "archive", id, confirm, reason, by))

    def unarchive(self, id: str) -> None:
        """Let an archived memory be found again. Audited; survives a crash of any process and a
        power loss. One that is active stays so. Raises NotFound.
        """
        self._run(deleting.restore(self._context, self._scope, "unarchive", id))

    def forget_where(
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
        """Forget every memory that matches, archived ones too, as one; returns exactly how many
        (chunks and summaries go with them, uncounted).

        The filters are those of ``recall``, all given must hold; at least one must be given.
        older_than: remembered before that, or so long ago. dry_run: only count; needs no
        confirmation. Otherwise confirmed, audited (as one entry) and durable as ``forget``: it
        survives a crash and a power loss as a whole.
        """
        filters = {
            "namespace": namespace,
            "tags": tags,
            "types": types,
            "agent": agent,
            "where": where,
            "older_than": older_than,
        }
        return self._run(
            deleting.forget_where(
                self._context, self._scope, "forget", filters, dry_run, confirm, reason, by
            )
        )

    def archive_where(
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
        """Archive every active memory that matches; the rest as ``forget_where``: it survives a
        crash and a power loss as a whole.
        """
        filters = {
            "namespace": namespace,
            "tags": tags,
            "types": types,
            "agent": agent,
            "where": where,
            "older_than": older_than,
        }
        return self._run(
            deleting.forget_where(
                self._context, self._scope, "archive", filters, dry_run, confirm, reason, by
            )
        )

    def purge(
        self,
        *,
        older_than: timedelta | datetime,
        dry_run: bool = False,
        confirm: Confirmation | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> int:
        """End the possibility to undo, and zero on disk, for what was *forgotten* before
        ``older_than``, or so long ago; returns exactly how many. Nothing is purged by itself.

        Confirmed and audited as ``forget``. The record is on disk before the first byte is zeroed,
        and a crash in between is finished on the next start; when it returns, all of it survives a
        power loss. It takes as long as writing the indexes anew does.
        """
        return self._run(
            deleting.purge(self._context, self._scope, older_than, dry_run, confirm, reason, by)
        )

    def erase(
        self,
        id: str,
        *,
        confirm: Confirmation | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> ErasureReport:
        """Zero a memory on disk, for good, in every version and every file of the store: with its
        chunks and summary, the memories derived only from it, and its text where it stands as
        ``context`` of others. What remains: that there was one, and the audit entry.

        Confirmed and audited as ``forget``. The record is on disk before the first byte is zeroed,
        and a crash in between is finished on the next start; when it returns, all of it survives a
        power loss. It takes as long as writing the indexes anew does. Raises NotFound.
        """
        return self._run(deleting.erase(self._context, self._scope, id, confirm, reason, by))

    def erase_where(
        self,
        *,
        namespace: NamespaceLike | None,
        dry_run: bool = False,
        confirm: Confirmation | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> ErasureReport:
        """Erase every session and every memory at or below ``namespace``, as ``Session.erase`` and
        ``erase`` do; the report counts both. dry_run: only count sessions, turns and memories.

        Sessions go one by one, then the memories together; what was done survives a crash and a
        power loss, and calling it again goes on with what is left. What others write there
        meanwhile may stay.
        """
        return self._run(
            deleting.erase_where(
                self._context, self._scope, namespace, dry_run, confirm, reason, by
            )
        )

    # ---- on the record ---------------------------------------------------------------------------

    def audit(
        self,
        *,
        operation: str | None = None,
        by: str | None = None,
        target: Session | Memory | str | None = None,
        timeframe: TimeframeLike = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[AuditEntry]:
        """What is on the record, oldest first: of sessions "hide", "unhide", "fork"; of memories
        "forget", "undo-forget", "archive", "unarchive", "purge"; of both "erase" and
        "forget-refused" (a deletion without confirmation). "chunk", that a long memory was
        chunked, is shown where it is asked for, or ``target`` is a memory.

        target: only what was done to this session, this memory, or the memory with this id.
        timeframe: as of ``recall``. ``next`` stays usable to poll from.
        """
        return self._run(self._audit(operation, by, target, timeframe, after, limit))

    def deletion_report(self, timeframe: TimeframeLike) -> DeletionReport:
        """What was forgotten, archived, purged, erased, restored and refused in ``timeframe`` (as
        of ``recall``; None is all time), in figures, by whom, and the audit behind it.
        """
        return self._run(self._deletion_report(timeframe))
