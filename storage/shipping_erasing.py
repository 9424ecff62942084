"""Erasing in objects what an ERASING record names, after that record itself was shipped.

Then everything it names stands in objects that are confirmed, since it stands in front of it; an
owner that was fenced cannot get here, since its record was not shipped. The body's bytes are zeroed
and the object is put again under its number, by the state that was read: nothing else of it changes
and nobody's erasure is undone. Repeating all of it changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from neverforget.storage.errors import Corrupt, Unavailable
from neverforget.storage.object_store import ObjectStore
from neverforget.storage.shipping_object import (
    OBJECT_HEADER_BYTES,
    ObjectHeader,
    decode_header,
    object_key,
    zeroed,
)

TRIES_MAX = 20
AT_ONCE = 16
_SHARE = 64  # ranges that are looked for one after the other
_WHERE = "old versions that a bucket keeps are out of reach: expire them there"

Range = Sequence[int]  # log position, length
T = TypeVar("T")
R = TypeVar("R")


def _at_once(work: Callable[[T], R], every: Sequence[T]) -> list[R]:
    """In order. Raises what is raised first; the rest is not begun then."""
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="erase") as pool:
        try:
            return list(pool.map(work, every))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@dataclass(slots=True)
class ErasedObjects:
    """``replaced``: numbers of the objects that were put again. ``unreachable``: what a report has
    to say.
    """

    replaced: list[int]
    unreachable: str = _WHERE


class ShippedEraser:
    """Of one log. ``last``: the number of the last object, the one that holds the ERASING record or
    one behind it. Headers that were read are kept: they never change but for ``erasures``.

    Several are read and put again at once: an owner serves nobody meanwhile, and a long session may
    stand in thousands of them, at some ten milliseconds each.
    """

    def __init__(self, store: ObjectStore, prefix: str, last: int) -> None:
        self._store = store
        self._prefix = prefix
        self._last = last
        self._headers: dict[int, ObjectHeader] = {}

    def erase(self, ranges: Iterable[Range]) -> ErasedObjects:
        """Zero these ranges. Durable when it returns. Raises Unavailable, with some of it done:
        repeat it; Corrupt for an object that is none.
        """
        every = list(ranges)
        shares = [every[at : at + _SHARE] for at in range(0, len(every), _SHARE)]
        doomed: dict[int, list[Range]] = {}
        for found in _at_once(self._held_by, shares):
            for number, held in found.items():
                doomed.setdefault(number, []).extend(held)
        numbers = sorted(doomed)
        changed = _at_once(lambda number: self._replace(number, doomed[number]), numbers)
        return ErasedObjects([number for number, did in zip(numbers, changed) if did])

    def _held_by(self, ranges: list[Range]) -> dict[int, list[Range]]:
        """By the number of the object that holds some of it."""
        found: dict[int, list[Range]] = {}
        for position, length in ranges:
            for number in self._holding(position, position + length):
                found.setdefault(number, []).append((position, length))
        return found

    def _holding(self, start: int, stop: int) -> Iterable[int]:
        """Numbers of the runs that overlap [start, stop); stops never fall from one to the next."""
        low, high = 1, self._last + 1  # the first whose stop is above start is in [low, high]
        while low < high:
            middle = (low + high) // 2
            if self._header(middle).stop > start:
                high = middle
            else:
                low = middle + 1
        while low <= self._last and self._header(low).start < stop:
            if self._header(low).stop > self._header(low).start:
                yield low
            low += 1

    def _header(self, number: int) -> ObjectHeader:
        header = self._headers.get(number)
        if header is None:
            key = object_key(self._prefix, number)
            found = self._store.get_start(key, OBJECT_HEADER_BYTES)
            if found is None:
                raise self._gone(key)
            header = self._headers[number] = decode_header(found)
        return header

    def _replace(self, number: int, ranges: list[Range]) -> bool:
        key = object_key(self._prefix, number)
        changed = False
        for _ in range(TRIES_MAX):
            found = self._store.get(key)
            if found is None:
                raise self._gone(key)
            left = zeroed(found.data, ranges)
            if left is None:
                return changed  # also when the answer to a first try was lost
            changed = True
            if self._store.replace(key, left, found.tag):
                return True
        raise Unavailable(
            f"{key} in {self._store.name} changes whenever it is to be erased in; try again",
            outcome="unknown",
        )

    def _gone(self, key: str) -> Corrupt:
        return Corrupt(f"{key} is gone from {self._store.name}: objects are never removed")
