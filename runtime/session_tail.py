"""What reads the newest turns of a session, as an operation.

A tail is at most ``limit`` turns, at most ``max_tokens`` in all, and never separates a result from
its call; the results whose call lies before the others are left out. Where that would leave
nothing, the newest turn is fetched with its call and all between, above the limit, so that a
session with turns has a tail. The budget is never exceeded.
"""

from __future__ import annotations

from typing import NamedTuple

from neverforget.actors.messages import Tail
from neverforget.runtime.operation import Call, Context, Operation, SessionPlace
from neverforget.runtime.session_reading import Asked, Piece, behind, erased, is_erased, stretch
from neverforget.runtime.turn_codec import turns_of
from neverforget.runtime.values import Turn
from neverforget.storage.record import decode_records
from neverforget.storage.results import TurnFlag, Window
from neverforget.storage.tail_window import NO_LINK, Link, Sight, link, newest_group, parted
from neverforget.storage.turn_states import flags_by_seq

CALL_ROLES = frozenset({"assistant", "tool_call"})
GROUP_LIMIT = 64  # turns fetched at first to find the newest turn's call; then twice as many
# Further back no call is looked for: the result then belongs to the nearest call before it.
GROUP_TURNS_MAX = 10_000


def tail(
    context: Context,
    place: SessionPlace,
    limit: int,
    max_tokens: int | None,
    roles: list[str] | None,
    include_hidden: bool,
) -> Operation[list[Turn]]:
    """The newest turns within limit and budget, oldest first; no result without its call."""
    asked = Asked(place.namespace, place.name)
    turns: list[Turn] = []
    windows: list[Window] = []
    holder, before = place, None
    while True:
        left = limit - len(turns)
        budget = None if max_tokens is None else max_tokens - sum(t.token_count for t in turns)
        request = Tail(
            0, holder.namespace, holder.name, before, left, budget, roles, include_hidden
        )
        window: Window = (yield Call(holder.partition, request)).window
        windows.insert(0, window)
        turns[:0] = turns_of(window, *asked)
        before = window.first_seq
        if window.more and len(turns) < limit:
            continue  # cut short by a bound of the owner's, not by ours
        point = window.parent
        if point is None or before > window.base or len(turns) >= limit:
            break
        holder = context.place(point.namespace, point.session)
        if (yield from is_erased(holder, point)):
            if roles is None:
                first = max(0, before - (limit - len(turns)))
                turns[:0] = erased(asked, first, before)
            break
    if roles is not None and not CALL_ROLES & set(roles):
        return turns
    # An owner keeps calls and results together in a window that it closed itself; where it was cut
    # short, or reached the turns that a fork inherits, the call may lie in what it did not see.
    if len(windows) > 1 or (point is not None and before <= window.base):
        links = [link(*record) for found in windows for record in decode_records(found.records)]
        shown_erased = len(turns) - len(links)
        for index in reversed(parted(links, calls_before=before > 0)):
            del turns[shown_erased + index]
    if turns or not before:
        return turns
    return (yield from _newest_group(context, place, max_tokens, roles, include_hidden))


class _Looked(NamedTuple):
    """What is kept of a turn that was looked at: far less than the turn."""

    seq: int
    tokens: int
    link: Link
    sight: Sight


def _newest_group(
    context: Context,
    place: SessionPlace,
    max_tokens: int | None,
    roles: list[str] | None,
    include_hidden: bool,
) -> Operation[list[Turn]]:
    """The newest turn with its call and all between, whatever the limit, if the budget allows."""
    asked = Asked(place.namespace, place.name)
    looked: list[_Looked] = []
    before: int | None = None
    limit = GROUP_LIMIT
    group = None
    while group is None:
        # Hidden turns too: a result must not be given to another call because its own is hidden.
        piece = yield from behind(context, place, asked, before, limit, True)
        looked[:0] = _looked(piece, roles, include_hidden)
        whole = not piece.more or len(looked) >= GROUP_TURNS_MAX
        links, sights = [turn.link for turn in looked], [turn.sight for turn in looked]
        group = newest_group(links, sights, whole=whole)
        before = piece.first
        limit = min(2 * limit, GROUP_TURNS_MAX)
    tokens = sum(looked[index].tokens for index in group)
    if not group or (max_tokens is not None and tokens > max_tokens):
        return []
    seqs = {looked[index].seq for index in group}
    turns = yield from stretch(context, place, min(seqs), max(seqs) + 1)
    return [turn for turn in turns if turn.seq in seqs]


def _looked(piece: Piece, roles: list[str] | None, include_hidden: bool) -> list[_Looked]:
    links, flags = [NO_LINK] * len(piece.turns), {}
    if piece.window is not None:
        links = [link(*record) for record in decode_records(piece.window.records)]
        flags = flags_by_seq(piece.window.flags)
    found = []
    for turn, made in zip(piece.turns, links, strict=True):
        sight = Sight.SHOWN
        if not include_hidden and flags.get(turn.seq, 0) & TurnFlag.HIDDEN:
            sight = Sight.HIDDEN
        elif roles is not None and turn.role not in roles:
            sight = Sight.OTHER_ROLE
        found.append(_Looked(turn.seq, turn.token_count, made, sight))
    return found
