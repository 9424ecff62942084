"""From what a caller passes as ``timeframe`` to a range of time."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from msgspec import Struct

from neverforget.runtime.timeframe.grammar import Reading
from neverforget.runtime.timeframe.periods import Period
from neverforget.runtime.timeframe.phrases import Bounds, Phrase
from neverforget.runtime.timeframe.reckoning import Here, NoSuchTime, Span, begin_of, lasting
from neverforget.runtime.timeframe.table import GRAMMAR
from neverforget.runtime.timeframe.words import Token, tokens
from neverforget.runtime.times import from_us, to_us
from neverforget.storage.errors import InvalidArgument

EXAMPLES = (
    "say for example 'today', 'last week', '5 days ago', 'last 24 hours', 'since monday', "
    "'before yesterday', 'between march and may', 'march 2025', '2025-11-28', or pass a date or a "
    "pair (start, stop) of aware datetimes; leave timeframe out for all time"
)
PHRASE_CHARACTERS_MAX = 200

_SEASONS = frozenset({"spring", "summer", "autumn", "fall", "winter", "springtime", "summertime"})
_VAGUE = frozenset({"recently", "lately", "recent", "while", "soon", "other", "ages"})
_MIXED_DATE = re.compile(r"\d{1,2}[/.]\d{1,2}[/.]\d{2,4}|\d{1,2}-\d{1,2}-\d{2,4}")
_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})")


class Range(Struct, frozen=True):
    """From ``start`` up to, and without, ``stop``: aware UTC datetimes, None is open.

    ``str`` of it, like ``2026-03-02T00:00:00+00:00..2026-03-09T00:00:00+00:00``, is a timeframe
    again.
    """

    start: datetime | None
    stop: datetime | None

    def __contains__(self, at: datetime) -> bool:
        return (self.start is None or self.start <= at) and (self.stop is None or at < self.stop)

    def __str__(self) -> str:
        return "..".join("" if at is None else at.isoformat() for at in (self.start, self.stop))


def resolve(timeframe: Any, *, now: datetime, tz: tzinfo | str) -> Range | None:
    """The range that ``timeframe`` means at ``now`` in ``tz``; None, which is all time, for None
    alone or a pair of two.

    It may be an English phrase (see ``table``), ISO 8601 text, a date (that local day), an aware
    datetime (as long as it is exact: a second, or a microsecond), a ``Range``, or a pair
    ``(start, stop)``, also as text ``start..stop``. An end of a pair is an aware datetime, ISO 8601
    text, a date or phrase (where it begins), whole milliseconds since 1970, or None for open.
    Times without an offset in text are local; naive datetimes are refused.

    InvalidArgument for a phrase that is not understood, times that do not exist or lie outside the
    years 1 to 9999, and a range that ends before it begins.
    """
    if timeframe is None:
        return None
    here = here_at(now, tz)
    try:
        return _resolve(timeframe, here)
    except NoSuchTime as error:
        raise InvalidArgument(f"timeframe {timeframe!r} is no time: {error}") from None
    except OverflowError:
        raise InvalidArgument(
            f"timeframe {timeframe!r} reaches outside the years 1 to 9999"
        ) from None


def here_at(now: Any, tz: Any) -> Here:
    """InvalidArgument for a naive ``now`` and an unknown zone."""
    if not isinstance(now, datetime) or now.utcoffset() is None:
        raise InvalidArgument(
            f"now is {now!r}; pass an aware datetime, e.g. datetime.now(timezone.utc)"
        )
    zone = zone_of(tz)
    try:
        return Here.at(now, zone)
    except OverflowError:
        raise InvalidArgument(f"now is {now!r}, in {tz} outside the years 1 to 9999") from None


def zone_of(tz: Any) -> tzinfo:
    """A tzinfo, the name of a zone ("Europe/Paris", "UTC"), or an offset ("+05:30")."""
    if isinstance(tz, tzinfo):
        return tz
    if not isinstance(tz, str):
        raise InvalidArgument(f"tz is {tz!r}; pass the name of a zone or a tzinfo")
    if tz.upper() in ("UTC", "Z"):
        return UTC  # also where no zone files are installed
    offset = _OFFSET.fullmatch(tz)
    try:
        if offset:
            size = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
            return timezone(-size if offset[1] == "-" else size)
        return ZoneInfo(tz)
    except (KeyError, ValueError, OSError):
        raise InvalidArgument(
            f"tz is {tz!r}, which is no time zone known here; pass a name such as 'Europe/Paris' "
            "or 'UTC', an offset such as '+05:30', or a tzinfo"
        ) from None


def _resolve(timeframe: Any, here: Here) -> Range | None:
    if isinstance(timeframe, Range):
        return _pair((timeframe.start, timeframe.stop), here)
    if isinstance(timeframe, str):
        text = timeframe.strip()
        ends = text.split("..")
        if len(ends) == 2 and text.strip(". "):
            return _pair([end.strip() or None for end in ends], here)
        return range_of(read(text), here)
    if isinstance(timeframe, datetime):
        start = from_us(to_us(timeframe, "timeframe"))
        exact = timedelta(microseconds=1) if start.microsecond else timedelta(seconds=1)
        return bounded((start, lasting(start, exact, here)), here)
    if isinstance(timeframe, date):
        return range_of(read(timeframe.isoformat()), here)
    if isinstance(timeframe, tuple | list) and len(timeframe) == 2:
        return _pair(timeframe, here)
    raise InvalidArgument(
        f"timeframe is {timeframe!r}, a {type(timeframe).__name__}, and cannot be read; {EXAMPLES}"
    )


def _pair(ends: Any, here: Here) -> Range | None:
    start, stop = (
        _end(end, here, f"the {name} of timeframe") for end, name in zip(ends, ("start", "stop"))
    )
    if start is None and stop is None:
        return None
    return bounded((start, stop), here)


def _end(end: Any, here: Here, where: str) -> datetime | None:
    if end is None:
        return None
    if isinstance(end, str):
        return begin_of(_period(end.strip(), here))
    if isinstance(end, date) and not isinstance(end, datetime):
        return datetime(end.year, end.month, end.day)
    return from_us(to_us(end, where))


def _period(text: str, here: Here) -> Span:
    found = _whole_reading(text, "PERIOD")
    assert isinstance(found, Period)
    return found.at(here)


def read(text: str) -> Phrase:
    """InvalidArgument, which names what was not understood, unless all of it is a phrase."""
    found = _whole_reading(text, "TIMEFRAME")
    assert isinstance(found, Phrase)
    return found


def _whole_reading(text: str, symbol: str) -> Any:
    if len(text) > PHRASE_CHARACTERS_MAX:
        raise InvalidArgument(
            f"timeframe {text[:60]!r}... is no time phrase: it has {len(text)} characters, and a "
            f"phrase at most {PHRASE_CHARACTERS_MAX}; {EXAMPLES}"
        )
    words = tokens(text)
    while words and words[-1].text in (".", "?", "!"):
        words.pop()
    reading = Reading(GRAMMAR, words)
    for end, meaning in reading.read(symbol, 0):
        if end == len(words):
            return meaning
    raise InvalidArgument(_not_understood(text, words, reading.furthest))


def _not_understood(text: str, words: list[Token], furthest: int) -> str:
    if not words:
        return f"timeframe {text!r} is empty; {EXAMPLES}"
    if furthest >= len(words):
        return f"timeframe {text!r} is not complete; {EXAMPLES}"
    unknown = text[words[furthest].start : words[-1].stop]
    if text.lower() == "auto":
        reason = "is for queries: pass it to recall, which takes the phrase out of the query"
    elif _SEASONS & {word.text for word in words}:
        reason = "names a season, which differs between the hemispheres; name its months"
    elif any(_MIXED_DATE.fullmatch(word.text) for word in words):
        reason = "can be read as day or as month first; write 2025-11-28 or 28 November 2025"
    elif _VAGUE & {word.text for word in words}:
        reason = "does not say how long; say 'last 7 days'"
    else:
        reason = "is no time phrase" if unknown == text else f"was not understood at {unknown!r}"
    return f"timeframe {text!r} {reason}; {EXAMPLES}"


def range_of(phrase: Phrase, here: Here) -> Range:
    """What a phrase means here. NoSuchTime and OverflowError where it means nothing."""
    return bounded(phrase.bounds(here), here)


def bounded(bounds: Bounds, here: Here) -> Range:
    start, stop = (None if at is None else here.utc(at) for at in bounds)
    if start is not None and stop is not None and start >= stop:
        what = "is a moment, not a span" if start == stop else "ends before it begins"
        raise NoSuchTime(f"{start.isoformat()} to {stop.isoformat()} {what}")
    return Range(start, stop)
