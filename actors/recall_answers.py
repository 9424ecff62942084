"""The hits of one recall: what a search found, with what each memory says.

Bodies are read through the view. One that cannot be read, because it was erased a moment ago or the
disk has damaged it, is left out and the next best stands in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from neverforget.actors.fusion import Fused, FusionConfig
from neverforget.actors.longterm_messages import FoundChunk, FoundMemory, Recall
from neverforget.actors.longterm_requests import bytes_of
from neverforget.actors.query_preparation import PreparedQuery
from neverforget.actors.searching import Result, search
from neverforget.storage.errors import Corrupt
from neverforget.storage.longterm_bodies import view_of
from neverforget.storage.longterm_results import (
    STATUS_NAMES,
    MemoryFilter,
    MemoryView,
    Status,
)
from neverforget.storage.longterm_view import LongTermView

_TIMES_MAX: Final = 4  # that a search is repeated because of bodies that cannot be read


class Hits:
    """``fresh``: the view of now, for when a hit has vanished from the first one."""

    def __init__(
        self,
        fresh: Callable[[], LongTermView],
        query: PreparedQuery,
        vector: Any,
        wanted: MemoryFilter,
        request: Recall,
        config: FusionConfig,
    ) -> None:
        self._fresh = fresh
        self._query = query
        self._vector = vector
        self._wanted = wanted
        self._request = request
        self._config = config

    def found(self, view: LongTermView, bytes_max: int) -> tuple[list[FoundMemory], bool]:
        """Best first, and whether the bound left some out; never empty because of it."""
        bad: set[int] = set()
        found: list[FoundMemory] = []
        for _ in range(_TIMES_MAX):
            results = self._results(view, bad)
            found = []
            size, vanished = 0, False
            for result in results:
                try:
                    hit = self._hit(view, result)
                except Corrupt:
                    bad.add(result.row)
                    vanished = True
                    continue
                size += bytes_of(hit.memory) + (0 if hit.chunk is None else 4 * len(hit.chunk.text))
                if found and size > bytes_max:
                    return found, True
                found.append(hit)
            if not vanished:
                return found, False
            view = self._fresh()
        return found, False

    def _results(self, view: LongTermView, bad: set[int]) -> list[Result]:
        request = self._request
        if not request.limit:
            return []
        upto = request.offset + request.limit
        results = search(
            view,
            self._query,
            self._vector,
            self._wanted,
            strategy=request.strategy,
            fusion=request.fusion,
            limit=upto + len(bad),
            config=self._config,
        )
        return [result for result in results if result.row not in bad][request.offset : upto]

    def _hit(self, view: LongTermView, result: Result) -> FoundMemory:
        chunk = None
        if result.part != result.row:
            part = _memory(view, result.part)
            chunk = FoundChunk(part.id, part.span, part.text)
        fused = result.fused
        return FoundMemory(
            memory=_memory(view, result.row),
            score=fused.score,
            sources=fused.sources,
            chunk=chunk,
            arithmetic=_arithmetic(fused) if self._request.explain else None,
        )


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
    return {"legs": legs, "boost": fused.boost, "score": fused.score, "text": fused.explain()}
