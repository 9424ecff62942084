"""The disk of a simulated owner: a log of small records, and what was set aside of it.

A record is 16 bytes: who it is, the epoch that wrote it, and where it was salvaged from. The first
one stands at position 64.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

from neverforget.storage.shipping_object import decode_header

RECORD_BYTES = 16
FIRST = 64
_RECORD = Struct("<IIII")


class Violation(AssertionError):
    """A promise was broken."""


class Record(NamedTuple):
    ident: int
    epoch: int
    from_epoch: int = 0
    from_place: int = 0


def end_of(count: int) -> int:
    """The position where a log of so many records ends."""
    return FIRST + RECORD_BYTES * count if count else 0


def place_of(position: int) -> int:
    return max(0, position - FIRST) // RECORD_BYTES


def packed(records: list[Record]) -> bytes:
    return b"".join(_RECORD.pack(*record) for record in records)


def unpacked(payload: bytes) -> list[Record]:
    return [Record._make(fields) for fields in _RECORD.iter_unpack(payload)]


@dataclass(slots=True)
class Disk:
    """``records`` is what the page cache shows; ``durable`` of them survive a power cut. ``acked``:
    what owners on this disk acknowledged, at any level.
    """

    name: int
    epoch: int = 0
    records: list[Record] = field(default_factory=list)
    durable: int = 0
    group_at: int = 0  # where the last group that was synced begins
    known: tuple[int, int] = (0, 0)  # what the last Shipped notice said
    aside: list[tuple[int, Record]] = field(default_factory=list)
    acked: set[int] = field(default_factory=set)

    def check(self) -> None:
        held = {record.ident for record in self.records[: self.durable]}
        held |= {record.ident for _, record in self.aside}
        if not self.acked <= held:
            raise Violation(f"disk {self.name} lost {sorted(self.acked - held)}")


def check_put(objects: dict[int, bytes], number: int, data: bytes) -> None:
    """Before it is put: without a hole, behind the one before it, in an epoch that grows."""
    header = decode_header(data)
    before = objects.get(number - 1)
    if before is None:
        if number != 1:
            raise Violation(f"object {number} leaves a hole in front of it")
        return
    last = decode_header(before)
    if header.start != max(last.stop, FIRST if header.stop > header.start else 0):
        raise Violation(f"object {number} begins at {header.start}, not at {last.stop}")
    if header.epoch < last.epoch or (header.epoch == last.epoch and header.owner != last.owner):
        raise Violation(f"object {number} has epoch {header.epoch} after {last.epoch}")
