"""What fits into a working memory, and who leaves when it is too full: the least important first,
of these the oldest.

What is pinned stays, and so does what is just being added. Only where a revision makes a memory too
large for the rest to make room does that one leave, even if it is pinned: the budget always holds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from heapq import heappop, heappush
from typing import Final

from neverforget.storage.errors import InvalidArgument
from neverforget.storage.longterm_fields import id_of, id_text
from neverforget.storage.memory_table import MemoryTable
from neverforget.storage.working_memory import WorkingMemory, Worth

ITEMS_MAX: Final = 10_000  # in one working memory
_STALE_MAX: Final = 64  # more in the heap than is there, beyond as many again


# ---- what fits -----------------------------------------------------------------------------------


def while_they_fit(
    taken: Mapping[bytes, int], pinned: Mapping[bytes, int], room: int
) -> dict[bytes, int]:
    """Those of ``taken``, with their tokens, that fit beside the ``pinned``, in this order.
    ``room``: tokens that the pinned ones leave.
    """
    fitting: dict[bytes, int] = {}
    places = ITEMS_MAX - len(pinned)
    for wanted, tokens in taken.items():
        is_pinned = wanted in pinned
        takes = tokens - pinned.get(wanted, 0)
        if takes <= room and (is_pinned or places):
            fitting[wanted] = tokens
            room -= takes
            places -= not is_pinned
    return fitting


def must_fit(taken: Mapping[bytes, int], room: int, budget: int) -> None:
    """InvalidArgument where one of ``taken`` is larger than the ``budget``, or all than the
    ``room`` that the pinned ones leave of it; the numbers are told. All are tokens.
    """
    for wanted, tokens in taken.items():
        if tokens > budget:
            raise InvalidArgument(
                f"memory {id_text(id_of(wanted))} has {tokens:,} tokens, more than the whole "
                f"budget of {budget:,}; add a part of it, or ask for a larger budget"
            )
    total = sum(taken.values())
    if total > room:
        raise InvalidArgument(
            f"what is to be added has {total:,} tokens, and what is pinned leaves {room:,} of the "
            f"budget of {budget:,}; unpin some of it, add less, or ask for a larger budget"
        )


# ---- who leaves ----------------------------------------------------------------------------------


def leaving(
    memory: WorkingMemory,
    table: MemoryTable,
    *,
    tokens: int,
    count: int,
    budget: int,
    staying: Collection[bytes],
) -> list[bytes]:
    """Who goes, in this order, so that ``tokens`` in ``count`` memories fit the ``budget``. Too few
    where all that may go is not enough.
    """
    if tokens <= budget and count <= ITEMS_MAX:
        return []
    worth = _rated(memory, table)
    looked_at: dict[bytes, Worth] = {}
    gone: list[bytes] = []
    while worth and (tokens > budget or count > ITEMS_MAX):
        rated = heappop(worth)
        wanted = rated[-1]
        item = memory.items.get(wanted)
        if item is None or item.pinned or item.order != rated[2] or wanted in looked_at:
            continue  # left, pinned or rated again since
        looked_at[wanted] = rated
        if wanted not in staying:
            tokens -= item.tokens
            count -= 1
            gone.append(wanted)
    for rated in looked_at.values():  # nothing has changed yet
        heappush(worth, rated)
    return gone


def _rated(memory: WorkingMemory, table: MemoryTable) -> list[Worth]:
    worth, unrated = memory.worth, memory.unrated
    if worth is None or len(worth) + len(unrated) > 2 * len(memory.items) + _STALE_MAX:
        worth, unrated = [], list(memory.items)
    memory.worth, memory.unrated = worth, []
    fresh = [w for w in unrated if w in memory.items and not memory.items[w].pinned]
    for rated in _worth_of(table, {wanted: memory.items[wanted].order for wanted in fresh}):
        heappush(worth, rated)
    return worth


def leaving_when_revised(
    memory: WorkingMemory, table: MemoryTable, revised: Mapping[bytes, int], gone: set[bytes]
) -> list[bytes]:
    """As ``leaving``, where the ``revised`` take so many tokens from now on and others are
    ``gone``.
    """
    items = memory.items
    tokens = memory.tokens - sum(items[wanted].tokens for wanted in gone)
    tokens += sum(revised[wanted] - items[wanted].tokens for wanted in revised)
    found = leaving(
        memory,
        table,
        tokens=tokens,
        count=len(items) - len(gone),
        budget=memory.budget,
        staying=gone | revised.keys(),
    )
    tokens -= sum(items[wanted].tokens for wanted in found)
    own = sorted(_worth_of(table, {k: memory.items[k].order for k in revised}))
    for *_, wanted in sorted(own, key=lambda each: memory.items[each[-1]].pinned):
        if tokens <= memory.budget:
            break
        tokens -= revised[wanted]
        found.append(wanted)
    return found


def _worth_of(table: MemoryTable, orders: Mapping[bytes, int]) -> list[Worth]:
    """The least important comes first, then the oldest, then who was added first."""
    rows = table.find_packed(b"".join(orders))
    assert len(rows) == len(orders), "what is in a working memory is a memory"
    importance = table.column("importance")[rows].tolist()
    created_at = table.column("created_at")[rows].tolist()
    return list(zip(importance, created_at, orders.values(), orders))
