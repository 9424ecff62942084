"""What a part of a phrase stands for before it is seen from anywhere, and the simplest of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from msgspec import Struct

from neverforget.runtime.timeframe.reckoning import (
    CLOCK_UNITS,
    UNITS,
    Here,
    NoSuchTime,
    Quantity,
    Span,
    shift,
    shift_by,
    start_of,
    whole,
)

NEVER: frozenset[str] = frozenset()
DURING = frozenset({"", "during", "throughout"})
ON = DURING | {"on"}
IN = DURING | {"in"}
WITHIN = IN | {"within", "over", "for"}


class Period(Struct, frozen=True):
    """A span of time as it was said.

    A fixed one ("yesterday", "March 2025") has one span at most. A named one ("March", "Monday",
    "8 May") recurs: ``spans(here, wall)`` gives its occurrences around a wall time, in order, and
    the latest one that has begun is meant; of days of the week the latest before today, because
    today is called today (``today_counts``).

    ``needs`` says when the words are a time phrase in running text: None always, otherwise after
    one of these words ("in March", but not "march"). ``frames`` are the prepositions that belong to
    them even then: "on" goes with 8 May 2023, but in "working on yesterday" it is the verb's.
    """

    spans: Callable[[Here, datetime], Iterator[Span]]
    named: bool = False
    today_counts: bool = True
    needs: frozenset[str] | None = None
    frames: frozenset[str] = DURING

    def at(self, here: Here) -> Span:
        if not self.named:
            return self._last(here, here.wall, lambda span: True)
        return self.latest(here, here.now if self.today_counts else here.today)

    def latest(self, here: Here, limit: datetime) -> Span:
        """The last one that starts before ``limit``."""
        if not self.named:
            return self.at(here)
        bound = here.utc(limit)
        return self._last(here, here.on_wall(limit), lambda span: _before(span.start, bound, here))

    def complete(self, here: Here) -> Span:
        """The last one that is over."""
        if not self.named:
            return self.at(here)
        return self._last(
            here, here.wall, lambda span: span.stop is not None and here.utc(span.stop) <= here.now
        )

    def first(self, here: Here, limit: datetime) -> Span:
        """The first one that starts at ``limit`` or later."""
        if not self.named:
            return self.at(here)
        bound = here.utc(limit)
        for span in self.spans(here, here.on_wall(limit)):
            if not _before(span.start, bound, here):
                return span
        raise NoSuchTime("there is no such time")

    def trusted(self, word: str) -> bool:
        """Whether the words are a time phrase when ``word`` stands before them."""
        return self.needs is None or word in self.needs

    def framed_by(self, word: str) -> bool:
        """Whether ``word``, or no word, and what follows are one phrase and nothing else."""
        return word in (self.frames if self.needs is None else self.needs)

    def _last(self, here: Here, wall: datetime, fits: Callable[[Span], bool]) -> Span:
        found = [span for span in self.spans(here, wall) if fits(span)]
        if not found:
            raise NoSuchTime("there is no such time")
        return found[-1]


def _before(start: datetime | None, bound: datetime, here: Here) -> bool:
    return start is None or here.utc(start) < bound


def fixed(
    find: Callable[[Here], Span],
    needs: frozenset[str] | None = None,
    frames: frozenset[str] = DURING,
) -> Period:
    return Period(lambda here, wall: iter((find(here),)), needs=needs, frames=frames)


def unit_at(count: int, unit: str, needs: frozenset[str] | None = None) -> Period:
    """The whole unit that lies ``count`` units from now: (-1, "week") is last week."""
    return fixed(
        lambda here: whole(
            unit,
            # From the beginning of the unit, so that no month is skipped on its 31st.
            shift(start_of(whole(unit, here.now, here)), count, unit, here),
            here,
            relative=True,
        ),
        needs,
    )


def rolling(quantity: Quantity, needs: frozenset[str] | None = None) -> Period:
    """So long until now."""
    return fixed(
        lambda here: Span(shift_by(here.now, -1, quantity, here), here.now, relative=True),
        needs,
        WITHIN,
    )


def ahead(quantity: Quantity) -> Period:
    """So long from now."""
    return fixed(lambda here: Span(here.now, shift_by(here.now, 1, quantity, here)))


def distant(sign: int, quantity: Quantity) -> Period:
    """The whole unit in which the moment lies that is so far from now: three days ago is that day.
    Of several units the shortest one: 1 year and 2 months ago is that month.
    """
    unit = min((unit for _, unit in quantity), key=UNITS.index)

    def find(here: Here) -> Span:
        moment = shift_by(here.now, sign, quantity, here)
        span = whole(unit, moment, here, relative=True)
        exact = here.utc(moment) if unit in CLOCK_UNITS else None
        return Span(span.start, span.stop, exact, relative=True)

    return fixed(find)


def refined(
    period: Period,
    change: Callable[[Here, Span], Span],
    needs: frozenset[str] | None,
    frames: frozenset[str] = DURING,
) -> Period:
    """The same period, with each of its spans changed: of a day, its morning."""
    return Period(
        lambda here, wall: (change(here, span) for span in period.spans(here, wall)),
        named=period.named,
        today_counts=period.today_counts,
        needs=needs,
        frames=frames,
    )
