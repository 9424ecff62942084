"""Erasing in objects: what goes, what stays, and what may come between."""

from __future__ import annotations

import random
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from neverforget.storage.errors import Corrupt, Unavailable
from neverforget.storage.object_folder import FolderStore
from neverforget.storage.shipping_erasing import ShippedEraser
from neverforget.storage.shipping_object import (
    Author,
    Run,
    decode_object,
    encode_fence,
    encode_run,
    object_key,
)
from tests.storage.object_stores import UnreliableStore, fails, folder

AUTHOR = Author(bytes(16), 7, 1)
PREFIX = "store/partition-0/"


def shipped(root: Path, stops: list[int], rng: random.Random) -> tuple[FolderStore, bytes]:
    """A store with runs that end at ``stops``, with fences in between and a gap now and then; and
    the log's bytes.
    """
    store = folder(root)
    log = bytearray(stops[-1] + 1)
    number, start = 0, 64
    for stop in stops:
        for _ in range(rng.choice([0, 0, 1, 2])):
            number += 1
            store.put_new(object_key(PREFIX, number), encode_fence(AUTHOR, number, number, start))
        number += 1
        payload = rng.randbytes(stop - start).replace(b"\0", b"x")
        log[start:stop] = payload
        run = Run(0, 1 << 30, 1, start, stop, 0, payload)
        store.put_new(object_key(PREFIX, number), encode_run(AUTHOR, number, 9, run))
        start = stop + rng.choice([0, 0, 64])
    return store, bytes(log)


def last_of(store: FolderStore) -> int:
    return len(list(store.list(PREFIX)))


def held(store: FolderStore, log: bytes) -> bytes:
    """The log's bytes as the objects have them now; every object is sound."""
    found = bytearray(len(log))
    for key, _ in store.list(PREFIX):
        stored = store.get(key)
        assert stored is not None
        header, payload = decode_object(stored.data)
        found[header.start : header.stop] = payload
    return bytes(found)


def without(log: bytes, ranges: list[tuple[int, int]]) -> bytes:
    left = bytearray(log)
    for position, length in ranges:
        left[position : position + length] = bytes(len(left[position : position + length]))
    return bytes(left)


def test_just_the_named_bytes_become_zero(tmp_path: Path, rng: random.Random) -> None:
    for trial in range(30):
        stops = sorted(rng.sample(range(200, 5_000), rng.randint(1, 12)))
        stops = [stops[0], *[b for a, b in pairwise(stops) if b - a > 100]]
        store, log = shipped(tmp_path / str(trial), stops, rng)
        ranges = [
            (rng.randrange(64, stops[-1]), rng.randint(1, 900)) for _ in range(rng.randint(1, 5))
        ]
        eraser = ShippedEraser(store, PREFIX, last_of(store))
        eraser.erase(ranges)
        assert held(store, log) == without(log, ranges)
        assert ShippedEraser(store, PREFIX, last_of(store)).erase(ranges).replaced == []


def test_an_answer_that_is_lost_and_another_eraser_do_no_harm(
    tmp_path: Path, rng: random.Random
) -> None:
    store, log = shipped(tmp_path, [1_000, 2_000], rng)
    unreliable = UnreliableStore(store)
    unreliable.after = fails("replace")
    with pytest.raises(Unavailable):
        ShippedEraser(unreliable, PREFIX, last_of(store)).erase([(900, 200)])
    unreliable.after = lambda operation, key: None
    others = iter([(1_500, 10), (1_600, 10)])

    def another(operation: str, key: str) -> None:
        if operation == "replace":
            for one in others:
                ShippedEraser(store, PREFIX, last_of(store)).erase([one])
                return

    unreliable.before = another
    ShippedEraser(unreliable, PREFIX, last_of(store)).erase([(900, 200), (1_900, 10)])
    gone = [(900, 200), (1_500, 10), (1_600, 10), (1_900, 10)]
    assert held(store, log) == without(log, gone)


def test_it_gives_up_where_an_object_never_stays_the_same(
    tmp_path: Path, rng: random.Random
) -> None:
    store, _ = shipped(tmp_path, [1_000], rng)

    class Restless(UnreliableStore):
        def replace(self, key: str, data: bytes, tag: str) -> bool:
            return False

    with pytest.raises(Unavailable, match="changes whenever"):
        ShippedEraser(Restless(store), PREFIX, last_of(store)).erase([(100, 8)])


def test_an_object_that_is_gone_is_told(tmp_path: Path, rng: random.Random) -> None:
    store, _ = shipped(tmp_path, [1_000], rng)
    with pytest.raises(Corrupt, match="gone"):
        ShippedEraser(store, PREFIX, last_of(store) + 3).erase([(2_000, 8)])


def test_many_objects_are_erased_in_at_once(tmp_path: Path) -> None:
    """One after the other, a session in some hundred objects kept its owner from answering for so
    long that it was taken for one that hangs, and killed."""
    store, log = shipped(tmp_path, [*range(200, 1_800, 200)], random.Random(1))
    four = threading.Barrier(4, timeout=60.0)
    together = UnreliableStore(store)

    def wait_for_others(operation: str, key: str) -> None:
        if operation == "replace":
            four.wait()

    together.before = wait_for_others
    found = ShippedEraser(together, PREFIX, last_of(store)).erase([(64, len(log))])
    assert len(found.replaced) == 8
    assert not any(held(store, log))
