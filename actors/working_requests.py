"""How the requests of ``working_messages.py`` are asked of a long-term region, and who was seen
asking: the one part of a working memory that its log does not keep.
"""

from __future__ import annotations

from neverforget.actors.longterm_messages import packed
from neverforget.actors.longterm_requests import is_inside, require_inside, require_place
from neverforget.actors.messages import AnyReply
from neverforget.actors.working_messages import (
    Work,
    WorkingItems,
    WorkingItemsReply,
    WorkingMember,
    WorkingMembers,
    WorkingMembersReply,
    WorkingReply,
    WorkingStatus,
    WorkingStatusReply,
)
from neverforget.actors.working_presence import Presence
from neverforget.storage.clock import Clock
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.working_results import WorkingPlace, WorkingTask

WorkingReads = WorkingItems | WorkingStatus | WorkingMembers


class WorkingRequests:
    """One thread at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._presences: dict[WorkingPlace, Presence] = {}

    def stage(self, region: LongTermRegion, r: Work) -> tuple[AnyReply, int]:
        require_place(r.place.namespace, r.scope)
        for each in r.ids:
            require_inside(region, each, r.scope)
        task = WorkingTask(r.place, r.operation, r.ids, r.pinned, r.max_tokens, r.agent)
        done = region.work(task, by=r.by, request=(r.producer, r.producer_seq))
        self._see(region, r.place, r.agent)
        reply = WorkingReply(r.id, done.count, done.tokens, done.max_tokens, done.evicted, done.end)
        return reply, done.end

    def read(self, region: LongTermRegion, r: WorkingReads) -> AnyReply:
        require_place(r.place.namespace, r.scope)
        self._see(region, r.place, r.agent)
        if isinstance(r, WorkingMembers):
            return WorkingMembersReply(r.id, self._members(region, r.place))
        if isinstance(r, WorkingStatus):
            found = region.working_status(r.place)
            holds = r.about is not None and self._holds(region, r, r.about)
            return WorkingStatusReply(r.id, found.count, found.tokens, found.max_tokens, holds)
        page = region.working_items(r.place, after=r.after, scope=r.scope)
        items = packed(page.items)
        return WorkingItemsReply(r.id, items, page.next, page.count, page.tokens, page.max_tokens)

    def _holds(self, region: LongTermRegion, r: WorkingStatus, about: str) -> bool:
        return is_inside(region, about, r.scope) and region.is_working(r.place, about)

    def _see(self, region: LongTermRegion, place: WorkingPlace, agent: str | None) -> None:
        members = region.working_members(place)
        if not members:
            self._presences.pop(place, None)
        elif agent in members and agent is not None:
            now, at = self._clock.monotonic(), self._clock.now_us()
            self._presence(place).see(agent, now, at, members)

    def _members(self, region: LongTermRegion, place: WorkingPlace) -> list[WorkingMember]:
        members = region.working_members(place)
        if not members:
            return []
        presence = self._presence(place)
        active = presence.active(self._clock.monotonic(), members)
        return [
            WorkingMember(agent, joined_at, presence.seen_at(agent), agent == active)
            for agent, joined_at in members.items()
        ]

    def _presence(self, place: WorkingPlace) -> Presence:
        found = self._presences.get(place)
        if found is None:
            found = self._presences[place] = Presence(self._clock.monotonic())
        return found
