"""Moving parts of a deployed store to other disks: what the next description is. Pure, no I/O.

A part moves by a description that stands on disks; see ``keeper.py``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping

import msgspec

from neverforget.actors.places import LONGTERM
from neverforget.runtime.deployment import Description
from neverforget.storage.errors import InvalidArgument, Unavailable
from neverforget.storage.shipping_object import TERM_MAX

MEMORIES = "memories"


def checked_place(partition: object) -> int:
    """The number of a partition, also as text, or "memories"."""
    if partition == MEMORIES:
        return LONGTERM
    if isinstance(partition, str) and partition.isdecimal():
        partition = int(partition)
    if isinstance(partition, bool) or not isinstance(partition, int) or partition < 0:
        raise InvalidArgument(
            f'partition is {partition!r}; pass the number of one, or "{MEMORIES}"'
        )
    return partition


def named(place: int) -> str:
    """For people."""
    return "the memories" if place == LONGTERM else f"partition {place}"


def log_of(place: int) -> str:
    """The name of its log in a replica."""
    return "longterm-0" if place == LONGTERM else f"partition-{place}"


def check_movable(found: Description, place: int) -> None:
    """InvalidArgument: there is no such part, or it exists on its disk only."""
    if place != LONGTERM and place >= len(found.partitions):
        raise InvalidArgument(
            f"{found.name} has the partitions 0 to {len(found.partitions) - 1}, no {place}"
        )
    if found.settings.get("replica") is None:
        raise InvalidArgument(
            f"{found.name} has no replica, so what {named(place)} holds is on its disk only: bring "
            "that disk back. For the next time: set settings.replica and deploy again"
        )


def targets(found: Description, places: Iterable[int], there: Collection[str]) -> dict[int, str]:
    """A disk for each of ``places``, out of ``there`` and not the one that it is on: where fewest
    parts are. Unavailable: there is no other.
    """
    spread = {disk: len(found.places_of(disk)) for disk in sorted(there)}
    chosen: dict[int, str] = {}
    for place in places:
        others = [disk for disk in spread if disk != found.disk_of(place)]
        if not others:
            raise Unavailable(
                f"{named(place)} can be moved nowhere: no other node of the cluster offers a disk",
                outcome="not_applied",
            )
        chosen[place] = min(others, key=spread.__getitem__)
        spread[chosen[place]] += 1
    return chosen


def moved(found: Description, to: Mapping[int, str], terms: Mapping[int, int]) -> Description:
    """``found`` with the parts ``to`` on other disks. ``terms``: of the last object of each log.
    Whoever was told before, on whatever description, is of a lower term than whoever is told now.
    """
    partitions = list(found.partitions)
    longterm, told = found.longterm, dict(found.moved)
    for place, disk in to.items():
        told[place] = max(told.get(place, 0), terms[place]) + 1
        if told[place] > TERM_MAX:
            raise InvalidArgument(f"{named(place)} was moved {TERM_MAX} times, which is the limit")
        if place == LONGTERM:
            longterm = disk
        else:
            partitions[place] = disk
    return msgspec.structs.replace(
        found,
        partitions=tuple(partitions),
        longterm=longterm,
        moved=told,
        version=found.version + 1,
    )


def newest(held: Iterable[Description]) -> Description | None:
    """The one that counts. Two of one version that differ were made by keepers that did not know
    of each other: one of them, the same for everybody, is made the next version.
    """
    found = list(held)
    version = max((each.version for each in found), default=0)
    last = {_text(each): each for each in found if each.version == version}
    if not last:
        return None
    chosen = last[max(last)]
    if len(last) == 1:
        return chosen
    return msgspec.structs.replace(chosen, version=version + 1)


def _text(found: Description) -> str:
    """The same of descriptions that say the same."""
    return json.dumps(msgspec.to_builtins(found, str_keys=True), sort_keys=True)
