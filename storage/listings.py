"""Answering what sessions and namespaces there are. Every answer is bounded; nothing is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from neverforget.storage.control import ControlField, F
from neverforget.storage.errors import Corrupt, InvalidArgument
from neverforget.storage.format import Kind
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.region_state import RegionState
from neverforget.storage.results import SessionView
from neverforget.storage.session_index import Session
from neverforget.storage.window_parts import check_limit

_JOINING = (Kind.SESSION_OPENED, Kind.AGENT_JOINED)

Name = tuple[tuple[str, ...], str]
Item = TypeVar("Item")


class Listings:
    """Sessions by name and in order. Owned by the region's thread."""

    def __init__(self, state: RegionState, options: RegionOptions) -> None:
        self._state = state
        self._options = options

    def info(self, namespace: tuple[str, ...], name: str, before: int | None = None) -> SessionView:
        """See ``messages.Info``. An unknown session: zeros and None; nothing is made."""
        session = self._state.index.find(namespace, name)[0]
        if session is None:
            return SessionView(namespace, name, False, [], 0, 0, None, None, 0, 0, None)
        view = self._view(session)
        view.namespace, view.session = namespace, name  # a lost name answers for itself
        if before is not None and before < session.end:
            view.agents = self._agents_below(session, before)
            view.last_at = None
            if before > session.base:
                view.last_at = self._time_at(session, session.row(before - 1))
            else:
                view.first_at = None
        return view

    def sessions(
        self, namespace: tuple[str, ...], prefix: str | None, after: Name | None, limit: int
    ) -> tuple[list[SessionView], bool]:
        """See ``messages.Sessions``: the views, and whether there are more."""
        check_limit(limit)
        limit = min(limit, self._options.scan_records_max)
        found = self._state.index.catalogue.sessions(namespace, prefix, after)
        sessions, more = self._bounded(found, limit, _name_bytes)
        return [self._view(session) for session in sessions], more

    def namespaces(
        self,
        prefix: tuple[str, ...],
        max_depth: int | None,
        after: tuple[str, ...] | None,
        limit: int,
    ) -> tuple[list[tuple[str, ...]], bool]:
        """See ``messages.Namespaces``: the namespaces, and whether there are more."""
        check_limit(limit)
        if max_depth is not None and max_depth < len(prefix):
            raise InvalidArgument(f"max_depth {max_depth} is above the prefix, {len(prefix)} deep")
        limit = min(limit, self._options.scan_records_max)
        found = self._state.index.catalogue.namespaces(prefix, max_depth, after)
        return self._bounded(found, limit, lambda namespace: sum(map(len, namespace)))

    def _bounded(
        self, found: Iterator[Item], limit: int, size_of: Callable[[Item], int]
    ) -> tuple[list[Item], bool]:
        """At most ``limit`` of them within the reply's bound, and whether there are more."""
        taken: list[Item] = []
        size = 0
        for item in found:
            size += size_of(item)
            if len(taken) == limit or (taken and size > self._options.reply_bytes_max):
                return taken, True
            taken.append(item)
        return taken, False

    def _view(self, session: Session) -> SessionView:
        extra = session.extra
        return SessionView(
            session.namespace,
            session.name or "",
            True,
            list(session.agents),
            session.end,
            session.tokens,
            self._time_at(session, 1),
            self._time_at(session, session.turn_rows),
            session.consolidated_through,
            session.base,
            extra.parent if extra is not None else None,
        )

    def _agents_below(self, session: Session, before: int) -> list[str]:
        """Who had appended when the session had ``before`` turns: the records that say who joined
        also say when. One that is unreadable says nothing.
        """
        texts = session.extra.texts if session.extra is not None else None
        joined: set[object] = set()
        for position in (session.opened_at, *(texts or ())):
            try:
                header, body = self._state.control(position)
            except Corrupt:
                continue
            if header.kind in _JOINING and header.sequence_id < before:
                joined.add(body.get(F[ControlField.AGENT]))
        return [agent for agent in session.agents if agent in joined]

    def _time_at(self, session: Session, row: int) -> int | None:
        if not 0 < row <= session.turn_rows:
            return None
        try:
            return self._state.log.header(session.rows[row << 1]).timestamp
        except Corrupt:
            return None


def _name_bytes(session: Session) -> int:
    """What a session's view may take in a reply, roughly."""
    return 100 + 4 * sum(map(len, (*session.namespace, session.name or "", *session.agents)))
