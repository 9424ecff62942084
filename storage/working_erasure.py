"""What an erasure takes of the working memories of a namespace: every body about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from neverforget.storage.format import HEADER_BYTES
from neverforget.storage.longterm_fields import Body, Id, M, MemoryField, pack_ids, unpack_ids
from neverforget.storage.longterm_following import heads_from
from neverforget.storage.longterm_results import Namespace
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.memory_table import Array
from neverforget.storage.slices import Slices
from neverforget.storage.working_loading import rows_about


@dataclass(slots=True)
class WorkingErasure:
    """``ended``: which end. ``bodies``: (position, length) of each body about them."""

    ended: set[Id] = field(default_factory=set)
    bodies: list[Array] = field(default_factory=list)

    def look(
        self,
        state: LongTermState,
        namespace: Namespace | None,
        windows: Iterable[tuple[int, int]],
    ) -> Slices[None]:
        """``windows``: the parts of the log that are new since the last look. What is new itself
        has no records before them.
        """
        if namespace is not None:
            self.ended.update(state.working.below(namespace))
        for start, end in windows if self.ended else ():
            for heads, positions in heads_from(state, start, end):
                rows = rows_about(heads, self.ended)
                rows = rows[~state.are_erased_at(positions[rows])]
                starts = positions[rows].astype(np.int64) + HEADER_BYTES
                lengths = heads["body_length"][rows].astype(np.int64)
                self.bodies.append(np.stack((starts, lengths), axis=1))
            yield

    @property
    def said(self) -> Body:
        """What the ERASING record says of it."""
        return {M[MemoryField.ENDED]: pack_ids(sorted(self.ended))} if self.ended else {}


def ended_in(body: Body) -> set[Id]:
    """Of an ERASING record."""
    return set(unpack_ids(body.get(M[MemoryField.ENDED], b"")))
