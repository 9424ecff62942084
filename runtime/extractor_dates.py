"""Says when: the time phrases of a statement, each with the date that it means.

Read with the grammar of ``timeframe`` from the moment of the turn. A phrase that names a day of the
week, a month or a date without its year is of the past in a grammar that searches memories; in a
statement about the future it is the next one, and where the statement is about neither it stays as
it is. Phrases that are already dates, moments of the same hour, and spans of whole decades get no
date beside them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, NamedTuple

from neverforget.runtime.timeframe.grammar import Reading
from neverforget.runtime.timeframe.phrases import Phrase
from neverforget.runtime.timeframe.reckoning import Here, NoSuchTime
from neverforget.runtime.timeframe.resolving import Range, here_at, range_of, read, zone_of
from neverforget.runtime.timeframe.table import GRAMMAR
from neverforget.runtime.timeframe.words import MONTHS, Token, quoted, tokens
from neverforget.runtime.times import from_us, to_us
from neverforget.storage.errors import InvalidArgument

TEXT_CHARACTERS_MAX: Final = 2_000
_DAY, _MONTH = timedelta(days=1), timedelta(days=31)
_YEARS = frozenset({"YEAR", "ISODATE", "ISOTIME", "ISOMONTH"})
_NAMED = frozenset({"WEEKDAY", "MONTH"})
_SAID = frozenset({"last", "past", "next", "this", "previous", "coming", "ago", "of"})
_EDGES = frozenset({"since", "before", "after", "until", "till", "by", "prior", "from", "between"})
_ABOUT = frozenset({"few", "couple", "several", "about", "around", "roughly", "nearly", "almost"})
_HABIT = frozenset({"every", "each", "any", "most", "some", "many", "like", "than", "half"})
_FUTURE = re.compile(
    r"\b(?:will|won't|going to|gonna|plan\w*|wanna|want to|hop(?:e|ing) to|looking forward|about to"
    r"|upcoming|let's|soon|can't wait|tomorrow|due|deadline|starts|begins|opens|book(?:ed)?"
    r"|launch(?:es)?|schedul\w+|have to|need to|should|must|see you|meeting|next"
    r"|remind\w*|appointment|(?:agreed|decided|promised|offered|invited|asked)\b[^.]{0,60}\bto"
    r"|(?:am|are|is) (?:\w+ )?\w+ing)\b|['’]ll\b|['’](?:m|re) (?:\w+ )?\w+ing\b",
    re.IGNORECASE,
)
_PAST = re.compile(
    r"\b(?:was|were|had|did|didn't|went|got|came|saw|met|made|took|bought|found|told|said|gave|ran"
    r"|won|lost|left|began|held|spent|\w{2,}ed|ago|last)\b",
    re.IGNORECASE,
)


# "I found a flight on Friday": what is arranged may be to come, and nobody can tell.
_ARRANGED = re.compile(
    r"\b(?:booked|bookings?|reserved|reservations?|scheduled|registered|signed up|tickets?|flights?"
    r"|hotels?|appointments?|invit\w+)\b",
    re.IGNORECASE,
)


class Dated(NamedTuple):
    """``text`` with the dates in it, and when the first of its times begins, microseconds UTC."""

    text: str
    at: int | None


class _Found(NamedTuple):
    stop: int  # in the text, after the phrase
    range: Range
    shown: str
    exact: bool  # neither "about" nor "a few"


def day_of(us: int, zone: tzinfo | str) -> str:
    """The local day: "8 May 2023"."""
    return _day(_here(us, zone).wall)


def dated(text: str, said_us: int, zone: tzinfo | str) -> Dated:
    """What was said at ``said_us``, with its dates. Never raises for a text."""
    if len(text) > TEXT_CHARACTERS_MAX:
        return Dated(text, None)
    here = _here(said_us, zone)
    found = _phrases(text, here)
    for one in reversed(found):
        if one.shown:
            text = f"{text[: one.stop]} ({one.shown}){text[one.stop :]}"
    starts = [one.range.start for one in found if one.exact and _is_short(one.range)]
    first = next((start for start in starts if start is not None), None)
    return Dated(text, None if first is None else to_us(first, "a date"))


def _here(us: int, zone: tzinfo | str) -> Here:
    """In the first and last hours of time, where the zone's clock has no year, it is UTC's."""
    try:
        return here_at(from_us(us), zone)
    except InvalidArgument:
        zone_of(zone)
        return here_at(from_us(us), UTC)


def _is_short(range_: Range) -> bool:
    """Short enough to say when something happens."""
    if range_.start is None or range_.stop is None:
        return False
    return range_.stop - range_.start <= _MONTH


def _phrases(text: str, here: Here) -> list[_Found]:
    words = tokens(text)
    quotations = {place for start, stop in quoted(text) for place in range(start, stop)}
    reading = Reading(GRAMMAR, words)
    future = _FUTURE.search(text) is not None
    past = _PAST.search(text) is not None and _ARRANGED.search(text) is None
    found: list[_Found] = []
    at = 0
    while at < len(words):
        end, phrase = (at, None)
        begins = words[at].start not in quotations and not _is_thing(words, at)
        if begins and GRAMMAR.may_begin("TIMEFRAME", words[at]):
            end, phrase = _longest(reading, words, at, future=future)
        if phrase is not None and _before(words, at) not in _HABIT | _EDGES:
            said = words[at:end]
            range_ = _meant(phrase, said, here, future=future, past=past)
            if range_ is not None:
                about = not _ABOUT.isdisjoint(token.text for token in said)
                shown = _shown(range_, said, here)
                if about and shown:
                    shown = f"about {shown.removeprefix('week of ')}"
                found.append(_Found(words[end - 1].stop, range_, shown, not about))
        at = max(end, at + 1)
    return found


def _before(words: list[Token], at: int) -> str:
    """The word in front of a phrase: of "it feels like just yesterday" it is "like"."""
    while at > 0 and words[at - 1].text in ("just", "only"):
        at -= 1
    return words[at - 1].text if at > 0 else ""


def _is_thing(words: list[Token], at: int) -> bool:
    """In "I made this last week" it is what was made."""
    return words[at].text == "this" and at + 1 < len(words) and words[at + 1].text == "last"


def _longest(
    reading: Reading, words: list[Token], at: int, *, future: bool
) -> tuple[int, Phrase | None]:
    """The longest phrase that begins here and the token after it. "In two weeks" is one where the
    statement is about the future.
    """
    best, phrase = at, None
    for end, read_ in reading.read("TIMEFRAME", at):
        assert isinstance(read_, Phrase)
        hence = future and words[at].text == "in" and "UNIT" in words[end - 1].kinds
        if (read_.sure or hence) and end > best:
            best, phrase = end, read_
    return best, phrase


def _meant(
    phrase: Phrase, said: list[Token], here: Here, *, future: bool, past: bool
) -> Range | None:
    words = {token.text for token in said}
    if words & _EDGES:  # since Monday: an edge, not when it is
        return None
    if "weekend" in words and words.isdisjoint(_SAID - {"this"}):
        return _weekend(here, this="this" in words, future=future, past=past)
    names = [token for token in said if not _NAMED.isdisjoint(token.kinds)]
    relative = not words & _SAID and not any(
        "YEAR" in t.kinds or "ISODATE" in t.kinds for t in said
    )
    if names and relative:
        if future == past and not future:
            return None
        if future:
            return _next(names, said, here)
    try:
        return range_of(phrase, here)
    except (NoSuchTime, OverflowError):
        return None


def _weekend(here: Here, *, this: bool, future: bool, past: bool) -> Range | None:
    """The one that comes or the last one; in neither a future nor a past "the weekend" is none."""
    coming = _resolved("this weekend", here)
    begun = coming is not None and coming.start is not None and coming.start <= here.now
    if past and not future and not (this and begun):
        return _resolved("last weekend", here)
    return coming if this or future != past else None


def _next(names: list[Token], said: list[Token], here: Here) -> Range | None:
    """The next one of a weekday, a month or a date."""
    weekday = next((t.text for t in names if "WEEKDAY" in t.kinds), None)
    month = next((t for t in names if "MONTH" in t.kinds), None)
    if month is None:
        return _resolved(f"next {weekday}", here)
    for year in (here.wall.year, here.wall.year + 1):
        day = next((t.text for t in said if {"DAYNUMBER", "NTH"} & t.kinds.keys()), "")
        found = _resolved(f"{day} {month.text} {year}".strip(), here)
        if found is not None and found.stop is not None and found.stop > here.now:
            return found
    return None


def _resolved(phrase: str, here: Here) -> Range | None:
    try:
        return range_of(read(phrase), here)
    except (InvalidArgument, NoSuchTime, OverflowError):
        return None


# ---- showing -------------------------------------------------------------------------------------


def _shown(range_: Range, said: list[Token], here: Here) -> str:
    """The date, as short as it says all; "" where the words say it themselves."""
    if range_.start is None or range_.stop is None:
        return ""
    if any(_YEARS & t.kinds.keys() for t in said):
        return ""
    try:
        start, stop = here.on_wall(range_.start), here.on_wall(range_.stop)
    except OverflowError:  # at the end of time
        return ""
    units = {token.kinds["UNIT"] for token in said if "UNIT" in token.kinds}
    units |= {token.kinds["AMOUNT"][1] for token in said if "AMOUNT" in token.kinds}
    if units & {"second", "minute", "hour", "decade"}:
        return ""
    days = (stop - start) / _DAY
    rolled = range_.stop == here.now and start.time() == here.wall.time()
    if rolled and days > 1:  # the past few weeks
        return f"since {_day(start) if days < 60 else _month(start)}"
    if "week" in units:
        return f"week of {_day(start)}"
    if "month" in units:
        return _month(start) if start.day == 1 else _day(start)
    if "year" in units:
        return f"{start.year}" if (start.month, start.day) == (1, 1) else _month(start)
    if days <= 1:
        return _day(start)
    if days <= 3:
        return _days(start, stop - timedelta(seconds=1))
    return _month(start) if start.day == 1 and days <= 31 else f"from {_day(start)}"


def _day(at: datetime) -> str:
    return f"{at.day} {_month(at)}"


def _days(first: datetime, last: datetime) -> str:
    if (first.year, first.month) == (last.year, last.month):
        return f"{first.day}–{_day(last)}"
    return f"{_day(first)} – {_day(last)}"


def _month(at: datetime) -> str:
    return f"{MONTHS[at.month - 1].capitalize()} {at.year}"
