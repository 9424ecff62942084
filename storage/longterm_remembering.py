"""Remembering: ids, keys and repeats, then one staged batch of memories and their relations.

Order of checks: request id, then key. Nothing in memory changes before the log has the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import to_builtins

from neverforget.storage.control import Body
from neverforget.storage.errors import Conflict, InvalidArgument
from neverforget.storage.format import Kind
from neverforget.storage.longterm_bodies import view_of
from neverforget.storage.longterm_checks import check_new
from neverforget.storage.longterm_content import body_of_new, said_in
from neverforget.storage.longterm_fields import (
    Id,
    M,
    MemoryField,
    id_in,
    parse_id,
)
from neverforget.storage.longterm_reads import LongTermReads
from neverforget.storage.longterm_relating import plan_relation
from neverforget.storage.longterm_results import (
    MemoryView,
    Namespace,
    NewMemory,
    Remembered,
    Superseding,
)
from neverforget.storage.longterm_revising import revised_body
from neverforget.storage.longterm_staging import Planned, Request, Staging, request_digest
from neverforget.storage.longterm_state import CONTENT, LongTermState
from neverforget.storage.longterm_superseding import plan_superseding
from neverforget.storage.record import Header
from neverforget.storage.repeats import Repeated


@dataclass(slots=True)
class _Batch:
    """``answers``: for each thing asked the id it has, and whether it is new."""

    planned: list[Planned] = field(default_factory=list)
    answers: list[tuple[Id, bool]] = field(default_factory=list)
    ids: set[Id] = field(default_factory=set)
    keys: dict[tuple[Namespace, str], tuple[Id, Body]] = field(default_factory=dict)


class Rememberer:
    def __init__(self, state: LongTermState, reads: LongTermReads, staging: Staging) -> None:
        self._state = state
        self._reads = reads
        self._staging = staging

    def remember(
        self,
        new: Sequence[NewMemory],
        on_conflict: str,
        by: str,
        request: Request,
        superseding: Sequence[Superseding] = (),
    ) -> Remembered:
        """Stage all or none. See ``LongTermRegion.remember``."""
        if not new:
            raise InvalidArgument("nothing to remember; pass at least one memory")
        if on_conflict not in ("raise", "revise"):
            raise InvalidArgument(f'on_conflict={on_conflict!r}: "raise" or "revise"')
        bodies = [body_of_new(check_new(each), by) for each in new]
        relations = to_builtins([each.related_to for each in new])
        asked = [[each.id for each in new], bodies, relations, on_conflict]
        if superseding:
            asked.append(to_builtins(superseding))
            if any(each.key is not None for each in new):
                raise InvalidArgument("memories that supersede others have no key")
        digest = request_digest("remember", asked)
        repeated = self._staging.repeated(request, digest)
        if repeated is not None:
            return self._answer_again(new, repeated)
        batch = _Batch(ids={parse_id(each.id) for each in new})
        if len(batch.ids) < len(new):
            raise InvalidArgument("one id stands twice in a batch; draw one for each memory")
        for each, body in zip(new, bodies):
            self._plan(batch, each, body, on_conflict)
        batch.planned += plan_superseding(self._state, superseding, batch.ids, by)
        if not batch.planned:
            return self._answer(batch, {}, 0)
        staged = self._staging.stage(batch.planned, request, digest)
        written = {
            id_in(header): self._view(position, header, body)
            for position, header, body in staged.records
            if header.kind in CONTENT
        }
        return self._answer(batch, written, staged.end)

    # ---- planning --------------------------------------------------------------------------------

    def _plan(self, batch: _Batch, new: NewMemory, body: Body, on_conflict: str) -> None:
        wanted = parse_id(new.id)
        if self._state.table.find(wanted) is not None:
            raise Conflict(f"memory {new.id} exists already; draw a new id", seq=None)
        held = None if new.key is None else self._holder(batch, tuple(new.namespace), new.key)
        if held is None:
            batch.planned.append(Planned(Kind.REMEMBERED, wanted, body))
            batch.answers.append((wanted, True))
            if new.key is not None:
                batch.keys[tuple(new.namespace), new.key] = (wanted, body)
            source = wanted
        else:
            source, held_body = held
            if self._says_the_same(source, held_body, body):
                batch.answers.append((source, False))
                return
            row = self._state.table.find(source)
            if on_conflict == "raise" or row is None or source in batch.ids:
                raise Conflict(
                    f"the key {new.key!r} is held by a memory that says something else; use "
                    'another key, or on_conflict="revise"',
                    seq=None if row is None else self._state.table.get(row, "version"),
                )
            revised = revised_body(self._state, row, body)
            batch.planned.append(Planned(Kind.REVISED, source, revised))
            batch.answers.append((source, True))
            batch.keys[tuple(new.namespace), new.key or ""] = (source, body)
        for relation in new.related_to:
            batch.planned.append(plan_relation(self._state, source, relation, batch.ids))

    def _holder(self, batch: _Batch, namespace: Namespace, key: str) -> tuple[Id, Body] | None:
        twin = batch.keys.get((namespace, key))
        if twin is not None:
            return twin
        row = self._reads.holder(namespace, key)
        if row is None:
            return None
        _, body = self._state.bodies.read(self._state.table.get(row, "position"))
        return self._state.table.id(row), body

    def _says_the_same(self, held: Id, held_body: Body, body: Body) -> bool:
        """Tags given or taken since do not make the first call another one, nor does it matter
        which agent of a fleet makes it again.
        """
        if said_in(held_body, whoever=True) != said_in(body, whoever=True):
            return False
        asked = set(body.get(M[MemoryField.TAGS], ()))
        if asked == set(held_body.get(M[MemoryField.TAGS], ())):
            return True
        row = self._state.table.find(held)
        table = self._state.table
        return row is not None and asked == set(table.tags.values[table.get(row, "tags")])

    # ---- answering -------------------------------------------------------------------------------

    def _view(self, position: int, header: Header, body: Body) -> MemoryView:
        row = self._state.table.find(id_in(header))
        assert row is not None
        born = self._state.table.get(row, "born")
        return view_of(header, position, body, status="active", born=born)

    def _answer(self, batch: _Batch, written: dict[Id, MemoryView], end: int) -> Remembered:
        found, new = [], []
        for wanted, is_new in batch.answers:
            row = self._state.table.find(wanted)
            assert row is not None
            found.append(written.get(wanted) or self._reads.view(row))
            new.append(is_new)
            # A memory found by its key may still be on its way to the disk.
            end = end or self._state.log.tail
        return Remembered(found, new, end)

    def _answer_again(self, new: Sequence[NewMemory], repeated: Repeated) -> Remembered:
        """The original answer: what its records say, and what its keys found."""
        written = {}
        for position, header in repeated.records:
            if header.kind in CONTENT:
                header, body = self._state.control(position)
                written[id_in(header)] = self._view(position, header, body)
        by_key = {(view.namespace, view.key): view for view in written.values() if view.key}
        views, fresh = [], []
        for each in new:
            place = (tuple(each.namespace), each.key or "")
            view = written.get(parse_id(each.id)) or by_key.get(place)
            fresh.append(view is not None)
            views.append(view or self._reads.by_key(*place))
        return Remembered(views, fresh, repeated.end)
