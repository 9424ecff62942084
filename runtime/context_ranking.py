"""Which memories of a working memory matter most. Pure; the same for the same contents and time.

    recent      1 / (1 + hours since it was last used): added, or recalled
    important   importance / 10
    balanced    (ln(1 + accesses) / ln(1 + A) + 1 / (1 + hours since last used)) / 2,
                A being the most accesses that any of them has; the first term is 0 where A is

All are 0 to 1. The terms of the last are added, so that a memory that was never recalled still
counts: it has its recency. Of equally important ones the newer comes first, else of equal ones the
one that was added first: of what one recall brought that is the best hit. What is not true now
comes behind everything that is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from neverforget.runtime.working_values import ContextStrategy, WorkingItem
from neverforget.storage.errors import InvalidArgument

STRATEGIES: Final[tuple[ContextStrategy, ...]] = ("recent", "important", "balanced")


class Ranked(NamedTuple):
    item: WorkingItem
    score: float


def checked_strategy(value: object) -> ContextStrategy:
    """One of STRATEGIES."""
    for strategy in STRATEGIES:
        if value == strategy:
            return strategy
    raise InvalidArgument(f"strategy is {value!r}; pass {', '.join(map(repr, STRATEGIES))}")


def ranked(items: Iterable[WorkingItem], strategy: ContextStrategy, now: datetime) -> list[Ranked]:
    """The pinned ones first, then the others; of both the best first. ``items``: in the order they
    were added.
    """
    found = list(items)
    most = max((item.accesses for item in found), default=0)
    scored = [Ranked(item, _score(item, strategy, now, most)) for item in found]
    if strategy == "important":
        scored.sort(key=lambda each: _newest(each.item), reverse=True)
    scored.sort(key=lambda each: (not each.item.pinned, not _is_true(each.item, now), -each.score))
    return scored


def _score(item: WorkingItem, strategy: ContextStrategy, now: datetime, most: int) -> float:
    hours = max((now - item.used_at).total_seconds(), 0.0) / 3600
    recency = 1 / (1 + hours)
    if strategy == "recent":
        return recency
    if strategy == "important":
        return item.memory.importance / 10
    used = math.log1p(item.accesses) / math.log1p(most) if most else 0.0
    return (used + recency) / 2


def _newest(item: WorkingItem) -> datetime:
    return item.memory.occurred_at or item.memory.created_at


def _is_true(item: WorkingItem, now: datetime) -> bool:
    memory = item.memory
    began = memory.valid_from is None or memory.valid_from <= now
    return began and (memory.valid_to is None or now < memory.valid_to)
