"""What a filter lets through, for all legs of one search.

Columns are asked at once. ``where`` asks the record of each memory (about 20 us, more where its
page is not in memory): first only of what the legs find; where that leaves too few, of everything
that the columns let through, once and together (a quarter of that, from generations), so that the
search is exact and its work bounded by their number. What was found out is kept for the next search
with the same ``where``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from neverforget.storage.errors import Corrupt
from neverforget.storage.longterm_documents import namespace_label
from neverforget.storage.longterm_results import MemoryFilter
from neverforget.storage.longterm_rows import BLOCK_ROWS, FAILS, PASSES, UNKNOWN
from neverforget.storage.longterm_where import Where
from neverforget.storage.memory_table import Array
from neverforget.storage.text_snapshot import AllowedIds
from neverforget.storage.vector_math import NO_IDS

if TYPE_CHECKING:
    from neverforget.storage.longterm_view import LongTermView

_AT_ONCE: Final = 1_000  # so few are asked before the search begins
_WIDER: Final = 4  # how much more is looked at when duplicates left too few
_MARGIN: Final = 1.5
_DEPTH_MAX: Final = 1_000  # hits; a deeper search costs more than it may save


class Gate:
    """``mask``: one truth value a row, what may be found; not to be changed. ``open``: all that
    the indexes hold may be.
    """

    def __init__(self, view: LongTermView, wanted: MemoryFilter) -> None:
        self._view = view
        self.labels = (namespace_label(wanted.namespace),) if wanted.namespace else ()
        self._words: AllowedIds | None = None
        self.mask: Array = view.rows.passing(wanted)
        self._passing = int(np.count_nonzero(self.mask))
        self._where = Where(wanted.where) if wanted.where else None
        self._judged = view.rows.judged(repr(wanted.where)) if self._where is not None else []
        # What passes lives, and nothing else is in the indexes once they have followed.
        self.open = not view.lagging and self._passing == view.rows.living_count
        if self._where is not None and len(self._unknown()) <= _AT_ONCE:
            self.settle()

    @property
    def words(self) -> AllowedIds | None:
        """For the text index; None when the gate is open."""
        if self.open:
            return None
        if self._words is None:
            self._words = AllowedIds(self.mask)
        return self._words

    def passes(self, original: int) -> bool:
        """Whether its record matches as well. An unreadable one does not."""
        if self._where is None:
            return True
        judged, at = self._judged[original // BLOCK_ROWS], original % BLOCK_ROWS
        known = int(judged[at])
        if known == UNKNOWN:
            known = judged[at] = self._judge(original, self._where)
        return known == PASSES

    def next_depth(self, asked: int, found: int, limit: int) -> int:
        """How many hits to ask for when ``asked`` of them held only ``found`` of ``limit``
        memories. Where that is a good part of all, every record is asked now instead.
        """
        if self._where is None:
            return asked * _WIDER
        deeper = int(_MARGIN * asked * limit / max(found, 1))
        if found and deeper <= _DEPTH_MAX and deeper * _WIDER < self._passing:
            return deeper
        self.settle()
        return asked

    def settle(self) -> None:
        """Ask all records that are to be asked: the mask then says everything."""
        if self._where is None:
            return
        self._judge_all(self._unknown(), self._where)
        matching = self.mask & (np.concatenate(self._judged) == PASSES)
        self.mask = self._view.rows.with_derived(matching)
        self._where, self.open, self._words = None, False, None

    def _unknown(self) -> Array:
        """Rows of which a record is still to be asked. Chunks have that of their original."""
        if not self._judged:
            return NO_IDS
        asked = self._view.rows.without_derived(self.mask)
        return np.flatnonzero(asked & (np.concatenate(self._judged) == UNKNOWN))

    def _judge_all(self, rows: Array, where: Where) -> None:
        found = np.full(len(rows), FAILS, np.uint8)
        positions = self._view.rows.column("position")[rows]
        for number, body in self._view.bodies.read_many(positions, where.fields):
            found[number] = PASSES if where.matches(body) else FAILS
        blocks = rows // BLOCK_ROWS
        for block in np.flatnonzero(np.bincount(blocks)).tolist():
            mine = blocks == block
            self._judged[block][rows[mine] % BLOCK_ROWS] = found[mine]

    def _judge(self, original: int, where: Where) -> int:
        position = int(self._view.rows.column("position")[original])
        try:
            return PASSES if where.matches(self._view.bodies.read(position)[1]) else FAILS
        except Corrupt:
            return FAILS
