"""That one memory takes the place of another: a relation, and the end of the older one's validity,
in the batch of the newer one. Nothing is deleted by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from neverforget.storage.errors import Corrupt
from neverforget.storage.format import Kind
from neverforget.storage.longterm_content import content_of
from neverforget.storage.longterm_fields import Id, M, MemoryField, is_derived_type, parse_id
from neverforget.storage.longterm_relating import plan_relation
from neverforget.storage.longterm_results import NewRelation, Status, Superseding
from neverforget.storage.longterm_revising import revised_body, with_tags
from neverforget.storage.longterm_staging import Planned
from neverforget.storage.longterm_state import LongTermState

SUPERSEDES: Final = "supersedes"


def plan_superseding(
    state: LongTermState, superseding: Sequence[Superseding], batch: set[Id], by: str
) -> list[Planned]:
    """``batch``: the memories that are remembered with it, which say themselves until when they
    hold. An older one that ends by then already is not revised. Raises InvalidArgument.
    """
    planned: list[Planned] = []
    ends: dict[Id, int] = {}
    for each in superseding:
        new, old = parse_id(each.new), parse_id(each.old)
        if not (_is_there(state, new, batch) and _is_there(state, old, batch)):
            continue
        relation = NewRelation(each.old, SUPERSEDES)
        planned.append(plan_relation(state, new, relation, batch))
        if old not in batch:
            ends[old] = min(each.at, ends.get(old, each.at))
    revised = (_ended(state, old, at, by) for old, at in ends.items())
    return planned + [each for each in revised if each is not None]


def _is_there(state: LongTermState, wanted: Id, batch: set[Id]) -> bool:
    if wanted in batch:
        return True
    row = state.table.find(wanted)
    if row is None or state.table.get(row, "status") >= Status.FORGOTTEN:
        return False
    return not is_derived_type(state.table.types.values[state.table.get(row, "type")])


def _ended(state: LongTermState, old: Id, at: int, by: str) -> Planned | None:
    """Its next version, that holds until ``at``; None where it ends by then."""
    table = state.table
    row = table.find(old)
    assert row is not None
    until = max(at, table.get(row, "valid_from"))
    if table.get(row, "valid_to") <= until:
        return None
    try:
        _, body = state.bodies.read(table.get(row, "position"))
    except Corrupt:  # there is nothing to make a version of
        return None
    content = with_tags(state, row, content_of(body))
    content |= {M[MemoryField.VALID_TO]: until, M[MemoryField.BY]: by}
    return Planned(Kind.REVISED, old, revised_body(state, row, content))
