"""Calendar arithmetic for time phrases: walls and instants, whole units, shifts.

An edge of a span of time is either a wall time (a naive datetime: what a clock in the zone shows)
or an instant (aware). Days and longer units are reckoned on the wall, so a day runs from local
midnight to local midnight and may have 23 or 25 hours; hours and shorter units are reckoned on the
time line. Weeks start on Monday. Walls become instants in one place, ``Here.utc``, which never
turns two walls around.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NoReturn

from msgspec import Struct

from neverforget.runtime.times import FIRST, LAST

CLOCK_UNITS = {
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
}
DAY_UNITS = {"day": 1, "week": 7}
MONTH_UNITS = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
UNITS = (*CLOCK_UNITS, *DAY_UNITS, *MONTH_UNITS)  # shortest first

Quantity = tuple[tuple[int, str], ...]  # (2, "hour"), (30, "minute")
DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)


class NoSuchTime(ValueError):
    """Well said, but there is no such time: 30 February, a year 10000."""


def no_such(reason: str) -> NoReturn:
    raise NoSuchTime(reason)


class Here(Struct, frozen=True):
    """The moment and the place from which a phrase is seen: ``now`` in UTC, and ``wall``, what the
    clock in ``zone`` shows then.
    """

    now: datetime
    zone: tzinfo
    wall: datetime

    @classmethod
    def at(cls, now: datetime, zone: tzinfo) -> Here:
        utc = now.astimezone(UTC)
        return cls(utc, zone, utc.astimezone(zone).replace(tzinfo=None, fold=0))

    @property
    def today(self) -> datetime:
        return floor("day", self.wall)

    def on_wall(self, edge: datetime) -> datetime:
        if edge.tzinfo is None:
            return edge
        return edge.astimezone(self.zone).replace(tzinfo=None, fold=0)

    def utc(self, edge: datetime) -> datetime:
        """The first instant at which the clock shows ``edge`` or more: a wall that occurs twice is
        its first occurrence, one that clocks skip is the moment of the skip. What is outside the
        years 1 to 9999 in UTC becomes their edge.
        """
        if edge.tzinfo is not None:
            return edge.astimezone(UTC)
        try:
            after = edge.replace(tzinfo=self.zone, fold=0).astimezone(UTC)
        except OverflowError:
            return FIRST if edge.year == 1 else LAST
        if self.on_wall(after) == edge:
            return after
        before = edge.replace(tzinfo=self.zone, fold=1).astimezone(UTC)
        low, high = before.replace(microsecond=0), after.replace(microsecond=0)
        while high - low > _SECOND:
            middle = (low + (high - low) / 2).replace(microsecond=0)
            if self.on_wall(middle) < edge:
                low = middle
            else:
                high = middle
        return high


class Span(Struct, frozen=True):
    """From ``start`` up to, and without, ``stop``; None is open.

    ``moment`` is the exact instant that was meant, where one was ("3 hours ago"): as an end of a
    longer span it counts, not the unit around it. A ``relative`` span that has begun ends now.
    """

    start: datetime | None
    stop: datetime | None
    moment: datetime | None = None
    relative: bool = False

    def begin(self) -> datetime | None:
        """Where a longer span that starts with this one starts."""
        return self.moment or self.start

    def end(self, here: Here) -> datetime | None:
        """Where a longer span that stops with this one stops."""
        return self.moment or self.close(here)

    def close(self, here: Here) -> datetime | None:
        """``stop``, but now for a relative span in which now lies."""
        begun = self.start is None or here.utc(self.start) < here.now
        over = self.stop is not None and here.utc(self.stop) <= here.now
        return here.now if self.relative and begun and not over else self.stop


def start_of(span: Span) -> datetime:
    return span.start or no_such("it has no beginning")


def begin_of(span: Span) -> datetime:
    return span.begin() or no_such("it has no beginning")


def floor(unit: str, wall: datetime) -> datetime:
    """The wall at which the day, week, ... of ``wall`` begins."""
    day = wall.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "day":
        return day
    if unit == "week":
        return day - timedelta(days=day.weekday())
    if unit == "month":
        return day.replace(day=1)
    if unit == "quarter":
        return day.replace(day=1, month=day.month - (day.month - 1) % 3)
    if unit == "year":
        return day.replace(day=1, month=1)
    assert unit == "decade", unit
    # There is no year 0, so the first decade has nine years.
    return day.replace(day=1, month=1, year=max(1, day.year - day.year % 10))


def shift(edge: datetime, count: int, unit: str, here: Here) -> datetime:
    """``count`` units later, or earlier. The same day of another month, or that month's last.
    OverflowError outside the years 1 to 9999.
    """
    if unit in CLOCK_UNITS:
        return here.utc(edge) + count * CLOCK_UNITS[unit]
    wall = here.on_wall(edge)
    if unit in DAY_UNITS:
        return wall + timedelta(days=count * DAY_UNITS[unit])
    months = wall.year * 12 + wall.month - 1 + count * MONTH_UNITS[unit]
    year, month = months // 12, months % 12 + 1
    if not 1 <= year <= 9999:
        raise OverflowError("date value out of range")
    return wall.replace(year=year, month=month, day=min(wall.day, monthrange(year, month)[1]))


def shift_by(edge: datetime, sign: int, quantity: Quantity, here: Here) -> datetime:
    """By all of a quantity, the longest unit first: months, then days, then hours."""
    for count, unit in sorted(quantity, key=lambda part: -UNITS.index(part[1])):
        edge = shift(edge, sign * count, unit, here)
    return edge


def later(start: datetime, count: int, unit: str, here: Here) -> datetime | None:
    """As ``shift``, but None, which is open, where the calendar ends with the year 9999."""
    try:
        return shift(start, count, unit, here)
    except OverflowError:
        return None


def lasting(start: datetime, size: timedelta, here: Here) -> datetime | None:
    """So much later on the time line; None where the calendar ends."""
    try:
        return here.utc(start) + size
    except OverflowError:
        return None


def whole(unit: str, edge: datetime, here: Here, *, relative: bool = False) -> Span:
    """The minute, hour, day, week, ... in which ``edge`` lies."""
    if unit in CLOCK_UNITS:
        instant = here.utc(edge)
        wall = here.on_wall(instant)
        start = instant - timedelta(
            minutes=wall.minute if unit == "hour" else 0,
            seconds=wall.second if unit != "second" else 0,
            microseconds=wall.microsecond,
        )
        return Span(start, start + CLOCK_UNITS[unit], relative=relative)
    start = floor(unit, here.on_wall(edge))
    return Span(start, later(start, 1, unit, here), relative=relative)


def day_of(year: int, month: int, day: int) -> datetime:
    """Local midnight of that day; NoSuchTime for 30 February."""
    try:
        return datetime(year, month, day)
    except ValueError:
        raise NoSuchTime(f"there is no day {year:04}-{month:02}-{day:02}") from None
