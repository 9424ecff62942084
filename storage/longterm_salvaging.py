"""Bringing back memories and what was done to them.

A memory comes back as it was: its id, its words, when it was made. What was done to a memory is
done again only to the version that it was done to; where that has changed since, or was deleted, it
is on record as a conflict. What was erased or purged is so here too.
"""

from __future__ import annotations

from collections.abc import Sequence

from neverforget.storage import control
from neverforget.storage.control import Body, ControlField, F
from neverforget.storage.errors import Corrupt
from neverforget.storage.format import Kind
from neverforget.storage.longterm_checks import unique
from neverforget.storage.longterm_content import content_of, said_in
from neverforget.storage.longterm_erasing import LongTermEraser
from neverforget.storage.longterm_fields import Id, M, MemoryField, id_in, id_of, packed_id
from neverforget.storage.longterm_forgetting import Forgetter
from neverforget.storage.longterm_reads import LongTermReads
from neverforget.storage.longterm_revising import revised_body
from neverforget.storage.longterm_salvaged_deletions import SalvagedDeletions
from neverforget.storage.longterm_staging import Planned, Salvaged, Staging
from neverforget.storage.longterm_state import CONTENT, LongTermState
from neverforget.storage.longterm_working import LongTermWorking
from neverforget.storage.old_versions import OldVersions
from neverforget.storage.record import Header, body_of
from neverforget.storage.repeats import find_request
from neverforget.storage.salvage_reading import OldRecord
from neverforget.storage.salvage_readings import Brought
from neverforget.storage.salvaged_work import SalvagedWork
from neverforget.storage.salvaging import BY, CannotBeSalvaged, Salvaging

_BESIDE = (Kind.SALVAGED, Kind.ASKED, Kind.WORKED)
_DELETING = (Kind.FORGOTTEN, Kind.UNDONE, Kind.ARCHIVED, Kind.UNARCHIVED)


class LongTermSalvaging(Salvaging):
    def __init__(
        self,
        state: LongTermState,
        brought: Brought,
        reads: LongTermReads,
        staging: Staging,
        forgetter: Forgetter,
        eraser: LongTermEraser,
        working: LongTermWorking,
    ) -> None:
        super().__init__(state, brought)
        self._state = state
        self._reads = reads
        self._staging = staging
        self._versions = OldVersions(state)
        self._deletions = SalvagedDeletions(
            self, self.was_brought, state, reads, staging, forgetter, eraser, self._versions
        )
        self._work = SalvagedWork(state, working)

    def _forget(self) -> None:
        self._tags: dict[Id, list[str]] = {}  # as they were in the old log, by now
        self._versions.begin(self.parting)
        self._work.begin(self.parting, set(self._brought.values()))

    # ---- a batch ---------------------------------------------------------------------------------

    def _carry_out(self, batch: Sequence[OldRecord]) -> None:
        try:
            self._carry_out_one(batch)
        finally:
            for each in batch:
                self._follow_tags(each)

    def _carry_out_one(self, batch: Sequence[OldRecord]) -> None:
        about = [each for each in batch if each.header.kind not in _BESIDE]
        kinds = {each.header.kind for each in about}
        if self._came_again(batch):
            return
        if Kind.PURGED in kinds or Kind.ERASING in kinds:
            self._deletions.erase(batch)
        elif kinds & set(_DELETING):
            self._deletions.delete(batch)
        elif kinds & {Kind.REFUSED}:
            self._as_it_is(about[0])
        elif about:
            self._content(about)
        elif Kind.WORKED in {each.header.kind for each in batch}:
            self._worked(next(each for each in batch if each.header.kind == Kind.WORKED))
        else:
            self._noted(batch[0])

    def _came_again(self, batch: Sequence[OldRecord]) -> bool:
        """Under the request of its client: the records of one request are all there, or none."""
        header = next((e.header for e in batch if e.header.producer_id), batch[0].header)
        found = find_request(self._state, header.producer_id, header.producer_seq, ever=True)
        if found is None:
            return False
        self.report.came_again += len(batch)
        there = {(each.kind, id_in(each)): position for position, each in found.records}
        for each in batch:
            position = there.get((each.header.kind, id_in(each.header)))
            if position is not None:
                self._versions.note(each.position, position)
        return True

    def _is_known(self, old: OldRecord) -> bool:
        place = self.place_of(old)
        if place is None:
            return False
        self.report.came_again += 1
        self._versions.note(old.position, place)
        return True

    # ---- memories --------------------------------------------------------------------------------

    def _content(self, about: Sequence[OldRecord]) -> None:
        planned: list[Planned] = []
        olds: list[OldRecord] = []
        for old in about:
            if self._is_known(old):
                continue
            if id_in(old.header) in self._versions.gone and not self._is_there(old):
                self.report.dropped += 1
                continue
            try:
                made = self._planned(old, {each.about for each in planned})
            except CannotBeSalvaged as error:
                self.conflict(old, str(error))
            except Corrupt:
                self.conflict(old, "what is there of it cannot be read")
            else:
                remembered = old.header.kind == Kind.REMEMBERED
                if made is None and remembered and self._is_there(old):
                    self.report.came_again += 1  # it stays known by its id
                elif made is None:
                    self.settle(old)
                else:
                    planned.append(made)
                    olds.append(old)
        if planned:
            self.stage(planned, olds, about)

    def stage(
        self, planned: list[Planned], olds: Sequence[OldRecord], batch: Sequence[OldRecord]
    ) -> None:
        """``olds``: where they come from, one each; of ``batch``, whose request they keep."""
        first = batch[0].header
        request = first.producer_id, first.producer_seq
        salvaged = Salvaged([old.source for old in olds], first.timestamp)
        staged = self._staging.stage(planned, request, digest_in(batch), salvaged)
        for (position, _, _), old in zip(staged.records, olds):
            self.was_brought(old, position)
        self.report.turns += sum(each.kind in CONTENT for each in planned)

    def was_brought(self, old: OldRecord, position: int) -> None:
        self._did = True
        self._brought[old.source] = position
        self._versions.note(old.position, position)

    def _planned(self, old: OldRecord, batch: set[Id]) -> Planned | None:
        """None: it is there already."""
        body = control.read_body(body_of(old.record))
        kind, about = Kind(old.header.kind), id_in(old.header)
        body.pop(M[MemoryField.REQUEST], None)
        if kind == Kind.REMEMBERED:
            return self._remembered(old, about, body)
        row = self._versions.row(about, batch)
        if kind == Kind.REVISED:
            return Planned(kind, about, self._revised(row, body))
        if row is not None:
            self._versions.require_same(row)
        if kind in (Kind.RELATED, Kind.UNRELATED):
            target = body[M[MemoryField.TARGET]]
            if isinstance(target, bytes):
                if id_of(target) in self._versions.gone:
                    return None
                self._versions.row(id_of(target), batch)
            if kind == Kind.UNRELATED and row is not None:
                relation = body[M[MemoryField.RELATION]]
                if self._state.relations.find(row, self._state.target_in(body), relation) is None:
                    return None
        return Planned(kind, about, body)

    def _remembered(self, old: OldRecord, about: Id, body: Body) -> Planned | None:
        state = self._state
        row = state.table.find(about)
        if row is not None:
            self._versions.note(old.position, state.table.get(row, "born"))
            return None
        key = body.get(M[MemoryField.KEY])
        if key is not None:
            namespace = tuple(body.get(M[MemoryField.NAMESPACE], ()))
            try:
                holder = self._reads.holder(namespace, key)
                held = None if holder is None else self._body_of(holder)
            except Corrupt:
                held = {}
            if held is not None:
                if held and said_in(held, whoever=True) == said_in(body, whoever=True):
                    return None
                why = "its key is held by another memory; it is there without its key"
                self.conflict(old, why, brought=True)
                del body[M[MemoryField.KEY]]
        return Planned(Kind.REMEMBERED, about, body)

    def _is_there(self, old: OldRecord) -> bool:
        return self._state.table.find(id_in(old.header)) is not None

    def _body_of(self, row: int) -> Body:
        return self._state.bodies.read(self._state.table.get(row, "position"))[1]

    def _revised(self, row: int | None, body: Body) -> Body:
        """The next version of ``row``; tags that it got since stay."""
        table = self._state.table
        if row is None:
            raise CannotBeSalvaged("the memory is remembered in the same breath")
        self._versions.require(row, body[M[MemoryField.PREVIOUS]])
        made = content_of(body)
        if not table.get(row, "key"):
            made.pop(M[MemoryField.KEY], None)
        now = table.tags.values[table.get(row, "tags")]
        then = self._tags.get(table.id(row))
        if then is None:
            then = self._body_of(row).get(M[MemoryField.TAGS], [])
        gained = [each for each in now if each not in then]
        if gained:
            made[M[MemoryField.TAGS]] = list(unique((*made.get(M[MemoryField.TAGS], ()), *gained)))
        if M[MemoryField.BY] in body:
            made[M[MemoryField.BY]] = body[M[MemoryField.BY]]
        return revised_body(self._state, row, made)

    def _follow_tags(self, old: OldRecord) -> None:
        if old.header.kind not in (*CONTENT, Kind.TAGGED, Kind.UNTAGGED):
            return
        try:
            tags = list(control.read_body(body_of(old.record)).get(M[MemoryField.TAGS], ()))
        except Corrupt:
            return
        about = id_in(old.header)
        held = self._tags.get(about)
        if old.header.kind in CONTENT:
            self._tags[about] = tags
        elif held is not None and old.header.kind == Kind.TAGGED:
            self._tags[about] = [*held, *tags]
        elif held is not None:
            self._tags[about] = [each for each in held if each not in tags]

    def _note_erased(self, header: Header) -> None:
        if header.kind in CONTENT:
            self._versions.gone.add(id_in(header))

    # ---- the rest --------------------------------------------------------------------------------

    def _worked(self, old: OldRecord) -> None:
        if not self._is_known(old):
            self._work.carry_out(old)
            self._did = True

    def _as_it_is(self, old: OldRecord) -> None:
        if not self._is_known(old):
            body = control.read_body(body_of(old.record))
            self.stage([Planned(Kind(old.header.kind), id_in(old.header), body)], [old], [old])

    def _noted(self, old: OldRecord) -> None:
        """What an earlier salvage could not carry out, and had on record in the old log only."""
        body = control.read_body(body_of(old.record))
        if body.get(F[ControlField.OPERATION], BY) != BY:
            self._as_it_is(old)

    def _told_by(self, record: OldRecord, body: Body) -> tuple[object, object]:
        if record.header.kind in (
            *CONTENT,
            Kind.TAGGED,
            Kind.UNTAGGED,
            Kind.RELATED,
            Kind.UNRELATED,
        ):
            return body.get(M[MemoryField.BY]), None
        return super()._told_by(record, body)

    def _naming(self, record: OldRecord) -> Body:
        about = id_in(record.header)
        known = any(about) and self._state.table.find(about) is not None
        return {M[MemoryField.IDS]: packed_id(about)} if known else {}


def digest_in(batch: Sequence[OldRecord]) -> bytes:
    """Of what was asked, as the first record of a batch keeps it."""
    for each in batch:
        try:
            digest = control.read_body(body_of(each.record)).get(M[MemoryField.REQUEST])
        except Corrupt:
            continue
        if isinstance(digest, bytes):
            return digest
    return b""
