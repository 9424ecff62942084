"""What prepositions make of periods: since, before, until, after, between, from ... to.

A phrase gives its two bounds; None is open. A relative period that has begun ends now, one that was
said with its year is taken whole. "until" takes in the day, week or month it names, as "to" and
"and" do; "before" and "since" turn on its beginning, "after" on its end.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct

from neverforget.runtime.timeframe.names import date_in, plain_date
from neverforget.runtime.timeframe.periods import Period, distant, rolling, unit_at
from neverforget.runtime.timeframe.reckoning import (
    Here,
    Quantity,
    begin_of,
    no_such,
    shift_by,
    start_of,
)
from neverforget.runtime.timeframe.words import MonthName

Bounds = tuple[datetime | None, datetime | None]


class Phrase(Struct, frozen=True):
    """A whole time phrase: ``sure`` if its words can mean nothing else in running text."""

    bounds: Callable[[Here], Bounds]
    sure: bool


def framed(word: str, period: Period) -> Phrase:
    """In, on, during, ... a period."""

    def bounds(here: Here) -> Bounds:
        span = period.at(here)
        return span.start, span.close(here)

    return Phrase(bounds, period.framed_by(word))


def plain(period: Period) -> Phrase:
    return framed("", period)


def since(period: Period) -> Phrase:
    """Until now; open where that has not come yet."""

    def bounds(here: Here) -> Bounds:
        begin = begin_of(period.at(here))
        return begin, here.now if here.utc(begin) < here.now else None

    return Phrase(bounds, period.trusted("since"))


def starting(period: Period) -> Phrase:
    """From Monday. In running text "from last week" is where something comes from."""
    return Phrase(since(period).bounds, sure=False)


def after(period: Period) -> Phrase:
    """From the end of the latest that is over until now; open where it is not over yet."""

    def bounds(here: Here) -> Bounds:
        span = period.complete(here)
        end = span.moment or span.stop or no_such("nothing comes after it")
        return end, here.now if here.utc(end) < here.now else None

    return Phrase(bounds, period.trusted("after"))


def before(period: Period) -> Phrase:
    return Phrase(lambda here: (None, begin_of(period.at(here))), period.trusted("before"))


def until(period: Period) -> Phrase:
    return Phrase(lambda here: (None, period.at(here).end(here)), period.trusted("until"))


def between(first: Period, last: Period) -> Phrase:
    """Either may be the earlier one."""
    return Phrase(
        lambda here: _from_to(first, last, here, either_way=True),
        first.trusted("between") and last.trusted("between"),
    )


def from_to(first: Period, last: Period) -> Phrase:
    return Phrase(
        lambda here: _from_to(first, last, here, either_way=False),
        first.trusted("between") and last.trusted("between"),
    )


def to(first: Period, last: Period) -> Phrase:
    """Without "from": monday to friday."""
    return Phrase(from_to(first, last).bounds, first.needs is None and last.needs is None)


def _from_to(first: Period, last: Period, here: Here, *, either_way: bool) -> Bounds:
    """The end is the latest one, and a named beginning the one before it. Where only the end is
    named it is the first one after the beginning, if that has begun or nothing else makes sense.
    """
    end = last.at(here)
    begin = first.latest(here, start_of(end))
    if last.named and not first.named:
        following = last.first(here, start_of(begin))
        backwards = here.utc(start_of(end)) < here.utc(start_of(begin))
        if here.utc(start_of(following)) < here.now or (backwards and not either_way):
            end = following
    if either_way and here.utc(begin_of(end)) < here.utc(begin_of(begin)):
        begin, end = end, begin
    return begin_of(begin), end.end(here)


def counts_ago(one: int, other: int, unit: str) -> Phrase:
    """Between three and five days ago."""
    first, last = (distant(-1, ((count, unit),)) for count in sorted((one, other), reverse=True))
    return from_to(first, last)


def days_in_month(first: int, last: int, name: MonthName, year: Period | None = None) -> Phrase:
    """From 3 to 5 March; without a year the latest."""

    def day(number: int) -> Period:
        return plain_date(name, number) if year is None else date_in(name, number, year)

    return from_to(day(first), day(last))


def month_days(name: MonthName, first: int, last: int, year: Period | None = None) -> Phrase:
    """March 3 to 5."""
    phrase = days_in_month(first, last, name, year)
    return Phrase(phrase.bounds, phrase.sure and (name.sure or year is not None))


def more_than_ago(quantity: Quantity) -> Phrase:
    return Phrase(lambda here: (None, shift_by(here.now, -1, quantity, here)), True)


def less_than_ago(quantity: Quantity) -> Phrase:
    return plain(rolling(quantity))


def hence(quantity: Quantity) -> Phrase:
    """In three days; also how long something takes."""
    return Phrase(plain(distant(1, quantity)).bounds, sure=False)


def to_date(unit: str) -> Phrase:
    """Year to date."""
    return plain(unit_at(0, unit))
