"""Which long memories wait to be chunked: what the log says, and nothing else.

A memory waits while it is active, readable, not derived itself, longer than so many characters, and
has no living chunks (a revision retires those of the version before). Nothing about this is
written: it is looked up in the table when a store is opened, and follows the log from there.

One thread hands out and takes back, beside the owner of the region; the owner may ``follow`` as
well, so that what it says of the queue is what the table says. ``waiting`` and ``failures`` may be
read on any thread.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

import numpy as np

from neverforget.storage.errors import Corrupt
from neverforget.storage.longterm_bodies import view_of
from neverforget.storage.longterm_fields import id_text, is_derived_type
from neverforget.storage.longterm_following import changed_since
from neverforget.storage.longterm_results import Status
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.memory_table import NO_ROW, Array


class LongText(NamedTuple):
    """What is to be chunked: the version whose record stands at ``position``."""

    row: int
    position: int
    id: str
    version: int
    type: str
    text: str


class Unchunked:
    """``over_characters``: a text that has more is chunked."""

    def __init__(self, state: LongTermState, over_characters: int) -> None:
        self._state = state
        self._over = over_characters
        self._lock = threading.Lock()  # of all that follows; not held while a text is read
        self._upto: int | None = None  # None: not looked at anything yet
        self._queue: OrderedDict[int, int] = OrderedDict()  # row -> position, oldest first
        self._taken: set[int] = set()
        self._failed: dict[int, tuple[int, str]] = {}  # row -> (position, reason)

    # ---- following -------------------------------------------------------------------------------

    def follow(self) -> bool:
        """Look at what the log has gained: all there is, the first time. Whether the queue has
        changed. For the thread that hands out, and the owner's.
        """
        with self._lock:
            return self._follow()

    def _follow(self) -> bool:
        state = self._state
        # Not all that is written has come into effect: a deletion is on the disk before.
        stop = min(state.applied, state.log.written)
        if self._upto is None:
            rows = self._long_ones(np.arange(state.table.count))
            rows = rows[~self._are_chunked(rows)]
            positions = state.table.column("position")[rows]
            self._queue.update(zip(rows.tolist(), positions.tolist()))
            self._upto = stop
            return bool(self._queue)
        if stop <= self._upto:
            return False
        changed = changed_since(state, self._upto, stop)
        found = self._look_at(self._concerned(changed.rows))
        self._upto = stop  # last: what raises is looked at again
        return found

    def _concerned(self, rows: Array) -> Array:
        """Whom a change of ``rows`` is about: a chunk's is about its original."""
        originals = self._state.table.column("original")[rows].astype(np.int64)
        found: Array = np.unique(np.where(originals == NO_ROW, rows, originals))
        return found

    def _look_at(self, rows: Array) -> bool:
        """Decide for each of ``rows`` whether it waits."""
        long = self._long_ones(rows)
        waiting = [row for row in long.tolist() if not self._is_chunked(row)]
        others = set(rows.tolist()).difference(waiting)
        left = [self._leave(row) for row in others if row in self._queue or row in self._failed]
        return any([*left, *map(self._enter, waiting)])

    def _long_ones(self, rows: Array) -> Array:
        """Those of ``rows`` that are to have chunks, in the order of the log."""
        table = self._state.table
        rows = rows[table.column("characters")[rows] > self._over]
        rows = rows[table.column("readable")[rows]]
        rows = rows[table.column("status")[rows] == Status.ACTIVE]
        rows = rows[table.column("original")[rows] == NO_ROW]
        plain = [not is_derived_type(table.types.values[c]) for c in table.column("type")[rows]]
        rows = rows[np.array(plain, np.bool_)]
        found: Array = rows[np.argsort(table.column("position")[rows], kind="stable")]
        return found

    def _is_chunked(self, row: int) -> bool:
        """A living chunk is of the current version: a revision retires those before."""
        children = self._state.table.children(row)
        return bool((self._state.table.column("status")[children] < Status.FORGOTTEN).any())

    def _are_chunked(self, rows: Array) -> Array:
        """As ``_is_chunked``, for many."""
        originals, status = self._state.table.column("original"), self._state.table.column("status")
        children = np.flatnonzero(originals != NO_ROW)
        living = children[status[children] < Status.FORGOTTEN]
        found: Array = np.isin(rows, originals[living])
        return found

    def _enter(self, row: int) -> bool:
        position: int = self._state.table.get(row, "position")
        failed = self._failed.get(row)
        if self._queue.get(row) == position or (failed is not None and failed[0] == position):
            return False
        self._leave(row)
        self._queue[row] = position
        return True

    def _leave(self, row: int) -> bool:
        self._taken.discard(row)
        queued = self._queue.pop(row, None) is not None
        return (self._failed.pop(row, None) is not None) or queued

    # ---- handing out -----------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many wait, those that are taken among them; those that failed are not."""
        return len(self._queue)

    @property
    def failures(self) -> dict[int, str]:
        """Reasons by row. Tried again when the store is opened, or the memory is revised."""
        return {row: reason for row, (_, reason) in self._failed.copy().items()}

    def take(self, limit: int, characters_max: int) -> list[LongText]:
        """The oldest that nobody has taken: up to ``limit`` of them, and as many as have that many
        characters together, but one at least. What cannot be read has failed.
        """
        taken = []
        for row, position in self._choose(limit, characters_max):
            one = self._read(row, position)
            if one is not None:
                taken.append(one)
        with self._lock:  # what its owner saw revised meanwhile waits anew
            self._taken.update(one.row for one in taken if self.is_current(one))
        return taken

    def _choose(self, limit: int, characters_max: int) -> list[tuple[int, int]]:
        chosen: list[tuple[int, int]] = []
        left = characters_max
        with self._lock:
            for row, position in self._queue.items():
                if row in self._taken:
                    continue
                characters: int = self._state.table.get(row, "characters")
                if len(chosen) == limit or (chosen and characters > left):
                    break
                chosen.append((row, position))
                left -= characters
        return chosen

    def _read(self, row: int, position: int) -> LongText | None:
        try:
            header, body = self._state.bodies.read(position)
            view = view_of(header, position, body, status="active", born=0)
        except Corrupt as error:
            self._set_aside(row, position, error.message)
            return None
        return LongText(row, position, view.id, view.version, view.type, view.text)

    def is_current(self, one: LongText) -> bool:
        """Whether it waits still, and says the same."""
        return self._queue.get(one.row) == one.position

    def put_back(self, one: LongText) -> None:
        """It was not chunked now; it keeps its place."""
        with self._lock:
            if self.is_current(one):
                self._taken.discard(one.row)

    def failed(self, one: LongText, reason: str) -> None:
        """It cannot be chunked, and does not wait any longer."""
        self._set_aside(one.row, one.position, reason)

    def _set_aside(self, row: int, position: int, reason: str) -> None:
        with self._lock:
            if self._queue.get(row) == position:
                self._leave(row)
                self._failed[row] = (position, reason)

    def id_of(self, row: int) -> str:
        return id_text(self._state.table.id(row))
