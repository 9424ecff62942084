"""What the erasure of a namespace does to the counts of recalls, which name it: the records that
may are zeroed, and what they said of others is said again, in the batch of the erasure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from neverforget.storage.control import Range
from neverforget.storage.format import HEADER_BYTES, Kind
from neverforget.storage.longterm_fields import NO_ID
from neverforget.storage.longterm_results import Namespace
from neverforget.storage.longterm_staging import Planned
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.slices import Slices

_SLICE: Final = 256  # headers read between two yields


@dataclass(slots=True)
class RecallErasure:
    """Part of a plan. ``ranges``: the bodies to be zeroed; ``upto``: of the newest record that was
    looked at.
    """

    upto: int | None = None
    ranges: list[Range] = field(default_factory=list)

    def look(self, state: LongTermState, namespace: Namespace | None) -> Slices[None]:
        """At the records behind ``upto``, where any may name the namespace."""
        if namespace is None or not state.recalls.names(namespace):
            return
        for number, position in enumerate(list(state.recalls.positions.after(self.upto))):
            self.upto = position
            if not state.is_erased_at(position):
                length = state.log.header(position).body_length
                self.ranges.append((position + HEADER_BYTES, length))
            if number % _SLICE == _SLICE - 1:
                yield

    def told_again(self, state: LongTermState, namespace: Namespace | None) -> list[Planned]:
        """What those records said of other namespaces, as of now."""
        if namespace is None or not state.recalls.names(namespace):
            return []
        return [Planned(Kind.RECALLED, NO_ID, state.recalls.body_without(namespace))]
