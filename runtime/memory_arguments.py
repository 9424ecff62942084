"""The arguments of the long-term calls, checked before anything is sent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from neverforget.runtime.arguments import whole
from neverforget.runtime.memory_values import Memory, Relation
from neverforget.runtime.scope import NamespaceLike, Scope, checked_name, checked_text
from neverforget.runtime.timeframe_argument import TimeframeLike, resolved_us
from neverforget.runtime.times import to_us
from neverforget.runtime.turn_codec import check_label
from neverforget.runtime.values import Turn, TurnRef
from neverforget.storage.clock import Clock
from neverforget.storage.errors import InvalidArgument, NotFound
from neverforget.storage.format import SEQ_MAX
from neverforget.storage.longterm_checks import check_tags, check_type, check_weight, unique
from neverforget.storage.longterm_content import plain_filter
from neverforget.storage.longterm_results import (
    STATUS_CODES,
    MemoryFilter,
    NewRelation,
    TurnPoint,
)
from neverforget.storage.longterm_where import Where
from neverforget.storage.type_names import a_type

RELATED_TO, DERIVED_FROM = "related-to", "derived-from"
_ID = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[78][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.ASCII
)


# ---- ids and what stands for one -----------------------------------------------------------------


def checked_id(memory_id: Any, what: str = "id") -> str:
    """The canonical text of a memory's id. NotFound for text that is none: no memory has it."""
    if isinstance(memory_id, Memory):
        raise InvalidArgument(f"{what} is a Memory itself; pass memory.id")
    if isinstance(memory_id, UUID):
        memory_id = str(memory_id)
    if not isinstance(memory_id, str):
        raise InvalidArgument(f"{what} is {a_type(memory_id)}; pass a memory's id, as text")
    text = str.__str__(memory_id).lower()
    if _ID.fullmatch(text) is None:
        raise NotFound(
            f"no memory {memory_id[:60]!r}: an id looks like 0199a8f3-…; a key is passed as key="
        )
    return text


def checked_label(value: Any, what: str) -> str | None:
    """None, or text of 1 to 4,096 characters."""
    check_label(value, what)
    return None if value is None else str.__str__(value)


def turn_point(scope: Scope, ref: TurnRef) -> TurnPoint:
    """Turns as the end of a relation. NotFound outside the view."""
    first = whole(ref.first, "a TurnRef's first", 0, SEQ_MAX)
    last = whole(ref.last, "a TurnRef's last", 0, SEQ_MAX)
    if last < first:
        raise InvalidArgument(f"a TurnRef of turns {first} to {last} ends before it begins")
    name = checked_name(ref.session, "a TurnRef's session")
    return TurnPoint(tuple(scope.place(ref.namespace)), name, first, last)


def relation_end(scope: Scope, target: Any) -> str | TurnPoint:
    """The other end of a relation: a memory's id, or turns."""
    if isinstance(target, TurnRef):
        return turn_point(scope, target)
    if isinstance(target, Turn):
        raise InvalidArgument(
            "target is a Turn; pass TurnRef(turn.namespace, turn.session, turn.seq, turn.seq)"
        )
    return checked_id(target, "target")


def checked_kind(kind: Any) -> str:
    """What a relation is called: it stands in indexes, so it has a UTF-8 form."""
    return checked_name(kind, "kind")


def checked_weight(weight: Any) -> float:
    """A finite number."""
    check_weight(weight)
    return float(weight)


def new_relations(scope: Scope, related_to: Any) -> tuple[NewRelation, ...]:
    """``related_to``: one or several of an id, a TurnRef, (target, kind), (target, kind, weight).
    What comes from turns is derived from them, unless its kind says otherwise.
    """
    if isinstance(related_to, (str, UUID, TurnRef, Memory, Turn)):
        related_to = (related_to,)
    if isinstance(related_to, Mapping) or not isinstance(related_to, Iterable):
        raise InvalidArgument(f"related_to is {a_type(related_to)}; {_RELATED}")
    try:
        return tuple(_new_relation(scope, each) for each in related_to)
    except (InvalidArgument, NotFound) as error:
        raise type(error)(f"related_to: {error.message}") from error


_RELATED = "pass ids of memories, TurnRefs, or tuples (target, kind) and (target, kind, weight)"


def _new_relation(scope: Scope, given: Any) -> NewRelation:
    if isinstance(given, Relation):
        raise InvalidArgument(f"it holds a Relation, which has a source; {_RELATED}")
    if not isinstance(given, (tuple, list)):
        default = DERIVED_FROM if isinstance(given, TurnRef) else RELATED_TO
        return NewRelation(relation_end(scope, given), default)
    if not 2 <= len(given) <= 3:
        raise InvalidArgument(f"it holds {given!r}; {_RELATED}")
    weight = checked_weight(given[2]) if len(given) == 3 else 1.0
    return NewRelation(relation_end(scope, given[0]), checked_kind(given[1]), weight)


# ---- several texts -------------------------------------------------------------------------------


def several(values: Any, what: str) -> tuple[Any, ...]:
    """A bare text is a tuple of one."""
    if isinstance(values, str):
        return (str.__str__(values),)
    if isinstance(values, (bytes, Mapping)) or not isinstance(values, Iterable):
        raise InvalidArgument(f"{what} is {a_type(values)}; pass a tuple of texts")
    return tuple(values)


def checked_tags(tags: Any, what: str = "tags") -> tuple[str, ...]:
    """In the order given, each once."""
    found = several(tags, what)
    check_tags(found)
    return unique(str.__str__(tag) for tag in found)


def checked_types(types: Any) -> tuple[str, ...]:
    """One of them is enough, so none at all is a mistake."""
    found = several(types, "types")
    if not found:
        raise InvalidArgument("types is empty; leave it out to see all types")
    return tuple(checked_text(each, "a type") for each in found)


def checked_type(name: Any) -> str:
    """What kind of memory it is; the endings of chunks and summaries are reserved."""
    found = checked_name(name, "type")
    check_type(found)
    return found


# ---- filters -------------------------------------------------------------------------------------


def checked_where(where: Any) -> dict[str, Any] | None:
    """Conditions that some memory could meet. None and {}: all do."""
    if where is None:
        return None
    if not isinstance(where, Mapping):
        raise InvalidArgument(
            f'where is {a_type(where)}; pass a dict like {{"metadata.year": {{"$gt": 2024}}}}'
        )
    for path in where:
        if not isinstance(path, str):
            raise InvalidArgument(f"where has the key {path!r}; name a field as text")
    plain: dict[str, Any] | None = plain_filter(MemoryFilter(where=dict(where))).get("where")
    if plain is not None:
        Where(plain)
    return plain


def checked_status(status: Any) -> str | None:
    """None: whatever is not gone."""
    if status is not None and status not in STATUS_CODES:
        raise InvalidArgument(
            f"status is {status!r}; pass {', '.join(map(repr, STATUS_CODES))}, or None for all"
        )
    return None if status is None else str(status)


def memory_filter(
    scope: Scope,
    clock: Clock,
    *,
    namespace: NamespaceLike | None = None,
    types: Any = None,
    tags: Any = None,
    agent: str | None = None,
    where: Any = None,
    timeframe: TimeframeLike = None,
    older_than: Any = None,
    as_of: Any = None,
    status: Any = "active",
    derived: bool = False,
) -> MemoryFilter:
    """What is asked for, within the view."""
    return MemoryFilter(
        namespace=tuple(scope.filter(namespace)),
        types=None if types is None else checked_types(types),
        tags=None if tags is None else checked_tags(tags) or None,
        agent=None if agent is None else checked_name(agent, "agent"),
        where=checked_where(where),
        timeframe=resolved_us(timeframe, clock=clock, tz=scope.timezone),
        older_than=None if older_than is None else before_us(older_than, clock),
        as_of=None if as_of is None else to_us(as_of, "as_of"),
        status=checked_status(status),
        derived=bool(derived),
    )


def narrows(scope: Scope, wanted: MemoryFilter) -> bool:
    """Whether it leaves out anything of what the view sees: a deletion must."""
    return (
        wanted.namespace != tuple(scope.root)
        or wanted.older_than is not None
        or any(part for part in (wanted.types, wanted.tags, wanted.agent, wanted.where))
    )


def before_us(older_than: Any, clock: Clock) -> int:
    """The moment that ``older_than`` means: itself, or so long before now. A number is neither: one
    of days would be taken for milliseconds since 1970.
    """
    if isinstance(older_than, datetime):
        return to_us(older_than, "older_than")
    if not isinstance(older_than, timedelta):
        raise InvalidArgument(
            f"older_than is {older_than!r}; pass how long ago, as timedelta(days=30), or an aware "
            "datetime"
        )
    if older_than < timedelta(0):
        raise InvalidArgument(f"older_than is {older_than}; pass how long ago, a positive time")
    return clock.now_us() - older_than // timedelta(microseconds=1)
