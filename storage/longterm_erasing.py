"""Purging and erasing: what was said becomes zeros, on purpose and on record.

    1. everything so far is synced; one batch names who goes (IDS) and every byte range; sync
    2. the ranges are zeroed, in the log and in the copies that recovery set aside; sync
    3. an ERASED record; sync

From step 1 on the memories are gone; a crash later is made good by the next opening. ``purge`` does
this to what was forgotten long enough ago, and ends the possibility to undo. ``erase`` does it to
anything, and reaches further: memories derived only from it go too (others are flagged), and what
the audit was told of it, as a filter or a reason. Both take a text that stands as ``context`` in
another memory out of every version of that one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from neverforget.storage import control
from neverforget.storage.control import Body, ControlField, F
from neverforget.storage.errors import Corrupt, InvalidArgument, NotFound
from neverforget.storage.format import Kind
from neverforget.storage.longterm_erasure_plan import ErasurePlan, ErasurePlanner
from neverforget.storage.longterm_fields import (
    NO_ID,
    Id,
    M,
    MemoryField,
    id_in,
    id_text,
    named_in,
    namespace_scope,
    pack_ids,
)
from neverforget.storage.longterm_filters import within
from neverforget.storage.longterm_forgetting import Asked, Forgetter
from neverforget.storage.longterm_reads import LongTermReads
from neverforget.storage.longterm_results import (
    Forgotten,
    LongTermErasure,
    Namespace,
    Status,
)
from neverforget.storage.longterm_staging import Planned, Request, Staged, Staging, request_digest
from neverforget.storage.longterm_state import ABOUT_ONE, LongTermState
from neverforget.storage.memory_table import Array
from neverforget.storage.record import Header
from neverforget.storage.repeats import Repeated
from neverforget.storage.zeroing import record_erased, zero_ranges

RANGES_MAX = 1_000_000  # of one ERASING record: 12 MB
_EVER_UNREACHABLE = "backups and exports made before it"
_PART, _PURGE = "part", "purge"


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

    # ---- purging ---------------------------------------------------------------------------------

    def purge(
        self, older_than: int | None, scope: Namespace, dry_run: bool, asked: Asked
    ) -> Forgotten:
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
            return self._forgetter.answer(self._bodies(repeated), repeated.end)
        rows = self._forgotten_before(older_than, scope)
        own = np.array([row for row in rows.tolist() if not self._reads.is_derived(row)], np.int64)
        if dry_run or not len(rows):
            return Forgotten(None, len(own), [], state.log.durable)
        self._settle()
        body = self._forgetter.naming(own, np.setdiff1d(rows, own), asked.by)
        plan = ErasurePlan(set(state.ids(rows)), state.ids(own))
        self._planner.add_contexts(plan, self._planner.add_ranges(plan).texts, asked.by)
        if plan.revised:
            body[M[MemoryField.DETAILS]] = {"revised": plan.revised}
        plan.entry = [Planned(Kind.PURGED, NO_ID, body), *asked.behind(said)]
        staged = self._carry_out(plan, {F[ControlField.OPERATION]: _PURGE}, asked.request, digest)
        records = [(p, body) for p, header, body in staged.records if header.kind == Kind.PURGED]
        return self._forgetter.answer(records, state.log.durable)

    def _forgotten_before(self, older_than: int, scope: Namespace) -> Array:
        table, log = self._state.table, self._state.log
        rows = self._inside(scope, table.column("status") == Status.FORGOTTEN)
        positions, which = np.unique(table.column("forgotten_in")[rows], return_inverse=True)
        old = [log.header(position).timestamp < older_than for position in positions.tolist()]
        found: Array = rows[np.array(old, np.bool_)[which]]
        return found

    def _inside(self, namespace: Namespace, mask: Array) -> Array:
        """Rows at or below a namespace."""
        table = self._state.table
        inside = [within(each, namespace) for each in table.namespaces.values]
        return np.flatnonzero(mask & np.array(inside, np.bool_)[table.column("namespace")])

    # ---- erasing ---------------------------------------------------------------------------------

    def erase(self, ids: Sequence[str], asked: Asked) -> LongTermErasure:
        """These memories, whatever their status. Raises NotFound, ConfirmationRequired, OutOfSpace
        with nothing erased, Poisoned with the erasure carried out at the next opening.
        """
        named = list(dict.fromkeys(ids))
        target = {"id": named[0]} if len(named) == 1 else {"ids": named}
        self._forgetter.require("erase", target, asked)
        digest = request_digest("erase", [named, asked.by, asked.reason])
        repeated = self._staging.repeated(asked.request, digest)
        if repeated is not None:
            return self._answer_again(repeated)
        rows = [self._reads.row(each, include_forgotten=True) for each in named]
        if not rows:
            raise NotFound("no memory was named")
        for each, row in zip(named, rows):
            if self._reads.is_derived(row):
                raise InvalidArgument(f"{each} is made from another memory; erase that one")
        scope = self._text_scope(rows[0]) if len(rows) == 1 else "\n".join(named).encode()
        return self._erase(rows, scope, None, asked, digest)

    def erase_where(self, namespace: Namespace, dry_run: bool, asked: Asked) -> LongTermErasure:
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
        found = self._inside(namespace, self._state.table.alive()).tolist()
        rows = [row for row in found if not self._reads.is_derived(row)]
        if dry_run:
            return self._without_doing_it(rows)
        return self._erase(rows, namespace_scope(namespace, ""), namespace, asked, digest)

    def _without_doing_it(self, rows: list[int]) -> LongTermErasure:
        """What it would take: those derived only from these memories too."""
        doomed, flagged = self._planner.with_derived(rows)
        count = sum(1 for row in doomed if not self._reads.is_derived(row))
        ids = [id_text(each) for each in self._state.ids(sorted(doomed))]
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
        rows: list[int],
        scope: bytes,
        namespace: Namespace | None,
        asked: Asked,
        digest: bytes,
    ) -> LongTermErasure:
        self._settle()
        doomed, flagged = self._planner.with_derived(rows)
        plan = ErasurePlan(
            set(self._state.ids(sorted(doomed))), named=self._state.ids(rows), flagged=flagged
        )
        said = self._planner.add_ranges(plan)
        self._planner.add_contexts(plan, said.texts, asked.by)
        self._planner.add_audit(plan, said, namespace)
        count = sum(1 for row in doomed if not self._reads.is_derived(row))
        named = self._forgetter.naming(rows, [], asked.by)
        salt = named[F[ControlField.SALT]]
        extra = named | {
            F[ControlField.DIGEST]: hashlib.blake2b(scope, digest_size=16, salt=salt).digest(),
            M[MemoryField.DETAILS]: {
                "count": count,
                "flagged": plan.flagged,
                "revised": plan.revised,
            },
        }
        plan.behind = asked.behind()
        staged = self._carry_out(plan, extra, asked.request, digest)
        first = next(r for r in staged.records if r[1].kind == Kind.ERASING)
        return self._answer(first[1], first[2])

    # ---- planning --------------------------------------------------------------------------------

    def _settle(self) -> None:
        """What is named must be durable, and known to be, before it is zeroed."""
        self._state.log.write()
        self._state.log.sync()

    # ---- carrying out ----------------------------------------------------------------------------

    def _carry_out(self, plan: ErasurePlan, extra: Body, request: Request, digest: bytes) -> Staged:
        state = self._state
        planned, parts = [*plan.entry, *plan.records], []
        for at in range(0, max(len(plan.ranges), 1), RANGES_MAX):
            part = plan.ranges[at : at + RANGES_MAX]
            said = extra if not at else {F[ControlField.OPERATION]: _PART}
            body = said | {
                F[ControlField.RANGES]: control.pack_ranges(part),
                F[ControlField.BYTES]: sum(length for _, length in plan.ranges),
                M[MemoryField.IDS]: pack_ids(plan.named),
                M[MemoryField.CASCADE]: pack_ids(sorted(plan.ids.difference(plan.named))),
            }
            planned += [Planned(Kind.ERASING, NO_ID, body), *([] if at else plan.behind)]
            parts.append(part)
        staged = self._forgetter.stage_only(planned, request, digest)
        state.log.write()
        state.log.sync()
        erasing = [position for position, header, _ in staged.records if _is_erasing(header)]
        for position, part in zip(erasing, parts):
            state.unfinished[position] = part
            state.note_erased([r for r in part if not state.lost.holds(r[0])])
        self._staging.let_count(staged)
        state.erasures += 1
        for position, part in zip(erasing, parts):
            zero_ranges(state, part, _about(plan.ids))
            record_erased(state, position)
        return staged

    def complete_unfinished(self) -> int:
        """Carry out what a crash interrupted. How many there were."""
        unfinished = dict(self._state.unfinished)
        for position, ranges in unfinished.items():
            _, body = self._state.control(position)
            ids = set(named_in(body))
            zero_ranges(self._state, ranges, _about(ids))
            record_erased(self._state, position)
        return len(unfinished)

    def _bodies(self, repeated: Repeated) -> list[tuple[int, Body]]:
        found = [(p, h) for p, h in repeated.records if h.kind == Kind.PURGED]
        return [(position, self._state.control(position)[1]) for position, _ in found]

    def _answer_again(self, repeated: Repeated) -> LongTermErasure:
        position, header = next(r for r in repeated.records if r[1].kind == Kind.ERASING)
        return self._answer(header, self._state.control(position)[1])

    def _answer(self, header: Header, body: Body) -> LongTermErasure:
        details: dict[str, Any] = body[M[MemoryField.DETAILS]]
        return LongTermErasure(
            details["count"],
            body[F[ControlField.BYTES]],
            [id_text(each) for each in named_in(body)],
            details["flagged"],
            details["revised"],
            [_EVER_UNREACHABLE],
            header.timestamp,
        )


def _is_erasing(header: Header) -> bool:
    return header.kind == Kind.ERASING


def _about(ids: set[Id]) -> Callable[[Header], bool]:
    """Records of copies that go as well."""
    return lambda header: header.kind in ABOUT_ONE and id_in(header) in ids
