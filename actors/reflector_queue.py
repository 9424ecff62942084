"""Whose turn it is: sessions in a row, one window each time, so that a giant one does not keep the
small ones waiting. Not safe for threads; who uses it holds a lock.

A session is in the row once, however many ask for it, and while one works on it it is in the row
for nobody else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from neverforget.actors.reflector_calls import Place
from neverforget.storage.reflection_results import DueSession


@dataclass
class RunPart:
    """What a run wants of one session: turns below ``until`` that are not done, from ``floor`` on,
    below which it has given up.
    """

    until: int
    counted: int  # of its turns, in what the run says there is to do
    floor: int = 0
    done: int = 0


@dataclass(eq=False)
class Entry:
    """``automatic``: its partition said that it is due; ``due``: what it said, until that is used.
    ``runs``: who asked for it. ``tries`` of the window ``range``, ``away`` of what its extractor
    asks, ``faults`` of others. ``not_before``: on the clock.
    """

    place: Place
    automatic: bool = False
    due: DueSession | None = None
    runs: dict[str, RunPart] = field(default_factory=dict)
    range: tuple[int, int] | None = None
    tries: int = 0
    away: int = 0
    faults: int = 0
    not_before: float = 0.0

    @property
    def wanted(self) -> bool:
        return self.automatic or bool(self.runs)

    def went_well(self) -> None:
        self.range, self.tries, self.away, self.faults, self.not_before = None, 0, 0, 0, 0.0


class FairQueue:
    def __init__(self) -> None:
        self._waiting: dict[Place, Entry] = {}  # in the order of their turns
        self._running: dict[Place, Entry] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._running)

    def entry(self, place: Place) -> Entry:
        """Its entry; where it has none, a new one at the end of the row."""
        found = self._waiting.get(place) or self._running.get(place)
        if found is None:
            found = self._waiting[place] = Entry(place)
        return found

    def is_running(self, entry: Entry) -> bool:
        return entry.place in self._running

    def take(self, now: float) -> Entry | None:
        """Whose turn it is; give it back."""
        for place, entry in self._waiting.items():
            if entry.not_before <= now:
                del self._waiting[place]
                self._running[place] = entry
                return entry
        return None

    def give_back(self, entry: Entry) -> None:
        """To the end of the row, if anybody wants it still."""
        del self._running[entry.place]
        if entry.wanted:
            self._waiting[entry.place] = entry

    def waiting(self) -> list[Entry]:
        return list(self._waiting.values())

    def entries(self) -> list[Entry]:
        return [*self._waiting.values(), *self._running.values()]

    def leave_out(self) -> None:
        """Those whom nobody wants any more."""
        self._waiting = {place: each for place, each in self._waiting.items() if each.wanted}

    def next_at(self) -> float | None:
        """When the next one may be taken; None: there is none."""
        return min((entry.not_before for entry in self._waiting.values()), default=None)
