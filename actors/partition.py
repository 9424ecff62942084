"""The owner of one region of the conversation log: a ``RegionOwner`` with followers."""

from __future__ import annotations

import os
from collections.abc import Callable

from neverforget.actors import partition_requests as requests
from neverforget.actors.group_commit import Mutations
from neverforget.actors.messages import AnyReply, Append, Fork, StatusReply, Wait, Welcome
from neverforget.actors.owner_spec import PartitionSpec
from neverforget.actors.parked_waits import ParkedWaits, SessionName
from neverforget.actors.partition_life import partition_opening
from neverforget.actors.ports import Pending, failure
from neverforget.actors.region_owner import RegionOwner, answer, nothing
from neverforget.storage.clock import Clock, SystemClock
from neverforget.storage.errors import (
    InvalidArgument,
    NeverforgetError,
    Overloaded,
    Unavailable,
)
from neverforget.storage.filesystem import FileSystem, LocalFileSystem
from neverforget.storage.region import Region

__all__ = ["Partition", "PartitionSpec"]

_PARKED_MAX = 10_000


class Partition(RegionOwner[Region]):
    """``lock`` False: the caller vouches that nobody else has the directory (a file system in
    memory). ``store_displaced`` tells what has become of the store's own directory, as
    ``DirectoryLock.displaced`` does; for an owner whose host looks after that itself, nothing.
    ``on_due`` is called, on the owner's thread, when a session has become due for reflection: also
    after an opening that found some."""

    def __init__(
        self,
        spec: PartitionSpec,
        *,
        fs: FileSystem | None = None,
        clock: Clock | None = None,
        lock: bool = True,
        store_displaced: Callable[[], str | None] = nothing,
        on_due: Callable[[], None] = nothing,
    ) -> None:
        self.spec = spec
        self._on_due = on_due
        clock = clock or SystemClock()
        opening = partition_opening(spec, fs or LocalFileSystem(), clock, lock)
        super().__init__(
            spec,
            spec.partition,
            opening,
            clock,
            requests.STAGED,
            requests.BY_ITSELF,
            lock,
            store_displaced,
        )
        self._waits = ParkedWaits(_PARKED_MAX)

    def _acknowledged(self, region: Region, mutations: Mutations[Region]) -> None:
        if len(self._waits) and mutations.staged:
            changed = _changed(mutations) | region.salvaged_sessions()
            self._waits.news(changed, lambda pending: self._news_for(region, pending))
        if region.ledger.newly_due:
            self._tell_due(region)

    def _brought_back(self, region: Region) -> None:
        changed = region.salvaged_sessions()
        if len(self._waits) and changed:
            self._waits.news(changed, lambda pending: self._news_for(region, pending))
        if region.ledger.newly_due:
            self._tell_due(region)
        self._plan(region, True)

    def _read(self, region: Region, pending: Pending) -> AnyReply | None:
        request = pending.request
        if type(request) is Wait:
            return self._wait(region, pending, request)
        read = requests.READ.get(type(request))
        if read is None:
            raise InvalidArgument(f"{type(request).__name__} is not for an owner")
        return read(region, request)

    def _due(self) -> float | None:
        waits = self._waits.deadline()
        region = self._life.region
        quiet = None if region is None else region.ledger.quiet_at
        if waits is None or quiet is None:
            return quiet if waits is None else waits
        return min(waits, quiet)

    def _pass_time(self, now: float) -> None:
        self._waits.expire(now, self._time_is_up)
        region = self._life.region
        if region is not None:
            region.ledger.pass_time(now)
            self._tell_due(region)

    def _region_changed(self) -> None:
        if self._life.region is not None:
            self._tell_due(self._life.region)

    def _give_up(self, error: NeverforgetError) -> None:
        self._waits.close(lambda pending: failure(pending.request.id, error))

    # ---- reflection ------------------------------------------------------------------------------

    def welcome(self, id: int) -> Welcome:
        welcome = super().welcome(id)
        region = self._life.region
        if region is not None and self._life.error is None:
            welcome.due = region.ledger.due_count
        return welcome

    def _tell_due(self, region: Region) -> None:
        """Where nothing can be written, nothing can be reflected."""
        if self._life.error is None and region.ledger.take_news():
            self._on_due()

    # ---- followers -------------------------------------------------------------------------------

    def _wait(self, region: Region, pending: Pending, request: Wait) -> AnyReply | None:
        if (reply := self._news_for(region, pending)) is not None:
            return reply
        if self._waits.park(pending, request, self._clock.monotonic()):
            return None
        return failure(request.id, Overloaded("too many followers wait at this owner"))

    def _news_for(self, region: Region, pending: Pending) -> AnyReply | None:
        request = pending.request
        assert isinstance(request, Wait)
        return answer(request, lambda: requests.news(region, request))

    def _time_is_up(self, pending: Pending) -> AnyReply:
        request = pending.request
        assert isinstance(request, Wait)
        region = self._life.region
        if region is None:
            return failure(request.id, self._not_ready())
        return answer(request, lambda: requests.info(region, request))

    def _not_ready(self) -> NeverforgetError:
        return self._life.error or Unavailable(
            f"partition {self.spec.partition} is {self.state}", outcome="not_applied"
        )

    def _status(self, pending: Pending) -> StatusReply:
        region = self._life.region
        return StatusReply(
            pending.request.id,
            None if region is None else region.status(),
            self.state,
            self.reason,
            os.getpid(),
            self._queued - 1 + len(self._held) + len(self._checks),
            self._clients,
            None if region is None else region.reflection.lag(),
            self.meter.measured(),
        )


def _changed(mutations: Mutations[Region]) -> set[SessionName]:
    """Sessions that may have new turns."""
    staged = (pending.request for pending, *_ in mutations.staged)
    return {(r.namespace, r.session) for r in staged if isinstance(r, Append | Fork)}
