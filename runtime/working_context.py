"""What an agent knows now, as an operation: its working memory and the end of a conversation, read
from their owners and put together within one budget.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import NamedTuple

from neverforget.runtime import session_reading as reading
from neverforget.runtime.context_budget import (
    NO_TURNS,
    Budget,
    Gathered,
    cost_of,
    day_cost,
    fitted,
    shown,
)
from neverforget.runtime.context_ranking import ranked
from neverforget.runtime.context_summary import TURNS_MAX, summarized
from neverforget.runtime.context_text import day
from neverforget.runtime.operation import Context as Client
from neverforget.runtime.operation import Operation, SessionPlace
from neverforget.runtime.timeframe.resolving import zone_of
from neverforget.runtime.times import from_us
from neverforget.runtime.values import Turn
from neverforget.runtime.working_values import (
    Context,
    ContextItem,
    ContextStrategy,
    LeftOut,
    WorkingItem,
)

FIRST_TURNS = 32  # asked for at first; then twice as many each time
TURNS_AT_A_TIME = 512


class Wanted(NamedTuple):
    """What kind of context. ``timezone``: whose days its dates are."""

    strategy: ContextStrategy
    max_tokens: int
    conversation: SessionPlace | None
    timezone: str


def context(client: Client, items: list[WorkingItem], wanted: Wanted) -> Operation[Context]:
    """``items``: all that is in the working memory."""
    count, zone = client.count_tokens, zone_of(wanted.timezone)
    readable = [item for item in items if item.memory.status == "active"]
    now = from_us(client.clock.now_us())
    best = shown(ranked(readable, wanted.strategy, now), zone, count)
    budget = Budget(best, wanted.max_tokens, count)
    place, gathered = wanted.conversation, NO_TURNS
    if place is not None:
        gathered = yield from _newest(client, place, budget.room, zone)
    shares = budget.shares(gathered)
    first = shares.turns[0].seq if shares.turns else gathered.end
    summary = None
    if place is not None and shares.summary_room:
        earlier = yield from _before(client, place, first)
        earlier = [turn for turn in earlier if not _is_told(turn, place, shares.items)]
        summary = summarized(earlier, first, shares.summary_room, count, wanted.timezone)
    left_out = LeftOut(len(best) - len(shares.items), first)
    made = Context(
        tuple(shares.items),
        tuple(shares.turns),
        summary,
        0,
        wanted.max_tokens,
        left_out,
        wanted.timezone,
    )
    return fitted(made, count)


def _newest(client: Client, place: SessionPlace, room: int, zone: tzinfo) -> Operation[Gathered]:
    """The newest turns that fit into ``room``, hidden, erased and unreadable ones left out."""
    count = client.count_tokens
    of_day = day_cost(count)
    turns: list[Turn] = []
    costs: list[int] = []
    today, end = "", None
    before: int | None = None
    limit = FIRST_TURNS
    while True:
        piece = yield from reading.backward(client, place, before, limit, False)
        end = piece.stop if end is None else end
        for turn in reversed(piece.turns):
            if turn.state != "ok":
                continue
            said_on = day(turn.timestamp, zone)
            cost = cost_of(turn, count) + (of_day if said_on != today else 0)
            if cost > room:
                return Gathered(turns[::-1], costs[::-1], end, True)
            room -= cost
            today = said_on
            turns.append(turn)
            costs.append(cost)
        if not piece.more:
            return Gathered(turns[::-1], costs[::-1], end, False)
        before, limit = piece.first, min(2 * limit, TURNS_AT_A_TIME)


def _before(client: Client, place: SessionPlace, seq: int) -> Operation[list[Turn]]:
    """The turns before ``seq``, at most as many as a summary is made of, oldest first."""
    found: list[Turn] = []
    while seq > 0 and len(found) < TURNS_MAX:
        left = TURNS_MAX - len(found)
        piece = yield from reading.backward(client, place, seq, left, False)
        found[:0] = [turn for turn in piece.turns if turn.state == "ok"]
        if not piece.more:
            break
        seq = piece.first
    return found


def _is_told(turn: Turn, place: SessionPlace, items: list[ContextItem]) -> bool:
    """A memory that was made of this turn is in the context: it need not be said twice."""
    return any(
        ref.session == place.name
        and tuple(ref.namespace) == tuple(place.namespace)
        and ref.first <= turn.seq <= ref.last
        for item in items
        for ref in item.provenance
    )
