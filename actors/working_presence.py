"""Which member of a working memory is the active one, and who stands by.

The first in line that was seen within the last ``SEEN_S`` is active. Who is silent for longer is
overtaken by the first that is not, and stands behind the others when it comes back. Nobody knows
who was seen before the owner started: all count as seen then. Pure but for what it remembers; all
of it is gone with the owner, and the line is that of joining again.
"""

from __future__ import annotations

from collections.abc import Iterable

SEEN_S = 30.0


class Presence:
    """Of one working memory. Times are those of ``Clock.monotonic``."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._line: dict[str, float] = {}  # members, the active one first: when each was seen
        self._said: dict[str, int] = {}  # the same in microseconds UTC

    def see(self, agent: str, now: float, at_us: int, members: Iterable[str]) -> None:
        """Somebody asked; nothing is kept of who is no member."""
        self.active(now, members)
        if agent in self._line:
            self._line[agent] = now
            self._said[agent] = at_us

    def seen_at(self, agent: str) -> int | None:
        return self._said.get(agent)

    def active(self, now: float, members: Iterable[str]) -> str | None:
        """Who is, of these ``members``; None where there are none."""
        self._follow(now, members)
        silent = []
        for agent, seen in self._line.items():
            if now - seen <= SEEN_S:
                break
            silent.append(agent)
        if len(silent) < len(self._line):  # else nobody is there to take over
            for agent in silent:
                self._line[agent] = self._line.pop(agent)
        return next(iter(self._line), None)

    def _follow(self, now: float, members: Iterable[str]) -> None:
        wanted = list(members)
        known = set(wanted)
        for agent in [agent for agent in self._line if agent not in known]:
            del self._line[agent]
            self._said.pop(agent, None)
        first = not self._line
        for agent in wanted:
            self._line.setdefault(agent, self._since if first else now)
