"""What the memory table said at one moment, for those who read it while its owner goes on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neverforget.storage.longterm_results import Status
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.memory_table import Array


@dataclass(frozen=True, slots=True)
class Moment:
    """``upto``: everything written below it is in here, nothing above it."""

    upto: int
    count: int
    born: Array
    position: Array
    status: Array
    readable: Array
    has_context: Array

    @staticmethod
    def of(state: LongTermState, upto: int | None = None) -> Moment:
        """While the owner changes nothing and nothing is staged. 12 bytes a row are copied; where a
        row was born never changes. ``upto``: all that changed the table was written below it; what
        the owner writes by itself, to prove how far the log is durable, changes nothing.
        """
        table = state.table
        return Moment(
            state.log.written if upto is None else upto,
            table.count,
            table.column("born"),
            table.column("position").copy(),
            table.column("status").copy(),
            table.column("readable").copy(),
            table.column("has_context").copy(),
        )

    def living(self) -> Array:
        """Rows that are active or archived, and readable."""
        living = (self.status == Status.ACTIVE) | (self.status == Status.ARCHIVED)
        return np.flatnonzero(living & self.readable)

    def forgotten(self) -> Array:
        return np.flatnonzero(self.status == Status.FORGOTTEN)
