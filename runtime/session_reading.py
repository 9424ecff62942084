"""What reads a session: page, get and info, as operations. ``session_tail.py`` has the tail.

A fork's turns below its base are its parent's. An owner answers only for the part that is the
session's own; what lies below is asked of the parent, which may be a fork itself. If the parent was
erased since, its turns are shown as erased: its name may stand for another session by now.

Replies are bounded, so each operation goes on asking until it has what was wanted, or something.
"""

from __future__ import annotations

from typing import NamedTuple

from neverforget.actors.messages import Get, Info, Page, Wait
from neverforget.runtime.operation import Call, Context, Operation, SessionPlace
from neverforget.runtime.times import from_us
from neverforget.runtime.turn_codec import erased_turn, turns_of
from neverforget.runtime.values import Namespace, SessionInfo, Turn
from neverforget.storage.errors import Corrupt, InvalidArgument, NotFound
from neverforget.storage.results import ForkPoint, SessionView, Window

WAIT_SLACK_S = 30.0  # what an owner may take beyond the time it was told to wait


class Piece(NamedTuple):
    """Turns of one stretch, oldest first. ``first``/``stop`` bound what was looked at; ``more``:
    the session goes on beyond, in the direction that was read. ``window``: where they are from,
    None for turns that were inherited from a session that is erased.
    """

    turns: list[Turn]
    first: int
    stop: int
    more: bool
    window: Window | None = None


class Asked(NamedTuple):
    """The session as the caller knows it: its turns bear this name, whoever holds them."""

    namespace: tuple[str, ...]
    name: str


def own_window(place: SessionPlace, first: int, stop: int) -> Operation[Window]:
    """The turns first..stop-1 that are the session's own, as far as one reply goes. An empty range
    reads no record: it asks for the window's figures.
    """
    window: Window = (
        yield Call(place.partition, Get(0, place.namespace, place.name, first, stop))
    ).window
    return window


# ---- stretches by seq ----------------------------------------------------------------------------


def stretch(context: Context, place: SessionPlace, first: int, stop: int) -> Operation[list[Turn]]:
    """All turns first..stop-1 that exist, hidden, erased and unreadable ones too."""
    asked = Asked(place.namespace, place.name)
    found: list[Turn] = []
    while first < stop:
        turns, reached = yield from _some(context, place, asked, first, stop)
        found += turns
        if reached <= first:
            break
        first = reached
    return found


def _some(
    context: Context, place: SessionPlace, asked: Asked, first: int, stop: int
) -> Operation[tuple[list[Turn], int]]:
    """Turns from ``first`` on, at least one where there is one, and the seq to go on from."""
    window = yield from own_window(place, first, stop)
    if window.parent is not None and first < window.base:
        stop = min(stop, window.base)
        parent = context.place(window.parent.namespace, window.parent.session)
        if (yield from is_erased(parent, window.parent)):
            return erased(asked, first, stop), stop
        return (yield from _some(context, parent, asked, first, stop))
    return turns_of(window, *asked), min(window.stop_seq, window.end)


def is_erased(parent: SessionPlace, point: ForkPoint) -> Operation[bool]:
    if not point.session_id:
        return False
    window = yield from own_window(parent, 0, 0)
    return window.session_id != point.session_id


def erased(asked: Asked, first: int, stop: int) -> list[Turn]:
    return [erased_turn(asked.namespace, asked.name, seq) for seq in range(first, stop)]


def get(context: Context, place: SessionPlace, seq: int) -> Operation[Turn | None]:
    """The turn ``seq``, None where there is none yet; Corrupt where it cannot be read."""
    found = yield from stretch(context, place, seq, seq + 1)
    if not found:
        return None
    if found[0].state == "unreadable":
        raise Corrupt(
            f"turn {seq} of session {place.name!r} fails its checksum or is lost; verify() says "
            "where, a backup may hold it"
        )
    return found[0]


def count(place: SessionPlace) -> Operation[int]:
    """How many turns the session has, hidden and erased ones too."""
    window = yield from own_window(place, 0, 0)
    return window.end


def at_index(context: Context, place: SessionPlace, index: int) -> Operation[Turn]:
    """The turn at ``index``; a negative one counts from the end."""
    seq = index if index >= 0 else (yield from count(place)) + index
    found = None if seq < 0 else (yield from get(context, place, seq))
    if found is None:
        raise NotFound(f"session {place.name!r} has no turn at index {index}")
    return found


def at_slice(context: Context, place: SessionPlace, wanted: slice) -> Operation[list[Turn]]:
    """The turns that a slice of seqs names, in its order."""
    end = yield from count(place)
    try:
        seqs = range(*wanted.indices(end))
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"{wanted} is no slice of a session: {error}") from None
    if not seqs:
        return []
    low, high = min(seqs[0], seqs[-1]), max(seqs[0], seqs[-1])
    turns = yield from stretch(context, place, low, high + 1)
    by_seq = {turn.seq: turn for turn in turns}
    return [by_seq[seq] for seq in seqs if seq in by_seq]


# ---- pages ---------------------------------------------------------------------------------------


def forward(
    context: Context, place: SessionPlace, after: int, limit: int, include_hidden: bool
) -> Operation[Piece]:
    """Up to ``limit`` turns with seq > ``after``; none only at the end."""
    asked = Asked(place.namespace, place.name)
    first = after + 1
    while True:
        piece = yield from _ahead(context, place, asked, after, limit, include_hidden)
        if piece.turns or not piece.more:
            return piece._replace(first=first)
        after = piece.stop - 1


def _ahead(
    context: Context,
    place: SessionPlace,
    asked: Asked,
    after: int,
    limit: int,
    include_hidden: bool,
) -> Operation[Piece]:
    request = Page(0, place.namespace, place.name, after, None, False, limit, include_hidden)
    window: Window = (yield Call(place.partition, request)).window
    if window.parent is None or after + 1 >= window.base:
        return Piece(turns_of(window, *asked), window.first_seq, window.stop_seq, window.more)
    stop = min(window.base, after + 1 + limit)
    more = stop < window.end
    parent = context.place(window.parent.namespace, window.parent.session)
    if (yield from is_erased(parent, window.parent)):
        return Piece(erased(asked, after + 1, stop), after + 1, stop, more)
    piece = yield from _ahead(context, parent, asked, after, limit, include_hidden)
    turns = [turn for turn in piece.turns if turn.seq < window.base]
    stop = min(piece.stop, window.base)
    return Piece(turns, after + 1, stop, stop < window.end)


def backward(
    context: Context,
    place: SessionPlace,
    before: int | None,
    limit: int,
    include_hidden: bool,
) -> Operation[Piece]:
    """Up to ``limit`` turns just before ``before`` (None: the end); none only at the beginning."""
    asked = Asked(place.namespace, place.name)
    stop = before
    while True:
        piece = yield from behind(context, place, asked, before, limit, include_hidden)
        stop = piece.stop if stop is None else stop
        if piece.turns or not piece.more:
            return piece._replace(stop=stop)
        before = piece.first


def behind(
    context: Context,
    place: SessionPlace,
    asked: Asked,
    before: int | None,
    limit: int,
    include_hidden: bool,
) -> Operation[Piece]:
    request = Page(
        0, place.namespace, place.name, None, before, before is None, limit, include_hidden
    )
    window: Window = (yield Call(place.partition, request)).window
    stop = window.end if before is None else before
    if window.parent is None or stop > window.base:
        more = window.more or (window.parent is not None and window.base > 0)
        turns = turns_of(window, *asked)
        return Piece(turns, window.first_seq, stop, more, window)
    first = max(0, stop - limit)
    parent = context.place(window.parent.namespace, window.parent.session)
    if (yield from is_erased(parent, window.parent)):
        return Piece(erased(asked, first, stop), first, stop, first > 0)
    piece = yield from behind(context, parent, asked, stop, limit, include_hidden)
    return piece._replace(stop=stop)


# ---- figures, and waiting for more ---------------------------------------------------------------


def info(context: Context, place: SessionPlace) -> Operation[SessionInfo]:
    """The session in figures."""
    view = (yield Call(place.partition, Info(0, place.namespace, place.name))).session
    return info_of((yield from with_past(context, view)))


def with_past(
    context: Context, view: SessionView, before: int | None = None
) -> Operation[SessionView]:
    """``view`` with agents and times of the turns that it inherits; of those below ``before`` only.
    Turns and tokens of the past are counted in it already.
    """
    point = view.parent
    at = 0 if point is None else point.at if before is None else min(point.at, before)
    if point is None or not at:
        return view
    parent = context.place(point.namespace, point.session)
    if (yield from is_erased(parent, point)):
        return view
    asked = Info(0, parent.namespace, parent.name, at)
    past: SessionView = (yield Call(parent.partition, asked)).session
    past = yield from with_past(context, past, at)
    view.agents = list(dict.fromkeys([*past.agents, *view.agents]))
    view.first_at = view.first_at if past.first_at is None else past.first_at
    view.last_at = past.last_at if view.last_at is None else view.last_at
    return view


def info_of(view: SessionView) -> SessionInfo:
    """A region's figures of a session as the public value."""
    return SessionInfo(
        Namespace(view.namespace),
        view.session,
        tuple(view.agents),
        view.turns,
        view.tokens,
        None if view.first_at is None else from_us(view.first_at),
        None if view.last_at is None else from_us(view.last_at),
        view.consolidated_through,
    )


def wait(place: SessionPlace, after: int, timeout_s: float) -> Operation[None]:
    """Return when there is a turn with seq > ``after``, or after ``timeout_s``."""
    request = Wait(0, place.namespace, place.name, after, int(timeout_s * 1000))
    yield Call(place.partition, request, timeout_s + WAIT_SLACK_S)
