"""The audit of a long-term region as read: who forgot, archived, purged, erased, or was refused.

Entries are the records themselves. What they say of a memory is its id; the key is looked up while
the memory is there, so that erasing it leaves none of its words behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from neverforget.storage.audit_index import AUDITED
from neverforget.storage.control import Body, ControlField, F
from neverforget.storage.errors import Corrupt
from neverforget.storage.format import Kind
from neverforget.storage.longterm_fields import (
    ID_BYTES,
    Id,
    M,
    MemoryField,
    id_text,
    named_in,
    unpack_ids,
)
from neverforget.storage.longterm_results import DeletionReportData, Status
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.results import AuditView
from neverforget.storage.window_parts import check_limit

LIMIT_MAX = 10_000
_COUNTED = {
    "forget": "forgotten",
    "undo-forget": "restored",
    "archive": "archived",
    "unarchive": "unarchived",
    "purge": "purged",
    "erase": "erased",
    "forget-refused": "refused",
}


class LongTermAuditor:
    def __init__(self, state: LongTermState) -> None:
        self._state = state

    def audit(
        self,
        *,
        operation: str | None = None,
        by: str | None = None,
        target: str | None = None,
        start: int | None = None,
        stop: int | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> tuple[list[AuditView], bool]:
        """Entries oldest first, and whether there are more behind the last (``after`` its position
        goes on from there). ``target``: the id of a memory.
        """
        check_limit(limit)
        found: list[AuditView] = []
        for view in self._between(start, stop, after):
            if operation is not None and view.operation != operation:
                continue
            if by is not None and view.by != by:
                continue
            if target is not None and not self._is_about(view, target):
                continue
            if len(found) == min(limit, LIMIT_MAX):
                return found, True
            found.append(view)
        return found, False

    def deletion_report(self, start: int | None, stop: int | None) -> DeletionReportData:
        """Of everything in [start, stop)."""
        counts: Counter[str] = Counter()
        by: Counter[str] = Counter()
        entries = list(self._between(start, stop, None))
        for view in entries:
            number = 1 if view.operation == "forget-refused" else view.details.get("count", 0)
            counts[_COUNTED[view.operation]] += number
            by[view.by] += number
        return DeletionReportData(
            start=start,
            stop=stop,
            by=dict(by),
            entries=entries,
            **{name: counts[name] for name in _COUNTED.values()},
        )

    def view(self, position: int) -> AuditView:
        """The entry at ``position``; of one whose body is gone, that it happened."""
        header = self._state.log.header(position)
        try:
            _, body = self._state.control(position)
        except Corrupt:
            body = {}
        reason = body.get(F[ControlField.REASON])
        target, details = self._said(header.kind, body)
        return AuditView(
            AUDITED[header.kind],
            target,
            str(body.get(F[ControlField.BY], "")),
            header.timestamp,
            reason if isinstance(reason, str) else None,
            details,
            self._state.partition,
            position,
        )

    def ids(self, position: int) -> list[Id]:
        """Whom the entry names, and those that went with them."""
        try:
            _, body = self._state.control(position)
            return named_in(body)
        except Corrupt:
            return []

    def _between(
        self, start: int | None, stop: int | None, after: int | None
    ) -> Iterator[AuditView]:
        for position in self._state.audit.after(after):
            at = self._state.log.header(position).timestamp
            if (start is None or at >= start) and (stop is None or at < stop):
                yield self.view(position)

    def _is_about(self, view: AuditView, target: str) -> bool:
        if view.target.get("id") == target:
            return True
        return any(id_text(each) == target for each in self.ids(view.position))

    def _said(self, kind: int, body: Body) -> tuple[dict[str, Any], dict[str, Any]]:
        if kind == Kind.REFUSED:
            held = body.get(F[ControlField.TARGET])
            operation = body.get(F[ControlField.OPERATION])
            return (
                dict(held) if isinstance(held, dict) else {},
                {"operation": operation} if operation else {},
            )
        held = body.get(M[MemoryField.DETAILS])
        details: dict[str, Any] = dict(held) if isinstance(held, dict) else {}
        packed = body.get(M[MemoryField.IDS], b"")
        details["count"] = details.get("count", len(packed) // ID_BYTES)
        wanted = body.get(M[MemoryField.FILTER])
        if isinstance(wanted, dict):
            return {"filter": wanted}, details
        target: dict[str, Any] = {}
        if len(packed) == ID_BYTES:
            (only,) = unpack_ids(packed)
            target = {"id": id_text(only), "key": self._key(only)}
        digest, salt = body.get(F[ControlField.DIGEST]), body.get(F[ControlField.SALT])
        if isinstance(digest, bytes) and isinstance(salt, bytes):
            target |= {"digest": digest.hex(), "salt": salt.hex()}
        return target, details

    def _key(self, wanted: Id) -> str | None:
        table = self._state.table
        row = table.find(wanted)
        if row is None or table.get(row, "status") == Status.GONE or not table.get(row, "key"):
            return None
        try:
            _, body = self._state.bodies.read(table.get(row, "position"))
        except Corrupt:
            return None
        key = body.get(M[MemoryField.KEY])
        return key if isinstance(key, str) else None
