"""How a budget is shared between memories, a summary and turns. Pure.

What is pinned comes first and must fit. Of the rest the newest turns may have half, the memories
the other half, and either what the other does not use. Where turns are left out, at most a tenth of
the budget goes to the summary of those, out of the memories' share. The oldest turns fall out
first, a call and its results together; memories fall out from the end of their ranking, but one
that is small enough still comes in behind one that is not.

The parts are counted by themselves; ``fitted`` counts the whole and takes more out where that is
more than its parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import tzinfo
from typing import NamedTuple

from msgspec.structs import replace

from neverforget.actors.tokenizers import Count
from neverforget.runtime.context_calls import link_of
from neverforget.runtime.context_messages import message_tokens, turn_cost
from neverforget.runtime.context_ranking import Ranked
from neverforget.runtime.context_summary import how_many
from neverforget.runtime.context_text import (
    day_line,
    memory_text,
    recalled_text,
    turn_line,
)
from neverforget.runtime.values import Turn
from neverforget.runtime.working_values import Context, ContextItem, LeftOut
from neverforget.storage.errors import InvalidArgument
from neverforget.storage.tail_window import parted

SUMMARY_SHARE = 10  # at most this part of the budget: one in ten
SUMMARY_TOKENS_MAX = 2_000


class Gathered(NamedTuple):
    """The newest turns of a conversation, oldest first, with their tokens; as many as could fit if
    there was nothing else. ``end``: how many turns there are in all. ``more``: older ones remain.
    """

    turns: list[Turn]
    costs: list[int]
    end: int
    more: bool


class Shares(NamedTuple):
    """``summary_room``: tokens that a summary of the turns that are not shown may have."""

    items: list[ContextItem]
    turns: list[Turn]
    summary_room: int


NO_TURNS = Gathered([], [], 0, False)


def shown(ranked: Iterable[Ranked], zone: tzinfo, count: Count) -> list[ContextItem]:
    """Memories as they would stand in the prompt."""
    found = []
    for item, score in ranked:
        text = memory_text(item.memory, item.provenance, zone)
        tokens = count(text)
        found.append(ContextItem(item.memory, item.pinned, score, text, tokens, item.provenance))
    return found


def cost_of(turn: Turn, count: Count) -> int:
    """Tokens of one turn, in whichever form it takes more."""
    line = turn_line(turn, frozenset({turn.name or ""}))  # as if an agent had that name
    return max(count(line), turn_cost(turn, count))


def day_cost(count: Count) -> int:
    """Tokens of the line that begins a day."""
    return count(day_line("2026-03-05"))


class Budget:
    """The shares of one context of these memories, the best first."""

    def __init__(self, items: Sequence[ContextItem], max_tokens: int, count: Count) -> None:
        self._max = max_tokens
        self._pinned = [item for item in items if item.pinned]
        self._others = [item for item in items if not item.pinned]
        self._frame = 3 + count(recalled_text([""], ""))
        pinned = sum(item.tokens for item in self._pinned)
        needed = pinned + self._frame if pinned else 0
        if needed > max_tokens:
            raise InvalidArgument(
                f"what is pinned takes {needed:,} tokens in a context, which is to have at most "
                f"{max_tokens:,}; unpin some of it, or allow more"
            )
        self.room = max_tokens - pinned  # more than turns can get

    def shares(self, gathered: Gathered) -> Shares:
        """Who gets what; ``gathered``: what fits into ``room`` of the newest turns."""
        framed = self._pinned or self._others or gathered.more
        rest = max(self.room - (self._frame if framed else 0), 0)
        half, wanted = rest // 2, sum(gathered.costs)
        if not gathered.more:
            items = self._filled(rest - min(wanted, half))
            if wanted + _tokens(items) <= rest:
                return Shares(self._pinned + items, gathered.turns, 0)
        summary = min(self._max // SUMMARY_SHARE, SUMMARY_TOKENS_MAX, rest - half)
        items = self._filled(rest - half - summary)
        turns, used = _newest(gathered, rest - _tokens(items) - summary)
        if not turns:  # nothing matters more than what was said last
            turns, used = _newest(gathered, rest)
            summary = min(summary, rest - used)
        if not turns and not self._pinned:  # there is no room for the frame beside it
            turns, _ = _newest(gathered, self.room)
            if turns:
                return Shares([], turns, 0)
        items = self._filled(rest - used - summary)
        return Shares(self._pinned + items, turns, summary)

    def _filled(self, room: int) -> list[ContextItem]:
        """The best memories that fit into ``room``."""
        found = []
        for item in self._others:
            if item.tokens <= room:
                found.append(item)
                room -= item.tokens
        return found


def _tokens(items: Iterable[ContextItem]) -> int:
    return sum(item.tokens for item in items)


def _newest(gathered: Gathered, room: int) -> tuple[list[Turn], int]:
    """The newest turns that fit into ``room``, and what they take; no result without its call."""
    used, first = 0, len(gathered.turns)
    while first and used + gathered.costs[first - 1] <= room:
        first -= 1
        used += gathered.costs[first]
    turns = together(gathered.turns[first:])
    shown_seqs = {turn.seq for turn in turns}
    costs = zip(gathered.turns[first:], gathered.costs[first:])
    return turns, sum(cost for turn, cost in costs if turn.seq in shown_seqs)


def together(turns: Sequence[Turn]) -> list[Turn]:
    """Without the results whose call lies before these turns."""
    if not turns:
        return []
    left_out = set(parted(map(link_of, turns), calls_before=turns[0].seq > 0))
    return [turn for index, turn in enumerate(turns) if index not in left_out]


# ---- the whole -----------------------------------------------------------------------------------


def fitted(context: Context, count: Count) -> Context:
    """``context`` with its tokens counted, and less in it where they were too many."""
    while True:
        tokens = count(str(context))
        taken = sum(message_tokens(message, count) for message in context.messages())
        if max(tokens, taken) <= context.max_tokens:
            return replace(context, tokens=tokens)
        context = _smaller(context)


def _smaller(context: Context) -> Context:
    left = context.left_out
    if len(context.turns) > 1:
        turns = together(context.turns[1:])
        out = left.turns + len(context.turns) - len(turns)
        summary = context.summary
        if summary is not None:
            summary = summary.replace(how_many(left.turns), how_many(out), 1)
        return replace(
            context, turns=tuple(turns), summary=summary, left_out=LeftOut(left.memories, out)
        )
    if context.summary is not None:
        return replace(context, summary=None)
    if context.items and not context.items[-1].pinned:
        return replace(
            context, items=context.items[:-1], left_out=LeftOut(left.memories + 1, left.turns)
        )
    if context.turns:
        return replace(context, turns=(), left_out=LeftOut(left.memories, left.turns + 1))
    raise InvalidArgument(
        f"what is pinned does not fit into a context of {context.max_tokens:,} tokens; unpin some "
        "of it, or allow more"
    )
