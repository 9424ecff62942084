"""What a salvage answers, and the pieces of an old log that it is made of."""

from __future__ import annotations

from msgspec import Struct


class SalvageReport(Struct, array_like=True):
    """``turns``, or memories, that were brought back, of all ``records``. ``came_again``: records
    that are there already, as their clients repeated them or an earlier salvage had brought them.
    ``dropped``: of no use any more, or erased. ``unreadable``: damaged where they stood.
    ``conflicts``: not to be carried out on what is there now; each is on record in the audit.
    """

    turns: int = 0
    records: int = 0
    came_again: int = 0
    dropped: int = 0
    unreadable: int = 0
    conflicts: int = 0

    def add(self, other: SalvageReport) -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Piece(Struct, array_like=True, frozen=True):
    """Some batches of an old log, each a list of (position, bytes) as they stand there.

    ``parting``: up to this position the old log and the one that counts are the same. ``stream``:
    the same random number in all pieces of one reading, numbered 0, 1, ... by ``index``; no other
    comes behind the ``last`` one. ``erased``: (position, header) of records whose bodies are gone,
    told before the batches are; ``unreadable``: how many others are left out.
    """

    log_id: int
    stream: int
    index: int
    parting: int
    batches: list[list[tuple[int, bytes]]]
    erased: list[tuple[int, bytes]]
    unreadable: int
    last: bool
