"""How many memories there are, for whoever asks often how a store stands.

Counted anew only when the log has grown since: a look costs nothing while nothing is written, and a
millisecond or so for a million memories otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from neverforget.storage.longterm_fields import is_derived_type
from neverforget.storage.longterm_results import Status
from neverforget.storage.longterm_state import LongTermState


class Counts(NamedTuple):
    """``active`` and ``archived`` without chunks and summaries; ``derived``: active ones of those;
    ``forgotten``: of all. ``relations``: that hold.
    """

    active: int
    derived: int
    archived: int
    forgotten: int
    relations: int


class MemoryCounts:
    def __init__(self, state: LongTermState) -> None:
        self._state = state
        self._tail: int | None = None
        self._counts = Counts(0, 0, 0, 0, 0)

    def at(self, tail: int) -> Counts:
        """``tail``: where the log ends now; nothing changes without it."""
        if tail != self._tail:
            self._counts = _counted(self._state)
            self._tail = tail
        return self._counts


def _counted(state: LongTermState) -> Counts:
    held, types = state.table.column("status"), state.table.types.values
    active, archived = held == Status.ACTIVE, held == Status.ARCHIVED
    derived = np.array([is_derived_type(name) for name in types], np.bool_)
    of_active = of_archived = 0
    if derived.any():
        rows = derived[state.table.column("type")]
        of_active = int(np.count_nonzero(active & rows))
        of_archived = int(np.count_nonzero(archived & rows))
    return Counts(
        active=int(np.count_nonzero(active)) - of_active,
        derived=of_active,
        archived=int(np.count_nonzero(archived)) - of_archived,
        forgotten=int(np.count_nonzero(held == Status.FORGOTTEN)),
        relations=int(np.count_nonzero(state.relations.column("alive"))),
    )
