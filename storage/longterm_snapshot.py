"""All that a long-term region knows in memory, as columns: what a generation keeps beside texts.

Opening with a snapshot replays only what the log holds from ``upto`` on. The columns are what they
are in the table: whoever stores them checks them by a digest of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from neverforget.storage.longterm_results import Namespace, TurnPoint
from neverforget.storage.memory_table import COLUMNS, Array, MemoryTable
from neverforget.storage.relation_table import RELATION_COLUMNS, RelationTable


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``upto``: every record below it is in here, none above it."""

    upto: int
    memories: dict[str, Array]
    types: list[str]
    namespaces: list[Namespace]
    agents: list[str | None]
    tags: list[tuple[str, ...]]
    relations: dict[str, Array]
    kinds: list[str]
    turns: list[TurnPoint]

    @staticmethod
    def take(upto: int, table: MemoryTable, relations: RelationTable) -> Snapshot:
        """Copies, so that the owner may go on."""
        return Snapshot(
            upto,
            {name: table.column(name).copy() for name in COLUMNS},
            list(table.types.values),
            list(table.namespaces.values),
            list(table.agents.values),
            list(table.tags.values),
            {name: relations.column(name).copy() for name in RELATION_COLUMNS},
            list(relations.kinds.values),
            list(relations.turns.values),
        )

    def restore(self, table: MemoryTable, relations: RelationTable) -> None:
        """Into a table and relations that are empty."""
        for value in self.types:
            table.types.code(value)
        for namespace in self.namespaces:
            table.namespaces.code(namespace)
        for agent in self.agents:
            table.agents.code(agent)
        for tags in self.tags:
            table.tags.code(tags)
        for kind in self.kinds:
            relations.kinds.code(kind)
        for turns in self.turns:
            relations.turns.code(turns)
        table.extend(self.memories)
        relations.extend(self.relations)
