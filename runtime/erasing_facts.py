"""What was learned from turns goes with them: an operation that follows an erasure of turns.

A memory that comes from nothing else is erased; one that has other sources, too, is flagged. What
reflection made of turns beside them may have their text as its context, and loses that. It comes
after the turns are gone: a reflector that was at work on them looks whether they are there still,
once its facts are stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from neverforget.actors.extractor_contract import CONTEXT_SEQS_MAX
from neverforget.actors.longterm_messages import (
    DerivedFrom,
    EraseMemories,
    GetMemories,
    MemoriesErasedReply,
    MemoriesReply,
    RelationsReply,
    unpacked,
)
from neverforget.runtime.operation import LONGTERM, Call, Context, Operation, SessionPlace
from neverforget.runtime.values import CONFIRMED
from neverforget.storage.errors import NotFound
from neverforget.storage.format import SEQ_MAX
from neverforget.storage.longterm_results import LongTermErasure, MemoryView, TurnPoint
from neverforget.storage.reflection_results import REFLECTION

_ALL = [(0, SEQ_MAX)]
_AT_ONCE = 500  # memories of one erasure
Runs = Sequence[tuple[int, int]]


class Learned(NamedTuple):
    """Ids of memories: ``only`` of these turns; ``flagged``: of others, too; ``beside`` them."""

    only: list[str]
    flagged: list[str]
    beside: list[str]


def erase_learned(
    context: Context,
    scope: tuple[str, ...],
    place: SessionPlace,
    runs: Runs | None,
    by: str,
    reason: str | None,
) -> Operation[list[LongTermErasure]]:
    """What was learned from turns that are erased; ``runs`` None: from the whole session. Only what
    the view of ``scope`` sees.
    """
    learned = yield from _learned(context, scope, place, _ALL if runs is None else runs)
    bare = yield from _with_context(context, scope, [*learned.flagged, *learned.beside])
    found: list[LongTermErasure] = []

    def ask(ids: list[str], bare: list[str]) -> Operation[None]:
        request = EraseMemories(
            0, scope, by, *context.ids.next(), ids, CONFIRMED.value, reason, tuple(bare)
        )
        reply: MemoriesErasedReply = yield Call(LONGTERM, request, math.inf)
        found.append(reply.result)

    for start in range(0, len(learned.only), _AT_ONCE):
        ids = learned.only[start : start + _AT_ONCE]
        try:
            yield from ask(ids, [])
        except NotFound:  # somebody else has erased one of them since
            for one in ids:
                with suppress(NotFound):
                    yield from ask([one], [])
    for start in range(0, len(bare), _AT_ONCE):
        with suppress(NotFound):
            yield from ask([], bare[start : start + _AT_ONCE])
    if learned.flagged:
        now = context.clock.now_us()
        found.append(LongTermErasure(0, 0, [], learned.flagged, [], [], now))
    return found


def _learned(
    context: Context, scope: tuple[str, ...], place: SessionPlace, runs: Runs
) -> Operation[Learned]:
    targets: dict[str, list[str | TurnPoint]] = {}
    for first, last in runs:
        start: int | None = 0
        first = max(0, first - CONTEXT_SEQS_MAX)
        last = min(SEQ_MAX, last + CONTEXT_SEQS_MAX)
        while start is not None:
            request = DerivedFrom(0, scope, tuple(place.namespace), place.name, first, last, start)
            reply: RelationsReply = yield Call(LONGTERM, request)
            for relation in reply.relations:
                targets.setdefault(relation.source, []).append(relation.target)
            start = reply.next
    learned = Learned([], [], [])
    for source, its in targets.items():
        if all(_lies_in(target, place, runs) for target in its):
            learned.only.append(source)
        elif any(_touches(target, place, runs) for target in its):
            learned.flagged.append(source)
        else:
            learned.beside.append(source)
    return learned


def _with_context(context: Context, scope: tuple[str, ...], ids: list[str]) -> Operation[list[str]]:
    """Those of ``ids`` that reflection made, with what was said around them."""
    found: list[str] = []
    left = list(dict.fromkeys(ids))
    while left:
        reply: MemoriesReply = yield Call(LONGTERM, GetMemories(0, scope, left, True))
        views = unpacked(reply.memories, list[MemoryView | None])
        found += [
            view.id
            for view in views
            if view is not None and view.source == REFLECTION and view.context
        ]
        left = left[max(1, len(views)) :]
    return found


def _lies_in(target: str | TurnPoint, place: SessionPlace, runs: Runs) -> bool:
    return (
        isinstance(target, TurnPoint)
        and _is_of(target, place)
        and any(first <= target.first and target.last <= last for first, last in runs)
    )


def _touches(target: str | TurnPoint, place: SessionPlace, runs: Runs) -> bool:
    return (
        isinstance(target, TurnPoint)
        and _is_of(target, place)
        and any(first <= target.last and target.first <= last for first, last in runs)
    )


def _is_of(turns: TurnPoint, place: SessionPlace) -> bool:
    return (tuple(turns.namespace), turns.session) == (tuple(place.namespace), place.name)
