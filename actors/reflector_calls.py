"""What a reflector asks of the owners, each as one call. Holds nothing but the way to them.

Every call raises what the owner answers: Unavailable and Overloaded when it is away or busy,
NotFound for a session that was erased, and so on. All of them may be repeated.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from neverforget.actors import longterm_messages as m
from neverforget.actors.longterm_messages import packed, unpacked
from neverforget.actors.message_bases import SYNC_DISK, Reply, Request
from neverforget.actors.messages import Get, WindowReply
from neverforget.actors.places import LONGTERM
from neverforget.actors.ports import Owners
from neverforget.actors.reflection_messages import (
    Due,
    DueReply,
    FailReflection,
    Mark,
    Plan,
    PlannedReply,
    Unreflected,
    UnreflectedReply,
)
from neverforget.actors.reflector_turns import Part, ReadTurn, read_turns
from neverforget.storage.errors import NeverforgetError
from neverforget.storage.longterm_results import (
    MemoryFilter,
    MemoryView,
    Namespace,
    NewMemory,
    RelationView,
    Superseding,
)
from neverforget.storage.reflection_results import DueSession, PlannedRange

BY: Final = "reflector"
PATIENCE_S: Final = 30.0  # of one call
R = TypeVar("R", bound=Reply)


class RequestSource(Protocol):
    """Where request ids come from; see ``request_ids.py``."""

    def next(self) -> tuple[int, int]: ...


class Place(NamedTuple):
    """A session, and the partition that has it."""

    partition: int
    namespace: Namespace
    session: str


class Calls:
    def __init__(self, owners: Owners, ids: RequestSource) -> None:
        self._owners = owners
        self._ids = ids

    def _call(
        self, partition: int, request: Request, kind: type[R], patience_s: float = PATIENCE_S
    ) -> R:
        reply = self._owners.call(partition, request, time.monotonic() + patience_s)
        if not isinstance(reply, kind):
            raise NeverforgetError(f"{type(reply).__name__} is no answer to {type(request)}")
        return reply

    # ---- what there is to do ---------------------------------------------------------------------

    def due(self, partition: int, limit: int) -> list[DueSession]:
        return self._call(partition, Due(0, limit), DueReply).sessions

    def unreflected(
        self,
        partition: int,
        namespace: Namespace,
        after: tuple[Namespace, str] | None,
        limit: int,
        extractor: str,
        again: bool,
    ) -> UnreflectedReply:
        """Of all sessions at or below ``namespace``."""
        request = Unreflected(0, namespace, None, after, limit, extractor, again)
        return self._call(partition, request, UnreflectedReply)

    def left_in(
        self, place: Place, extractor: str, again: bool, from_seq: int
    ) -> DueSession | None:
        """What is to be done in one session from a seq on; None: nothing."""
        request = Unreflected(
            0, place.namespace, place.session, None, 1, extractor, again, from_seq
        )
        found = self._call(place.partition, request, UnreflectedReply).sessions
        return found[0] if found else None

    # ---- one window ------------------------------------------------------------------------------

    def plan(self, place: Place, first: int, last: int, extractor: str) -> PlannedRange:
        request = Plan(0, place.namespace, place.session, first, last, extractor, *self._ids.next())
        return self._call(place.partition, request, PlannedReply).planned

    def begun(
        self, place: Place, planned: PlannedRange, begun: int, patience_s: float = PATIENCE_S
    ) -> PlannedRange:
        """The plan has been begun so often. Conflict: it does not stand any more."""
        request = Plan(
            0, place.namespace, place.session, planned.first, planned.last, planned.extractor,
            *self._ids.next(), planned.at, begun,
        )  # fmt: skip
        return self._call(place.partition, request, PlannedReply, patience_s).planned

    def mark(self, place: Place, planned: PlannedRange) -> None:
        request = Mark(
            0, place.namespace, place.session, planned.first, planned.last, planned.extractor,
            *self._ids.next(),
        )  # fmt: skip
        self._call(place.partition, request, Reply)

    def fail(self, place: Place, planned: PlannedRange, tries: int, error: str) -> None:
        request = FailReflection(
            0, place.namespace, place.session, planned.first, planned.last, planned.extractor,
            tries, error, *self._ids.next(),
        )  # fmt: skip
        self._call(place.partition, request, Reply)

    def turns(self, place: Place, first: int, stop: int, *, all_of_them: bool = True) -> Part:
        """``all_of_them`` False: as many as one reply holds."""
        found: list[ReadTurn] = []
        while True:
            request = Get(0, place.namespace, place.session, first, stop)
            window = self._call(place.partition, request, WindowReply).window
            found += read_turns(window)
            done = window.stop_seq >= min(stop, window.end) or window.stop_seq <= first
            if done or not all_of_them:
                return Part(found, window.session_id)
            first = window.stop_seq

    # ---- memories --------------------------------------------------------------------------------

    def memories(self, ids: Sequence[str]) -> list[MemoryView]:
        """Those of ``ids`` that are there, forgotten ones too."""
        found: list[MemoryView] = []
        left = list(ids)
        while left:
            request = m.GetMemories(0, (), left, True)
            reply = self._call(LONGTERM, request, m.MemoriesReply)
            views = unpacked(reply.memories, list[MemoryView | None])
            found += [view for view in views if view is not None]
            left = left[max(1, len(views)) :]
        return found

    def newest(self, wanted: MemoryFilter, before: int | None, limit: int) -> m.MemoryPageReply:
        request = m.Memories(0, packed(wanted), None, before, before is None, limit)
        return self._call(LONGTERM, request, m.MemoryPageReply)

    def remember(self, memories: list[NewMemory], superseding: Sequence[Superseding]) -> None:
        request = m.Remember(
            0, (), BY, *self._ids.next(), packed(memories), "raise", SYNC_DISK, tuple(superseding)
        )
        self._call(LONGTERM, request, m.MemoriesReply)

    def erase(self, ids: list[str], reason: str) -> None:
        request = m.EraseMemories(0, (), BY, *self._ids.next(), ids, "confirmed", reason)
        self._call(LONGTERM, request, m.MemoriesErasedReply)

    def derived_from(self, place: Place, first: int, last: int) -> list[RelationView]:
        """What every memory comes from that comes from any of these turns."""
        found: list[RelationView] = []
        start: int | None = 0
        while start is not None:
            request = m.DerivedFrom(0, (), place.namespace, place.session, first, last, start)
            reply = self._call(LONGTERM, request, m.RelationsReply)
            found += reply.relations
            start = reply.next
        return found
