"""Sessions in the order of (namespace, name), and the namespaces there are.

New sessions wait in a list of their own until somebody asks for the order: opening a session stays
cheap however many there are, and a listing pays for what came since the last one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neverforget.storage.session_index import Session

_INSERT_MAX = 64  # more newcomers than this are sorted in, not inserted one by one

Namespace = tuple[str, ...]


def place_of(session: Session) -> tuple[Namespace, str]:
    """What a catalogue sorts by."""
    assert session.name is not None
    return session.namespace, session.name


class SessionCatalogue:
    """Every named session once. ``_counts``: the one shared tuple of a namespace, and how many
    sessions stand in exactly it.
    """

    def __init__(self) -> None:
        self._sorted: list[Session] = []
        self._fresh: list[Session] = []
        self._counts: dict[Namespace, tuple[Namespace, int]] = {}
        self._namespaces: list[Namespace] | None = []

    def __len__(self) -> int:
        return len(self._sorted) + len(self._fresh)

    def add(self, session: Session) -> None:
        shared, count = self._counts.get(session.namespace, (session.namespace, 0))
        session.namespace = shared
        self._counts[shared] = (shared, count + 1)
        if not count:
            self._namespaces = None
        self._fresh.append(session)

    def remove(self, session: Session) -> None:
        ordered = self._ordered()
        at = bisect_left(ordered, place_of(session), key=place_of)
        assert ordered[at] is session
        del ordered[at]
        shared, count = self._counts[session.namespace]
        if count == 1:
            del self._counts[shared]
            self._namespaces = None
        else:
            self._counts[shared] = (shared, count - 1)

    def sessions(
        self,
        namespace: Namespace,
        prefix: str | None = None,
        after: tuple[Namespace, str] | None = None,
    ) -> Iterator[Session]:
        """Those at or below ``namespace`` whose names begin with ``prefix``, strictly after
        ``after``. The catalogue must not change while this is walked.
        """
        ordered = self._ordered()
        at = bisect_left(ordered, (namespace, prefix or ""), key=place_of)
        if after is not None:
            at = max(at, bisect_right(ordered, after, key=place_of))
        depth = len(namespace)
        while at < len(ordered):
            session = ordered[at]
            if session.namespace[:depth] != namespace:
                return
            name = session.name
            assert name is not None
            if prefix is None or name.startswith(prefix):
                yield session
                at += 1
            elif name < prefix:
                at = bisect_left(ordered, (session.namespace, prefix), lo=at, key=place_of)
            else:
                following = self._next_namespace(session.namespace)
                if following is None:
                    return
                at = bisect_left(ordered, (following, prefix), lo=at, key=place_of)

    def namespaces(
        self, prefix: Namespace, max_depth: int | None, after: Namespace | None
    ) -> Iterator[Namespace]:
        """Distinct namespaces at or below ``prefix``, cut to ``max_depth`` elements, sorted."""
        ordered = self._sorted_namespaces()
        at = bisect_left(ordered, prefix)
        if after is not None:
            at = max(at, bisect_right(ordered, after))
        depth = len(prefix)
        # Cutting keeps the order; a namespace deeper than ``after`` may be cut to ``after`` itself.
        previous: Namespace | None = None
        while at < len(ordered) and ordered[at][:depth] == prefix:
            found = ordered[at][:max_depth]
            if found != previous and (after is None or found > after):
                yield found
            previous = found
            at += 1

    def _ordered(self) -> list[Session]:
        if self._fresh:
            if len(self._fresh) <= _INSERT_MAX:
                for session in self._fresh:
                    insort(self._sorted, session, key=place_of)
            else:
                self._sorted.extend(self._fresh)
                self._sorted.sort(key=place_of)
            self._fresh = []
        return self._sorted

    def _sorted_namespaces(self) -> list[Namespace]:
        if self._namespaces is None:
            self._namespaces = sorted(self._counts)
        return self._namespaces

    def _next_namespace(self, namespace: Namespace) -> Namespace | None:
        ordered = self._sorted_namespaces()
        at = bisect_right(ordered, namespace)
        return ordered[at] if at < len(ordered) else None
