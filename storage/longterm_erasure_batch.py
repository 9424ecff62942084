"""The batch of a purge or an erasure, and the zeros that follow it. See ``longterm_erasing``."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from neverforget.storage import control
from neverforget.storage.control import Body, ControlField, F
from neverforget.storage.format import Kind
from neverforget.storage.longterm_erasure_plan import ErasurePlan, ErasurePlanner
from neverforget.storage.longterm_fields import NO_ID, Id, M, MemoryField, id_in, packed_in
from neverforget.storage.longterm_forgetting import Forgetter
from neverforget.storage.longterm_staging import Planned, Request, Staged, Staging
from neverforget.storage.longterm_state import ABOUT_ONE, LongTermState
from neverforget.storage.memory_table import Array
from neverforget.storage.record import Header
from neverforget.storage.slices import Slices
from neverforget.storage.working_erasure import ended_in
from neverforget.storage.working_memories import KINDS
from neverforget.storage.zeroing import record_erased, zero_ranges, zeroing

RANGES_MAX = 1_000_000  # of one ERASING record: 12 MB
_PART: Final = "part"


@dataclass(frozen=True, slots=True)
class ErasureBatch:
    """Besides the ranges: ``front`` stands before the first ERASING record, ``extra`` in it,
    ``behind`` after it. ``named``: rows of those that were asked for.
    """

    front: list[Planned]
    extra: Body
    named: Array
    behind: list[Planned] = field(default_factory=list)


class ErasureBatches:
    def __init__(
        self,
        state: LongTermState,
        staging: Staging,
        forgetter: Forgetter,
        planner: ErasurePlanner,
    ) -> None:
        self._state = state
        self._staging = staging
        self._forgetter = forgetter
        self._planner = planner

    def carry_out(
        self, plan: ErasurePlan, batch: ErasureBatch, request: Request, digest: bytes
    ) -> Slices[Staged]:
        """From the plan as it stands: what is said before the first ``yield`` is one moment."""
        state, table = self._state, self._state.table
        planned, parts = list(batch.front), []
        ranges = self._planner.ranges(plan)
        named = table.packed_ids(batch.named)
        others = table.packed_ids(without(plan.doomed, batch.named))
        for at in range(0, max(len(ranges), 1), RANGES_MAX):
            part = ranges[at : at + RANGES_MAX]
            said = batch.extra if not at else {F[ControlField.OPERATION]: _PART}
            said = said | plan.working.said
            body = said | {
                F[ControlField.RANGES]: _packed(part),
                F[ControlField.BYTES]: int(ranges[:, 1].sum()),
                M[MemoryField.IDS]: named,
                M[MemoryField.CASCADE]: others,
            }
            planned += [Planned(Kind.ERASING, NO_ID, body), *([] if at else batch.behind)]
            parts.append(part)
        staged = self._forgetter.stage_only(planned, request, digest)
        state.log.write()
        state.log.sync()
        erasing = [position for position, header, _ in staged.records if _is_erasing(header)]
        for position, part in zip(erasing, parts):
            state.unfinished[position] = part
            state.note_erased(part)
        self._staging.let_count(staged)
        state.erasures += 1
        yield
        for position in erasing:
            about = _about(state, named + others, plan.working.ended)
            yield from zeroing(state, state.unfinished[position], about)
            record_erased(state, position)
        return staged

    def complete_unfinished(self) -> int:
        """Carry out what a crash interrupted. How many there were."""
        unfinished = dict(self._state.unfinished)
        for position, ranges in unfinished.items():
            _, body = self._state.control(position)
            about = _about(self._state, packed_in(body), ended_in(body))
            zero_ranges(self._state, ranges, about)
            record_erased(self._state, position)
        if self._state.shipper is not None:
            self._state.shipper.erasures_are_done()
        return len(unfinished)


def _is_erasing(header: Header) -> bool:
    return header.kind == Kind.ERASING


def _about(state: LongTermState, named: bytes, ended: Set[Id]) -> Callable[[Header], bool]:
    """Records of copies that go as well: about one of those ``named``, of the working memories that
    ``ended``, and whatever counts recalls: it names namespaces.
    """
    going = np.zeros(state.table.count, np.bool_)
    going[state.table.find_packed(named)] = True

    def doomed(header: Header) -> bool:
        if header.kind == Kind.RECALLED:
            return True
        if header.kind in KINDS:
            return id_in(header) in ended
        row = state.table.find(id_in(header)) if header.kind in ABOUT_ONE else None
        return row is not None and row < len(going) and bool(going[row])

    return doomed


def without(mask: Array, rows: Array) -> Array:
    left = mask.copy()
    left[rows] = False
    return np.flatnonzero(left)


def _packed(ranges: Array) -> bytes:
    """As ``control.pack_ranges``, of many at once."""
    positions, lengths = ranges[:, 0], ranges[:, 1]
    if lengths.max(initial=0) >= 2**32:
        return control.pack_ranges(zip(positions.tolist(), lengths.tolist()))
    packed = np.empty(len(ranges), np.dtype([("position", "<u8"), ("length", "<u4")]))
    packed["position"], packed["length"] = positions, lengths
    return packed.tobytes()
