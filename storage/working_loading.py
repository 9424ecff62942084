"""Reading working memories from the log: of each its newest state and the changes behind it.

A state that cannot be read costs nothing: the one before it and more changes say the same. A change
that cannot be read is lost and reported. What an erasure ended begins anew behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set

import numpy as np

from neverforget.storage.control import Body
from neverforget.storage.errors import Corrupt
from neverforget.storage.format import Kind, stride
from neverforget.storage.longterm_fields import Id
from neverforget.storage.memory_table import Array
from neverforget.storage.record import Header
from neverforget.storage.working_bodies import EVICTS, change_in, place_id, place_in, state_in
from neverforget.storage.working_memories import KINDS, WorkingMemories
from neverforget.storage.working_memory import WorkingMemory

_PARTS = ("session_id", "sequence_id", "token_count")  # of a header, where the digest stands

Read = Callable[[int], tuple[Header, Body]]
Lost = Callable[[int, int, Corrupt], None]


class WorkingRecords:
    """Headers, collected in log order, and then what they are about."""

    def __init__(self, working: WorkingMemories) -> None:
        self._working = working
        self._heads: list[Array] = []
        self._positions: list[Array] = []

    def collect(self, heads: Array, positions: Array) -> None:
        rows = rows_of(heads)
        if len(rows):
            self._heads.append(heads[rows])
            self._positions.append(positions[rows])

    def load(self, read: Read, erased: Callable[[Array], Array], lost: Lost) -> None:
        """``erased``: which positions are of records that were erased. ``lost`` hears of a position
        whose record, of this kind, cannot be read.
        """
        if not self._heads:
            return
        heads, positions = np.concatenate(self._heads), np.concatenate(self._positions)
        evicting = (heads["kind"] == int(Kind.WORKED)) & (heads["role"] == EVICTS)
        for position in positions[evicting].tolist():
            self._working.evictions.note(position)
        for wanted, at in of_each(heads, positions):
            own, kinds = positions[at], heads["kind"][at]
            gone = np.flatnonzero(erased(own))
            if len(gone):
                own, kinds = own[gone[-1] + 1 :], kinds[gone[-1] + 1 :]
            memory = _replayed(wanted, own.tolist(), kinds.tolist(), read, lost)
            if memory is not None:
                self._working.restore(wanted, memory)


def rows_of(heads: Array) -> Array:
    """Rows of headers of records about working memories."""
    return np.flatnonzero(np.isin(heads["kind"], [int(kind) for kind in KINDS]))


def rows_about(heads: Array, wanted: Set[Id]) -> Array:
    """As ``rows_of``, about these alone."""
    rows = rows_of(heads)
    parts = (heads[name][rows].tolist() for name in _PARTS)
    about = np.fromiter((Id(*each) in wanted for each in zip(*parts)), np.bool_, len(rows))
    found: Array = rows[about]
    return found


def of_each(heads: Array, positions: Array) -> Iterator[tuple[Id, Array]]:
    """For each working memory the rows of its records, in log order."""
    high, middle, low = (heads[name] for name in _PARTS)
    order = np.lexsort((positions, low, middle, high))
    columns = np.stack([column[order].astype(np.uint64) for column in (high, middle, low)])
    starts = np.flatnonzero((columns[:, 1:] != columns[:, :-1]).any(axis=0)) + 1
    for rows in np.split(order, starts):
        first = int(rows[0])
        yield Id(int(high[first]), int(middle[first]), int(low[first])), rows


def _replayed(
    wanted: Id, positions: Sequence[int], kinds: Sequence[int], read: Read, lost: Lost
) -> WorkingMemory | None:
    memory, since = _newest_state(wanted, positions, kinds, read, lost)
    for position, kind in zip(positions[since:], kinds[since:]):
        if kind != Kind.WORKED:
            continue
        try:
            header, body = read(position)
            place, change = place_in(body), change_in(body)
            if place_id(place) != wanted:
                raise Corrupt(f"the record at {position} is about another working memory")
        except Corrupt as error:
            lost(position, kind, error)
            continue
        if memory is None:
            memory = WorkingMemory(place)
        memory.apply(change, position, header.timestamp)
        memory.behind += stride(header.body_length)
    return memory


def _newest_state(
    wanted: Id, positions: Sequence[int], kinds: Sequence[int], read: Read, lost: Lost
) -> tuple[WorkingMemory | None, int]:
    """And from which of the records to go on."""
    for number in reversed(range(len(positions))):
        if kinds[number] != Kind.WORKING_STATE:
            continue
        try:
            _, body = read(positions[number])
            place, standing = place_in(body), state_in(body)
            if place_id(place) == wanted:
                return WorkingMemory(place, standing), number + 1
            error = Corrupt(f"the record at {positions[number]} is about another working memory")
        except Corrupt as found:
            error = found
        lost(positions[number], kinds[number], error)
    return None, 0
