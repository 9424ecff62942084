"""Answering reads of turns. Nothing here changes anything.

Every answer is bounded: at most ``reply_bytes_max`` of records (but always one) and
``scan_records_max`` turns looked at, whatever was asked; ``more`` and the bounds of what was looked
at tell where to go on. A window costs what it shows, whatever the length of the session.
"""

from __future__ import annotations

from collections.abc import Sequence

from neverforget.storage.errors import Corrupt, InvalidArgument
from neverforget.storage.record import body_of, decode_body, read_header
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.region_state import RegionState
from neverforget.storage.results import Window
from neverforget.storage.runs import Runs
from neverforget.storage.session_index import NO_POSITION, Session
from neverforget.storage.tail_window import is_paired, link, parted
from neverforget.storage.window_parts import (
    LIMIT_MAX,
    Gathered,
    RoleFilter,
    check_cursor,
    check_limit,
    flags_of,
    lost_turn,
    salvaged_in,
    visible,
)

_ROLE_AT, _FLAGS_AT = 5, 6

Name = tuple[tuple[str, ...], str]


class Windows:
    """Reads of turns. Owned by the region's thread."""

    def __init__(self, state: RegionState, options: RegionOptions) -> None:
        self._state = state
        self._options = options

    # ---- windows ---------------------------------------------------------------------------------

    def page(
        self,
        name: Name,
        after: int | None,
        before: int | None,
        newest: bool,
        limit: int,
        include_hidden: bool,
    ) -> Window:
        """See ``messages.Page``."""
        check_limit(limit)
        if after is not None and before is not None:
            raise InvalidArgument("a page goes on after a turn or stands before one, not both")
        session = self._find(name)
        end, base = (session.end, session.base) if session is not None else (0, 0)
        check_cursor(after, before, end)
        backward = before is not None or (after is None and newest)
        start = max(base, 0 if after is None else after + 1)
        stop = end if before is None else before
        if session is None or stop <= start:
            at = max(start, min(stop, end)) if not backward else max(stop, 0)
            return self._window(session, Gathered([], [], at, at), not_there=True)
        gathered = self._gather(session, start, stop, limit, backward, include_hidden)
        return self._window(session, gathered, more_before=backward)

    def get(self, name: Name, first: int, stop: int) -> Window:
        """See ``messages.Get``. What lies outside the session is left out."""
        if first < 0 or stop < first:
            raise InvalidArgument(f"turns {first}..{stop} are no range; pass 0 <= first <= stop")
        session = self._find(name)
        low = max(first, session.base if session is not None else 0)
        high = min(stop, session.end if session is not None else 0)
        if session is None or high <= low:
            at = min(low, session.end) if session is not None else 0
            return self._window(session, Gathered([], [], at, at), not_there=True)
        gathered = self._gather(session, low, high, LIMIT_MAX, False, True)
        window = self._window(session, gathered)
        window.more = gathered.stop < high
        return window

    def tail(
        self,
        name: Name,
        before: int | None,
        limit: int,
        max_tokens: int | None,
        roles: Sequence[str] | None,
        include_hidden: bool,
    ) -> Window:
        """See ``messages.Tail``. ``more`` is set only where a bound of the reply cut the window
        short: go on with before=first_seq and what is left of limit and max_tokens.
        """
        check_limit(limit)
        if max_tokens is not None and max_tokens < 0:
            raise InvalidArgument(f"max_tokens is {max_tokens}; pass 0 or more, or None")
        session = self._find(name)
        check_cursor(None, before, session.end if session is not None else 0)
        if session is None:
            return self._window(None, Gathered([], [], 0, 0), not_there=True)
        stop = session.end if before is None else before
        start = session.base
        if stop <= start:
            return self._window(session, Gathered([], [], stop, stop), not_there=True)
        if max_tokens is not None and not roles and (session.extra is None or include_hidden):
            # Every turn counts: the token sums tell at once where the budget ends.
            start = session.first_within_tokens(stop, max_tokens)
            max_tokens = None
        gathered = self._gather(
            session, start, stop, limit, True, include_hidden, roles, max_tokens
        )
        if gathered.closed:
            self._drop_parted(session, gathered, roles, include_hidden)
        window = self._window(session, gathered)
        window.more = not gathered.closed and gathered.first > session.base
        return window

    def _find(self, name: Name) -> Session | None:
        return self._state.index.find(*name)[0]

    def _gather(
        self,
        session: Session,
        start: int,
        stop: int,
        limit: int,
        backward: bool,
        include_hidden: bool,
        roles: Sequence[str] | None = None,
        max_tokens: int | None = None,
    ) -> Gathered:
        """Records of start..stop-1 from one end, until something says enough."""
        options = self._options
        seqs: list[int] = []
        records: list[bytes] = []
        size = looked = 0
        budget = max_tokens
        role_filter = RoleFilter(roles) if roles else None
        edge = stop if backward else start  # what was looked at ends here
        closed = True
        for seq in visible(session, start, stop, backward, include_hidden):
            if len(seqs) == limit:
                break
            if looked == options.scan_records_max:
                closed = False
                break
            looked += 1
            record = self._record(session, seq)
            if role_filter is not None and not role_filter.admits(record):
                edge = seq if backward else seq + 1
                continue
            if budget is not None:
                budget -= session.tokens_of(seq)
                if budget < 0:
                    break
            if records and size + len(record) > options.reply_bytes_max:
                closed = False
                break
            size += len(record)
            seqs.append(seq)
            records.append(record)
            edge = seq if backward else seq + 1
        else:
            edge = start if backward else stop
        if backward:
            seqs.reverse()
            records.reverse()
            return Gathered(seqs, records, edge, stop, closed)
        return Gathered(seqs, records, start, edge, closed)

    def _record(self, session: Session, seq: int) -> bytes:
        position = session.position(seq)
        if position == NO_POSITION:
            return lost_turn(session, seq)
        try:
            return self._state.turn_record(position)[0]
        except Corrupt:
            return lost_turn(session, seq)

    def _drop_parted(
        self,
        session: Session,
        gathered: Gathered,
        roles: Sequence[str] | None,
        include_hidden: bool,
    ) -> None:
        """Leave out results whose call lies before the window, unless the caller asked for turns
        without their calls.
        """
        if roles and "assistant" not in roles and "tool_call" not in roles:
            return
        records = gathered.records
        if not any(is_paired(r[_ROLE_AT], r[_FLAGS_AT]) for r in records):
            return
        hidden = session.extra.hidden if session.extra is not None else Runs()
        calls_before = (
            (session.first_call is not None and session.first_call < gathered.first)
            or (session.base > 0 and gathered.first > session.base)
            or (not include_hidden and any(hidden.within(gathered.first, gathered.stop)))
        )
        if gathered.first == session.base and session.extra and session.extra.parent:
            return  # the call may be the parent's: whoever joins the two windows decides
        links = []
        for record in records:
            header = read_header(record)
            body = None
            if header.body_length and is_paired(header.role, header.flags):
                body = decode_body(body_of(record))
            links.append(link(header, body))
        for index in reversed(parted(links, calls_before=calls_before)):
            del gathered.records[index], gathered.seqs[index]

    def _window(
        self,
        session: Session | None,
        gathered: Gathered,
        *,
        more_before: bool = False,
        not_there: bool = False,
    ) -> Window:
        if session is None:
            return Window(b"", [], gathered.first, gathered.stop, False, 0, 0, None, 0)
        extra = session.extra
        flags = flags_of(session, gathered)
        if not_there:
            more = False
        elif more_before:
            more = gathered.first > session.base
        else:
            more = gathered.stop < session.end
        below = min(max(gathered.stop, session.base), session.end)
        return Window(
            b"".join(gathered.records),
            flags,
            gathered.first,
            gathered.stop,
            more,
            session.end,
            session.base,
            extra.parent if extra is not None else None,
            session.consolidated_through,
            session.tokens_before(below),
            session.session_id,
            salvaged_in(session, gathered.first, gathered.stop),
        )
