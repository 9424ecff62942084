"""A process that deletes from one long-term store after another, each time in a child that may die.

    python -m tests.faults.forgetter

A line is ``OPERATION DIRECTORY``: the store there is opened with everything derived from it, then
the operation is carried out; see ``forked.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from neverforget.storage.longterm_results import MemoryFilter
from tests.faults.forked import main
from tests.storage.small_index import IndexBench
from tests.storage.small_longterm import memory_id

WORD = "xylophonequartz"
REQUEST = (5, 1)


def furnish(b: IndexBench) -> None:
    """Memories 1 to 6 in two generations: 1 and 2 of the doomed place, 1 with chunks, 3 quotes 1,
    4 is forgotten since long, 5 comes from 1, 6 has nothing to do with it.
    """
    place: dict[str, Any] = {"namespace": ("n",), "tags": ("t",)}
    first = b.remember(f"{WORD} one", key="k", **place)
    b.remember(f"{WORD} two", **place)
    b.remember("three", context=f"so: {WORD} one.")
    fourth = b.remember(f"{WORD} four")
    fifth = b.remember("five")
    b.follow()
    b.stored.publish()
    b.remember("six")
    b.derive(b.region.get(first.id), 5, summary=f"{WORD} summary")
    b.drawn = 100
    b.relate(fifth.id, first.id, "derived-from")
    b.forget(fourth.id, reason="old")
    b.follow()
    b.stored.publish()


OPERATIONS: dict[str, Callable[[IndexBench], Any]] = {
    "forget": lambda b: b.forget(memory_id(1), reason="r", request=REQUEST),
    "forget-where": lambda b: b.region.forget_where(
        MemoryFilter(tags=("t",)), **b.asked(request=REQUEST)
    ),
    "purge": lambda b: b.purge(10**18, request=REQUEST),
    "erase": lambda b: b.erase(memory_id(1), memory_id(2), reason="r", request=REQUEST),
}


def carry_out(b: IndexBench, operation: str) -> Any:
    """As the owner does: the log, then what is derived, and only then the answer."""
    answer = OPERATIONS[operation](b)
    b.follow()
    if operation in ("purge", "erase"):
        b.stored.publish()
    return answer


def prepared(line: str) -> Callable[[], object]:
    operation, directory = line.split()
    b = IndexBench(Path(directory))
    return lambda: carry_out(b, operation)


if __name__ == "__main__":
    sys.exit(main(prepared))
