"""What is to be remembered, from the arguments of ``remember``: checked, with an id of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from neverforget.runtime.arguments import sync_code
from neverforget.runtime.memory_arguments import (
    checked_label,
    checked_tags,
    checked_type,
    new_relations,
)
from neverforget.runtime.operation import Context
from neverforget.runtime.scope import Scope, checked_name
from neverforget.runtime.times import to_us
from neverforget.storage.errors import InvalidArgument, NotFound
from neverforget.storage.longterm_checks import check_new, plain_metadata
from neverforget.storage.longterm_results import NewMemory
from neverforget.storage.type_names import a_type

REMEMBER_ARGUMENTS = (
    "text", "key", "on_conflict", "type", "tags", "importance", "confidence", "source", "agent",
    "speaker", "namespace", "metadata", "related_to", "occurred_at", "context", "valid_from",
    "valid_to", "sync",
)  # fmt: skip
_KNOWN = frozenset(REMEMBER_ARGUMENTS)
ON_CONFLICT = ("raise", "revise")


class Batch(NamedTuple):
    """Memories that are stored together, or not at all."""

    memories: list[NewMemory]
    on_conflict: str
    sync: int


def batch_of(context: Context, scope: Scope, items: Any) -> Batch:
    """From mappings of ``remember``'s arguments. What holds for the whole batch, ``on_conflict``
    and ``sync``, must be the same in all of them.
    """
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        raise InvalidArgument(f"items is {a_type(items)}; pass a list of mappings")
    memories: list[NewMemory] = []
    conflicts: set[str] = set()
    syncs: set[int] = set()
    for index, item in enumerate(items):
        try:
            _check_names(item)
            memories.append(new_memory(context, scope, item))
            conflicts.add(checked_on_conflict(item.get("on_conflict", "raise")))
            syncs.add(sync_code(item.get("sync"), scope.sync))
        except (InvalidArgument, NotFound) as error:
            raise type(error)(f"items[{index}]: {error.message}") from error
    for what, found in (("on_conflict", conflicts), ("sync", syncs)):
        if len(found) > 1:
            raise InvalidArgument(f"{what} differs between the items of one batch; call it twice")
    on_conflict = conflicts.pop() if conflicts else "raise"
    return Batch(memories, on_conflict, syncs.pop() if syncs else sync_code(None, scope.sync))


def _check_names(item: Any) -> None:
    if not isinstance(item, Mapping):
        raise InvalidArgument(f"it is {a_type(item)}; pass a mapping of remember's arguments")
    if not item.keys() <= _KNOWN:
        unknown = ", ".join(sorted(map(str, item.keys() - _KNOWN)))
        raise InvalidArgument(
            f"no argument {unknown}; remember takes {', '.join(REMEMBER_ARGUMENTS)}"
        )
    if "text" not in item:
        raise InvalidArgument("text is missing")


def checked_on_conflict(on_conflict: Any) -> str:
    """What becomes of a key that is held by a memory which says something else."""
    if on_conflict not in ON_CONFLICT:
        raise InvalidArgument(f'on_conflict is {on_conflict!r}; pass "raise" or "revise"')
    return str(on_conflict)


def new_memory(context: Context, scope: Scope, item: Mapping[str, Any]) -> NewMemory:
    """One memory of ``item``, in which what is left out has its default."""
    get = item.get
    agent = get("agent")
    text, near = get("text"), get("context")
    return check_new(
        NewMemory(
            id=context.longterm.draw_id(context.clock.now_us()),
            text=str.__str__(text) if isinstance(text, str) else text,  # type: ignore[arg-type]
            key=checked_label(get("key"), "key"),
            type=checked_type(get("type", "fact")),
            tags=checked_tags(get("tags", ())),
            importance=get("importance", 1.0),
            confidence=get("confidence", 1.0),
            source=checked_label(get("source"), "source"),
            agent=scope.agent if agent is None else checked_name(agent, "agent"),
            speaker=checked_label(get("speaker"), "speaker"),
            namespace=tuple(scope.place(get("namespace", ()))),
            metadata=plain_metadata(get("metadata", {})),
            related_to=new_relations(scope, get("related_to", ())),
            occurred_at=time_us(get("occurred_at"), "occurred_at"),
            context=str.__str__(near) if isinstance(near, str) else near,
            valid_from=time_us(get("valid_from"), "valid_from"),
            valid_to=time_us(get("valid_to"), "valid_to"),
        )
    )


def time_us(value: Any, what: str) -> int | None:
    """Microseconds, None where no time is said."""
    return None if value is None else to_us(value, what)
