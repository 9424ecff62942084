"""Recall, as an operation: a query and what limits it are understood here, the owner searches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Any, Literal, NamedTuple

import msgspec

from neverforget.actors.fusion import FUSIONS
from neverforget.actors.longterm_messages import FoundMemory, Recall, RecallReply, packed, unpacked
from neverforget.runtime.arguments import LIMIT_MAX, checked_limit, whole
from neverforget.runtime.memory_arguments import memory_filter
from neverforget.runtime.memory_codec import hit_of
from neverforget.runtime.memory_values import Hit, Hits, Timeframe
from neverforget.runtime.operation import LONGTERM, Call, Context, Operation
from neverforget.runtime.scope import Scope
from neverforget.runtime.timeframe_argument import resolved_us, taken_from
from neverforget.runtime.times import from_us, to_us
from neverforget.storage.errors import InvalidArgument
from neverforget.storage.longterm_results import MemoryFilter
from neverforget.storage.type_names import a_type

Strategy = Literal["hybrid", "vector", "text"]
Fusion = Literal["weighted", "rrf"]
STRATEGIES = ("hybrid", "vector", "text")
AUTO = "auto"
WAIT_S_MAX = 86_400.0


class Question(NamedTuple):
    """What is asked of the owner. ``query``: without the time phrase that was taken out of it.
    ``now_us``: of which what is valid is preferred; None: by the owner's clock.
    """

    query: str
    wanted: MemoryFilter
    timeframe: Timeframe | None
    strategy: str
    fusion: str
    limit: int
    offset: int
    explain: bool
    wait_s: float
    now_us: int | None


def question(
    context: Context,
    scope: Scope,
    query: Any,
    timeframe: Any,
    tz: str | tzinfo | None,
    now: datetime | None,
    include_archived: bool,
    filters: Mapping[str, Any],
    *,
    strategy: str,
    fusion: str,
    limit: int,
    offset: int,
    explain: bool,
    wait: float,
) -> Question:
    """``recall``'s arguments, checked; ``filters`` are those that ``memory_filter`` takes."""
    if not isinstance(query, str):
        raise InvalidArgument(f"query is {a_type(query)}; pass text")
    query = str.__str__(query)
    if not query.strip():
        raise InvalidArgument("query is empty; say what to look for, or list with memories()")
    _check_choice(strategy, "strategy", STRATEGIES)
    _check_choice(fusion, "fusion", FUSIONS)
    zone = scope.timezone if tz is None else tz
    phrase: str | None = None
    if isinstance(timeframe, str) and timeframe == AUTO:
        span, phrase, query = taken_from(query, clock=context.clock, tz=zone, now=now)
    else:
        span = resolved_us(timeframe, clock=context.clock, tz=zone, now=now)
    status = None if include_archived else "active"
    wanted = memory_filter(scope, context.clock, status=status, **filters)
    return Question(
        query,
        msgspec.structs.replace(wanted, timeframe=span),
        None if span is None else _timeframe(span, phrase),
        strategy,
        fusion,
        checked_limit(limit),
        whole(offset, "offset", 0, LIMIT_MAX),
        bool(explain),
        checked_wait(wait),
        None if now is None else to_us(now, "now"),
    )


def _check_choice(value: Any, what: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidArgument(f"{what} is {value!r}; pass {', '.join(map(repr, choices))}")


def _timeframe(span: tuple[int | None, int | None], phrase: str | None) -> Timeframe:
    start, stop = (None if at is None else from_us(at) for at in span)
    return Timeframe(start, stop, phrase)


def checked_wait(wait: Any) -> float:
    """Seconds, from 0 on."""
    real = isinstance(wait, (int, float)) and not isinstance(wait, bool)
    if not real or math.isnan(wait) or wait < 0:
        raise InvalidArgument(f"wait is {wait!r}; pass a number of seconds from 0 on")
    return float(min(wait, WAIT_S_MAX))


def recall(context: Context, scope: Scope, asked: Question) -> Operation[Hits]:
    """Ask until there are ``limit`` hits, or no more. A reply may be cut; what is said of the whole
    (complete, pending) is that of the worst reply.
    """
    found: dict[str, Hit] = {}
    complete, pending, reason = True, 0, None
    offset, left = asked.offset, asked.limit
    query, wanted = packed(asked.query), packed(asked.wanted)
    by = scope.agent or ""
    while left:
        request = Recall(
            0,
            query,
            wanted,
            asked.strategy,
            asked.fusion,
            left,
            offset,
            asked.explain,
            context.longterm.end,
            int(asked.wait_s * 1000),
            by,
            asked.now_us,
        )
        by = ""  # it is one recall, however many requests it takes
        # The owner may use up all of ``wait`` before it begins to search.
        reply: RecallReply = yield Call(LONGTERM, request, scope.deadline_s + asked.wait_s)
        part = unpacked(reply.hits, list[FoundMemory])
        for each in part:
            # Between two replies a memory may have moved down: it is not shown twice.
            found.setdefault(each.memory.id, hit_of(each))
        complete, pending = complete and reply.complete, reply.pending
        reason = reason or reply.reason
        offset, left = offset + len(part), left - len(part)
        if not reply.more or not part:
            break
    return Hits(
        found.values(),
        timeframe=asked.timeframe,
        complete=complete,
        pending=pending,
        reason=reason,
    )
