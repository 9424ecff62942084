"""Periods that are measured: parts of days, clock times, ISO 8601, and what lies next to a period.

Builders called by the table; each gives a ``Period``. What can fail (25:00) fails when the period
is looked at, never while a phrase is being read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from neverforget.runtime.timeframe.periods import IN, NEVER, ON, Period, fixed, refined, unit_at
from neverforget.runtime.timeframe.reckoning import (
    CLOCK_UNITS,
    DAY,
    UNITS,
    Here,
    NoSuchTime,
    Quantity,
    Span,
    begin_of,
    floor,
    lasting,
    later,
    no_such,
    shift_by,
    start_of,
    whole,
)
from neverforget.runtime.timeframe.words import PARTS

# ---- parts of days -------------------------------------------------------------------------------


def part_of(day: Period, part: str) -> Period:
    def change(here: Here, span: Span) -> Span:
        first, last = (timedelta(hours=hour) for hour in PARTS[part])
        start = floor("day", start_of(span))
        return Span(start + first, start + last, relative=span.relative)

    return refined(day, change, day.needs, day.frames)


def part_of_day(part: str, day: Period) -> Period:
    """The morning of 8 May."""
    of = part_of(day, part)
    return refined(of, lambda here, span: span, day.needs, IN | ON)


def this_night() -> Period:
    """Before six in the morning it is still the night of yesterday."""
    day = fixed(lambda here: unit_at(-1 if here.wall.hour < 6 else 0, "day").at(here))
    return part_of(day, "night")


# ---- clock times ---------------------------------------------------------------------------------

_CLOCK = re.compile(r"(\d{1,2})(?::(\d{2}))?(?::(\d{2}))?([ap])?m?")


def clock_of(day: Period, word: str) -> Period:
    """3pm is that hour, 15:30 that minute, 15:30:10 that second; as an end of a longer span each
    is the moment.
    """

    def change(here: Here, span: Span) -> Span:
        offset, unit = _clock(word)
        start = floor("day", start_of(span)) + offset
        return Span(start, start + CLOCK_UNITS[unit], moment=start, relative=span.relative)

    return refined(day, change, day.needs, day.frames)


def clock_on(word: str, day: Period) -> Period:
    return clock_of(day, word)


def clock(word: str) -> Period:
    """The latest time that the clock showed this."""

    def days(here: Here, wall: datetime) -> Iterator[Span]:
        for count in (-1, 0, 1):
            day = floor("day", wall) + count * DAY
            yield Span(day, day + DAY, relative=True)

    return clock_of(Period(days, named=True, needs=NEVER), word)


def _clock(word: str) -> tuple[timedelta, str]:
    match = _CLOCK.fullmatch("12pm" if word == "noon" else word)
    if match is None:  # 3pm am
        no_such(f"no clock shows {word}")
    hour, minute, second = (int(digits or 0) for digits in match.group(1, 2, 3))
    half = match[4]
    if half and 1 <= hour <= 12:
        hour = hour % 12 + (12 if half == "p" else 0)
    elif half or hour > 23:
        no_such(f"no clock shows {word}")
    if minute > 59 or second > 59:
        no_such(f"no clock shows {word}")
    unit = "second" if match[3] else "minute" if match[2] else "hour"
    return timedelta(hours=hour, minutes=minute, seconds=second), unit


# ---- ISO 8601 ------------------------------------------------------------------------------------


def iso(unit: str, word: str, needs: frozenset[str] | None = None) -> Period:
    """A whole day, month, week or quarter."""

    def find(here: Here) -> Span:
        digits = re.sub(r"\D", "", word)
        try:
            if unit == "week":
                start = datetime.fromisocalendar(int(digits[:4]), int(digits[4:]), 1)
            else:
                number = int(digits[4:6])
                first = 3 * number - 2 if unit == "quarter" else number
                start = datetime(int(digits[:4]), first, int(digits[6:] or 1))
        except ValueError as error:
            raise NoSuchTime(f"there is no {unit} {word}: {error}") from None
        return whole(unit, start, here)

    return fixed(find, needs, ON if unit == "day" else IN)


_INSTANT = re.compile(
    r"(\d{4}-\d{2}-\d{2})[t ](\d{2})(?::?(\d{2}))?(?::?(\d{2}))?(?:[.,](\d{1,9}))?"
    r"(z|[+-]\d{2}(?::?\d{2})?)?"
)


def instant(word: str) -> Period:
    """As long as it is exact: that minute, that second, that microsecond. Without an offset it is
    the time on the wall.
    """

    def find(here: Here) -> Span:
        match = _INSTANT.fullmatch(word)
        assert match is not None, word
        day, hour, minute, second, fraction, offset = match.groups()
        micros = f".{(fraction + '00000')[:6]}" if fraction else ""
        text = f"{day}T{hour}:{minute or '00'}:{second or '00'}{micros}{(offset or '').upper()}"
        try:
            start = datetime.fromisoformat(text)
        except ValueError as error:
            raise NoSuchTime(f"there is no time {word}: {error}") from None
        size = timedelta(microseconds=1)
        if not fraction:
            size = CLOCK_UNITS["second" if second else "minute" if minute else "hour"]
        return Span(start, lasting(start, size, here), moment=start)

    return fixed(find, None, ON)


# ---- neighbours ----------------------------------------------------------------------------------


def before(quantity: Quantity, of: Period) -> Period:
    """The day before X, the two weeks before X: so long until X begins."""

    def find(here: Here) -> Span:
        base = begin_of(of.at(here))
        return Span(shift_by(base, -1, quantity, here), base, relative=True)

    return fixed(find, None if of.trusted("before") else NEVER, IN | ON)


def after(quantity: Quantity, of: Period) -> Period:
    """The week after X: so long from the end of X."""

    def find(here: Here) -> Span:
        span = of.at(here)
        base = span.moment or span.stop
        if base is None:
            return no_such("nothing comes after it")
        return Span(base, shift_by(base, 1, quantity, here), relative=True)

    return fixed(find, None if of.trusted("after") else NEVER, IN | ON)


def away(quantity: Quantity, sign: int, of: Period) -> Period:
    """Two days before X: the one day at that distance from the beginning of X."""
    unit = min((unit for _, unit in quantity), key=UNITS.index)

    def find(here: Here) -> Span:
        start = shift_by(begin_of(of.at(here)), sign, quantity, here)
        return Span(start, later(start, 1, unit, here), relative=True)

    return fixed(find, None if of.trusted("before" if sign < 0 else "after") else NEVER, IN | ON)
