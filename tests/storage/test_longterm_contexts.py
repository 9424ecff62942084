"""A forgotten text is not found through what quotes it, however many are forgotten at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from neverforget.storage.longterm_results import MemoryFilter
from tests.storage.small_index import IndexBench, indexed

MANY, FEW = 30, 3


@pytest.fixture
def b(tmp_path: Path) -> Iterator[IndexBench]:
    with indexed(tmp_path) as bench:
        yield bench


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("together", [True, False])
def test_what_quotes_the_forgotten_is_not_found_by_it(
    b: IndexBench, count: int, together: bool
) -> None:
    """One by one each search of the neighbours, and each of those read again, cost minutes for a
    few thousand: many are looked for in one pass.
    """
    told = [b.remember(f"word{n} spoken", tags=("gone",)) for n in range(count)]
    for n in range(count):
        b.remember(f"near {n}", context=f"then word{n} spoken aloud", tags=("gone",) * (n % 2))
    b.follow()
    living = [f"near {n}" for n in range(0, count, 2)]
    if together:
        b.forget_where(tags=("gone",))
    else:
        for memory in b.region.memories(MemoryFilter(tags=("gone",))).memories:
            b.forget(memory.id)
    for again in range(2):
        b.follow(embed=False)
        for n in range(count):
            assert b.words(f"word{n}", "context") == []
        assert set(b.words("aloud", "context", limit=99)) == set(living)
        if not again:
            b.stored.publish()
            b.reopen_all()
    for memory in told:
        b.undo(memory.id)
    b.follow(embed=False)
    for n in range(0, count, 2):
        assert b.words(f"word{n}", "context") == [f"near {n}"]
    b.forget_where(tags=("gone",))
    b.purge(2**62)
    b.follow(embed=False)
    for n in range(count):
        assert b.words(f"word{n}", "context") == []
    assert set(b.words("aloud", "context", limit=99)) == set(living)
    assert b.index.forgotten.text_of(0) is None
    assert len(b.index.forgotten) == 0
