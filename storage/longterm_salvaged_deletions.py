"""Carrying out again what an old owner was asked to delete, or to bring back, of memories.

Forgetting and archiving only of the versions that it was about; the rest is on record. A purge or
an erasure reaches whatever is there of what it named, changed or not: what was erased stays erased.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from neverforget.storage import control
from neverforget.storage.control import Body, ControlField, F
from neverforget.storage.erasure import CONFIRMED
from neverforget.storage.format import Kind
from neverforget.storage.longterm_erasing import LongTermEraser
from neverforget.storage.longterm_fields import Id, M, MemoryField, id_in, unpack_ids
from neverforget.storage.longterm_forgetting import Asked, Forgetter
from neverforget.storage.longterm_reads import LongTermReads
from neverforget.storage.longterm_results import Status
from neverforget.storage.longterm_staging import Planned, Salvaged, Staging
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.old_versions import OldVersions
from neverforget.storage.record import body_of
from neverforget.storage.salvage_reading import OldRecord
from neverforget.storage.salvaging import BY, CannotBeSalvaged, Salvaging
from neverforget.storage.slices import in_one_go

# What a memory must be for it, and what it is where that is done already.
_FROM = {
    Kind.FORGOTTEN: (Status.ACTIVE, Status.ARCHIVED),
    Kind.ARCHIVED: (Status.ACTIVE,),
    Kind.UNARCHIVED: (Status.ARCHIVED,),
    Kind.UNDONE: (Status.FORGOTTEN,),
}
_DONE = {
    Kind.FORGOTTEN: (Status.FORGOTTEN, Status.GONE),
    Kind.ARCHIVED: (Status.ARCHIVED,),
    Kind.UNARCHIVED: (Status.ACTIVE,),
    Kind.UNDONE: (Status.ACTIVE, Status.ARCHIVED),
}


class SalvagedDeletions:
    def __init__(
        self,
        salvaging: Salvaging,
        was_brought: Callable[[OldRecord, int], None],
        state: LongTermState,
        reads: LongTermReads,
        staging: Staging,
        forgetter: Forgetter,
        eraser: LongTermEraser,
        versions: OldVersions,
    ) -> None:
        self._salvaging = salvaging
        self._was_brought = was_brought
        self._state = state
        self._reads = reads
        self._staging = staging
        self._forgetter = forgetter
        self._eraser = eraser
        self._versions = versions

    # ---- forgetting, archiving, and back ---------------------------------------------------------

    def delete(self, batch: Sequence[OldRecord]) -> None:
        for old in batch:
            if old.header.kind in _FROM:
                self._delete(old, batch)

    def _delete(self, old: OldRecord, batch: Sequence[OldRecord]) -> None:
        salvaging, state = self._salvaging, self._state
        if salvaging.place_of(old) is not None:
            salvaging.report.came_again += 1
            return
        kind, body = Kind(old.header.kind), control.read_body(body_of(old.record))
        rows, unfit = [], 0
        for wanted in unpack_ids(body.get(M[MemoryField.IDS], b"")):
            row = state.table.find(wanted)
            if row is None and wanted in self._versions.gone:
                continue
            if row is None or not self._fits(kind, row, body):
                unfit += row is None or state.table.get(row, "status") not in _DONE[kind]
            else:
                rows.append(row)
        if unfit:
            what = f"{unfit:,} of the memories were changed or deleted since, or are not there"
            salvaging.conflict(old, what, brought=bool(rows))
        if not rows:
            if not unfit:
                salvaging.settle(old)
            return
        made = self._forgetter.naming(rows, self._children(kind, rows, body), self._by(body))
        kept = (MemoryField.DETAILS, MemoryField.REQUEST)
        made |= {M[field]: body[M[field]] for field in kept if M[field] in body}
        if kind == Kind.UNDONE:
            made[M[MemoryField.FORGOTTEN]] = self._versions.place(body[M[MemoryField.FORGOTTEN]])
        asked = [
            Planned(Kind.ASKED, id_in(each.header), control.read_body(body_of(each.record)))
            for each in batch
            if each.header.kind == Kind.ASKED
        ]
        planned = [Planned(kind, id_in(old.header), made), *asked]
        request = old.header.producer_id, old.header.producer_seq
        digest = body.get(M[MemoryField.REQUEST], b"")
        source = Salvaged([old.source], old.header.timestamp)
        staged = self._staging.stage_only(planned, request, digest, source)
        state.log.write()  # on the disk first, then in effect
        state.log.sync()
        self._staging.let_count(staged)
        self._was_brought(old, staged.records[0][0])

    def _fits(self, kind: Kind, row: int, body: Body) -> bool:
        table = self._state.table
        if table.get(row, "status") not in _FROM[kind] or self._reads.is_derived(row):
            return False
        if kind != Kind.UNDONE:
            return self._versions.is_same(row)
        forgotten = self._versions.place(body[M[MemoryField.FORGOTTEN]])
        if table.get(row, "forgotten_in") != forgotten:
            return False
        if not table.get(row, "key"):
            return True
        _, held = self._state.bodies.read(table.get(row, "position"))
        namespace = tuple(held.get(M[MemoryField.NAMESPACE], ()))
        return self._reads.holder(namespace, held[M[MemoryField.KEY]]) is None

    def _children(self, kind: Kind, rows: Sequence[int], body: Body) -> list[int]:
        """Chunks and summaries that change with them."""
        table = self._state.table
        found: list[int] = []
        for row in rows:
            children = table.children(row)
            fit = np.isin(table.column("status")[children], [int(each) for each in _FROM[kind]])
            if kind == Kind.UNDONE:
                fit &= table.column("forgotten_in")[children] == table.get(row, "forgotten_in")
            found += children[fit].tolist()
        return found

    def _by(self, body: Body) -> str:
        by = body.get(F[ControlField.BY])
        return by if isinstance(by, str) else BY

    # ---- purging and erasing ---------------------------------------------------------------------

    def erase(self, batch: Sequence[OldRecord]) -> None:
        """Durable when it returns. The request of its client tells a repeat."""
        bodies = {each.position: control.read_body(body_of(each.record)) for each in batch}
        first = next(e for e in batch if e.header.kind in (Kind.PURGED, Kind.ERASING))
        body = bodies[first.position]
        said: Body = {}
        for each in batch:
            if each.header.kind == Kind.ASKED:
                said |= bodies[each.position]
        reason = said.get(F[ControlField.REASON])
        request = first.header.producer_id, first.header.producer_seq
        asked = Asked(CONFIRMED, self._by(body), reason, request)
        wanted = said.get(M[MemoryField.FILTER])
        if first.header.kind == Kind.PURGED:
            if not isinstance(wanted, dict) or "older_than" not in wanted:
                raise CannotBeSalvaged("what was to be purged is not known any more")
            place = tuple(wanted.get("namespace", ()))
            in_one_go(self._eraser.purge(wanted["older_than"], place, False, asked))
            return
        ids: list[Id] = []
        for each in batch:
            if each.header.kind == Kind.ERASING:
                ids += unpack_ids(bodies[each.position].get(M[MemoryField.IDS], b""))
        rows = self._state.table.find_many(list(dict.fromkeys(ids)))
        there = self._state.table.column("status")[rows] != Status.GONE
        rows = rows[there]
        rows = rows[[not self._reads.is_derived(row) for row in rows.tolist()]]
        if len(rows):
            digest = _digest(bodies)
            in_one_go(self._eraser.erase_again(rows, asked, digest))
        else:
            self._salvaging.report.dropped += 1
            self._salvaging.say(
                first, {"erased": "what was never shipped; it stays erased"}, "erase"
            )


def _digest(bodies: dict[int, Body]) -> bytes:
    for body in bodies.values():
        digest = body.get(M[MemoryField.REQUEST])
        if isinstance(digest, bytes):
            return digest
    return b""
