"""Vectors on a turn of their own: made into a new base, and stored, beside everything else.

    turn = stored.begin_folding(store=True)   # moments
    turn.run()                                # long: minutes, where lists are trained anew
    stored.finish_folding(turn)               # moments; or stored.abandon_folding(turn)

Meanwhile generations of rows, words and table are written, which keep the vectors that are stored.
What a turn has stored is in the next generation that is begun.

Vectors that are in memory alone have to be embedded again after a crash. That loses nothing, but
takes long: so they are stored when there are many of them (``store_due``), not with every word.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from crc32c import crc32c

from neverforget.storage.filesystem import FileSystem
from neverforget.storage.longterm_view import rows_of_vectors
from neverforget.storage.manifest import Part
from neverforget.storage.memory_table import Array
from neverforget.storage.vector_base import GoOn, nothing
from neverforget.storage.vector_index import Fold, VectorBase

UNSAVED_MAX: Final = 5_000  # vectors in memory alone, or
UNSAVED_SHARE_MAX: Final = 10  # a tenth of what is stored, if that is more


def store_due(unsaved: int, stored: int) -> bool:
    return unsaved >= max(UNSAVED_MAX, stored // UNSAVED_SHARE_MAX)


def born_digest(born: Array) -> int:
    return int(crc32c(np.ascontiguousarray(born).tobytes()))


@dataclass
class FoldingTurn:
    """Made by ``Generations.begin_folding``. ``name``: of the file; None: in memory alone.
    ``upto``: every change below it is in. ``born``: of all rows there are, which never changes.
    ``go_on`` is called all the time, and may end it by raising.
    """

    fs: FileSystem
    directory: Path
    name: str | None
    fold: Fold
    upto: int
    born: Callable[[], Array]
    known: dict[str, str | int]  # model and dimension
    go_on: GoOn = nothing
    base: VectorBase | None = field(default=None, init=False)
    part: Part | None = field(default=None, init=False)

    @property
    def added(self) -> int:
        """How many vectors it takes over that are in no base."""
        return int(np.count_nonzero(self.fold.snapshot.overlay.alive))

    def run(self) -> None:
        """Any thread. OutOfSpace, OSError: what is stored stays."""
        base = self.fold.run(self.go_on)
        if self.name is not None:
            seal = base.save(self.fs, self.directory / self.name, self.go_on)
            count = int(rows_of_vectors(base.ids).max(initial=-1)) + 1
            born = born_digest(self.born()[:count])
            details = {**self.known, "rows": count, "born": born}
            self.part = Part(
                role="vectors", name=self.name, start=0, stop=self.upto, seal=seal, details=details
            )
        self.base = base
