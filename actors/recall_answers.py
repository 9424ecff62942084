"""The hits of one recall: what a search found, with what each memory says.

Bodies are read through the view. One that cannot be read, because it was erased a moment ago or the
disk has damaged it, is left out and the next best stands in its place. Memories of one namespace
that say the same, word for word, are one hit: the best of them, with the ids of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from neverforget.actors.fusion import Fused, FusionConfig
from neverforget.actors.longterm_messages import FoundChunk, FoundMemory, Recall
from neverforget.actors.longterm_requests import bytes_of
from neverforget.actors.query_preparation import PreparedQuery
from neverforget.actors.searching import Result, best_chunk, search
from neverforget.storage.errors import Corrupt
from neverforget.storage.longterm_bodies import view_of
from neverforget.storage.longterm_results import (
    STATUS_NAMES,
    MemoryFilter,
    MemoryView,
    Namespace,
    Status,
)
from neverforget.storage.longterm_view import LongTermView

_EXTRA: Final = 8  # hits that are looked at beyond what is asked for, for duplicates among them
_WIDER: Final = 4  # times more, when duplicates left too few
_WINDOW_MAX: Final = 2_000  # beyond what is asked for, at most


@dataclass
class _Group:
    """Memories of one text: the best hit, and the ids of the others."""

    result: Result
    memory: MemoryView
    duplicates: list[str] = field(default_factory=list)


class Hits:
    """``fresh``: the view of now, for when a hit has vanished from the first one. ``now``:
    microseconds, what is valid then is preferred.
    """

    def __init__(
        self,
        fresh: Callable[[], LongTermView],
        query: PreparedQuery,
        vector: Any,
        wanted: MemoryFilter,
        request: Recall,
        config: FusionConfig,
        now: int,
    ) -> None:
        self._fresh = fresh
        self._query = query
        self._vector = vector
        self._wanted = wanted
        self._request = request
        self._config = config
        self._now = now

    def found(self, view: LongTermView, bytes_max: int) -> tuple[list[FoundMemory], bool]:
        """Best first, and whether the bound left some out; never empty because of it."""
        request = self._request
        if not request.limit:
            return [], False
        found: list[FoundMemory] = []
        size = 0
        for group in self._groups(view)[request.offset : request.offset + request.limit]:
            try:
                hit = self._hit(view, group)
            except Corrupt:  # its chunk: the memory itself was read
                continue
            size += bytes_of(hit.memory) + (0 if hit.chunk is None else 4 * len(hit.chunk.text))
            if found and size > bytes_max:
                return found, True
            found.append(hit)
        return found, False

    def _groups(self, view: LongTermView) -> list[_Group]:
        """As many as are asked for, where there are so many: of equal texts, and of texts that
        cannot be read, others stand in the place.
        """
        wanted = self._request.offset + self._request.limit
        window = wanted + _EXTRA
        while True:
            results = search(
                view,
                self._query,
                self._vector,
                self._wanted,
                strategy=self._request.strategy,
                fusion=self._request.fusion,
                limit=window,
                config=self._config,
                now=self._now,
            )
            groups = self._grouped(view, results)
            enough = len(groups) >= wanted or len(results) < window
            if enough or window >= wanted + _WINDOW_MAX:
                return groups
            window *= _WIDER
            view = self._fresh()

    def _grouped(self, view: LongTermView, results: Sequence[Result]) -> list[_Group]:
        groups: dict[tuple[Namespace, str], _Group] = {}
        for result in results:
            try:
                memory = _memory(view, result.row)
            except Corrupt:
                continue
            group = groups.get((memory.namespace, memory.text))
            if group is None:
                groups[memory.namespace, memory.text] = _Group(result, memory)
            else:
                group.duplicates.append(memory.id)
        return list(groups.values())

    def _hit(self, view: LongTermView, group: _Group) -> FoundMemory:
        fused = group.result.fused
        return FoundMemory(
            memory=group.memory,
            score=fused.score,
            sources=fused.sources,
            chunk=self._chunk(view, group.result),
            arithmetic=_arithmetic(fused) if self._request.explain else None,
            duplicates=group.duplicates,
        )

    def _chunk(self, view: LongTermView, result: Result) -> FoundChunk | None:
        """Where in a long memory it was found; also where its summary, or the whole of it, comes
        before each of its chunks.
        """
        part = None if result.part == result.row else _memory(view, result.part)
        if part is None or part.span is None:
            row = best_chunk(view, self._query, self._vector, result.row, self._config)
            part = part if row is None else _memory(view, row)
        return None if part is None else FoundChunk(part.id, part.span, part.text)


def _memory(view: LongTermView, row: int) -> MemoryView:
    """Raises Corrupt."""
    rows = view.rows
    position = int(rows.column("position")[row])
    header, body = view.bodies.read(position)
    return view_of(
        header,
        position,
        body,
        status=STATUS_NAMES[Status(int(rows.column("status")[row]))],
        born=int(rows.column("born")[row]),
        tags=rows.tags.values[int(rows.column("tags")[row])],
    )


def _arithmetic(fused: Fused[int]) -> dict[str, Any]:
    """``text`` is for people; the rest adds up to ``score``."""
    legs = {
        share.leg: {
            "rank": share.rank,
            "score": share.score,
            "low": share.low,
            "high": share.high,
            "value": share.value,
            "weight": share.weight,
            "points": share.points,
        }
        for share in fused.shares
    }
    return {
        "legs": legs,
        "boost": fused.boost,
        "past": fused.past,
        "lift": fused.lift,
        "score": fused.score,
        "text": fused.explain(),
    }
