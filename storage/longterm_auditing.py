"""The audit of a long-term region as read: who forgot, archived, purged, erased, or was refused.

Entries are the records themselves. What they say of a memory is its id; the key is looked up while
the memory is there, so that erasing it leaves none of its words behind. Reason and filter stand in
an ASKED record behind the entry, which an erasure may take away.

Chunkings are on record too. There are many, and they delete nothing: they are shown to who asks for
them, or for a memory. Evictions from working memories delete nothing either, and are always shown.

``scope`` is the namespace of a view. It sees what was done within it. Of what was done to memories
of several views at once it sees its own part: how many, and no filter.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
import numpy as np

from neverforget.storage.audit_details import chunks_in, evicted_in, evictions_seen, is_of_view
from neverforget.storage.audit_index import OPERATIONS
from neverforget.storage.audit_places import lies_within
from neverforget.storage.batch import end_of
from neverforget.storage.control import Body, ControlField, F
from neverforget.storage.errors import Corrupt
from neverforget.storage.format import Kind, RecordFlag
from neverforget.storage.longterm_fields import (
    ID_BYTES,
    Id,
    M,
    MemoryField,
    any_id,
    id_text,
    named_in,
    unpack_ids,
)
from neverforget.storage.longterm_filters import within
from neverforget.storage.longterm_results import DeletionReportData, Namespace, Status
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.record import Header
from neverforget.storage.results import AuditView
from neverforget.storage.salvage_bodies import salvage_details
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


class _Entry(NamedTuple):
    """``body``, ``asked``: empty where they were erased or cannot be read."""

    position: int
    header: Header
    body: Body
    asked: Body

    def get(self, field: MemoryField) -> Any:
        return self.body.get(M[field])


class AuditPart(NamedTuple):
    """``upto``: the position from which to go on; with ``more`` there may be further ones."""

    entries: list[AuditView]
    more: bool
    upto: int | None


class LongTermAuditor:
    def __init__(self, state: LongTermState, scan_records_max: int) -> None:
        self._state = state
        self._scan_records_max = scan_records_max

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
        scope: Namespace = (),
    ) -> AuditPart:
        """Entries oldest first. ``target``: the id of a memory. Without an ``operation`` or a
        target no chunkings. It looks at a bounded number: a part may be short, even empty, while
        there are more behind ``upto``.
        """
        check_limit(limit)
        found: list[AuditView] = []
        upto = after
        for looked, position in enumerate(self._places(operation, target, after)):
            if len(found) == min(limit, LIMIT_MAX) or looked == self._scan_records_max:
                return AuditPart(found, True, upto)
            upto = position
            view = self._wanted(position, operation, by, target, start, stop, scope)
            if view is not None:
                found.append(view)
        return AuditPart(found, False, upto)

    def _places(
        self, operation: str | None, target: str | None, after: int | None
    ) -> Iterable[int]:
        state = self._state
        chunkings = state.chunkings.after(after)
        if target is not None:
            chunkings = iter(self._chunkings_of(target, after))
        evictions = state.working.evictions.after(after)
        if operation == OPERATIONS[Kind.CHUNKED]:
            return chunkings
        if operation == OPERATIONS[Kind.WORKED]:
            return evictions
        if operation is not None:
            return state.audit.after(after)
        shown = (chunkings,) if target is not None else ()
        return heapq.merge(state.audit.after(after), evictions, *shown)

    def _chunkings_of(self, target: str, after: int | None) -> list[int]:
        """Of one memory, or of the memory that a chunk was made from: the record of a chunking is
        the first one behind each of its chunks.
        """
        state, wanted = self._state, any_id(target)
        row = None if wanted is None else state.table.find(wanted)
        if row is None:
            return []
        original = state.original_of(row)
        children = state.table.children(row if original is None else original)
        born = state.table.column("born")[children].tolist()
        found = {state.chunkings.first_after(position) for position in born}
        return sorted(p for p in found if p is not None and (after is None or p > after))

    def _wanted(
        self,
        position: int,
        operation: str | None,
        by: str | None,
        target: str | None,
        start: int | None,
        stop: int | None,
        scope: Namespace,
    ) -> AuditView | None:
        header = self._state.log.header(position)
        if operation is not None and OPERATIONS[header.kind] != operation:
            return None
        if not _between(header, start, stop):
            return None
        if header.kind == Kind.WORKED and self._state.is_erased_at(position):
            return None  # its working memory was erased, which is on record
        entry = self._read(position, header)
        if by is not None and entry.body.get(F[ControlField.BY]) != by:
            return None
        if target is not None and not _is_about(entry, target):
            return None
        return self._seen(entry, scope)

    def deletion_report(
        self, start: int | None, stop: int | None, scope: Namespace = ()
    ) -> DeletionReportData:
        """Of everything in [start, stop)."""
        counts: Counter[str] = Counter()
        by: Counter[str] = Counter()
        entries = []
        for position in self._state.audit.after(None):
            header = self._state.log.header(position)
            if header.kind == Kind.SALVAGED or not _between(header, start, stop):
                continue
            view = self._seen(self._read(position, header), scope)
            if view is None:
                continue
            number = 1 if view.operation == "forget-refused" else view.details.get("count", 0)
            counts[_COUNTED[view.operation]] += number
            by[view.by] += number
            entries.append(view)
        return DeletionReportData(
            start=start,
            stop=stop,
            by=dict(by),
            entries=entries,
            **{name: counts[name] for name in _COUNTED.values()},
        )

    def view(self, position: int) -> AuditView:
        """The entry at ``position``; of one whose body is gone, that it happened."""
        return self._view(self._read(position, self._state.log.header(position)))

    def entry_as_seen(self, view: AuditView, scope: Namespace) -> AuditView | None:
        """An entry of this region, as a view sees it."""
        if not scope:
            return view
        header = self._state.log.header(view.position)
        return self._seen(self._read(view.position, header), scope)

    # ---- reading ---------------------------------------------------------------------------------

    def _read(self, position: int, header: Header) -> _Entry:
        return _Entry(position, header, self._body(position), self._asked(position, header))

    def _body(self, position: int) -> Body:
        try:
            return self._state.control(position)[1]
        except Corrupt:
            return {}

    def _asked(self, position: int, header: Header) -> Body:
        found = self.asked_at(position, header)
        return {} if found is None else self._body(found)

    def asked_at(self, position: int, header: Header) -> int | None:
        """Where the ASKED record of an entry stands."""
        if not header.flags & RecordFlag.BATCH_MORE:
            return None
        following = end_of(position, header)
        try:
            kind = self._state.log.header(following).kind
        except Corrupt:
            return None
        return following if kind == Kind.ASKED else None

    def _view(self, entry: _Entry) -> AuditView:
        header, body = entry.header, entry.body
        said = body if header.kind == Kind.REFUSED else entry.asked
        reason = said.get(F[ControlField.REASON])
        target, details = self._said(entry)
        return AuditView(
            OPERATIONS[header.kind],
            target,
            str(body.get(F[ControlField.BY], "")),
            header.timestamp,
            reason if isinstance(reason, str) else None,
            details,
            self._state.partition,
            entry.position,
        )

    def _said(self, entry: _Entry) -> tuple[dict[str, Any], dict[str, Any]]:
        body = entry.body
        if entry.header.kind == Kind.REFUSED:
            operation = body.get(F[ControlField.OPERATION])
            return _refused_target(body), {"operation": operation} if operation else {}
        held = entry.get(MemoryField.DETAILS)
        details: dict[str, Any] = dict(held) if isinstance(held, dict) else {}
        if entry.header.kind == Kind.CHUNKED:
            details |= chunks_in(body, details)
        elif entry.header.kind == Kind.WORKED:
            details |= evicted_in(body)
        elif entry.header.kind == Kind.SALVAGED:
            details = salvage_details(body)
        packed = body.get(M[MemoryField.IDS], b"")
        details["count"] = details.get("count", len(packed) // ID_BYTES)
        wanted = entry.asked.get(M[MemoryField.FILTER])
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

    # ---- who sees it -----------------------------------------------------------------------------

    def _seen(self, entry: _Entry, scope: Namespace) -> AuditView | None:
        if not scope:
            return self._view(entry)
        if entry.header.kind == Kind.WORKED and is_of_view(entry.body, scope):
            return evictions_seen(self._view(entry), lambda each: self.is_within(each, scope))
        if lies_within(entry.get(MemoryField.PLACES), entry.body.get(F[ControlField.SALT]), scope):
            return self._without_others(self._view(entry), scope)
        inside = self._count_within(entry.get(MemoryField.IDS), scope)
        if not inside:
            return None
        view = self._view(entry)
        return msgspec.structs.replace(view, target={}, details={"count": inside})

    def is_within(self, memory_id: object, scope: Namespace) -> bool:
        """Whether a memory is known to be at or below ``scope``."""
        wanted = any_id(memory_id)
        row = None if wanted is None else self._state.table.find(wanted)
        if row is None:
            return not scope
        table = self._state.table
        return within(table.namespaces.values[table.get(row, "namespace")], scope)

    def _count_within(self, packed: object, scope: Namespace) -> int:
        table = self._state.table
        inside = np.array([within(each, scope) for each in table.namespaces.values], np.bool_)
        if not inside.any():
            return 0
        try:
            rows = table.find_many(unpack_ids(packed))
        except Corrupt:
            return 0
        return int(np.count_nonzero(inside[table.column("namespace")[rows]]))

    def _without_others(self, view: AuditView, scope: Namespace) -> AuditView:
        """An erasure reaches further than the view; whom it met there is not for the view."""
        details = dict(view.details)
        for name in ("flagged", "revised"):
            if name in details:
                details[name] = [each for each in details[name] if self.is_within(each, scope)]
        return msgspec.structs.replace(view, details=details)


def _between(header: Header, start: int | None, stop: int | None) -> bool:
    at = header.timestamp
    return (start is None or at >= start) and (stop is None or at < stop)


def _is_about(entry: _Entry, target: str) -> bool:
    if entry.header.kind == Kind.REFUSED:
        held = _refused_target(entry.body)
        return target == held.get("id") or target in (held.get("ids") or ())
    try:
        wanted = any_id(target)
        return wanted is not None and wanted in named_in(entry.body)
    except Corrupt:
        return False


def _refused_target(body: Body) -> dict[str, Any]:
    held = body.get(F[ControlField.TARGET])
    return dict(held) if isinstance(held, dict) else {}
