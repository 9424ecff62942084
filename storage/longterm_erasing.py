"""Purging and erasing: what was said becomes zeros, on purpose and on record.

    1. everything so far is synced; one batch names who goes (IDS) and every byte range; sync
    2. the ranges are zeroed, in the log and in the copies that recovery set aside; sync
    3. an ERASED record; sync

From step 1 on the memories are gone; a crash later is made good by the next opening. ``purge`` does
this to what was forgotten long enough ago, and ends the possibility to undo. ``erase`` does it to
anything, and reaches further: memories derived only from it go too (others are flagged), and what
the audit was told of it, as a filter or a reason. Both take a text that stands as ``context`` in
another memory out of every version of that one.

Both are done in slices, and others may write between them. Who goes is settled when it begins, less
whose forgetting is undone before step 1, which is one moment: what stands in the log by then of
those memories, of what was derived from them, or as their text in others, goes with them. Behind
step 1 nobody finds or reads any of it. One purge or erasure at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from neverforget.storage.control import Body, ControlField, F
from neverforget.storage.errors import Corrupt, InvalidArgument, NotFound
from neverforget.storage.format import Kind
from neverforget.storage.longterm_derived import Going, derived_from
from neverforget.storage.longterm_erasure_batch import ErasureBatch, ErasureBatches, without
from neverforget.storage.longterm_erasure_plan import ErasurePlan, ErasurePlanner
from neverforget.storage.longterm_fields import (
    ID_BYTES,
    NO_ID,
    M,
    MemoryField,
    id_text,
    is_derived_type,
    namespace_scope,
    packed_in,
    packed_texts,
)
from neverforget.storage.longterm_forgetting import Asked, Forgetter
from neverforget.storage.longterm_reads import LongTermReads
from neverforget.storage.longterm_results import (
    IDS_MAX,
    Forgotten,
    LongTermErasure,
    Namespace,
    Status,
)
from neverforget.storage.longterm_staging import Planned, Staging, request_digest
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.memory_table import Array
from neverforget.storage.record import Header
from neverforget.storage.repeats import Repeated
from neverforget.storage.slices import Slices
from neverforget.storage.zeroing import unreachable_objects

_EVER_UNREACHABLE = "backups and exports made before it"
_PURGE = "purge"
_SLICE: Final = 256  # headers read between two yields


class LongTermEraser:
    """Every method writes and syncs by itself."""

    def __init__(
        self,
        state: LongTermState,
        reads: LongTermReads,
        staging: Staging,
        forgetter: Forgetter,
        planner: ErasurePlanner,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._state = state
        self._reads = reads
        self._staging = staging
        self._forgetter = forgetter
        self._random_bytes = random_bytes
        self._planner = planner
        self._batches = ErasureBatches(state, staging, forgetter, planner)

    # ---- purging ---------------------------------------------------------------------------------

    def purge(
        self, older_than: int | None, scope: Namespace, dry_run: bool, asked: Asked
    ) -> Slices[Forgotten]:
        """What was forgotten before ``older_than`` can be undone no more. Exactly ``count``
        memories; chunks and summaries not counted.
        """
        state = self._state
        if older_than is None:
            raise InvalidArgument("purge needs older_than: nothing is purged by default")
        said: dict[str, Any] = {"older_than": older_than}
        if scope:
            said["namespace"] = list(scope)
        if not dry_run:
            self._forgetter.require("purge", {"filter": said}, asked)
        digest = request_digest("purge", [said, asked.by, asked.reason])
        repeated = None if dry_run else self._staging.repeated(asked.request, digest)
        if repeated is not None:
            self._finish_first()
            return self._forgetter.answer(self._bodies(repeated), repeated.end)
        if not dry_run:
            self._finish_first()
        rows, since = yield from self._forgotten_before(older_than, scope)
        if dry_run or not len(rows):
            return Forgotten(None, len(self._plain(rows)), [], state.log.durable)

        def going() -> Going:
            """Whose forgetting was not undone meanwhile."""
            status, held = state.table.column("status"), state.table.column("forgotten_in")
            still = (status[rows] == Status.FORGOTTEN) & (held[rows] == since)
            return Going(rows[still], rows[:0])

        plan = ErasurePlan(going, asked.by, everywhere=False)
        yield from self._planner.make(plan)
        own = self._plain(plan.rows)
        if not len(plan.rows):
            return Forgotten(None, 0, [], state.log.durable)
        body = self._forgetter.naming(own, without(plan.doomed, own), asked.by)
        records = self._planner.revisions(plan)
        if records:
            body[M[MemoryField.DETAILS]] = {"revised": _ids_about(records)}
        entry = [Planned(Kind.PURGED, NO_ID, body), *asked.behind(said)]
        batch = ErasureBatch([*entry, *records], {F[ControlField.OPERATION]: _PURGE}, own)
        staged = yield from self._batches.carry_out(plan, batch, asked.request, digest)
        purged = [(p, body) for p, header, body in staged.records if header.kind == Kind.PURGED]
        return self._forgetter.answer(purged, state.log.durable)

    def _forgotten_before(self, older_than: int, scope: Namespace) -> Slices[tuple[Array, Array]]:
        """Rows, and the positions of the records that forgot them."""
        table, log = self._state.table, self._state.log
        rows = self._inside(scope, table.column("status") == Status.FORGOTTEN)
        since = table.column("forgotten_in")[rows]
        positions, which = np.unique(since, return_inverse=True)
        old = np.zeros(len(positions), np.bool_)
        for number, position in enumerate(positions.tolist()):
            old[number] = log.header(position).timestamp < older_than
            if number % _SLICE == _SLICE - 1:
                yield
        return rows[old[which]], since[old[which]]

    def _inside(self, namespace: Namespace, mask: Array) -> Array:
        """Rows at or below a namespace."""
        table = self._state.table
        return np.flatnonzero(
            mask & table.namespaces.under(tuple(namespace))[table.column("namespace")]
        )

    def _plain(self, rows: Array) -> Array:
        """Without chunks and summaries."""
        table = self._state.table
        derived = np.array([is_derived_type(name) for name in table.types.values], np.bool_)
        found: Array = rows[~derived[table.column("type")[rows]]]
        return found

    # ---- erasing ---------------------------------------------------------------------------------

    def erase(
        self, ids: Sequence[str], asked: Asked, bare: Sequence[str] = ()
    ) -> Slices[LongTermErasure]:
        """These memories, whatever their status, and the context of those that are to be ``bare``:
        what is said there is no other memory's text. Raises NotFound, ConfirmationRequired,
        OutOfSpace with nothing erased, Poisoned with the erasure carried out at the next opening.
        """
        named = list(dict.fromkeys(ids))
        target = {"id": named[0]} if len(named) == 1 else {"ids": named}
        self._forgetter.require("erase", target, asked)
        said = [named, asked.by, asked.reason, *([list(bare)] if bare else [])]
        digest = request_digest("erase", said)
        repeated = self._staging.repeated(asked.request, digest)
        if repeated is not None:
            return self._answer_again(repeated)
        rows = [self._reads.row(each, include_forgotten=True) for each in named]
        bare_rows = [row for each in bare if (row := self._row_of(each)) is not None]
        if not rows and not bare_rows:
            raise NotFound("no memory was named")
        for each, row in zip(named, rows):
            if self._reads.is_derived(row):
                raise InvalidArgument(f"{each} is made from another memory; erase that one")
        scope = self._text_scope(rows[0]) if len(rows) == 1 else "\n".join(named).encode()
        unique = np.unique(np.array(rows, np.int64))
        return (yield from self._erase(unique, scope, None, asked, digest, tuple(bare_rows)))

    def erase_again(self, rows: Array, asked: Asked, digest: bytes) -> Slices[LongTermErasure]:
        """What another owner was asked to erase under this request, as far as it is here."""
        scope = self._text_scope(int(rows[0])) if len(rows) == 1 else b""
        return (yield from self._erase(rows, scope, None, asked, digest))

    def _row_of(self, memory_id: str) -> int | None:
        try:
            return self._reads.row(memory_id, include_forgotten=True)
        except NotFound:
            return None

    def erase_where(
        self, namespace: Namespace, dry_run: bool, asked: Asked
    ) -> Slices[LongTermErasure]:
        """Every memory of this namespace and below, and what the audit says of it."""
        if not namespace:
            raise InvalidArgument("erase_where without a namespace would erase all")
        namespace = tuple(namespace)
        if not dry_run:
            target = {"filter": {"namespace": list(namespace)}}
            self._forgetter.require("erase", target, asked)
        digest = request_digest("erase_where", [list(namespace), asked.by, asked.reason])
        repeated = None if dry_run else self._staging.repeated(asked.request, digest)
        if repeated is not None:
            return self._answer_again(repeated)
        rows = self._plain(self._inside(namespace, self._state.table.alive()))
        if dry_run:
            return self._without_doing_it(rows)
        scope = namespace_scope(namespace, "")
        return (yield from self._erase(rows, scope, namespace, asked, digest))

    def _without_doing_it(self, rows: Array) -> LongTermErasure:
        """What it would take: those derived only from these memories too."""
        going = derived_from(self._state, rows)
        count = len(self._plain(going.rows))
        ids = _few_texts(self._state.table.packed_ids(going.rows))
        flagged = [id_text(each) for each in self._state.ids(going.flagged)]
        now = self._state.clock.now_us()
        return LongTermErasure(count, 0, ids, flagged, [], [_EVER_UNREACHABLE], now)

    def _text_scope(self, row: int) -> bytes:
        try:
            text: str = self._reads.view(row).text
        except Corrupt:
            return b""
        return text.encode("utf-8", "surrogatepass")

    def _erase(
        self,
        rows: Array,
        scope: bytes,
        namespace: Namespace | None,
        asked: Asked,
        digest: bytes,
        bare: tuple[int, ...] = (),
    ) -> Slices[LongTermErasure]:
        self._finish_first()

        def going() -> Going:
            return derived_from(self._state, rows)

        plan = ErasurePlan(going, asked.by, everywhere=True, namespace=namespace, bare=bare)
        yield from self._planner.make(plan)
        records = self._planner.revisions(plan)
        # Those that lose their context are not named: it says where the entry is to be seen.
        about = rows if len(rows) else np.array(bare, np.int64)
        named = self._forgetter.naming(about, rows[:0], asked.by)
        salt = named[F[ControlField.SALT]]
        extra = named | {
            F[ControlField.DIGEST]: hashlib.blake2b(scope, digest_size=16, salt=salt).digest(),
            M[MemoryField.DETAILS]: {
                "count": len(self._plain(plan.rows)),
                "flagged": plan.flagged,
                "revised": _ids_about(records),
            },
        }
        behind = [*asked.behind(), *plan.recalls.told_again(self._state, namespace)]
        batch = ErasureBatch(records, extra, rows, behind)
        staged = yield from self._batches.carry_out(plan, batch, asked.request, digest)
        first = next(r for r in staged.records if r[1].kind == Kind.ERASING)
        return self._answer(first[1], first[2])

    def complete_unfinished(self) -> int:
        """Carry out what a crash interrupted. How many there were."""
        return self._batches.complete_unfinished()

    def _finish_first(self) -> None:
        """What was asked before may be on record and no more: the replica did not answer then."""
        if self._state.unfinished and self._state.shipper is not None:
            self.complete_unfinished()

    # ---- answering -------------------------------------------------------------------------------

    def _bodies(self, repeated: Repeated) -> list[tuple[int, Body]]:
        found = [(p, h) for p, h in repeated.records if h.kind == Kind.PURGED]
        return [(position, self._state.control(position)[1]) for position, _ in found]

    def _answer_again(self, repeated: Repeated) -> LongTermErasure:
        self._finish_first()
        position, header = next(r for r in repeated.records if r[1].kind == Kind.ERASING)
        return self._answer(header, self._state.control(position)[1])

    def _answer(self, header: Header, body: Body) -> LongTermErasure:
        details: dict[str, Any] = body[M[MemoryField.DETAILS]]
        return LongTermErasure(
            details["count"],
            body[F[ControlField.BYTES]],
            _few_texts(packed_in(body)),
            details["flagged"],
            details["revised"],
            [_EVER_UNREACHABLE, *unreachable_objects(self._state)],
            header.timestamp,
        )


def _ids_about(records: Sequence[Planned]) -> list[str]:
    return [id_text(each.about) for each in records]


def _few_texts(packed: bytes) -> list[str]:
    return packed_texts(packed) if len(packed) <= IDS_MAX * ID_BYTES else []
