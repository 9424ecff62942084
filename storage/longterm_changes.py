"""Changed memories whose words are not in yet, in the order of the log.

Kept as columns: there may be a hundred thousand of them, noticed one by one or all at once, and an
object each would be walked by every full collection, and by everyone who looks through them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from neverforget.storage.memory_table import Array

_ROOM: Final = 256
_COLUMNS: Final = np.dtype(
    [("row", np.int64), ("position", np.uint64), ("status", np.int64), ("since", np.uint64)]
)


class Change(NamedTuple):
    """What the table said of a row. ``since``: below it all was noticed before."""

    row: int
    position: int
    status: int
    since: int


class _Hidden(NamedTuple):
    """The text of a change that hides it; None where there were too many. ``number``: of the
    change, counted from the first that ever was.
    """

    number: int
    row: int
    text: str | None


class Changes:
    """A queue. Every call is made under the lock of the index."""

    def __init__(self) -> None:
        self._held = np.zeros(_ROOM, _COLUMNS)
        self._start = self._stop = 0
        self._gone = 0  # that have left the queue
        self._hidden: deque[_Hidden] = deque()

    def __len__(self) -> int:
        return self._stop - self._start

    def extend(
        self,
        rows: Array,
        positions: Array,
        statuses: Array,
        since: int,
        hidden: Sequence[tuple[int, str | None]],
    ) -> None:
        """``hidden``: places among ``rows`` of what is forgotten by them, with its text."""
        if self._stop + len(rows) > len(self._held):
            self._make_room(len(rows))
        number = self._gone + len(self)
        new = self._held[self._stop : self._stop + len(rows)]
        new["row"], new["position"], new["status"], new["since"] = rows, positions, statuses, since
        self._stop += len(rows)
        self._hidden.extend(_Hidden(number + at, int(rows[at]), text) for at, text in hidden)

    def first(self) -> Change:
        return Change(*self._held[self._start].tolist())

    def drop_first(self) -> None:
        self._start += 1
        self._gone += 1
        while self._hidden and self._hidden[0].number < self._gone:
            self._hidden.popleft()

    def columns(self, start: int = 0) -> Array:
        """A copy of those from place ``start`` on, with the fields of a ``Change``."""
        copied: Array = self._held[self._start + start : self._stop].copy()
        return copied

    def hidden(self, most: int) -> list[tuple[int, str]] | None:
        """(row, text) of what is forgotten by them; None for more than ``most``, or unknown."""
        if len(self._hidden) > most:
            return None
        texts = [(each.row, each.text) for each in self._hidden if each.text is not None]
        return texts if len(texts) == len(self._hidden) else None

    def _make_room(self, more: int) -> None:
        held = self._held[self._start : self._stop]
        room = len(self._held)
        while room < 2 * (len(held) + more):
            room *= 2
        self._held, self._start, self._stop = np.zeros(room, _COLUMNS), 0, len(held)
        self._held[: len(held)] = held
