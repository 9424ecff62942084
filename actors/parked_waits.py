"""Followers: requests that are answered when their session has a newer turn, or when time is up."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from neverforget.actors.messages import AnyReply, Wait
from neverforget.actors.ports import Pending

SessionName = tuple[tuple[str, ...], str]


@dataclass(slots=True, eq=False)
class _Parked:
    pending: Pending
    name: SessionName
    due: float
    answered: bool = False

    def __lt__(self, other: _Parked) -> bool:
        return self.due < other.due


class ParkedWaits:
    """At most ``parked_max`` of them. Those whose client is gone leave when their time is up, or
    when there is news."""

    def __init__(self, parked_max: int) -> None:
        self._parked_max = parked_max
        self._by_session: dict[SessionName, list[_Parked]] = {}
        self._by_time: list[_Parked] = []  # a heap; answered ones stay until they come up
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def park(self, pending: Pending, request: Wait, now: float) -> bool:
        """False: there are too many already."""
        if self._count >= self._parked_max:
            return False
        name = (request.namespace, request.session)
        parked = _Parked(pending, name, now + request.timeout_ms / 1000)
        self._by_session.setdefault(name, []).append(parked)
        heapq.heappush(self._by_time, parked)
        self._count += 1
        return True

    def deadline(self) -> float | None:
        return self._by_time[0].due if self._by_time else None

    def news(
        self, names: Iterable[SessionName], answer: Callable[[Pending], AnyReply | None]
    ) -> None:
        """These sessions have changed. ``answer`` gives None while a follower has to go on
        waiting."""
        for name in names:
            for parked in self._by_session.pop(name, ()):
                reply = answer(parked.pending) if parked.pending.alive else None
                if reply is not None or not parked.pending.alive:
                    self._leave(parked)
                else:
                    self._by_session.setdefault(name, []).append(parked)
                if reply is not None:
                    parked.pending.reply(reply)
        if len(self._by_time) > 2 * self._count + 64:
            self._by_time = [p for p in self._by_time if not p.answered]
            heapq.heapify(self._by_time)

    def expire(self, now: float, answer: Callable[[Pending], AnyReply]) -> None:
        while self._by_time and self._by_time[0].due <= now:
            parked = heapq.heappop(self._by_time)
            if parked.answered:
                continue
            others = self._by_session[parked.name]
            others.remove(parked)
            if not others:
                del self._by_session[parked.name]
            self._leave(parked)
            parked.pending.reply(answer(parked.pending))

    def close(self, answer: Callable[[Pending], AnyReply]) -> None:
        for parked in self._by_time:
            if not parked.answered:
                parked.pending.reply(answer(parked.pending))
        self._by_session.clear()
        self._by_time.clear()
        self._count = 0

    def _leave(self, parked: _Parked) -> None:
        parked.answered = True
        self._count -= 1
