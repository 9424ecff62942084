"""Deleting from a long-term region, and what the audit says of it: the calls, with their promises.

Every call takes ``confirm`` (the word "confirmed", checked here again; without it the refusal is
put on record and ConfirmationRequired raised), ``by``, ``reason`` and ``request``. What deletes is
on the disk before it takes effect; what undoes only stages.

What may concern many is there twice: in slices, for an owner who answers others meanwhile (one such
call at a time; a repeat of one waits for its end), and whole, as if nobody else were there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from neverforget.storage.longterm_auditing import AuditPart, LongTermAuditor
from neverforget.storage.longterm_erasing import LongTermEraser
from neverforget.storage.longterm_erasure_plan import ErasurePlanner
from neverforget.storage.longterm_forgetting import Asked, Forgetter
from neverforget.storage.longterm_reads import LongTermReads
from neverforget.storage.longterm_results import (
    DeletionReportData,
    Forgotten,
    LongTermErasure,
    MemoryFilter,
    Namespace,
)
from neverforget.storage.longterm_staging import Request, Staging
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.results import AuditView
from neverforget.storage.slices import Slices, whole


class LongTermDeletions:
    """A part of ``LongTermRegion``."""

    def __init__(
        self,
        state: LongTermState,
        reads: LongTermReads,
        staging: Staging,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        auditor = self._auditor = LongTermAuditor(state, reads.scan_records_max)
        self._forgetter = Forgetter(state, reads, staging, auditor, random_bytes)
        planner = ErasurePlanner(state, reads, auditor)
        self._eraser = LongTermEraser(state, reads, staging, self._forgetter, planner, random_bytes)

    def forget(
        self, memory_id: str, *, confirm: str | None, by: str, reason: str | None, request: Request
    ) -> Forgotten:
        """On the disk first, then in effect. See ``Forgetter``."""
        return self._forgetter.forget(memory_id, Asked(confirm, by, reason, request))

    def undo_forget(self, memory_id: str, *, by: str, request: Request) -> Forgotten:
        """Stage; with everything that went with it."""
        return self._forgetter.undo_forget(memory_id, by, request)

    def archive(
        self, memory_id: str, *, confirm: str | None, by: str, reason: str | None, request: Request
    ) -> Forgotten:
        return self._forgetter.archive(memory_id, Asked(confirm, by, reason, request))

    def unarchive(self, memory_id: str, *, by: str, request: Request) -> Forgotten:
        """Stage."""
        return self._forgetter.unarchive(memory_id, by, request)

    def forgetting_where(
        self,
        wanted: MemoryFilter,
        *,
        confirm: str | None,
        by: str,
        reason: str | None,
        request: Request,
        dry_run: bool = False,
    ) -> Slices[Forgotten]:
        """All that match, archived ones too, whatever status the filter names; ``count`` is exact.
        Raises InvalidArgument for a filter that filters nothing.
        """
        asked = Asked(confirm, by, reason, request)
        return self._forgetter.forget_where(wanted, dry_run, asked)

    def archiving_where(
        self,
        wanted: MemoryFilter,
        *,
        confirm: str | None,
        by: str,
        reason: str | None,
        request: Request,
        dry_run: bool = False,
    ) -> Slices[Forgotten]:
        """All active ones that match."""
        asked = Asked(confirm, by, reason, request)
        return self._forgetter.archive_where(wanted, dry_run, asked)

    def purging(
        self,
        older_than: int | None,
        *,
        confirm: str | None,
        by: str,
        reason: str | None,
        request: Request,
        dry_run: bool = False,
        scope: Namespace = (),
    ) -> Slices[Forgotten]:
        """What was forgotten before ``older_than``, at or below ``scope``, is gone for good, its
        bytes too, and its text out of the ``context`` of others.
        """
        asked = Asked(confirm, by, reason, request)
        return self._eraser.purge(older_than, tuple(scope), dry_run, asked)

    def erasing(
        self,
        ids: Sequence[str],
        *,
        confirm: str | None,
        by: str,
        reason: str | None,
        request: Request,
        bare: Sequence[str] = (),
    ) -> Slices[LongTermErasure]:
        """Gone at once, its bytes too, and what was derived only from it. ``bare``: memories that
        stay and lose their context; those that are gone already are passed over.
        """
        return self._eraser.erase(ids, Asked(confirm, by, reason, request), bare)

    def erasing_where(
        self,
        namespace: Namespace,
        *,
        confirm: str | None,
        by: str,
        reason: str | None,
        request: Request,
        dry_run: bool = False,
    ) -> Slices[LongTermErasure]:
        return self._eraser.erase_where(namespace, dry_run, Asked(confirm, by, reason, request))

    forget_where, archive_where = whole(forgetting_where), whole(archiving_where)
    purge, erase, erase_where = whole(purging), whole(erasing), whole(erasing_where)

    def refuse(self, operation: str, target: Mapping[str, Any], by: str, reason: str | None) -> int:
        """Stage the entry of a refusal that a client made; the position that must be durable."""
        return self._forgetter.refuse(operation, dict(target), by, reason)

    # ---- the audit -------------------------------------------------------------------------------

    def audit(self, **asked: Any) -> AuditPart:
        """See ``LongTermAuditor.audit``."""
        return self._auditor.audit(**asked)

    def deletion_report(
        self, start: int | None, stop: int | None, *, scope: Namespace = ()
    ) -> DeletionReportData:
        return self._auditor.deletion_report(start, stop, scope)

    def entry_as_seen(self, entry: AuditView | None, scope: Namespace) -> AuditView | None:
        """What a view is told of an entry that a deletion answered: see ``LongTermAuditor``."""
        return None if entry is None else self._auditor.entry_as_seen(entry, scope)

    def erasure_as_seen(self, erasure: LongTermErasure, scope: Namespace) -> LongTermErasure:
        """Without the ids of memories outside of ``scope``, which an erasure may have reached."""
        if not scope:
            return erasure
        inside = {
            name: [each for each in getattr(erasure, name) if self._auditor.is_within(each, scope)]
            for name in ("ids", "flagged", "revised")
        }
        return msgspec.structs.replace(erasure, **inside)
