"""Many numbers looked up at once are found as one by one, wherever they stand by now."""

from __future__ import annotations

import random

import numpy as np
import pytest

from neverforget.storage import row_index
from neverforget.storage.longterm_fields import Id, pack_ids
from neverforget.storage.memory_table import MemoryTable
from neverforget.storage.row_index import RowIndex


def test_each_finds_what_one_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_index, "_RECENT_MAX", 40)
    monkeypatch.setattr(row_index, "_BESIDE_MAX", 100)
    rng, index = random.Random(5), RowIndex()
    for row in range(600):
        index.add(rng.randrange(200), row)
        if row % 37:
            continue
        for wanted in ([], [3], [rng.randrange(220) for _ in range(90)]):
            places, rows = index.find_each(np.array(wanted, np.uint64))
            found = list(zip(places.tolist(), rows.tolist()))
            one_by_one = [(at, each) for at, n in enumerate(wanted) for each in index.find(n)]
            assert found == one_by_one


def test_many_ids_are_told_apart_though_they_begin_alike() -> None:
    table = MemoryTable()
    ids = [Id(n // 7, n % 7, 5) for n in range(500)]
    for number, each in enumerate(ids):
        table.add(each, born=number + 1)
    asked = [Id(1, 9, 5), *reversed(ids), Id(10**6, 0, 0)]
    expected = list(range(499, -1, -1))
    assert table.find_many(asked).tolist() == expected
    assert table.find_packed(pack_ids(asked)).tolist() == expected
    assert table.packed_ids(np.array(expected)) == pack_ids(reversed(ids))
