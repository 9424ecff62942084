"""Working memories of a small long-term region, worked on durably, and all that is seen of them."""

from __future__ import annotations

from typing import Any

from neverforget.storage.longterm_results import MemoryView
from neverforget.storage.record import Header, body_of, read_header
from neverforget.storage.working_results import Worked, WorkingItem, WorkingPlace, WorkingTask
from tests.storage.small_longterm import LongTermBench

MINE = WorkingPlace((), "planner", False)
TEAM = WorkingPlace((), "crew", True)


def told(b: LongTermBench, tokens: int, importance: float = 1.0, **fields: Any) -> MemoryView:
    """A memory of so many tokens: the region counts characters."""
    return b.remember("x" * tokens, importance=importance, **fields)


def work(
    b: LongTermBench,
    operation: str,
    *ids: str,
    place: WorkingPlace = MINE,
    request: tuple[int, int] | None = None,
    **how: Any,
) -> Worked:
    """``max_tokens`` is 1,000 where nothing is said."""
    if operation in ("add", "recall"):
        how = {"max_tokens": 1_000} | how
    task = WorkingTask(place, operation, list(ids), **how)
    answer = b.region.work(task, by="tester", request=request or b.next_request())
    b.commit()
    assert b.region.durable >= answer.end
    return answer


def records_from(b: LongTermBench, start: int) -> list[tuple[Header, bytes]]:
    """(header, body) of each record of the log from the position ``start`` on."""
    found, position = [], start
    while position < b.region.log_end:
        record = b.region._log.read(position)
        found.append((read_header(record), bytes(body_of(record))))
        position += len(record) + -len(record) % 8
    return found


def held(b: LongTermBench, place: WorkingPlace = MINE) -> list[WorkingItem]:
    page = b.region.working_items(place)
    assert page.next is None
    assert page.count == len(page.items)
    assert page.tokens == sum(item.tokens for item in page.items)
    return page.items


def ids_in(b: LongTermBench, place: WorkingPlace = MINE) -> list[str]:
    return [item.memory.id for item in held(b, place)]


def standing(b: LongTermBench, *places: WorkingPlace) -> dict[str, Any]:
    """Whatever a reader could see, to be the same after reopening."""
    return {
        place.name: (
            [
                (i.memory.id, i.tokens, i.pinned, i.added_at, i.used_at, i.accesses)
                for i in held(b, place)
            ],
            b.region.working_status(place).max_tokens,
            b.region.working_members(place),
        )
        for place in places
    }
