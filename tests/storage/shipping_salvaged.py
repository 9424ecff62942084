"""What is lost with an owner and brought back, in the simulated world; and what is run there."""

from __future__ import annotations

from dataclasses import dataclass

from neverforget.storage.shipping_machine import Shipping
from neverforget.storage.shipping_object import decode_object
from tests.storage.shipping_disk import Disk, Record, unpacked

Origin = tuple[int, int]  # epoch, place


@dataclass(slots=True)
class Rules:
    """What is run: the product, or a mutant of it."""

    machine: type[Shipping] = Shipping
    ships_what_is_written: bool = False
    removes_objects: bool = False
    salvages_twice: bool = False
    salvages_nothing: bool = False
    forgets_where_it_was_first: bool = False
    done_before_it_is_shipped: bool = False


def is_anonymous(ident: int) -> bool:
    """Nobody repeats it, so nobody knows it by its request."""
    return ident % 4 == 0


def origin_of(place: int, record: Record, rules: Rules) -> Origin:
    """Where what stands at ``place`` of some log stood first."""
    if record.from_epoch and not rules.forgets_where_it_was_first:
        return record.from_epoch, record.from_place
    return record.epoch, place


def where_at_first(disk: Disk, ident: int) -> set[Origin]:
    """Of what stands in its log with this ident. (A header's CRC tells that: two owners that wrote
    without the store may have borne one epoch.)
    """
    return {
        origin_of(place, record, Rules())
        for place, record in enumerate(disk.records)
        if record.ident == ident
    }


def unshipped(disk: Disk, objects: dict[int, bytes]) -> list[tuple[int, Record]]:
    """(place, record) of what was set aside, and of its log where it parts from the objects."""
    runs = (decode_object(objects[number])[1] for number in sorted(objects))
    held = [record for run in runs for record in unpacked(run)]
    parting = min(len(disk.records), len(held))
    for at, (mine, theirs) in enumerate(zip(disk.records, held)):
        if mine != theirs:
            parting = at
            break
    return [*disk.aside, *enumerate(disk.records[parting:], parting)]
