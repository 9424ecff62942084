"""Who leaves a working memory when it is too full: the least important first, of these the oldest.

What is pinned stays, and so does what is just being added. Only where a revision makes a memory too
large for the rest to make room does that one leave, even if it is pinned: the budget always holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from neverforget.storage.memory_table import MemoryTable
from neverforget.storage.working_memory import WorkingMemory

ITEMS_MAX = 10_000  # in one working memory


def leaving(
    memory: WorkingMemory,
    table: MemoryTable,
    *,
    tokens: int,
    count: int,
    budget: int,
    staying: Iterable[bytes],
) -> list[bytes]:
    """Who goes, in this order, so that ``tokens`` in ``count`` memories fit the ``budget``. Too few
    where all that may go is not enough.
    """
    if tokens <= budget and count <= ITEMS_MAX:
        return []
    stays = set(staying)
    gone = []
    for wanted in _in_order(
        table, {k: i.order for k, i in memory.items.items() if not i.pinned and k not in stays}
    ):
        if tokens <= budget and count <= ITEMS_MAX:
            break
        tokens -= memory.items[wanted].tokens
        count -= 1
        gone.append(wanted)
    return gone


def leaving_when_revised(
    memory: WorkingMemory, table: MemoryTable, revised: Mapping[bytes, int], gone: set[bytes]
) -> list[bytes]:
    """As ``leaving``, where the ``revised`` take so many tokens from now on and others are
    ``gone``.
    """
    after = {k: i.tokens for k, i in memory.items.items() if k not in gone} | dict(revised)
    tokens = sum(after.values())
    found = leaving(
        memory,
        table,
        tokens=tokens,
        count=len(after),
        budget=memory.budget,
        staying=gone | revised.keys(),
    )
    tokens -= sum(after[wanted] for wanted in found)
    own = _in_order(table, {k: memory.items[k].order for k in revised})
    for wanted in sorted(own, key=lambda each: memory.items[each].pinned):
        if tokens <= memory.budget:
            break
        tokens -= revised[wanted]
        found.append(wanted)
    return found


def _in_order(table: MemoryTable, orders: Mapping[bytes, int]) -> list[bytes]:
    """The least important first, then the oldest, then who was added first."""
    ids = list(orders)
    rows = table.find_packed(b"".join(ids))
    assert len(rows) == len(ids), "what is in a working memory is a memory"
    keys = (
        np.fromiter(orders.values(), np.uint64, len(ids)),
        table.column("created_at")[rows],
        table.column("importance")[rows],
    )
    return [ids[at] for at in np.lexsort(keys).tolist()]
