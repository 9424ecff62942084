"""Request ids and keys against a plain dict of everything that was ever seen."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest

from neverforget.storage import dedupe
from neverforget.storage.dedupe import PRODUCERS_MAX, WINDOW, Keys, Requests
from neverforget.storage.format import Kind, RecordFlag
from neverforget.storage.head_array import HEAD_DTYPE

Request = tuple[int, int]


def heads_of(requests: list[Request], *, keyed: bool = False) -> tuple[np.ndarray, np.ndarray]:
    heads = np.zeros(len(requests), HEAD_DTYPE)
    heads["kind"] = Kind.TURN
    heads["flags"] = int(RecordFlag.KEYED) if keyed else 0
    heads["producer_id"] = [producer for producer, _ in requests]
    heads["producer_seq"] = [seq for _, seq in requests]
    return heads, np.arange(len(requests), dtype=np.uint64) * 80 + 64


def drawn(rng: random.Random, count: int) -> list[Request]:
    """Requests as they arrive: rising for each producer, some out of order, none twice."""
    clock = dict.fromkeys((3, 5, 2**64 - 1), 0)
    requests: list[Request] = []
    for _ in range(count):
        producer = rng.choice(list(clock))
        clock[producer] += rng.choice([1, 1, 1, 2, 7, 100])
        requests.append((producer, clock[producer]))
    for _ in range(count // 5):
        at = rng.randrange(count - 5)
        requests[at], requests[at + 4] = requests[at + 4], requests[at]
    return requests


def check(table: Requests, requests: list[Request], rng: random.Random) -> None:
    seen = {request: 80 * at + 64 for at, request in enumerate(requests)}
    highest = {p: max(seq for q, seq in requests if q == p) for p, _ in requests}
    for request, position in seen.items():
        assert table.may_be_known(*request), "what was answered is never taken for new"
        assert table.find(*request) == position
    for producer, last in highest.items():
        assert not table.may_be_known(producer, last + 1)
        for seq in range(max(last - WINDOW + 1, 0), last):
            assert table.may_be_known(producer, seq) == ((producer, seq) in seen), "the window"
    assert not table.may_be_known(rng.getrandbits(60), 1)
    assert table.find(3, 10**9) is None


def test_a_request_is_known_by_noting_and_by_loading(rng: random.Random) -> None:
    for _ in range(10):
        requests = drawn(rng, 300)
        heads, positions = heads_of(requests)
        noted, loaded, both = Requests(), Requests(), Requests()
        for request, position in zip(requests, positions.tolist()):
            noted.note(*request, position)
        loaded.load(heads, positions, 0)
        cut = rng.randrange(300)
        both.load(heads[:cut], positions[:cut], 0)
        for request, position in zip(requests[cut:], positions[cut:].tolist()):
            both.note(*request, position)
        for table in (noted, loaded, both):
            check(table, requests, rng)


def test_a_thousand_threads_of_one_client_are_told_new_from_known_at_once() -> None:
    """The window was 64 requests wide: with 200 threads every other append lay behind it, and its
    owner searched all recent requests, milliseconds each."""
    assert WINDOW >= 1024
    table = Requests()
    table.note(3, 5000, 64)
    for seq in range(5000 - WINDOW + 1, 5000):
        assert not table.may_be_known(3, seq)
        table.note(3, seq, 80 * seq)
        assert table.may_be_known(3, seq)
    assert table.may_be_known(3, 5000 - WINDOW), "further back everything may be known"


def test_a_producer_of_few_requests_takes_little_room() -> None:
    table = Requests()
    table.note(3, 2**32 - 1, 64)
    assert sys.getsizeof(table._producers[3]) < 40


def test_many_producers_are_loaded_with_their_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedupe, "_WINDOWS_AT_ONCE", 3)
    requests = [(producer, 10 * producer + n) for producer in range(1, 11) for n in (2, 5, 1500)]
    table = Requests()
    table.load(*heads_of(requests), 0)
    for producer in range(1, 11):
        known = [n for n in range(490, 1502) if table.may_be_known(producer, 10 * producer + n)]
        assert known == [1500]
        assert table.may_be_known(producer, 10 * producer + 2), "it lies behind the window"


def test_records_of_one_batch_are_one_request() -> None:
    heads, positions = heads_of([(3, 1), (3, 1), (3, 1), (3, 2)])
    table = Requests()
    table.load(heads, positions, 0)
    assert table.find(3, 1) == 64, "the batch is found by its first record"


def test_keyed_records_and_records_without_a_producer_are_no_requests() -> None:
    table = Requests()
    table.load(*heads_of([(3, 1)], keyed=True), 0)
    table.load(*heads_of([(0, 1)]), 0)
    assert not table.may_be_known(3, 1)
    assert not table.may_be_known(0, 1)


def test_what_side_files_answer_for_is_let_go(monkeypatch: object) -> None:
    table, keys = Requests(), Keys()
    count = 2 * dedupe._GENERATION + 10
    for at in range(count):
        table.note(3, at, 80 * at)
        keys.note(at, 0, 80 * at)
    table.forget_below(80 * count)
    keys.forget_below(80 * count)
    assert table.find(3, 5) is None
    assert table.may_be_known(3, 5), "the log is asked then"
    assert keys.find(5, 0) == ()
    assert table.find(3, count - 1) == 80 * (count - 1), "the newest generation stays"
    assert keys.find(count - 1, 0) == (80 * (count - 1),)


def test_only_records_above_the_side_files_are_loaded_as_recent() -> None:
    heads, positions = heads_of([(3, n) for n in range(10)])
    table = Requests()
    table.load(heads, positions, int(positions[6]))
    assert table.find(3, 5) is None
    assert table.may_be_known(3, 5)
    assert table.find(3, 6) == int(positions[6])


def test_the_producer_not_seen_for_longest_makes_room() -> None:
    assert PRODUCERS_MAX >= 1_000_000
    table = Requests()
    limit, dedupe.PRODUCERS_MAX = dedupe.PRODUCERS_MAX, 3
    try:
        for producer in (1, 2, 3, 1, 4):
            table.note(producer, 9, 64)
    finally:
        dedupe.PRODUCERS_MAX = limit
    known = [producer for producer in (1, 2, 3, 4) if table.may_be_known(producer, 9)]
    assert known == [1, 3, 4]


def test_keys_with_one_digest_are_all_found_oldest_first() -> None:
    keys = Keys()
    for position in (64, 144, 224):
        keys.note(7, 9, position)
    keys.note(7, 10, 304)
    assert keys.find(7, 9) == (64, 144, 224)
    assert keys.find(7, 10) == (304,)
    assert keys.find(8, 9) == ()
    heads, positions = heads_of([(7, 9), (1, 1)], keyed=True)
    loaded = Keys()
    loaded.load(heads, positions, 0)
    loaded.load(heads, positions + np.uint64(800), 0)
    assert loaded.find(7, 9) == (64, 864)
