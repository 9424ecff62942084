"""A life of working memories: request after request, and all that is seen after each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from neverforget.storage.longterm_results import Changes
from neverforget.storage.working_results import WorkingPlace, WorkingTask
from tests.storage.small_longterm import LongTermBench, memory_id
from tests.storage.small_working import MINE, TEAM, standing

PLACED = WorkingPlace(("n",), "canary", False)
PLACES = (MINE, TEAM, PLACED)


def seen(b: LongTermBench) -> Any:
    """Without times: a death costs none, and a repeat has its own."""
    evicted = [entry.details["ids"] for entry in b.audit(operation="evict")]
    held = [
        ([(name, tokens, pin, n) for name, tokens, pin, _, _, n in items], budget, list(members))
        for items, budget, members in standing(b, *PLACES).values()
    ]
    return held, evicted


class Life:
    """Requests 1, 2, 3, …. ``told``: all that is seen after each acknowledged one."""

    def __init__(self) -> None:
        self.done = 0
        self.told: dict[int, Any] = {}

    def ask(self, b: LongTermBench, number: int) -> None:
        region, request = b.region, (9, number)
        one = memory_id(1000 + number % 7)
        step = number % 11
        place = PLACES[number % 3]
        if number <= 7:
            b.drawn = 999 + number % 7
            new = b.new("x" * (40 + number), importance=float(number % 3))
            b.remember_many(new, request=request)
        elif step == 1:
            region.revise(one, Changes(text="y" * (30 + number % 50)), by="t", request=request)
        elif step == 2 and number > 60:
            b.region.erase_where(("n",), **b.asked(request=request))
        elif step == 3:
            task = WorkingTask(place, "join", agent=f"a{number % 4}")
            region.work(task, by="t", request=request)
        else:
            operation = "add" if number % 2 else "recall"
            task = WorkingTask(place, operation, [one], step == 4, 150)
            region.work(task, by="t", request=request)
        b.commit()

    def live(
        self, b: LongTermBench, last: int, tell: Callable[[int], None] = lambda number: None
    ) -> None:
        while self.done < last:
            self.ask(b, self.done + 1)
            self.done += 1
            self.told[self.done] = seen(b)
            tell(self.done)
