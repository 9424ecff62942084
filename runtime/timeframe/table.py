"""The English time phrases: one row each.

TIMEFRAME is all that can be said. A DAY is a day, a PERIOD any span of time, a PHRASE a period with
its prepositions. To teach a phrase, add a row; the patterns are those of ``grammar``.

What is vague has one meaning: few is 3, a couple 2, several 5. Morning is 06-12, afternoon 12-18,
evening 18-24, night 18 until 06 of the next day. Weeks start on Monday. "last week" is the calendar
week before this one; "last 7 days", "the past week" and "the last week" are so long until now; "3
weeks ago" is the whole week in which that moment lies. Seasons are left out: which months they are
depends on the hemisphere.
"""

from __future__ import annotations

from typing import Any

from neverforget.runtime.timeframe import clocks, names, phrases
from neverforget.runtime.timeframe.grammar import Grammar, Row
from neverforget.runtime.timeframe.periods import (
    NEVER,
    WITHIN,
    Period,
    ahead,
    distant,
    fixed,
    rolling,
    unit_at,
)
from neverforget.runtime.timeframe.reckoning import CLOCK_UNITS, Span

FEW, COUPLE, SEVERAL = 3, 2, 5
FRAMES = "in|on|during|over|within|throughout|for"
TO = "to|until|till|through|thru|–|-"
_WITHIN = WITHIN - {""}


def _short(unit: str) -> bool:
    """Units that idioms are made of: last minute, this second, the last day."""
    return unit in CLOCK_UNITS or unit == "day"


def _last(unit: str) -> Period:
    return rolling(((1, unit),), NEVER) if _short(unit) else unit_at(-1, unit)


def _the_last(unit: str) -> Period:
    if unit in ("quarter", "decade"):
        return unit_at(-1, unit)
    return rolling(((1, unit),), _WITHIN if _short(unit) else None)


def _past(unit: str) -> Period:
    return unit_at(-1, unit) if unit == "quarter" else rolling(((1, unit),))


def _same(value: Any) -> Any:
    return value


NUMBERS: tuple[Row, ...] = (
    ("NUMBER", "DIGITS", _same),
    ("NUMBER", "TENS ONES", lambda tens, ones: tens + ones),
    ("NUMBER", "ONES", _same),
    ("NUMBER", "TEENS", _same),
    ("NUMBER", "TENS", _same),
    ("NUMBER", "SPELLED", _same),
    ("MANY", "NUMBER", _same),
    ("MANY", "a? few", lambda: FEW),
    ("MANY", "a? couple of?", lambda: COUPLE),
    ("MANY", "several", lambda: SEVERAL),
    ("COUNT", "MANY", _same),
    ("COUNT", "a|an", lambda: 1),
    # QUANTITY is how much before "ago", LENGTH how much after "last": not "last a week".
    ("HALF", "half an? hour", lambda: ((30, "minute"),)),
    ("HALF", "half a? day", lambda: ((12, "hour"),)),
    ("HALF", "half a? year", lambda: ((6, "month"),)),
    ("LENGTH", "MANY UNIT and? COUNT UNIT", lambda n, u, m, v: ((n, u), (m, v))),
    ("LENGTH", "MANY UNIT", lambda n, u: ((n, u),)),
    ("LENGTH", "MANY fortnight|fortnights", lambda n: ((2 * n, "week"),)),
    ("LENGTH", "AMOUNT", lambda amount: (amount,)),
    ("LENGTH", "HALF", _same),
    ("QUANTITY", "LENGTH", _same),
    ("QUANTITY", "a|an UNIT and? COUNT UNIT", lambda u, m, v: ((1, u), (m, v))),
    ("QUANTITY", "a|an UNIT", lambda u: ((1, u),)),
    ("QUANTITY", "a fortnight", lambda: ((2, "week"),)),
)

DAYS: tuple[Row, ...] = (
    ("DAY", "earlier? today", lambda: unit_at(0, "day")),
    ("DAY", "yesterday", lambda: unit_at(-1, "day")),
    ("DAY", "tomorrow", lambda: unit_at(1, "day")),
    ("DAY", "the? day before yesterday", lambda: unit_at(-2, "day")),
    ("DAY", "the? day after tomorrow", lambda: unit_at(2, "day")),
    ("DAY", "NUMBER day|days ago", lambda n: distant(-1, ((n, "day"),))),
    ("DAY", "WEEKDAY", names.weekday),
    ("DAY", "last|previous|past WEEKDAY", names.last_weekday),
    ("DAY", "this past|last WEEKDAY", names.last_weekday),
    ("DAY", "this WEEKDAY", names.this_weekday),
    ("DAY", "next WEEKDAY", names.next_weekday),
    ("DAY", "WEEKDAY of? WEEK", names.weekday_of),
    ("DAY", "WEEK on? WEEKDAY", names.weekday_in),
    ("WEEK", "last|previous week", lambda: unit_at(-1, "week")),
    ("WEEK", "this week", lambda: unit_at(0, "week")),
    ("WEEK", "next week", lambda: unit_at(1, "week")),
    ("WEEK", "the? week before last", lambda: unit_at(-2, "week")),
    ("WEEK", "COUNT week|weeks ago", lambda n: distant(-1, ((n, "week"),))),
    ("DAY", "DATE", _same),
    ("DAY", "WEEKDAY ,? the? DATE", names.on_weekday),
    ("DATE", "MONTH DAYNUMBER", names.date),
    ("DATE", "MONTH the? NTH", names.plain_date),
    ("DATE", "MONTH the? ORDINAL", names.spelled_date),
    ("DATE", "DAYNUMBER MONTH", lambda day, name: names.date(name, day)),
    ("DATE", "the? NTH of? MONTH", lambda day, name: names.plain_date(name, day)),
    ("DATE", "the? ORDINAL of MONTH", lambda day, name: names.plain_date(name, day)),
    ("DATE", "MONTH the? DAYOF ,? THATYEAR", names.date_in),
    ("DATE", "the? DAYOF of? MONTH ,? THATYEAR", lambda d, m, y: names.date_in(m, d, y)),
    ("DAYOF", "DAYNUMBER", _same),
    ("DAYOF", "NTH", _same),
    ("DAYOF", "ORDINAL", _same),
    ("DAY", "the? NTH", names.day_of_month),
    ("DAY", "the? NTH of? THATMONTH", names.day_in_month),
    ("THATMONTH", "last month", lambda: unit_at(-1, "month")),
    ("THATMONTH", "this month", lambda: unit_at(0, "month")),
    ("DAY", "ISODATE", lambda word: clocks.iso("day", word, NEVER if word.isdigit() else None)),
)

MONTHS_AND_YEARS: tuple[Row, ...] = (
    ("THATYEAR", "YEAR", names.year),
    ("THATYEAR", "of? RELATIVEYEAR", _same),
    ("RELATIVEYEAR", "last|previous year", lambda: unit_at(-1, "year")),
    ("RELATIVEYEAR", "this year", lambda: unit_at(0, "year")),
    ("RELATIVEYEAR", "next year", lambda: unit_at(1, "year")),
    ("RELATIVEYEAR", "COUNT year|years ago", lambda n: distant(-1, ((n, "year"),))),
    ("PERIOD", "YEAR", names.year),
    ("PERIOD", "the? year YEAR", lambda number: names.needing(names.year(number), None)),
    ("PERIOD", "the? DECADE", names.decade),
    ("PERIOD", "MONTH", names.month),
    ("PERIOD", "last|previous|past MONTH", names.last_month),
    ("PERIOD", "this past|last MONTH", names.last_month),
    ("PERIOD", "this MONTH", names.this_month),
    ("PERIOD", "next MONTH", names.next_month),
    ("PERIOD", "MONTH ,? of? YEAR", lambda name, n: names.month_of(name, names.year(n))),
    ("PERIOD", "MONTH of? RELATIVEYEAR", names.month_of_this_or_that),
    ("PERIOD", "RELATIVEYEAR in MONTH", lambda of, name: names.month_of(name, of)),
    ("PERIOD", "QUARTER", names.quarter),
    ("PERIOD", "the? NTH quarter", names.quarter),
    ("PERIOD", "the? ORDINAL quarter", names.quarter),
    ("PERIOD", "last|previous QUARTER", lambda n: names.last_named(names.quarter(n))),
    ("PERIOD", "QUARTER of? THATYEAR", names.quarter_of),
    ("PERIOD", "the? NTH quarter of? THATYEAR", names.quarter_of),
    ("PERIOD", "the? ORDINAL quarter of? THATYEAR", names.quarter_of),
    ("PERIOD", "YEAR QUARTER", lambda year, n: names.quarter_of(n, names.year(year))),
    ("PERIOD", "ISOMONTH", lambda word: clocks.iso("month", word, names.IN_NEEDED)),
    ("PERIOD", "ISOWEEK", lambda word: clocks.iso("week", word)),
    ("PERIOD", "ISOQUARTER", lambda word: clocks.iso("quarter", word)),
)

UNITS: tuple[Row, ...] = (
    ("PERIOD", "LATELY? QUANTITY ago", lambda _, quantity: distant(-1, quantity)),
    ("LATELY", "about|around|roughly|approximately|nearly|almost|some", lambda: None),
    ("PERIOD", "QUANTITY from now", lambda quantity: distant(1, quantity)),
    ("PERIOD", "the? last|past|previous LENGTH", rolling),
    ("PERIOD", "this past|last LENGTH", rolling),
    ("PERIOD", "the? next|coming LENGTH", ahead),
    ("PERIOD", "last|past fortnight", lambda: rolling(((2, "week"),))),
    ("PERIOD", "the last|past fortnight", lambda: rolling(((2, "week"),))),
    ("PERIOD", "earlier? this UNIT", lambda u: unit_at(0, u, NEVER if _short(u) else None)),
    ("PERIOD", "the? current UNIT", lambda u: unit_at(0, u, NEVER)),
    ("PERIOD", "last UNIT", _last),
    ("PERIOD", "the last UNIT", _the_last),
    ("PERIOD", "the? past UNIT", _past),
    ("PERIOD", "this past|last UNIT", _past),
    ("PERIOD", "the? previous UNIT", lambda u: unit_at(-1, u, NEVER if _short(u) else None)),
    ("PERIOD", "the? next|coming UNIT", lambda u: unit_at(1, u)),
    ("PERIOD", "the? UNIT before last", lambda u: unit_at(-2, u)),
    ("PERIOD", "the? UNIT before PERIOD", lambda u, of: clocks.before(((1, u),), of)),
    ("PERIOD", "the? UNIT after PERIOD", lambda u, of: clocks.after(((1, u),), of)),
    ("PERIOD", "the LENGTH before PERIOD", clocks.before),
    ("PERIOD", "the LENGTH after PERIOD", clocks.after),
    ("PERIOD", "QUANTITY before PERIOD", lambda quantity, of: clocks.away(quantity, -1, of)),
    ("PERIOD", "QUANTITY after PERIOD", lambda quantity, of: clocks.away(quantity, 1, of)),
    ("PERIOD", "the? weekend", names.weekend),
    ("PERIOD", "the? last|past|previous weekend", lambda: names.weekend_ago(1)),
    ("PERIOD", "this past|last weekend", lambda: names.weekend_ago(1)),
    ("PERIOD", "this weekend", lambda: names.weekend_of(unit_at(0, "week"))),
    ("PERIOD", "the? next|coming weekend", lambda: names.weekend_of(unit_at(1, "week"))),
    ("PERIOD", "the? weekend before last", lambda: names.weekend_ago(2)),
    ("PERIOD", "COUNT weekend|weekends ago", names.weekend_ago),
)

CLOCKS: tuple[Row, ...] = (
    ("PERIOD", "DAY", _same),
    ("PERIOD", "DAY in? the? PART", clocks.part_of),
    ("PERIOD", "DAY at night", lambda day: clocks.part_of(day, "night")),
    ("PERIOD", "the? PART of DAY", clocks.part_of_day),
    ("PERIOD", "earlier? this PART", lambda part: clocks.part_of(unit_at(0, "day"), part)),
    ("PERIOD", "tonight", clocks.this_night),
    ("PERIOD", "last night", lambda: clocks.part_of(unit_at(-1, "day"), "night")),
    ("PERIOD", "the? night before last", lambda: clocks.part_of(unit_at(-2, "day"), "night")),
    ("PERIOD", "last evening", lambda: clocks.part_of(unit_at(-1, "day"), "evening")),
    ("PERIOD", "at? TIME", clocks.clock),
    ("PERIOD", "DAY ,? at? TIME", clocks.clock_of),
    ("PERIOD", "at? TIME on? DAY", clocks.clock_on),
    ("TIME", "CLOCK", _same),
    ("TIME", "DAYNUMBER MERIDIEM", lambda hour, half: f"{hour}{half}m"),
    ("TIME", "CLOCK MERIDIEM", lambda time, half: f"{time}{half}m"),
    ("PERIOD", "ISOTIME", clocks.instant),
    ("PERIOD", "right? now", lambda: fixed(_this_moment, NEVER)),
)

PHRASES: tuple[Row, ...] = (
    ("TIMEFRAME", "PHRASE", _same),
    ("TIMEFRAME", "PERIOD 's", phrases.plain),  # last week's
    ("TIMEFRAME", f"<{FRAMES}> PERIOD 's", phrases.framed),
    ("PHRASE", "more than|over QUANTITY ago", phrases.more_than_ago),
    ("PHRASE", "less|fewer than QUANTITY ago", phrases.less_than_ago),
    ("PHRASE", "PERIOD", phrases.plain),
    ("PHRASE", f"<{FRAMES}> PERIOD", phrases.framed),
    ("PHRASE", "at the weekend", lambda: phrases.framed("over", names.weekend())),
    ("PHRASE", "in QUANTITY", phrases.hence),
    ("PHRASE", "ever? since PERIOD", phrases.since),
    ("PHRASE", "from PERIOD", phrases.starting),
    ("PHRASE", "from|since PERIOD on|onward|onwards", phrases.since),
    ("PHRASE", "before PERIOD", phrases.before),
    ("PHRASE", "prior to PERIOD", phrases.before),
    ("PHRASE", "after PERIOD", phrases.after),
    ("PHRASE", "until|till|through|thru PERIOD", phrases.until),
    ("PHRASE", "up to|until PERIOD", phrases.until),
    ("PHRASE", "between PERIOD and PERIOD", phrases.between),
    ("PHRASE", f"from PERIOD {TO} PERIOD", phrases.from_to),
    ("PHRASE", f"PERIOD {TO} PERIOD", phrases.to),
    ("PHRASE", "between COUNT and COUNT UNIT ago", phrases.counts_ago),
    ("PHRASE", f"from? COUNT {TO}|or COUNT UNIT ago", phrases.counts_ago),
    ("PHRASE", "between the? DAYOF and DAYOF MONTH", phrases.days_in_month),
    ("PHRASE", "between the? DAYOF and DAYOF MONTH ,? THATYEAR", phrases.days_in_month),
    ("PHRASE", f"from? the? DAYOF {TO} DAYOF MONTH", phrases.days_in_month),
    ("PHRASE", f"from? the? DAYOF {TO} DAYOF MONTH ,? THATYEAR", phrases.days_in_month),
    ("PHRASE", "between MONTH DAYOF and DAYOF", phrases.month_days),
    ("PHRASE", "between MONTH DAYOF and DAYOF ,? THATYEAR", phrases.month_days),
    ("PHRASE", f"from? MONTH DAYOF {TO} DAYOF", phrases.month_days),
    ("PHRASE", f"from? MONTH DAYOF {TO} DAYOF ,? THATYEAR", phrases.month_days),
    ("PHRASE", "UNIT to date", phrases.to_date),
)


def _this_moment(here: Any) -> Span:
    return Span(here.now, here.now, moment=here.now)


GRAMMAR = Grammar((*NUMBERS, *DAYS, *MONTHS_AND_YEARS, *UNITS, *CLOCKS, *PHRASES))
