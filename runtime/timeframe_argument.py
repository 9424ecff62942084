"""``timeframe`` as an argument: None, a phrase, a date, a pair, or what a recall gave back. The
grammar of phrases is loaded at the first one that is not None.
"""

from __future__ import annotations

from datetime import date, datetime, tzinfo
from typing import TYPE_CHECKING, Any

from neverforget.runtime.memory_values import Timeframe
from neverforget.runtime.times import Moment, from_us, to_us
from neverforget.storage.clock import Clock

if TYPE_CHECKING:
    from neverforget.runtime.timeframe import Range

TimeframeLike = (
    str | date | datetime | Timeframe | tuple[Moment | date | None, Moment | date | None] | None
)
RangeUs = tuple[int | None, int | None]


def resolved_us(
    timeframe: Any, *, clock: Clock, tz: str | tzinfo, now: datetime | None = None
) -> RangeUs | None:
    """[start, stop) in microseconds; None is all time. InvalidArgument, never all time, for what
    is not understood.
    """
    if timeframe is None:
        return None
    from neverforget.runtime.timeframe import resolve

    if isinstance(timeframe, Timeframe):
        timeframe = (timeframe.start, timeframe.stop)
    return range_us(resolve(timeframe, now=now or from_us(clock.now_us()), tz=tz))


def taken_from(
    query: str, *, clock: Clock, tz: str | tzinfo, now: datetime | None = None
) -> tuple[RangeUs | None, str | None, str]:
    """``timeframe="auto"``: the range of the query's time phrase, the phrase, and what to search. A
    query of nothing but a phrase is searched whole.
    """
    from neverforget.runtime.timeframe import take

    found, phrase, rest = take(query, now=now or from_us(clock.now_us()), tz=tz)
    return range_us(found), phrase, rest if rest.strip() else query


def range_us(found: Range | None) -> RangeUs | None:
    if found is None:
        return None
    start = None if found.start is None else to_us(found.start, "timeframe")
    return start, None if found.stop is None else to_us(found.stop, "timeframe")
