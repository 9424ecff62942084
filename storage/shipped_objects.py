"""What the objects of one log say of themselves: their headers, and by when each of them was made.

Clocks differ, and some run wrong for a while; the order of the objects is what counts. So what is
told of an object is the earliest time that it, or any object behind it, says of itself: by then it
was there, and these times never fall.
"""

from __future__ import annotations

from bisect import bisect_right
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from neverforget.storage.errors import Corrupt
from neverforget.storage.object_store import ObjectStore
from neverforget.storage.shipping_object import (
    OBJECT_HEADER_BYTES,
    ObjectHeader,
    decode_header,
    object_key,
)

_AT_ONCE = 16


class ShippedObjects(NamedTuple):
    """Of one log, in order from number 1. ``made_us``: see the module."""

    headers: list[ObjectHeader]
    sizes: list[int]
    made_us: list[int]

    def until(self, at_us: int) -> int:
        """How many of them were there at that time."""
        return bisect_right(self.made_us, at_us)


def read_objects(store: ObjectStore, prefix: str) -> ShippedObjects:
    """Reads every header. Raises Unavailable; Corrupt where one is missing or none."""
    sizes = _sizes(store, prefix)

    def read(number: int) -> ObjectHeader:
        key = object_key(prefix, number)
        start = store.get_start(key, OBJECT_HEADER_BYTES)
        if start is None:
            raise Corrupt(f"{key} is gone from {store.name}: objects are never removed")
        return decode_header(start)

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="headers") as pool:
        headers = list(pool.map(read, range(1, len(sizes) + 1)))
    made_us = [header.made_us for header in headers]
    for at in range(len(made_us) - 2, -1, -1):
        made_us[at] = min(made_us[at], made_us[at + 1])
    return ShippedObjects(headers, sizes, made_us)


def _sizes(store: ObjectStore, prefix: str) -> list[int]:
    found: list[int] = []
    for key, size in store.list(prefix):
        number = key.removeprefix(prefix)
        if not number.isdecimal():
            continue
        if int(number) != len(found) + 1:
            missing = object_key(prefix, len(found) + 1)
            raise Corrupt(
                f"{missing} is missing from {store.name}, and later ones are there; restore it "
                "from a version that the bucket kept"
            )
        found.append(size)
    return found
