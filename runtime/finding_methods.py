"""``Store``: getting, listing and recalling memories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, tzinfo
from typing import Any, TypeVar, overload

from neverforget.runtime import agents, chunk_reading, recalling
from neverforget.runtime import memory_reading as reading
from neverforget.runtime.agent_values import AgentInfo
from neverforget.runtime.arguments import RAISE, checked_cursor, checked_limit
from neverforget.runtime.memory_arguments import memory_filter
from neverforget.runtime.memory_values import Hits, Memory, MemoryStatus
from neverforget.runtime.scope import NamespaceLike
from neverforget.runtime.store_running import StoreRunning
from neverforget.runtime.timeframe_argument import TimeframeLike
from neverforget.runtime.times import Moment
from neverforget.runtime.values import Page
from neverforget.storage.errors import NotFound

D = TypeVar("D")


class FindingMethods(StoreRunning):
    """A part of ``Store``."""

    @overload
    def get(
        self,
        id: str | None = None,
        *,
        key: str | None = None,
        namespace: NamespaceLike = (),
        include_forgotten: bool = False,
    ) -> Memory: ...
    @overload
    def get(
        self,
        id: str | None = None,
        *,
        key: str | None = None,
        namespace: NamespaceLike = (),
        default: D,
        include_forgotten: bool = False,
    ) -> Memory | D: ...
    def get(
        self,
        id: str | None = None,
        *,
        key: str | None = None,
        namespace: NamespaceLike = (),
        default: Any = RAISE,
        include_forgotten: bool = False,
    ) -> Any:
        """The current version of a memory, by its id, or by its key in a namespace; archived ones,
        too. NotFound, or ``default``, where there is none in this view; Corrupt where it is
        damaged on disk.

        include_forgotten: also one that is forgotten and not purged, by its id; a forgotten memory
        has given up its key.
        """
        try:
            return self._run(reading.get(self._scope, id, key, namespace, include_forgotten))
        except NotFound:
            if default is RAISE:
                raise
            return default

    def get_many(self, ids: Iterable[str]) -> list[Memory | None]:
        """The memories with these ids, in the order asked; None for those that are not there, or
        forgotten. One that is damaged on disk has ``status`` unreadable.
        """
        return self._run(reading.get_many(self._scope, ids))

    def memories(
        self,
        *,
        namespace: NamespaceLike | None = None,
        types: str | Iterable[str] | None = None,
        tags: str | Iterable[str] | None = None,
        agent: str | None = None,
        where: Mapping[str, Any] | None = None,
        timeframe: TimeframeLike = None,
        status: MemoryStatus | None = "active",
        derived: bool = False,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[Memory]:
        """Memories in the order they were first remembered, oldest first. All that is given must
        hold; the filters are those of ``recall``.

        status: "active", "archived", "forgotten", or None for all of them. derived: chunks and
        summaries, too. after: the ``next`` of a page of the same listing; it stays usable at the
        end, to poll for what comes later.
        """
        wanted = memory_filter(
            self._scope,
            self._context.clock,
            namespace=namespace,
            types=types,
            tags=tags,
            agent=agent,
            where=where,
            timeframe=timeframe,
            status=status,
            derived=derived,
        )
        cursor = checked_cursor(after)
        return self._run(reading.memories(wanted, timeframe, cursor, checked_limit(limit)))

    def chunks(self, id: str) -> list[Memory]:
        """The chunks of a long memory, in the order of its text: joined they are it, to the last
        character. Empty while it is not chunked yet (``settle`` waits for that), for one that is
        short, and for a chunk or summary: give ``original(chunk_id).id``. ``context`` of a chunk:
        the headings that it stands under. A summary is found by
        ``relations(id, kind="summarizes")``. Raises NotFound.
        """
        return self._run(chunk_reading.chunks(self._scope, id))

    def original(self, chunk_id: str) -> Memory:
        """The memory that a chunk or summary was made from; any other memory is its own. Raises
        NotFound.
        """
        return self._run(chunk_reading.original(self._scope, chunk_id))

    def recall(
        self,
        query: str,
        *,
        timeframe: TimeframeLike = None,
        limit: int = 10,
        offset: int = 0,
        strategy: recalling.Strategy = "hybrid",
        fusion: recalling.Fusion = "weighted",
        types: str | Iterable[str] | None = None,
        tags: str | Iterable[str] | None = None,
        agent: str | None = None,
        namespace: NamespaceLike | None = None,
        where: Mapping[str, Any] | None = None,
        as_of: Moment | None = None,
        include_archived: bool = False,
        tz: str | tzinfo | None = None,
        now: datetime | None = None,
        explain: bool = False,
        wait: float = 30.0,
    ) -> Hits:
        """The memories that answer ``query`` best, at most ``limit``, after ``offset`` better ones.

        strategy: "hybrid" searches by meaning and by words, independently, and fuses the results;
        "vector" and "text" do one of them. fusion: "weighted" adds normalised scores, "rrf" ranks.

        What is found passes all of these. namespace: it and all below. types: one of them. tags:
        each of them, or a tag below it. agent: who remembered it. where: conditions on metadata
        and on importance, confidence, source, speaker and key: {"metadata.path": value}, or
        {"metadata.path": {"$gt": …}} with $eq $ne $gt $gte $lt $lte $in $nin; numbers compare as
        numbers, what is missing does not match. as_of: valid at that time; without it what is
        valid now comes before what has ended, or been superseded, or not begun yet.

        timeframe: when it occurred, else was remembered: a phrase ("last week", "3 days ago",
        "since monday"), a date, or a pair (start, stop) of aware datetimes, half-open, None for an
        open side. "auto" takes the phrase out of the query; ``Hits.timeframe`` says what was
        taken. tz: the zone of the phrase, else the store's ``timezone``; now: the moment it, and
        what is valid, is seen from.

        wait: seconds to wait until what this client wrote before is searchable, and for the
        embedder. Then it answers with what there is and ``Hits.complete`` is False. explain: each
        hit has the arithmetic of its score.

        Raises InvalidArgument, Unavailable (also under "vector" while the embedder fails).
        """
        filters = {
            "namespace": namespace,
            "types": types,
            "tags": tags,
            "agent": agent,
            "where": where,
            "as_of": as_of,
        }
        asked = recalling.question(
            self._context,
            self._scope,
            query,
            timeframe,
            tz,
            now,
            include_archived,
            filters,
            strategy=strategy,
            fusion=fusion,
            limit=limit,
            offset=offset,
            explain=explain,
            wait=wait,
        )
        return self._run(recalling.recall(self._context, self._scope, asked))

    def agents(self) -> list[AgentInfo]:
        """Who uses what this view sees: the agents that appended, that memories name, or that
        recalled, the one that was active last first.

        The first time after the store was opened every turn is looked at, 0.3 s for 100,000;
        later only what is new.
        """
        return self._run(agents.agents(self._context, self._scope.root))
