"""Which memory takes the place of which: of the facts of one subject in one namespace each holds
until the next one begins, in whatever order they were learned.

Nothing is kept here: what is known of a subject is asked of the long-term owner by its tag, so that
what was forgotten does not count, and what somebody revised does.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from neverforget.actors.extractor_contract import Known
from neverforget.actors.longterm_messages import unpacked
from neverforget.actors.reflector_calls import Calls, Place
from neverforget.actors.reflector_memories import (
    EXTRACTOR,
    SUBJECT,
    subject_tag,
)
from neverforget.storage.longterm_results import (
    MemoryFilter,
    MemoryView,
    Namespace,
    NewMemory,
    Superseding,
    TurnPoint,
)
from neverforget.storage.reflection_results import REFLECTION, SUBJECT_TAG, PlannedRange

KNOWN_MAX: Final = 50  # told to an extractor
PAGE: Final = 200
LOOKED_MAX: Final = 5_000  # memories of a tag; those below a namespace are among its own
_EVER: Final = 2**62  # a time at which only what has no end is valid


class _Link(NamedTuple):
    at: int
    id: str
    new: bool


class Subjects:
    """``lock`` is held from looking what is known to storing what is new: two windows at once
    would not see each other's facts.
    """

    def __init__(self, calls: Calls) -> None:
        self.lock = threading.Lock()
        self._calls = calls

    def known(self, namespace: Namespace) -> list[Known]:
        """The newest facts that have a subject, oldest first."""
        wanted = MemoryFilter(namespace=namespace, tags=(SUBJECT_TAG,))
        reply = self._calls.newest(wanted, None, KNOWN_MAX)
        views = unpacked(reply.memories, list[MemoryView])
        return [
            Known(view.text, view.metadata[SUBJECT]) for view in _reflected(views, namespace, None)
        ]

    def placed(
        self, namespace: Namespace, memories: Sequence[NewMemory], but: Collection[str] = ()
    ) -> tuple[list[NewMemory], list[Superseding]]:
        """``memories`` as they are to be stored, and what they supersede or are superseded by.
        ``but``: ids of what does not count any more.
        """
        by_subject: dict[str, list[NewMemory]] = {}
        for each in memories:
            if SUBJECT in each.metadata:
                by_subject.setdefault(each.metadata[SUBJECT], []).append(each)
        superseding: list[Superseding] = []
        ends: dict[str, int] = {}
        for subject, new in by_subject.items():
            links = [_Link(_since(each, 0), each.id, True) for each in new]
            chain = self._before(namespace, subject, min(links).at, but) + links
            chain.sort(key=lambda link: link.at)  # of equal ones the later learned one wins
            for older, newer in pairwise(chain):
                if older.new or newer.new:
                    superseding.append(Superseding(newer.id, older.id, newer.at))
                    if older.new:
                        ends[older.id] = newer.at
        return [_ended(each, ends.get(each.id)) for each in memories], superseding

    def replaced(
        self, place: Place, planned: PlannedRange, memories: Sequence[NewMemory]
    ) -> list[Superseding]:
        """What another extractor has made of just these turns, each by the fact that tells of the
        same: of its subject, or of its turns.
        """
        sources: dict[str, list[str | TurnPoint]] = {}
        for relation in self._calls.derived_from(place, planned.first, planned.last):
            sources.setdefault(relation.source, []).append(relation.target)
        own = {each.id for each in memories}
        wanted = [
            source
            for source, targets in sources.items()
            if source not in own and all(_is_inside(each, place, planned) for each in targets)
        ]
        found: list[Superseding] = []
        for view in self._calls.memories(wanted):
            of_another = view.metadata.get(EXTRACTOR) != planned.extractor
            if view.source != REFLECTION or view.status == "forgotten" or not of_another:
                continue
            newer = max(memories, key=lambda each: _alike(each, view, sources[view.id]))
            at = _since(newer, planned.at) if _of_one_subject(newer, view) else planned.at
            found.append(Superseding(newer.id, view.id, at))
        return found

    def _before(
        self, namespace: Namespace, subject: str, since: int, but: Collection[str]
    ) -> list[_Link]:
        """What the chain of a subject is to be joined to, for what holds from ``since`` on or from
        later: the link that has no end, where that began before; else all of it, which is long
        where many speak of one subject.
        """
        open_ended = self._history(namespace, subject, as_of=_EVER)
        if len(open_ended) == 1 and open_ended[0].at <= since and open_ended[0].id not in but:
            return open_ended
        return [link for link in self._history(namespace, subject) if link.id not in but]

    def _history(self, namespace: Namespace, subject: str, as_of: int | None = None) -> list[_Link]:
        """What is known of it, in the order in which it was learned."""
        wanted = MemoryFilter(namespace=namespace, tags=(subject_tag(subject),), as_of=as_of)
        found: list[_Link] = []
        before: int | None = None
        for _ in range(LOOKED_MAX // PAGE):
            reply = self._calls.newest(wanted, before, PAGE)
            views = unpacked(reply.memories, list[MemoryView])
            found[:0] = [
                _Link(
                    view.created_at if view.valid_from is None else view.valid_from, view.id, False
                )
                for view in _reflected(views, namespace, subject)
            ]
            before = reply.previous
            if not reply.more or before is None:
                break
        return found


def _reflected(
    views: Iterable[MemoryView], namespace: Namespace, subject: str | None
) -> list[MemoryView]:
    """Those that reflection made, of this very namespace, with this subject, or any."""
    return [
        view
        for view in views
        if view.source == REFLECTION and tuple(view.namespace) == namespace
        if isinstance(held := view.metadata.get(SUBJECT), str) and subject in (None, held)
    ]


def _since(memory: NewMemory | MemoryView, otherwise: int) -> int:
    return otherwise if memory.valid_from is None else memory.valid_from


def _ended(memory: NewMemory, at: int | None) -> NewMemory:
    if at is None or (memory.valid_to is not None and memory.valid_to <= at):
        return memory
    return msgspec.structs.replace(memory, valid_to=at)


def _of_one_subject(new: NewMemory, old: MemoryView) -> bool:
    subject = old.metadata.get(SUBJECT)
    return subject is not None and subject == new.metadata.get(SUBJECT)


def _alike(new: NewMemory, old: MemoryView, turns: Sequence[str | TurnPoint]) -> tuple[bool, int]:
    """The more, the more they tell of the same: of one subject, of how many of the same turns."""
    of_old = _seqs(turns)
    of_new = _seqs([relation.target for relation in new.related_to])
    return _of_one_subject(new, old), len(of_old & of_new)


def _seqs(turns: Iterable[str | TurnPoint]) -> set[int]:
    """Of turns of one window."""
    points = (each for each in turns if isinstance(each, TurnPoint))
    return {seq for point in points for seq in range(point.first, point.last + 1)}


def _is_inside(target: str | TurnPoint, place: Place, planned: PlannedRange) -> bool:
    return (
        isinstance(target, TurnPoint)
        and (tuple(target.namespace), target.session) == (place.namespace, place.session)
        and planned.first <= target.first
        and target.last <= planned.last
    )
