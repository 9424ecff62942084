"""All that a long-term region knows in memory, as columns: what a generation keeps beside texts.

Opening with a snapshot replays only what the log holds from ``upto`` on. The columns are what they
are in the table: whoever stores them checks them by a digest of its own. ``heads_crc`` says of
which log they are: one that has lost, gained or changed any record below ``upto`` has another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from neverforget.storage.longterm_results import Namespace, Status, TurnPoint
from neverforget.storage.memory_table import COLUMNS, FIXED, Array, MemoryTable
from neverforget.storage.relation_table import RELATION_COLUMNS, RelationTable

if TYPE_CHECKING:
    from neverforget.storage.longterm_rows import RowsView

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``upto``: every record below it is in here, none above it. ``heads_crc``: of the headers of
    all these records (``longterm_following.heads_crc``).
    """

    upto: int
    heads_crc: int
    memories: dict[str, Array]
    types: list[str]
    namespaces: list[Namespace]
    agents: list[str | None]
    speakers: list[str | None]
    tags: list[tuple[str, ...]]
    relations: dict[str, Array]
    kinds: list[str]
    turns: list[TurnPoint]

    @staticmethod
    def take(upto: int, heads_crc: int, table: MemoryTable, relations: RelationTable) -> Snapshot:
        """Copies, so that the owner may go on."""
        return Snapshot(
            upto,
            heads_crc,
            {name: table.column(name).copy() for name in COLUMNS},
            list(table.types.values),
            list(table.namespaces.values),
            list(table.agents.values),
            list(table.speakers.values),
            list(table.tags.values),
            {name: relations.column(name).copy() for name in RELATION_COLUMNS},
            list(relations.kinds.values),
            list(relations.turns.values),
        )

    @staticmethod
    def begin(
        upto: int, rows: RowsView, table: MemoryTable, relations: RelationTable
    ) -> Callable[[], Snapshot]:
        """As ``take``, in two parts: now a copy of what ``rows``, which stand still and are of the
        same moment, do not hold; the rest on whatever thread calls what this returns.
        """
        held = set(rows.columns)
        others = {
            name: table.column(name) if name in FIXED else table.column(name).copy()
            for name in COLUMNS
            if name not in held
        }
        interned = (table.types, table.namespaces, table.agents, table.speakers, table.tags)
        names: list[Any] = [list(each.values) for each in interned]
        related = {name: relations.column(name).copy() for name in RELATION_COLUMNS}
        kinds, turns = list(relations.kinds.values), list(relations.turns.values)

        def rest() -> Snapshot:
            memories = {n: others[n] if n in others else rows.column(n) for n in COLUMNS}
            return Snapshot(
                upto,
                0,
                memories,
                types=names[0],
                namespaces=names[1],
                agents=names[2],
                speakers=names[3],
                tags=names[4],
                relations=related,
                kinds=kinds,
                turns=turns,
            )

        return rest

    def compact(self, heads_crc: int) -> Snapshot:
        """The same without names that only what is gone bore, and without relations that nobody
        will ever see: what was erased leaves no word in a file.
        """
        memories, relations = dict(self.memories), dict(self.relations)
        gone = memories["status"] == Status.GONE
        for name in ("key", "type", "namespace", "agent", "speaker", "tags"):
            memories[name] = np.where(gone, 0, memories[name]).astype(COLUMNS[name])
        source, target = relations["source"], relations["target"]
        seen = relations["alive"] & ~gone[source]
        to_memory = target >= 0
        seen[to_memory] &= ~gone[target[to_memory]]
        relations = {name: column[seen] for name, column in relations.items()}
        memories["type"], types = _recoded(memories["type"], self.types, 1)
        memories["namespace"], namespaces = _recoded(memories["namespace"], self.namespaces, 1)
        memories["agent"], agents = _recoded(memories["agent"], self.agents, 1)
        memories["speaker"], speakers = _recoded(memories["speaker"], self.speakers, 1)
        memories["tags"], tags = _recoded(memories["tags"], self.tags, 1)
        relations["kind"], kinds = _recoded(relations["kind"], self.kinds, 0)
        at_turns = relations["target"] < 0
        codes, turns = _recoded(-1 - relations["target"][at_turns], self.turns, 0)
        relations["target"] = relations["target"].copy()
        relations["target"][at_turns] = -1 - codes.astype(np.int64)
        return replace(
            self,
            heads_crc=heads_crc,
            memories=memories,
            types=types,
            namespaces=namespaces,
            agents=agents,
            speakers=speakers,
            tags=tags,
            relations=relations,
            kinds=kinds,
            turns=turns,
        )

    def restore(self, table: MemoryTable, relations: RelationTable) -> None:
        """Into a table and relations that are empty."""
        interned: list[tuple[Any, Sequence[Any]]] = [
            (table.types, self.types),
            (table.namespaces, self.namespaces),
            (table.agents, self.agents),
            (table.speakers, self.speakers),
            (table.tags, self.tags),
            (relations.kinds, self.kinds),
            (relations.turns, self.turns),
        ]
        for into, values in interned:
            for value in values:
                into.code(value)
        table.extend(self.memories)
        relations.extend(self.relations)


def _recoded(codes: Array, values: list[T], kept: int) -> tuple[Array, list[T]]:
    """Codes of those ``values`` alone that are used; the first ``kept`` stay what they are."""
    used = np.zeros(len(values), bool)
    used[:kept] = True
    used[np.unique(codes)] = True
    new = (np.cumsum(used) - 1).astype(np.uint32)
    return new[codes], [value for value, wanted in zip(values, used.tolist()) if wanted]
