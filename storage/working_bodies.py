"""What the records of working memories say: one change (WORKED), or how one stands (WORKING_STATE).

Both hold ids and names only, never a word of a memory. In their headers stands, where others have
the id of a memory, a digest of which working memory it is. ``FORMAT.md`` describes the bodies.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Any

from neverforget.storage.control import ControlField, F
from neverforget.storage.errors import Corrupt
from neverforget.storage.longterm_fields import (
    ID_BYTES,
    Body,
    Id,
    M,
    MemoryField,
    check_packed,
    id_of,
    namespace_scope,
)
from neverforget.storage.working_results import WorkingPlace

EVICTS = 1  # the role of a WORKED record that evicts: which do is known without their bodies
_ITEM = struct.Struct("<16sQqqIII")  # id, order, added_at, used_at, tokens, accesses, pinned

ADDING = frozenset(("add", "recall"))
OPERATIONS = ADDING | {"remove", "pin", "unpin", "join", "leave"}


@dataclass(slots=True)
class Item:
    """``order``: unique in its working memory, ascending in the order of adding. Times are
    microseconds UTC.
    """

    tokens: int
    pinned: bool
    added_at: int
    used_at: int
    accesses: int
    order: int


@dataclass(frozen=True, slots=True)
class Change:
    """``operation``: one of ``OPERATIONS``; "revise": other ``tokens``; "gone": deleted. ``taken``:
    whom it is about, ids packed; ``left``: who goes besides the ``evicted``.
    """

    operation: str
    by: str
    taken: tuple[bytes, ...] = ()
    tokens: tuple[int, ...] = ()
    pinned: bool = False
    left: tuple[bytes, ...] = ()
    evicted: tuple[bytes, ...] = ()
    budget: int | None = None
    member: str | None = None


def place_id(place: WorkingPlace) -> Id:
    """What stands for it in headers."""
    person = b"nf-group" if place.group else b"nf-agent"
    scope = namespace_scope(tuple(place.namespace), place.name)
    return id_of(hashlib.blake2b(scope, digest_size=ID_BYTES, person=person).digest())


def place_body(place: WorkingPlace) -> Body:
    name = MemoryField.GROUP if place.group else MemoryField.AGENT
    return {M[MemoryField.NAMESPACE]: list(place.namespace), M[name]: place.name}


def place_in(body: Body) -> WorkingPlace:
    """Raises Corrupt."""
    group = body.get(M[MemoryField.GROUP])
    name = body.get(M[MemoryField.AGENT]) if group is None else group
    namespace = body.get(M[MemoryField.NAMESPACE])
    whole = isinstance(namespace, list) and all(isinstance(each, str) for each in namespace)
    if not isinstance(name, str) or not isinstance(namespace, list) or not whole:
        raise Corrupt("a record of a working memory does not say which")
    return WorkingPlace(tuple(namespace), name, group is not None)


# ---- changes -------------------------------------------------------------------------------------


def worked_body(place: WorkingPlace, change: Change) -> Body:
    body = place_body(place) | {
        F[ControlField.BY]: change.by,
        M[MemoryField.WORKED]: change.operation,
    }
    packed = {
        MemoryField.IDS: change.evicted,
        MemoryField.TAKEN: change.taken,
        MemoryField.LEFT: change.left,
    }
    body |= {M[name]: b"".join(ids) for name, ids in packed.items() if ids}
    if change.tokens:
        body[M[MemoryField.TOKENS]] = list(change.tokens)
    if change.pinned:
        body[M[MemoryField.PINNED]] = True
    if change.budget is not None:
        body[M[MemoryField.BUDGET]] = change.budget
    if change.member is not None:
        body[M[MemoryField.MEMBERS]] = change.member
    return body


def change_in(body: Body) -> Change:
    """Raises Corrupt."""
    taken = _ids(body, MemoryField.TAKEN)
    tokens = body.get(M[MemoryField.TOKENS], [])
    operation = body.get(M[MemoryField.WORKED])
    budget, member = body.get(M[MemoryField.BUDGET]), body.get(M[MemoryField.MEMBERS])
    counted = operation in ADDING or operation == "revise"
    if (
        not isinstance(operation, str)
        or not _are_numbers(tokens)
        or len(tokens) != (len(taken) if counted else 0)
        or not (budget is None or _are_numbers([budget]))
        or not (member is None or isinstance(member, str))
    ):
        raise Corrupt("a change of a working memory says nothing")
    return Change(
        operation,
        str(body.get(F[ControlField.BY], "")),
        taken,
        tuple(tokens),
        body.get(M[MemoryField.PINNED]) is True,
        _ids(body, MemoryField.LEFT),
        _ids(body, MemoryField.IDS),
        budget,
        member,
    )


def _ids(body: Body, name: MemoryField) -> tuple[bytes, ...]:
    packed = check_packed(body.get(M[name], b""))
    return tuple(packed[at : at + ID_BYTES] for at in range(0, len(packed), ID_BYTES))


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(type(n) is int and 0 <= n < 2**32 for n in values)


# ---- how one stands ------------------------------------------------------------------------------


@dataclass(slots=True)
class Standing:
    """Of one working memory. ``members``: when each joined."""

    budget: int
    items: dict[bytes, Item]
    members: dict[str, int]


def state_body(place: WorkingPlace, standing: Standing) -> Body:
    packed = (
        _ITEM.pack(wanted, i.order, i.added_at, i.used_at, i.tokens, i.accesses, i.pinned)
        for wanted, i in standing.items.items()
    )
    return place_body(place) | {
        M[MemoryField.BUDGET]: standing.budget,
        M[MemoryField.TAKEN]: b"".join(packed),
        M[MemoryField.MEMBERS]: [[agent, at] for agent, at in standing.members.items()],
    }


def state_in(body: Body) -> Standing:
    """Raises Corrupt."""
    budget = body.get(M[MemoryField.BUDGET])
    packed, members = body.get(M[MemoryField.TAKEN]), body.get(M[MemoryField.MEMBERS])
    if (
        not isinstance(budget, int)
        or not _are_numbers([budget])
        or not isinstance(packed, bytes)
        or len(packed) % _ITEM.size
        or not isinstance(members, list)
    ):
        raise Corrupt("the state of a working memory is not whole")
    items = {}
    for wanted, order, added_at, used_at, tokens, accesses, pinned in _ITEM.iter_unpack(packed):
        items[wanted] = Item(tokens, bool(pinned), added_at, used_at, accesses, order)
    try:
        joined = {str(agent): int(at) for agent, at in members}
    except (TypeError, ValueError) as error:
        raise Corrupt("the members of a working memory cannot be read") from error
    return Standing(budget, items, joined)


def state_bytes(standing: Standing) -> int:
    """What such a record takes in the log, roughly."""
    return 256 + _ITEM.size * len(standing.items) + 40 * len(standing.members)
