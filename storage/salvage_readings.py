"""The old logs that are brought back to one region, several at a time perhaps: what an owner had
set aside, and disks that come back elsewhere. Each is read piece by piece, on its own; what any of
them has brought, all of them know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from neverforget.storage.batch import end_of
from neverforget.storage.errors import Corrupt
from neverforget.storage.log_state import LogState
from neverforget.storage.salvage_bodies import Source, salvage_details, sources_in
from neverforget.storage.salvage_results import Piece, SalvageReport
from neverforget.storage.slices import Slices

if TYPE_CHECKING:
    from neverforget.storage.salvaging import Salvaging

READINGS_MAX: Final = 8  # beyond, the one that began first begins again


class Brought:
    """``places``: where what stands in this log by now, by its source. ``said``: about which
    sources something is on record.
    """

    def __init__(self, state: LogState) -> None:
        self._state = state
        self.places: dict[Source, int] = {}
        self.said: set[Source] = set()
        self._since: int | None = None

    def load(self, parting: int) -> None:
        """Know all that was brought from logs that part from this one there, or later."""
        if self._since is not None and self._since <= parting:
            return
        self._since = parting
        state = self._state
        for position in state.salvages.after(parting - 1 if parting else None):
            try:
                header, body = state.control(position)
                end = end_of(position, header)
                for behind, source in sources_in(body):
                    if behind < 0:
                        self.said.add(source)
                    if behind >= 0 or "brought" not in salvage_details(body):
                        self.places[source] = position if behind < 0 else end + behind
            except Corrupt:
                continue  # what it brought is known by the requests of its clients

    def clear(self) -> None:
        self.places.clear()
        self.said.clear()
        self._since = None


class Readings:
    """``make``: what carries one of them out."""

    def __init__(self, state: LogState, make: Callable[[Brought], Salvaging]) -> None:
        self._brought = Brought(state)
        self._make = make
        self._open: dict[int, Salvaging] = {}

    def take(self, piece: Piece) -> Slices[SalvageReport]:
        """See ``Salvaging.take``."""
        one = self._open.get(piece.stream)
        if one is None or not piece.index:
            one = self._open[piece.stream] = self._make(self._brought)
            while len(self._open) > READINGS_MAX:
                del self._open[next(iter(self._open))]
        report = yield from one.take(piece)
        if piece.last and self._open.get(piece.stream) is one:
            del self._open[piece.stream]
            if not self._open:
                self._brought.clear()
        return report
