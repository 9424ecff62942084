"""Periods that have names: years, quarters, months, days of the week, dates.

Builders called by the table; each gives a ``Period``. What can fail (30 February) fails when the
period is looked at, never while a phrase is being read.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from neverforget.runtime.timeframe.periods import IN, NEVER, ON, Period, fixed, refined, unit_at
from neverforget.runtime.timeframe.reckoning import (
    DAY,
    Here,
    NoSuchTime,
    Span,
    day_of,
    floor,
    later,
    no_such,
    shift,
    start_of,
    whole,
)
from neverforget.runtime.timeframe.words import MonthName, WeekdayName

_ON_NEEDED = frozenset({"on", "since", "before", "after", "until", "between"})
IN_NEEDED = frozenset({"in", "during", "since", "before", "after", "until", "between"})
_OVER = frozenset({"over", "on", "during"})
DAYS_MAX = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_LEAP_YEARS = 8  # 29 February is never further away


def _in_all_years(here: Here, wall: datetime, month: int, day: int, unit: str) -> Iterator[Span]:
    if day > DAYS_MAX[month - 1]:
        no_such(f"no month {month} has a day {day}")
    for year in range(max(1, wall.year - _LEAP_YEARS), min(9999, wall.year + _LEAP_YEARS) + 1):
        try:
            start = day_of(year, month, day)
        except NoSuchTime:
            continue
        yield Span(start, later(start, 1, unit, here), relative=True)


# ---- years, quarters, months ---------------------------------------------------------------------


def year(number: int) -> Period:
    """The whole year. Not every number that stands after "in" is a year."""
    return fixed(
        lambda here: whole("year", day_of(number, 1, 1), here),
        IN_NEEDED if 1900 <= number <= 2099 else NEVER,
        IN,
    )


def decade(word: str) -> Period:
    return fixed(lambda here: whole("decade", day_of(max(1, int(word[:4])), 1, 1), here), IN_NEEDED)


def needing(period: Period, needs: frozenset[str] | None) -> Period:
    return refined(period, lambda here, span: span, needs, period.frames)


def month(name: MonthName) -> Period:
    return Period(
        lambda here, wall: _in_all_years(here, wall, name.number, 1, "month"),
        named=True,
        needs=NEVER if name.short else IN_NEEDED,
    )


def last_month(name: MonthName) -> Period:
    """The latest one before this month."""
    return fixed(
        lambda here: month(name).latest(here, floor("month", here.wall)),
        NEVER if name.short else None,
    )


def this_month(name: MonthName) -> Period:
    return month_of(name, unit_at(0, "year"), None if name.sure else NEVER)


def next_month(name: MonthName) -> Period:
    return fixed(
        lambda here: month(name).first(here, shift(floor("month", here.wall), 1, "month", here))
    )


def month_of(name: MonthName, of: Period, needs: frozenset[str] | None = None) -> Period:
    def change(here: Here, span: Span) -> Span:
        start = day_of(start_of(span).year, name.number, 1)
        return Span(start, later(start, 1, "month", here), relative=span.relative)

    return refined(of, change, needs, IN)


def month_of_this_or_that(name: MonthName, of: Period) -> Period:
    """March last year. "May this year" may also begin a question."""
    return month_of(name, of, None if name.sure else NEVER if name.short else IN_NEEDED)


def quarter(number: int) -> Period:
    if not 1 <= number <= 4:
        return fixed(lambda here: no_such(f"a year has four quarters, not {number}"))
    return Period(
        lambda here, wall: _in_all_years(here, wall, 3 * number - 2, 1, "quarter"),
        named=True,
        needs=IN_NEEDED,
    )


def quarter_of(number: int, of: Period) -> Period:
    def change(here: Here, span: Span) -> Span:
        if not 1 <= number <= 4:
            return no_such(f"a year has four quarters, not {number}")
        start = day_of(start_of(span).year, 3 * number - 2, 1)
        return Span(start, later(start, 1, "quarter", here), relative=span.relative)

    return refined(of, change, None, IN)


def last_named(period: Period) -> Period:
    return fixed(period.complete)


# ---- days ----------------------------------------------------------------------------------------


def weekday(name: WeekdayName) -> Period:
    def spans(here: Here, wall: datetime) -> Iterator[Span]:
        monday = floor("week", wall)
        for week in (-7, 0, 7):
            day = monday + timedelta(days=name.number + week)
            yield Span(day, day + DAY, relative=True)

    return Period(spans, named=True, today_counts=False, needs=NEVER if name.short else _ON_NEEDED)


def last_weekday(name: WeekdayName) -> Period:
    return fixed(weekday(name).at, None if name.sure else NEVER)


def this_weekday(name: WeekdayName) -> Period:
    return needing(weekday_of(name, unit_at(0, "week")), None if name.sure else NEVER)


def next_weekday(name: WeekdayName) -> Period:
    return fixed(lambda here: weekday(name).first(here, here.today + DAY))


def weekday_of(name: WeekdayName, week: Period) -> Period:
    def change(here: Here, span: Span) -> Span:
        day = start_of(span) + timedelta(days=name.number)
        return Span(day, day + DAY, relative=True)

    return refined(week, change, None)


def weekday_in(week: Period, name: WeekdayName) -> Period:
    return weekday_of(name, week)


def date(name: MonthName, day: int) -> Period:
    """8 May: of no year, so the latest that has begun."""
    return Period(
        lambda here, wall: _in_all_years(here, wall, name.number, day, "day"),
        named=True,
        needs=None if name.sure else _ON_NEEDED,
        frames=ON,
    )


def plain_date(name: MonthName, day: int) -> Period:
    """8th of May, May 8th: nothing but a date."""
    return needing(date(name, day), None)


def spelled_date(name: MonthName, day: int) -> Period:
    """May first: also what you may do first."""
    return needing(date(name, day), _ON_NEEDED)


def date_in(name: MonthName, day: int, of: Period) -> Period:
    def change(here: Here, span: Span) -> Span:
        start = day_of(start_of(span).year, name.number, day)
        return Span(start, later(start, 1, "day", here), relative=span.relative)

    return refined(of, change, None, ON)


def on_weekday(name: WeekdayName, of: Period) -> Period:
    """Monday, May 8, 2023: a date that was such a day."""

    def spans(here: Here, wall: datetime) -> Iterator[Span]:
        seen = [span for span in of.spans(here, wall) if span.start is not None]
        right = [span for span in seen if start_of(span).weekday() == name.number]
        if seen and not right:
            raise NoSuchTime(f"{start_of(seen[-1]):%Y-%m-%d} is a {start_of(seen[-1]):%A}")
        yield from right

    return Period(spans, named=of.named, frames=ON)


def day_of_month(day: int) -> Period:
    """The 5th: the latest one that has begun."""

    def spans(here: Here, wall: datetime) -> Iterator[Span]:
        for count in range(-2, 3):
            try:
                first = shift(floor("month", wall), count, "month", here)
                start = day_of(first.year, first.month, day)
            except (NoSuchTime, OverflowError):
                continue
            yield Span(start, later(start, 1, "day", here), relative=True)

    return Period(spans, named=True, needs=NEVER)


def day_in_month(day: int, of: Period) -> Period:
    def change(here: Here, span: Span) -> Span:
        start = day_of(start_of(span).year, start_of(span).month, day)
        return Span(start, later(start, 1, "day", here), relative=span.relative)

    return refined(of, change, None, ON)


# ---- weekends ------------------------------------------------------------------------------------


def weekend() -> Period:
    """The weekend: the latest that has begun."""

    def spans(here: Here, wall: datetime) -> Iterator[Span]:
        monday = floor("week", wall)
        for week in (-7, 0, 7):
            saturday = monday + timedelta(days=5 + week)
            yield Span(saturday, saturday + 2 * DAY, relative=True)

    return Period(spans, named=True, needs=_OVER)


def weekend_ago(count: int) -> Period:
    """1 is the latest that is over."""

    def find(here: Here) -> Span:
        start = start_of(weekend().complete(here)) - timedelta(days=7 * (count - 1))
        return Span(start, start + 2 * DAY, relative=True)

    return fixed(find, None, _OVER | {""})


def weekend_of(week: Period) -> Period:
    def change(here: Here, span: Span) -> Span:
        start = start_of(span) + timedelta(days=5)
        return Span(start, start + 2 * DAY, relative=True)

    return refined(week, change, None)
