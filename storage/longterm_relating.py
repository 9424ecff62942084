"""Typed relations from a memory to another one, or to turns: one of a kind between two ends."""

from __future__ import annotations

from msgspec import to_builtins

from neverforget.storage.control import Body
from neverforget.storage.errors import InvalidArgument, NotFound
from neverforget.storage.format import Kind
from neverforget.storage.longterm_checks import check_name, check_turns, check_weight
from neverforget.storage.longterm_fields import (
    Id,
    M,
    MemoryField,
    any_id,
    id_text,
    is_derived_type,
    packed_id,
)
from neverforget.storage.longterm_reads import LongTermReads
from neverforget.storage.longterm_results import NewRelation, Status, TurnPoint
from neverforget.storage.longterm_staging import Planned, Request, Staging, request_digest
from neverforget.storage.longterm_state import LongTermState

CHUNK_OF, PART_OF_SEQUENCE, SUMMARIZES = "chunk-of", "part-of-sequence", "summarizes"
MADE_WITH = (CHUNK_OF, PART_OF_SEQUENCE, SUMMARIZES)  # of chunks and summaries


class Relater:
    def __init__(self, state: LongTermState, reads: LongTermReads, staging: Staging) -> None:
        self._state = state
        self._reads = reads
        self._staging = staging

    def relate(self, source: str, relation: NewRelation, by: str, request: Request) -> int:
        """Stage; the position that must be durable. Another weight replaces the first."""
        digest = request_digest("relate", [source, to_builtins(relation), by])
        repeated = self._staging.repeated(request, digest)
        if repeated is not None:
            return repeated.end
        wanted = self._state.table.id(self._reads.row(source))
        planned = plan_relation(self._state, wanted, relation, set())
        planned = planned._replace(body=planned.body | {M[MemoryField.BY]: by})
        return self._staging.stage([planned], request, digest).end

    def unrelate(
        self, source: str, target: str | TurnPoint, kind: str, by: str, request: Request
    ) -> int:
        """Stage. Raises NotFound when there is no such relation; InvalidArgument for what a chunk
        or summary was made with, which only goes with it.
        """
        digest = request_digest("unrelate", [source, to_builtins(target), kind, by])
        repeated = self._staging.repeated(request, digest)
        if repeated is not None:
            return repeated.end
        row = self._reads.row(source)
        if kind in MADE_WITH and self._reads.is_derived(row):
            raise InvalidArgument(f"{source} is a chunk or summary: {kind!r} says of which memory")
        body: Body = {
            M[MemoryField.TARGET]: target_of(self._state, target, set()),
            M[MemoryField.RELATION]: kind,
            M[MemoryField.BY]: by,
        }
        if self._state.relations.find(row, self._state.target_in(body), kind) is None:
            raise NotFound(f"there is no such relation of kind {kind!r}")
        planned = Planned(Kind.UNRELATED, self._state.table.id(row), body)
        return self._staging.stage([planned], request, digest).end


def plan_relation(
    state: LongTermState, source: Id, relation: NewRelation, batch: set[Id]
) -> Planned:
    """Raises InvalidArgument, also where an end is a chunk or summary: the relation would be lost
    when its original is cut again. NotFound for a target that is not there, nor in this batch.
    """
    check_name(relation.kind, "kind")
    if relation.kind in MADE_WITH:
        raise InvalidArgument(f"the kind {relation.kind!r} is kept for chunks and summaries")
    check_weight(relation.weight)
    target = target_of(state, relation.target, batch)
    for end in (source, any_id(relation.target) if isinstance(relation.target, str) else None):
        _check_own(state, end)
    if target == packed_id(source):
        raise InvalidArgument("a memory cannot be related to itself")
    body: Body = {
        M[MemoryField.TARGET]: target,
        M[MemoryField.RELATION]: relation.kind,
        M[MemoryField.WEIGHT]: float(relation.weight),
    }
    return Planned(Kind.RELATED, source, body)


def _check_own(state: LongTermState, end: Id | None) -> None:
    row = None if end is None else state.table.find(end)
    if row is None or not is_derived_type(state.table.types.values[state.table.get(row, "type")]):
        return
    original = state.original_of(row)
    named = "" if original is None else f" {id_text(state.table.id(original))}"
    raise InvalidArgument(
        f"{id_text(state.table.id(row))} is made from another memory; relate its original{named}"
    )


def target_of(
    state: LongTermState, target: str | TurnPoint, batch: set[Id]
) -> bytes | list[object]:
    if isinstance(target, TurnPoint):
        check_turns(target)
        return [list(target.namespace), target.session, target.first, target.last]
    wanted = any_id(target)
    row = None if wanted is None else state.table.find(wanted)
    there = row is not None and state.table.get(row, "status") < Status.FORGOTTEN
    if wanted is None or not (there or wanted in batch):
        raise NotFound(f"no memory {target!r} to relate to")
    return packed_id(wanted)
