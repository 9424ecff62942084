"""Carrying out again what was done to working memories, where nothing was done to them since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neverforget.storage import control
from neverforget.storage.format import Kind
from neverforget.storage.log_state import of_kinds
from neverforget.storage.longterm_fields import Id, M, MemoryField, id_in, id_of, id_text
from neverforget.storage.longterm_following import heads_from
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.record import body_of
from neverforget.storage.salvage_reading import OldRecord
from neverforget.storage.salvaging import BY, CannotBeSalvaged
from neverforget.storage.working_bodies import OPERATIONS, change_in, place_in
from neverforget.storage.working_results import WorkingTask

if TYPE_CHECKING:
    from neverforget.storage.longterm_working import LongTermWorking


class SalvagedWork:
    def __init__(self, state: LongTermState, working: LongTermWorking) -> None:
        self._state = state
        self._working = working
        self.begin(0, set())

    def begin(self, parting: int, brought: set[int]) -> None:
        """``brought``: positions that an earlier salvage staged."""
        self._parting, self._brought = parting, brought
        self._until = self._state.log.written
        self._changed: set[Id] | None = None

    def carry_out(self, old: OldRecord) -> None:
        """Stage it. Raises CannotBeSalvaged, and what ``work`` raises."""
        if id_in(old.header) in self._since():
            raise CannotBeSalvaged("the working memory has changed since")
        body = control.read_body(body_of(old.record))
        change, place = change_in(body), place_in(body)
        if change.operation not in OPERATIONS:
            return  # it follows from what was done to a memory
        named = change.left if change.operation == "remove" else change.taken
        task = WorkingTask(
            place,
            change.operation,
            [id_text(id_of(each)) for each in named],
            change.pinned,
            change.budget or 0,
            change.member,
        )
        digest = body.get(M[MemoryField.REQUEST])
        request = old.header.producer_id, old.header.producer_seq
        self._working.work(
            task, by=change.by or BY, request=request,
            digest=digest if isinstance(digest, bytes) else None,
        )  # fmt: skip

    def _since(self) -> set[Id]:
        """Working memories that were changed here since the logs parted."""
        if self._changed is None:
            self._changed = set()
            for heads, positions in heads_from(self._state, self._parting, self._until):
                for position, _ in of_kinds(heads, positions, Kind.WORKED):
                    if position not in self._brought:
                        self._changed.add(id_in(self._state.log.header(position)))
        return self._changed
