"""What was learned from turns goes with them: an operation that follows an erasure of turns.

A memory that comes from nothing else is erased; one that has other sources, too, is flagged. It
comes after the turns are gone: a reflector that was at work on them looks whether they are there
still, once its facts are stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from neverforget.actors.longterm_messages import (
    DerivedFrom,
    EraseMemories,
    MemoriesErasedReply,
    RelationsReply,
)
from neverforget.runtime.operation import LONGTERM, Call, Context, Operation, SessionPlace
from neverforget.runtime.values import CONFIRMED
from neverforget.storage.errors import NotFound
from neverforget.storage.format import SEQ_MAX
from neverforget.storage.longterm_results import LongTermErasure, TurnPoint

_ALL = [(0, SEQ_MAX)]
_AT_ONCE = 500  # memories of one erasure
Runs = Sequence[tuple[int, int]]


class Learned(NamedTuple):
    """``only``: ids of memories that come from these turns alone; ``flagged``: and from others."""

    only: list[str]
    flagged: list[str]


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
    wanted = _ALL if runs is None else runs
    learned = yield from _learned(context, scope, place, wanted)
    found: list[LongTermErasure] = []
    for start in range(0, len(learned.only), _AT_ONCE):
        for ids in _in_parts(learned.only[start : start + _AT_ONCE]):
            request = EraseMemories(0, scope, by, *context.ids.next(), ids, CONFIRMED.value, reason)
            try:
                reply: MemoriesErasedReply = yield Call(LONGTERM, request, math.inf)
            except NotFound:  # somebody else has erased one of them since: then one by one
                continue
            found.append(reply.result)
            if len(ids) > 1:
                break
    if learned.flagged:
        now = context.clock.now_us()
        found.append(LongTermErasure(0, 0, [], learned.flagged, [], [], now))
    return found


def _in_parts(ids: list[str]) -> list[list[str]]:
    """All of them together, and each of them alone."""
    return [ids] if len(ids) == 1 else [ids, *([one] for one in ids)]


def _learned(
    context: Context, scope: tuple[str, ...], place: SessionPlace, runs: Runs
) -> Operation[Learned]:
    sources: dict[str, bool] = {}
    for first, last in runs:
        start: int | None = 0
        while start is not None:
            request = DerivedFrom(0, scope, tuple(place.namespace), place.name, first, last, start)
            reply: RelationsReply = yield Call(LONGTERM, request)
            for relation in reply.relations:
                only = _is_within(relation.target, place, runs)
                sources[relation.source] = sources.get(relation.source, True) and only
            start = reply.next
    return Learned(
        [one for one, only in sources.items() if only],
        [one for one, only in sources.items() if not only],
    )


def _is_within(target: str | TurnPoint, place: SessionPlace, runs: Runs) -> bool:
    if not isinstance(target, TurnPoint):
        return False
    if (tuple(target.namespace), target.session) != (tuple(place.namespace), place.name):
        return False
    return any(first <= target.first and target.last <= last for first, last in runs)
