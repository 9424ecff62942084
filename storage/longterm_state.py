"""What a long-term region knows in memory, and how it learns it again from the log.

``apply`` is the only way in which a record changes anything: a write stages its record and applies
it, an opening applies the same records in the same order. So what is rebuilt is what was there. One
thread owns it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from neverforget.storage.audit_index import AUDITED, MAYBE_AUDITED, AuditIndex, is_audited
from neverforget.storage.clock import Clock
from neverforget.storage.control import Body, ControlField
from neverforget.storage.errors import Corrupt
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.format import Kind
from neverforget.storage.log import Log
from neverforget.storage.log_state import LogState, chunks, heads_crc, of_kinds
from neverforget.storage.longterm_bodies import BodySource, LogBodies
from neverforget.storage.longterm_checks import unique
from neverforget.storage.longterm_fields import (
    CHUNK,
    SUMMARY,
    Id,
    M,
    MemoryField,
    id_in,
    id_of,
    id_text,
    key_hash,
    packed_in,
    unpack_ids,
)
from neverforget.storage.longterm_results import Status, TurnPoint
from neverforget.storage.longterm_snapshot import Snapshot
from neverforget.storage.memory_table import FOR_EVER, NEVER, NO_ROW, Array, MemoryTable
from neverforget.storage.recall_counts import RecallCounts
from neverforget.storage.record import Header
from neverforget.storage.recovery import Recovered
from neverforget.storage.relation_table import RelationTable
from neverforget.storage.working_loading import WorkingRecords
from neverforget.storage.working_memories import WorkingMemories

CONTENT = (Kind.REMEMBERED, Kind.REVISED)
ABOUT_ONE = (*CONTENT, Kind.TAGGED, Kind.UNTAGGED, Kind.RELATED, Kind.UNRELATED)
ABOUT_MANY = (
    Kind.FORGOTTEN,
    Kind.UNDONE,
    Kind.ARCHIVED,
    Kind.UNARCHIVED,
    Kind.PURGED,
    Kind.ERASING,
)
_is_audited = partial(is_audited, part=ControlField.OPERATION)
_DELETIONS = (*ABOUT_MANY, Kind.REFUSED)
_ON_RECORD = (*_DELETIONS, Kind.CHUNKED, Kind.SALVAGED)


class LongTermState(LogState):
    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        shard: int,
        log: Log,
        log_id: int,
        clock: Clock,
        bodies: BodySource | None = None,
    ) -> None:
        super().__init__(fs, directory, shard, log, log_id, clock)
        self.table = MemoryTable()
        self.relations = RelationTable()
        self.bodies: BodySource = bodies or LogBodies(log, self.is_erased_at)
        self.replayed_from = 0  # what stands below came from a snapshot
        self.applied = 0  # every record below it, of those that change anything, is in the table
        self.turns = 0  # odd while records take effect
        self.chunkings = AuditIndex()  # the CHUNKED records
        self.recalls = RecallCounts()
        self.working = WorkingMemories(self.table)
        self._appliers: dict[int, Callable[[Header, int, Body], None]] = {
            Kind.REMEMBERED: self._remembered,
            Kind.REVISED: self._remembered,
            Kind.TAGGED: self._tagged,
            Kind.UNTAGGED: self._untagged,
            Kind.RELATED: self._related,
            Kind.UNRELATED: self._unrelated,
            Kind.FORGOTTEN: self._forgotten,
            Kind.UNDONE: self._undone,
            Kind.ARCHIVED: self._archived,
            Kind.UNARCHIVED: self._unarchived,
            Kind.PURGED: self._gone,
            Kind.ERASING: self._gone,
            Kind.REFUSED: _nothing,
            Kind.CHUNKED: self._chunked,
            Kind.RECALLED: lambda _, position, body: self.recalls.apply(position, body),
            Kind.SALVAGED: lambda _, position, body: self.salvages.note(position),
            Kind.WORKED: self.working.worked,
            Kind.WORKING_STATE: self.working.stated,
        }

    # ---- loading ---------------------------------------------------------------------------------

    def load(self, recovered: Recovered, snapshot: Snapshot | None = None) -> None:
        """Build everything from the log; from what lies behind ``snapshot``, where there is one."""
        self._begin_loading(recovered)
        since = 0
        if snapshot is not None and self._is_of_this_log(snapshot, recovered):
            snapshot.restore(self.table, self.relations)
            since = snapshot.upto
        self.replayed_from = since
        worked = WorkingRecords(self.working)
        for heads, positions, body_ok in chunks(recovered.segments):
            worked.collect(heads, positions)
            self.requests.load(heads, positions, self._indexed_until)
            known = int(np.searchsorted(positions, np.uint64(since)))
            for position, kind in of_kinds(heads[:known], positions[:known], *_ON_RECORD):
                if kind in AUDITED:
                    self._note_audited(position, kind)
                elif kind == Kind.CHUNKED:
                    self.chunkings.note(position)
            self.recalls.find(heads, positions)
            unreadable = np.flatnonzero(~body_ok[:known])
            for position, kind in of_kinds(heads[unreadable], positions[unreadable], *CONTENT):
                self._note_unreadable(position, kind)
            for position, kind in of_kinds(
                heads[known:], positions[known:], *ABOUT_ONE, *_ON_RECORD
            ):
                self._load_one(position, kind)
        worked.load(self.control, self.are_erased_at, self.control_lost)
        self.recalls.load(self)
        self.applied = recovered.tail

    def _is_of_this_log(self, snapshot: Snapshot, recovered: Recovered) -> bool:
        """Every record that it knows of is there, and no other: else the log tells it all."""
        parts = ((segment.heads, segment.positions) for segment in recovered.segments)
        found = heads_crc(parts, snapshot.upto)
        return snapshot.upto <= recovered.tail and found == snapshot.heads_crc

    def _load_one(self, position: int, kind: int) -> None:
        try:
            header, body = self.control(position)
            self.apply(header, position, body)
        except Corrupt as error:
            self.control_lost(position, kind, error)
            self._lost_body(position, kind)

    def _note_unreadable(self, position: int, kind: int) -> None:
        """A version that was whole when the snapshot was taken: erased since, or damaged."""
        try:
            self.log.read(position)
        except Corrupt as error:
            self.control_lost(position, kind, error)
            row = self.table.find(id_in(self.log.header(position)))
            if row is not None and self.table.get(row, "position") == position:
                self.table.set(row, readable=False)

    def _note_audited(self, position: int, kind: int) -> None:
        if kind == Kind.SALVAGED:
            self.salvages.note(position)
        try:
            if kind not in MAYBE_AUDITED or _is_audited(kind, self.control(position)[1]):
                self.audit.note(position)
        except Corrupt:
            self.audit.note(position)

    def _lost_body(self, position: int, kind: int) -> None:
        """Only the header of this record can be read. Unreadable is not empty: the memory is
        there, and says that it cannot be read; one that was forgotten stays forgotten.
        """
        header = self.log.header(position)
        wanted = id_in(header)
        row = self.table.find(wanted)
        if kind in CONTENT:
            if row is None:
                self.table.add(
                    wanted, born=position, position=position, version=1, status=Status.ACTIVE,
                    created_at=header.timestamp, occurred_at=NEVER, valid_from=NEVER,
                    valid_to=FOR_EVER,
                )  # fmt: skip
            else:
                version = self.table.get(row, "version") + 1
                self.table.set(row, position=position, version=version, readable=False)
        elif kind == Kind.FORGOTTEN and row is not None:
            self._forget_rows(np.append(self.table.children(row), row), position)
        elif kind == Kind.CHUNKED:
            self.chunkings.note(position)

    # ---- applying --------------------------------------------------------------------------------

    def apply(self, header: Header, position: int, body: Body) -> None:
        """Raises Corrupt for a body that is not what its kind says; nothing has changed then."""
        try:
            self._appliers[header.kind](header, position, body)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise Corrupt(f"the record at {position} says nothing: {error!r}") from error
        if _is_audited(header.kind, body):
            self.audit.note(position)

    def _remembered(self, header: Header, position: int, body: Body) -> None:
        table, wanted = self.table, id_in(header)
        original = body.get(M[MemoryField.ORIGINAL])
        namespace = tuple(body.get(M[MemoryField.NAMESPACE], ()))
        key = body.get(M[MemoryField.KEY])
        occurred_at = body.get(M[MemoryField.OCCURRED_AT])
        valid_from, valid_to = (
            body.get(M[MemoryField.VALID_FROM]),
            body.get(M[MemoryField.VALID_TO]),
        )
        values: dict[str, Any] = {
            "position": position,
            "version": body.get(M[MemoryField.VERSION], 1),
            "readable": True,
            # That of a chunk is of its own original: nobody else's words stand there.
            "has_context": M[MemoryField.CONTEXT] in body and original is None,
            "created_at": body.get(M[MemoryField.CREATED_AT], header.timestamp),
            "occurred_at": NEVER if occurred_at is None else occurred_at,
            "valid_from": NEVER if valid_from is None else valid_from,
            "valid_to": FOR_EVER if valid_to is None else valid_to,
            "importance": body[M[MemoryField.IMPORTANCE]],
            "type": table.types.code(body[M[MemoryField.TYPE]]),
            "namespace": table.namespaces.code(namespace),
            "agent": table.agents.code(body.get(M[MemoryField.AGENT])),
            "speaker": table.speakers.code(body.get(M[MemoryField.SPEAKER])),
            "tags": table.tags.code(tuple(body.get(M[MemoryField.TAGS], ()))),
            "key": 0 if key is None else key_hash(namespace, key),
            "characters": len(body[M[MemoryField.TEXT]]),
        }
        of = None if original is None else table.find(id_of(original))
        row = table.find(wanted)
        if row is None:
            values["original"] = NO_ROW if of is None else of
            table.add(wanted, born=position, status=Status.ACTIVE, **values)
            return
        if of is not None:
            table.enter_original(row, of)
        if table.get(row, "key") == values["key"]:
            del values["key"]
        elif values["key"]:  # version 1 was unreadable: its key is known only now
            table.enter_key(row, values.pop("key"))
        table.set(row, **values)
        cascade = body.get(M[MemoryField.CASCADE], b"")
        if cascade:
            self._forget_rows(table.find_packed(cascade), position)

    def _chunked(self, header: Header, position: int, body: Body) -> None:
        """Of a chunk whose own record cannot be read this one says what it is."""
        table, original = self.table, self._row(id_in(header))
        name = table.types.values[table.get(original, "type")]
        has_summary = bool(body[M[MemoryField.DETAILS]]["summary"])
        parts = unpack_ids(body[M[MemoryField.CASCADE]])
        for at, wanted in enumerate(parts, 1):
            row = table.find(wanted)
            if row is not None and self.original_of(row) is None:
                suffix = SUMMARY if has_summary and at == len(parts) else CHUNK
                table.enter_original(row, original)
                table.set(row, type=table.types.code(name + suffix))
        self.chunkings.note(position)

    def _row(self, wanted: Id) -> int:
        row = self.table.find(wanted)
        if row is None:
            raise Corrupt(f"a record about memory {id_text(wanted)}, whose first record is lost")
        return row

    def _tagged(self, header: Header, position: int, body: Body) -> None:
        row, tags = self._row(id_in(header)), self.table.tags
        held = tags.values[self.table.get(row, "tags")]
        self.table.set(row, tags=tags.code(unique((*held, *body[M[MemoryField.TAGS]]))))

    def _untagged(self, header: Header, position: int, body: Body) -> None:
        row, tags = self._row(id_in(header)), self.table.tags
        gone = set(body[M[MemoryField.TAGS]])
        held = tags.values[self.table.get(row, "tags")]
        self.table.set(row, tags=tags.code(tuple(t for t in held if t not in gone)))

    def target_in(self, body: Body) -> int:
        target = body[M[MemoryField.TARGET]]
        if isinstance(target, bytes):
            return self._row(id_of(target))
        namespace, session, first, last = target
        return self.relations.target_of(TurnPoint(tuple(namespace), session, first, last))

    def _related(self, header: Header, position: int, body: Body) -> None:
        source, kind = self._row(id_in(header)), body[M[MemoryField.RELATION]]
        self.relations.put(source, self.target_in(body), kind, body[M[MemoryField.WEIGHT]])

    def _unrelated(self, header: Header, position: int, body: Body) -> None:
        source, kind = self._row(id_in(header)), body[M[MemoryField.RELATION]]
        self.relations.drop(source, self.target_in(body), kind)

    def _rows(self, body: Body) -> Array:
        return self.table.find_packed(packed_in(body))

    def _forgotten(self, header: Header, position: int, body: Body) -> None:
        self._forget_rows(self._rows(body), position)

    def _forget_rows(self, rows: Array, position: int) -> None:
        status = self.table.column("status")
        rows = rows[(status[rows] == Status.ACTIVE) | (status[rows] == Status.ARCHIVED)]
        self.table.set(rows, before=status[rows], forgotten_in=position)
        self.table.set(rows, status=Status.FORGOTTEN)

    def _undone(self, header: Header, position: int, body: Body) -> None:
        rows = self._rows(body)
        rows = rows[self.table.column("status")[rows] == Status.FORGOTTEN]
        self.table.set(rows, status=self.table.column("before")[rows], forgotten_in=0)

    def _archived(self, header: Header, position: int, body: Body) -> None:
        rows = self._rows(body)
        rows = rows[self.table.column("status")[rows] == Status.ACTIVE]
        self.table.set(rows, status=Status.ARCHIVED)

    def _unarchived(self, header: Header, position: int, body: Body) -> None:
        rows = self._rows(body)
        rows = rows[self.table.column("status")[rows] == Status.ARCHIVED]
        self.table.set(rows, status=Status.ACTIVE)

    def _gone(self, header: Header, position: int, body: Body) -> None:
        self.table.set(self._rows(body), status=Status.GONE)
        self.working.end(unpack_ids(body.get(M[MemoryField.ENDED], b"")))

    # ---- what everybody asks ---------------------------------------------------------------------

    def ids(self, rows: Array | Sequence[int]) -> list[Id]:
        return [self.table.id(int(row)) for row in rows]

    def body_at(self, position: int) -> Body:
        """What a version says, for who reads very many: from the log, a third of what a generation
        takes, and from there where the log cannot be read. Raises Corrupt.
        """
        if not self.is_erased_at(position):
            try:
                return self.control(position)[1]
            except Corrupt:
                pass
        return self.bodies.read(position)[1]

    def original_of(self, row: int) -> int | None:
        original: int = self.table.get(row, "original")
        return None if original == NO_ROW else original


def _nothing(header: Header, position: int, body: Body) -> None:
    """A refusal is on record and changes nothing."""
