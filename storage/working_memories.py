"""All working memories of a long-term region, and how they are rebuilt from its log.

Each change is one WORKED record that says all of its effect, evictions too. Whatever deletes or
revises memories says in the same batch what this does to working memories (``follow``): what is
forgotten leaves all of them at once, and is not back when the forgetting is undone.

When the changes of one have taken as many bytes as its state would, the next one is preceded by its
state as a whole (WORKING_STATE). So an opening reads, of each, its newest state and few changes,
found by their headers; the table may come from a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from neverforget.storage.audit_index import AuditIndex
from neverforget.storage.control import ControlField, F
from neverforget.storage.errors import Corrupt
from neverforget.storage.format import Kind, stride
from neverforget.storage.longterm_fields import (
    ID_BYTES,
    Body,
    Id,
    M,
    MemoryField,
    id_in,
    packed_id,
    packed_in,
    unpack_ids,
)
from neverforget.storage.longterm_results import Namespace, Status
from neverforget.storage.memory_table import MemoryTable
from neverforget.storage.record import Header
from neverforget.storage.working_bodies import (
    EVICTS,
    Change,
    change_in,
    place_id,
    place_in,
    state_body,
    state_bytes,
    worked_body,
)
from neverforget.storage.working_memory import WorkingMemory
from neverforget.storage.working_results import WorkingPlace
from neverforget.storage.working_room import leaving_when_revised

KINDS = (Kind.WORKED, Kind.WORKING_STATE)
_TAKING = (Kind.FORGOTTEN, Kind.ARCHIVED, Kind.PURGED, Kind.ERASING)
_BEHIND_MIN = 1024  # bytes of changes before a state is worth its own
_TOKENS_MAX = 2**32 - 1

Record = tuple[Kind, Id, Body, int]  # kind, about, body, role


class WorkingMemories:
    """``count``: the store's tokenizer. ``evictions``: where the records stand that evict."""

    def __init__(self, table: MemoryTable) -> None:
        self.count: Callable[[str], int] = len
        self.evictions = AuditIndex()
        self._table = table
        self._places: dict[Id, WorkingMemory] = {}
        self._holders: dict[bytes, set[Id]] = {}  # which ones hold a memory

    def find(self, place: WorkingPlace) -> WorkingMemory | None:
        return self._places.get(place_id(place))

    def below(self, namespace: Namespace) -> list[Id]:
        """Those of a namespace and all below it."""
        depth = len(namespace)
        return [w for w, m in self._places.items() if m.place.namespace[:depth] == namespace]

    def tokens_in(self, text: str) -> int:
        """What a memory takes: never nothing."""
        return min(max(self.count(text), 1), _TOKENS_MAX)

    # ---- writing ---------------------------------------------------------------------------------

    def records(self, place: WorkingPlace, change: Change) -> list[Record]:
        """What is to be staged for a change, in this order."""
        wanted, memory = place_id(place), self.find(place)
        found: list[Record] = []
        if memory is not None and memory.behind > max(_BEHIND_MIN, state_bytes(memory.standing)):
            found.append((Kind.WORKING_STATE, wanted, state_body(place, memory.standing), 0))
        role = EVICTS if change.evicted else 0
        found.append((Kind.WORKED, wanted, worked_body(place, change), role))
        return found

    def follow(self, planned: Sequence[Record]) -> list[Record]:
        """What else must stand in a batch with these records: what they do to working memories."""
        if not self._holders:
            return []
        gone: set[bytes] = set()
        revised: dict[bytes, int] = {}
        ended: set[Id] = set()
        by = ""
        for kind, about, body, _ in planned:
            if kind in _TAKING:
                gone |= self._held_of(packed_in(body))
                ended.update(unpack_ids(body.get(M[MemoryField.ENDED], b"")))
                by = body.get(F[ControlField.BY], by)
            elif kind == Kind.REVISED and (wanted := packed_id(about)) in self._holders:
                revised[wanted] = self.tokens_in(body[M[MemoryField.TEXT]])
                by = body.get(M[MemoryField.BY], by)
        affected = {at for wanted in gone | revised.keys() for at in self._holders[wanted]}
        found: list[Record] = []
        for at in sorted(affected - ended):
            found += self._followed(self._places[at], gone, revised, by)
        for at in {at for wanted in revised for at in self._holders[wanted]}:
            self._places[at].rate_anew()  # a revision may say another importance
        return found

    def _followed(
        self, memory: WorkingMemory, gone: set[bytes], revised: dict[bytes, int], by: str
    ) -> list[Record]:
        left = {wanted for wanted in memory.items if wanted in gone}
        changed = {
            wanted: revised[wanted]
            for wanted, item in memory.items.items()
            if wanted in revised and wanted not in left and item.tokens != revised[wanted]
        }
        if not left and not changed:
            return []
        change = Change(
            "revise" if changed else "gone",
            by,
            tuple(changed),
            tuple(changed.values()),
            left=tuple(wanted for wanted in memory.items if wanted in left),
            evicted=tuple(leaving_when_revised(memory, self._table, changed, left)),
        )
        return self.records(memory.place, change)

    def _held_of(self, packed: bytes) -> set[bytes]:
        """Which of these ids, laid end to end, are in any working memory."""
        if len(packed) <= ID_BYTES * len(self._holders):
            named = (packed[at : at + ID_BYTES] for at in range(0, len(packed), ID_BYTES))
            return {each for each in named if each in self._holders}
        halves = np.frombuffer(packed, ">u8").reshape(-1, 2)
        held = np.frombuffer(b"".join(self._holders), ">u8").reshape(-1, 2)
        alike = halves[np.isin(halves[:, 0], held[:, 0])].tobytes()
        named = (alike[at : at + ID_BYTES] for at in range(0, len(alike), ID_BYTES))
        return {each for each in named if each in self._holders}

    # ---- taking effect ---------------------------------------------------------------------------

    def worked(self, header: Header, position: int, body: Body) -> None:
        """Let a WORKED record count. Raises Corrupt; nothing has changed then."""
        wanted, place, change = id_in(header), place_in(body), change_in(body)
        if wanted != place_id(place):
            raise Corrupt(f"the record at {position} is about another working memory")
        memory = self._places.get(wanted)
        if memory is None:
            memory = self._places[wanted] = WorkingMemory(place)
        memory.apply(change, position, header.timestamp)
        memory.behind += stride(header.body_length)
        self._file(wanted, memory, (*change.taken, *change.left, *change.evicted))
        if header.role == EVICTS:
            self.evictions.note(position)

    def stated(self, header: Header, position: int, body: Body) -> None:
        """A WORKING_STATE record: it says what is known, and is where an opening begins."""
        memory = self._places.get(id_in(header))
        if memory is not None:
            memory.behind = 0

    def end(self, ended: Iterable[Id]) -> None:
        """These working memories were erased."""
        for wanted in ended:
            memory = self._places.pop(wanted, None)
            if memory is not None:
                held = list(memory.items)
                memory.drop(held)
                self._file(wanted, memory, held)

    def _file(self, wanted: Id, memory: WorkingMemory, ids: Iterable[bytes]) -> None:
        for each in ids:
            holders = self._holders.setdefault(each, set())
            if each in memory.items:
                holders.add(wanted)
            else:
                holders.discard(wanted)
            if not holders:
                del self._holders[each]

    def restore(self, wanted: Id, memory: WorkingMemory) -> None:
        """One that was read from the log, less what is no active memory any more."""
        held = list(memory.items)
        memory.drop(set(held) - self._active(held))
        self._places[wanted] = memory
        self._file(wanted, memory, memory.items)

    def _active(self, ids: list[bytes]) -> set[bytes]:
        places, rows = self._table.places_and_rows(b"".join(ids))
        active = self._table.column("status")[rows] == Status.ACTIVE
        return {ids[place] for place in places[active].tolist()}

    def __iter__(self) -> Iterator[WorkingMemory]:
        return iter(self._places.values())
