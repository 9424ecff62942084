"""Forgetting and archiving: on record first, durable, and only then in effect.

The record names everything that changes: the memories, and the chunks and summaries that go with
them. It is the audit entry and the deletion in one: a crash leaves both or neither. Forgetting can
be undone until it is purged; relations and tags stay where they are and are seen again then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from neverforget.storage import control
from neverforget.storage.audit_places import SALT_BYTES, places_of, shared
from neverforget.storage.control import Body, ControlField, F
from neverforget.storage.erasure import CONFIRMED
from neverforget.storage.errors import ConfirmationRequired, Conflict, InvalidArgument
from neverforget.storage.format import Kind
from neverforget.storage.longterm_auditing import LongTermAuditor
from neverforget.storage.longterm_content import plain_filter
from neverforget.storage.longterm_fields import (
    CHUNK,
    ID_BYTES,
    NO_ID,
    M,
    MemoryField,
    any_id,
    id_text,
    packed_in,
    packed_texts,
    unpack_ids,
)
from neverforget.storage.longterm_filters import is_empty
from neverforget.storage.longterm_matching import Matching
from neverforget.storage.longterm_reads import LongTermReads
from neverforget.storage.longterm_results import (
    IDS_MAX,
    Forgotten,
    MemoryFilter,
    Namespace,
    Status,
)
from neverforget.storage.longterm_staging import (
    BESIDE,
    Planned,
    Request,
    Staged,
    Staging,
    request_digest,
)
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.memory_table import Array
from neverforget.storage.repeats import Repeated
from neverforget.storage.slices import Slices


@dataclass(frozen=True, slots=True)
class Asked:
    """Who wants something deleted, and why. ``confirm`` must be the word."""

    confirm: str | None
    by: str
    reason: str | None
    request: Request

    def behind(self, filter_said: dict[str, Any] | None = None) -> list[Planned]:
        """The ASKED record that follows the entry, where there is anything to say in it."""
        body: Body = {}
        if self.reason is not None:
            body[F[ControlField.REASON]] = self.reason
        if filter_said is not None:
            body[M[MemoryField.FILTER]] = filter_said
        return [Planned(Kind.ASKED, NO_ID, body)] if body else []


class Forgetter:
    """Every method but the undoing ones writes and syncs by itself."""

    def __init__(
        self,
        state: LongTermState,
        reads: LongTermReads,
        staging: Staging,
        auditor: LongTermAuditor,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._state = state
        self._reads = reads
        self._staging = staging
        self._auditor = auditor
        self._random_bytes = random_bytes

    # ---- refusing --------------------------------------------------------------------------------

    def require(self, operation: str, target: dict[str, Any], asked: Asked) -> None:
        """Raises ConfirmationRequired where the word is missing; the refusal is durable then."""
        if asked.confirm == CONFIRMED:
            return
        self.refuse(operation, target, asked.by, asked.reason)
        self._state.log.write()
        self._state.log.sync()
        raise ConfirmationRequired(f"{operation} needs confirm=nf.CONFIRMED; nothing was changed")

    def refuse(self, operation: str, target: dict[str, Any], by: str, reason: str | None) -> int:
        """Stage the entry of a refusal. The position that must be durable."""
        salt = self._random_bytes(SALT_BYTES)
        body = control.refused_body(operation, target, by, reason) | {
            F[ControlField.SALT]: salt,
            M[MemoryField.PLACES]: places_of(self._place_of(target), salt),
        }
        return self._staging.stage([Planned(Kind.REFUSED, NO_ID, body)], (0, 0), b"").end

    def _place_of(self, target: dict[str, Any]) -> Namespace:
        """Where it is what was not deleted: memories, or what a filter asks for."""
        said = target.get("filter")
        if isinstance(said, dict):
            place = said.get("namespace")
            return tuple(place) if isinstance(place, list) else ()
        named = target["ids"] if isinstance(target.get("ids"), list) else [target.get("id")]
        table = self._state.table
        ids = [wanted for each in named if (wanted := any_id(each)) is not None]
        codes = table.column("namespace")[table.find_many(ids)]
        return shared(table.namespaces.values[code] for code in codes.tolist())

    # ---- one memory ------------------------------------------------------------------------------

    def forget(self, memory_id: str, asked: Asked) -> Forgotten:
        """One that is forgotten already answers its first entry. Raises NotFound."""
        self.require("forget", {"id": memory_id}, asked)
        return self._one(Kind.FORGOTTEN, memory_id, asked)

    def archive(self, memory_id: str, asked: Asked) -> Forgotten:
        """Raises NotFound."""
        self.require("archive", {"id": memory_id}, asked)
        return self._one(Kind.ARCHIVED, memory_id, asked)

    def _one(self, kind: Kind, memory_id: str, asked: Asked) -> Forgotten:
        state, table = self._state, self._state.table
        digest = request_digest(kind.name, [memory_id, asked.by, asked.reason])
        repeated = self._staging.repeated(asked.request, digest)
        if repeated is not None:
            return self._answer_again(repeated)
        row = self._reads.row(memory_id, include_forgotten=kind == Kind.FORGOTTEN)
        if self._reads.is_derived(row):
            raise InvalidArgument(f"{memory_id} is made from another memory; name that one")
        if table.get(row, "status") == Status.FORGOTTEN:
            entry = self._auditor.view(table.get(row, "forgotten_in"))
            return Forgotten(entry, 0, [], state.log.durable)
        if kind == Kind.ARCHIVED and table.get(row, "status") == Status.ARCHIVED:
            return Forgotten(None, 0, [], state.log.durable)
        body = self.naming([row], self._with_children([row], kind), asked.by)
        body[M[MemoryField.DETAILS]] = self._details(row, body)
        planned = [Planned(kind, table.id(row), body), *asked.behind()]
        return self._durably(planned, asked.request, digest)

    def _details(self, row: int, body: Body) -> dict[str, Any]:
        """What goes with it. Words that it was tagged with are not repeated here."""
        state, table = self._state, self._state.table
        chunks: list[str] = []
        summaries: list[str] = []
        for wanted in unpack_ids(body[M[MemoryField.CASCADE]]):
            child = table.find(wanted)
            if child is not None:
                name = table.types.values[table.get(child, "type")]
                (chunks if name.endswith(CHUNK) else summaries).append(id_text(wanted))
        return {
            "position": table.get(row, "position"),
            "version": table.get(row, "version"),
            "tags": len(table.tags.values[table.get(row, "tags")]),
            "relations": len(state.relations.of(row)),
            "chunks": chunks,
            "summaries": summaries,
        }

    def undo_forget(self, memory_id: str, by: str, request: Request) -> Forgotten:
        """Stage the undoing of a forgetting. Raises NotFound (purged, or never there), Conflict
        when it is not forgotten, or when its key was given to another since.
        """
        state, table = self._state, self._state.table
        digest = request_digest("undo-forget", [memory_id, by])
        repeated = self._staging.repeated(request, digest)
        if repeated is not None:
            return self._answer_again(repeated)
        row = self._reads.row(memory_id, include_forgotten=True)
        forgotten_in: int = table.get(row, "forgotten_in")
        if table.get(row, "status") != Status.FORGOTTEN:
            raise Conflict(f"memory {memory_id} is not forgotten", seq=table.get(row, "version"))
        if self._reads.is_derived(row):
            raise InvalidArgument(f"{memory_id} is made from another memory; name that one")
        if table.get(row, "key"):
            _, held = state.bodies.read(table.get(row, "position"))
            key = held[M[MemoryField.KEY]]
            holder = self._reads.holder(tuple(held.get(M[MemoryField.NAMESPACE], ())), key)
            if holder is not None:
                raise Conflict(
                    f"the key {key!r} was given to memory {id_text(table.id(holder))} since; "
                    "forget that one first",
                    seq=None,
                )
        children = table.children(row)
        went_along = children[table.column("forgotten_in")[children] == np.uint64(forgotten_in)]
        body = self.naming([row], went_along, by) | {M[MemoryField.FORGOTTEN]: forgotten_in}
        planned = [Planned(Kind.UNDONE, table.id(row), body)]
        return self._answer(self._staging.stage(planned, request, digest))

    def unarchive(self, memory_id: str, by: str, request: Request) -> Forgotten:
        """Stage. Raises NotFound; one that is active stays so."""
        table = self._state.table
        digest = request_digest("unarchive", [memory_id, by])
        repeated = self._staging.repeated(request, digest)
        if repeated is not None:
            return self._answer_again(repeated)
        row = self._reads.row(memory_id)
        if table.get(row, "status") != Status.ARCHIVED:
            return Forgotten(None, 0, [], self._state.log.durable)
        children = table.children(row)
        archived = children[table.column("status")[children] == Status.ARCHIVED]
        body = self.naming([row], archived, by)
        planned = [Planned(Kind.UNARCHIVED, table.id(row), body)]
        return self._answer(self._staging.stage(planned, request, digest))

    # ---- many ------------------------------------------------------------------------------------

    def forget_where(self, wanted: MemoryFilter, dry_run: bool, asked: Asked) -> Slices[Forgotten]:
        """All that match, archived ones too: exactly ``count``. One atomic batch: who matches when
        it is written goes, however long it took to find them, and nobody else.
        """
        return self._where("forget", Kind.FORGOTTEN, wanted, dry_run, asked)

    def archive_where(self, wanted: MemoryFilter, dry_run: bool, asked: Asked) -> Slices[Forgotten]:
        return self._where("archive", Kind.ARCHIVED, wanted, dry_run, asked)

    def _where(
        self, operation: str, kind: Kind, wanted: MemoryFilter, dry_run: bool, asked: Asked
    ) -> Slices[Forgotten]:
        state = self._state
        if is_empty(wanted):
            raise InvalidArgument(f"{operation}_where without a filter would {operation} all")
        said = plain_filter(wanted)
        status = None if kind == Kind.FORGOTTEN else "active"
        wanted = msgspec.structs.replace(wanted, status=status, derived=False)
        matching = Matching(state, wanted, forgotten=False)
        if dry_run:
            yield from matching.look()
            return Forgotten(None, len(matching.rows()), [], state.log.durable)
        self.require(operation, {"filter": said}, asked)
        digest = request_digest(kind.name, [said, asked.by, asked.reason])
        repeated = self._staging.repeated(asked.request, digest)
        if repeated is not None:
            return self._answer_again(repeated)
        yield from matching.look()
        rows = matching.rows()
        if not len(rows):
            return Forgotten(None, 0, [], state.log.durable)
        body = self.naming(rows, self._with_children(rows, kind), asked.by)
        planned = [Planned(kind, NO_ID, body), *asked.behind(said)]
        return self._durably(planned, asked.request, digest)

    # ---- shared ----------------------------------------------------------------------------------

    def _with_children(self, rows: Sequence[int] | Array, kind: Kind) -> Array:
        """Rows of the chunks and summaries that change with ``rows``."""
        table = self._state.table
        status = table.column("status")
        last = Status.ACTIVE if kind == Kind.ARCHIVED else Status.ARCHIVED
        living = status <= last
        found: Array = np.flatnonzero(living & np.isin(table.column("original"), rows))
        return found

    def naming(self, rows: Sequence[int] | Array, cascade: Sequence[int] | Array, by: str) -> Body:
        """Of an entry: the memories, those that go with them, who does it, and where they are."""
        state, salt = self._state, self._random_bytes(SALT_BYTES)
        rows, cascade = np.asarray(rows, np.int64), np.asarray(cascade, np.int64)
        codes = np.flatnonzero(np.bincount(state.table.column("namespace")[rows]))
        place = shared(state.table.namespaces.values[code] for code in codes.tolist())
        return {
            M[MemoryField.IDS]: state.table.packed_ids(rows),
            M[MemoryField.CASCADE]: state.table.packed_ids(cascade),
            F[ControlField.BY]: by,
            F[ControlField.SALT]: salt,
            M[MemoryField.PLACES]: places_of(place, salt),
        }

    def _durably(self, planned: list[Planned], request: Request, digest: bytes) -> Forgotten:
        """On the disk first, then in effect. After Poisoned the next opening tells which."""
        staged = self.stage_only(planned, request, digest)
        self._state.log.write()
        self._state.log.sync()
        self._staging.let_count(staged)
        return self._answer(staged)

    def stage_only(self, planned: list[Planned], request: Request, digest: bytes) -> Staged:
        """As ``Staging.stage_only``, for what may be too much."""
        try:
            return self._staging.stage_only(planned, request, digest)
        except InvalidArgument as error:
            count = len(planned[0].body.get(M[MemoryField.IDS], b"")) // ID_BYTES
            raise InvalidArgument(
                f"this is too much at once, {count:,} memories: {error.message}. Nothing was "
                "changed; narrow the filter and repeat it"
            ) from error

    def _answer(self, staged: Staged) -> Forgotten:
        records = [(p, body) for p, header, body in staged.records if header.kind not in BESIDE]
        return self.answer(records, staged.end)

    def _answer_again(self, repeated: Repeated) -> Forgotten:
        entries = [p for p, header in repeated.records if header.kind not in BESIDE]
        records = [(p, self._state.control(p)[1]) for p in entries]
        return self.answer(records, repeated.end)

    def answer(self, records: list[tuple[int, Body]], end: int) -> Forgotten:
        """From the records of one deletion."""
        count = sum(len(body[M[MemoryField.IDS]]) // ID_BYTES for _, body in records)
        named = b"".join(packed_in(body) for _, body in records)
        ids = packed_texts(named) if len(named) <= IDS_MAX * ID_BYTES else []
        return Forgotten(self._auditor.view(records[0][0]), count, ids, end)
