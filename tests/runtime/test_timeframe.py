"""What a timeframe means: phrases, dates, pairs; zones, month ends, the limits of the calendar."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from neverforget.runtime.timeframe import Range, resolve
from neverforget.storage.errors import InvalidArgument

NOW = datetime(2026, 3, 11, 14, 30, tzinfo=UTC)  # a Wednesday

# phrase | start | stop; "now", and "-" for open.
PROMISED = """
today                           | 2026-03-11       | now
yesterday                       | 2026-03-10       | 2026-03-11
last week                       | 2026-03-02       | 2026-03-09
this week                       | 2026-03-09       | now
last month                      | 2026-02-01       | 2026-03-01
last year                       | 2025-01-01       | 2026-01-01
5 days ago                      | 2026-03-06       | 2026-03-07
last 7 days                     | 2026-03-04 14:30 | now
in the past few hours           | 2026-03-11 11:30 | now
last weekend                    | 2026-03-07       | 2026-03-09
since monday                    | 2026-03-09       | now
before yesterday                | -                | 2026-03-10
between monday and friday       | 2026-03-02       | 2026-03-07
last quarter                    | 2025-10-01       | 2026-01-01
three days ago                  | 2026-03-08       | 2026-03-09
2025-11-28                      | 2025-11-28       | 2025-11-29
march 2025                      | 2025-03-01       | 2025-04-01
3 days ago                      | 2026-03-08       | 2026-03-09
between march and may           | 2025-03-01       | 2025-06-01
last 24 hours                   | 2026-03-10 14:30 | now
"""

AGO = """
30 seconds ago                  | 2026-03-11 14:29:30 | 2026-03-11 14:29:31
45 minutes ago                  | 2026-03-11 13:45 | 2026-03-11 13:46
an hour ago                     | 2026-03-11 13:00 | 2026-03-11 14:00
3 hrs ago                       | 2026-03-11 11:00 | 2026-03-11 12:00
24h ago                         | 2026-03-10 14:00 | 2026-03-10 15:00
half an hour ago                | 2026-03-11 14:00 | 2026-03-11 14:01
0 days ago                      | 2026-03-11       | now
a day ago                       | 2026-03-10       | 2026-03-11
a couple of days ago            | 2026-03-09       | 2026-03-10
a couple days ago               | 2026-03-09       | 2026-03-10
a few days ago                  | 2026-03-08       | 2026-03-09
several days ago                | 2026-03-06       | 2026-03-07
about 3 days ago                | 2026-03-08       | 2026-03-09
seventeen days ago              | 2026-02-22       | 2026-02-23
twenty-one days ago             | 2026-02-18       | 2026-02-19
twenty one days ago             | 2026-02-18       | 2026-02-19
ninety-nine days ago            | 2025-12-02       | 2025-12-03
1,000 days ago                  | 2023-06-15       | 2023-06-16
a week ago                      | 2026-03-02       | 2026-03-09
3 weeks ago                     | 2026-02-16       | 2026-02-23
a fortnight ago                 | 2026-02-23       | 2026-03-02
2 months ago                    | 2026-01-01       | 2026-02-01
2 quarters ago                  | 2025-07-01       | 2025-10-01
a year ago                      | 2025-01-01       | 2026-01-01
10 years ago                    | 2016-01-01       | 2017-01-01
2 weekends ago                  | 2026-02-28       | 2026-03-02
1 year and 2 months ago         | 2025-01-01       | 2025-02-01
more than 2 days ago            | -                | 2026-03-09 14:30
less than 2 hours ago           | 2026-03-11 12:30 | now
between 3 and 5 days ago        | 2026-03-06       | 2026-03-09
between 5 and 3 hours ago       | 2026-03-11 09:30 | 2026-03-11 11:30
two or three weeks ago          | 2026-02-16       | 2026-03-02
2-3 weeks ago                   | 2026-02-16       | 2026-03-02
"""

UNITS = """
earlier today                   | 2026-03-11       | now
tomorrow                        | 2026-03-12       | 2026-03-13
the day before yesterday        | 2026-03-09       | 2026-03-10
the day after tomorrow          | 2026-03-13       | 2026-03-14
this month                      | 2026-03-01       | now
this quarter                    | 2026-01-01       | now
this year                       | 2026-01-01       | now
year to date                    | 2026-01-01       | now
this decade                     | 2020-01-01       | now
this hour                       | 2026-03-11 14:00 | now
next week                       | 2026-03-16       | 2026-03-23
next month                      | 2026-04-01       | 2026-05-01
next 3 days                     | now              | 2026-03-14 14:30
in 5 days                       | 2026-03-16       | 2026-03-17
2 weeks from now                | 2026-03-23       | 2026-03-30
previous week                   | 2026-03-02       | 2026-03-09
previous quarter                | 2025-10-01       | 2026-01-01
last decade                     | 2010-01-01       | 2020-01-01
past week                       | 2026-03-04 14:30 | now
in the last week                | 2026-03-04 14:30 | now
over the past month             | 2026-02-11 14:30 | now
last hour                       | 2026-03-11 13:30 | now
last 90 minutes                 | 2026-03-11 13:00 | now
last 30min                      | 2026-03-11 14:00 | now
past 7d                         | 2026-03-04 14:30 | now
the previous two weeks          | 2026-02-25 14:30 | now
last 3 months                   | 2025-12-11 14:30 | now
during the last couple of years | 2024-03-11 14:30 | now
the week before last            | 2026-02-23       | 2026-03-02
the week before last week       | 2026-02-23       | 2026-03-02
over the weekend                | 2026-03-07       | 2026-03-09
at the weekend                  | 2026-03-07       | 2026-03-09
this weekend                    | 2026-03-14       | 2026-03-16
last week's                     | 2026-03-02       | 2026-03-09
two days before yesterday       | 2026-03-08       | 2026-03-09
the week before 9 June 2023     | 2023-06-02       | 2023-06-09
the two weeks before May 8, 2023| 2023-04-24       | 2023-05-08
the day after last week         | 2026-03-09       | 2026-03-10
"""

NAMES = """
monday                          | 2026-03-09       | 2026-03-10
on tuesday                      | 2026-03-10       | 2026-03-11
wednesday                       | 2026-03-04       | 2026-03-05
last friday                     | 2026-03-06       | 2026-03-07
this past friday                | 2026-03-06       | 2026-03-07
this wednesday                  | 2026-03-11       | now
next friday                     | 2026-03-13       | 2026-03-14
friday last week                | 2026-03-06       | 2026-03-07
last week on tuesday            | 2026-03-03       | 2026-03-04
thurs                           | 2026-03-05       | 2026-03-06
march                           | 2026-03-01       | now
in may                          | 2025-05-01       | 2025-06-01
last march                      | 2025-03-01       | 2025-04-01
this june                       | 2026-06-01       | 2026-07-01
next march                      | 2027-03-01       | 2027-04-01
sept. 2024                      | 2024-09-01       | 2024-10-01
march last year                 | 2025-03-01       | 2025-04-01
in december of 2024             | 2024-12-01       | 2025-01-01
march 2026                      | 2026-03-01       | 2026-04-01
May 8, 2023                     | 2023-05-08       | 2023-05-09
8 May 2023                      | 2023-05-08       | 2023-05-09
8 May, 2023                     | 2023-05-08       | 2023-05-09
8th of May 2023                 | 2023-05-08       | 2023-05-09
the second of may               | 2025-05-02       | 2025-05-03
Monday, May 8, 2023             | 2023-05-08       | 2023-05-09
may 8                           | 2025-05-08       | 2025-05-09
may 8 last year                 | 2025-05-08       | 2025-05-09
on march 11                     | 2026-03-11       | now
february 29                     | 2024-02-29       | 2024-03-01
the 5th                         | 2026-03-05       | 2026-03-06
on the 31st                     | 2026-01-31       | 2026-02-01
the 2nd of last month           | 2026-02-02       | 2026-02-03
from 3 to 5 march 2025          | 2025-03-03       | 2025-03-06
march 3-5, 2025                 | 2025-03-03       | 2025-03-06
2024                            | 2024-01-01       | 2025-01-01
the year 2026                   | 2026-01-01       | 2027-01-01
2020-2022                       | 2020-01-01       | 2023-01-01
in the 1990s                    | 1990-01-01       | 2000-01-01
q1                              | 2026-01-01       | now
q4 2024                         | 2024-10-01       | 2025-01-01
the second quarter of 2025      | 2025-04-01       | 2025-07-01
2025-11                         | 2025-11-01       | 2025-12-01
2025/11/28                      | 2025-11-28       | 2025-11-29
20251128                        | 2025-11-28       | 2025-11-29
2025-W48                        | 2025-11-24       | 2025-12-01
2025-Q4                         | 2025-10-01       | 2026-01-01
2025-11-28T10:15Z               | 2025-11-28 10:15 | 2025-11-28 10:16
2025-11-28 10:15:30+02:00       | 2025-11-28 08:15:30 | 2025-11-28 08:15:31
2025-11-28T10                   | 2025-11-28 10:00 | 2025-11-28 11:00
"""

PARTS = """
yesterday morning               | 2026-03-10 06:00 | 2026-03-10 12:00
yesterday afternoon             | 2026-03-10 12:00 | 2026-03-10 18:00
yesterday evening               | 2026-03-10 18:00 | 2026-03-11
yesterday night                 | 2026-03-10 18:00 | 2026-03-11 06:00
last night                      | 2026-03-10 18:00 | 2026-03-11 06:00
tonight                         | 2026-03-11 18:00 | 2026-03-12 06:00
this morning                    | 2026-03-11 06:00 | 2026-03-11 12:00
this afternoon                  | 2026-03-11 12:00 | now
on monday night                 | 2026-03-09 18:00 | 2026-03-10 06:00
the morning of May 8, 2023      | 2023-05-08 06:00 | 2023-05-08 12:00
yesterday at 3pm                | 2026-03-10 15:00 | 2026-03-10 16:00
1:56 pm on 8 May, 2023          | 2023-05-08 13:56 | 2023-05-08 13:57
at noon                         | 2026-03-11 12:00 | 2026-03-11 13:00
at 16:20                        | 2026-03-10 16:20 | 2026-03-10 16:21
"""

BOUNDS = """
since yesterday morning         | 2026-03-10 06:00 | now
since 9am                       | 2026-03-11 09:00 | now
since 3 hours ago               | 2026-03-11 11:30 | now
ever since march                | 2026-03-01       | now
since 2025                      | 2025-01-01       | now
since wednesday                 | 2026-03-04       | now
since tomorrow                  | 2026-03-12       | -
from monday                     | 2026-03-09       | now
from monday on                  | 2026-03-09       | now
before 2024                     | -                | 2024-01-01
before the day before yesterday | -                | 2026-03-09
prior to last week              | -                | 2026-03-02
after yesterday                 | 2026-03-11       | now
after last week                 | 2026-03-09       | now
after friday                    | 2026-03-07       | now
after march                     | 2025-04-01       | now
after today                     | 2026-03-12       | -
until yesterday                 | -                | 2026-03-11
until now                       | -                | now
until 2025-11-28T10:00          | -                | 2025-11-28 10:00
up to last month                | -                | 2026-03-01
through friday                  | -                | 2026-03-07
from monday to wednesday        | 2026-03-02       | 2026-03-05
monday to today                 | 2026-03-09       | now
between yesterday and now       | 2026-03-10       | now
between friday and monday       | 2026-03-06       | 2026-03-10
between november and february   | 2025-11-01       | 2026-03-01
between march and may 2020      | 2020-03-01       | 2020-06-01
from May 3, 2023 to june 5      | 2023-05-03       | 2023-06-06
between 2022 and 2020           | 2020-01-01       | 2023-01-01
from 9am to 11am                | 2026-03-11 09:00 | 2026-03-11 11:00
from 3 hours ago to 1 hour ago  | 2026-03-11 11:30 | 2026-03-11 13:30
from yesterday to tomorrow      | 2026-03-10       | 2026-03-13
between 2025-01-01 and 2025-01-31 | 2025-01-01     | 2025-02-01
March–May                       | 2025-03-01       | 2025-06-01
2025-01-01..2025-02-01          | 2025-01-01       | 2025-02-01
monday..                        | 2026-03-09       | -
"""


def moment(text: str) -> datetime | None:
    if text == "-":
        return None
    return NOW if text == "now" else datetime.fromisoformat(text).replace(tzinfo=UTC)


def rows(table: str) -> list[tuple[str, Range]]:
    lines = filter(None, table.splitlines())
    cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    return [(phrase, Range(moment(start), moment(stop))) for phrase, start, stop in cells]


ALL_ROWS = rows(PROMISED + AGO + UNITS + NAMES + PARTS + BOUNDS)


def test_the_table_is_large() -> None:
    assert len(ALL_ROWS) == len(dict(ALL_ROWS)) >= 190


@pytest.mark.parametrize(("phrase", "expected"), ALL_ROWS, ids=[row[0] for row in ALL_ROWS])
def test_phrase(phrase: str, expected: Range) -> None:
    assert resolve(phrase, now=NOW, tz="UTC") == expected
    assert resolve(f" {phrase.upper()} ", now=NOW, tz=UTC) == expected


@pytest.mark.parametrize(
    ("phrase", "named"),
    [
        ("", "empty"),
        ("frobnicate", "frobnicate"),
        ("last frobnicate", "'frobnicate'"),
        ("since the fire", "'fire'"),
        ("last week or so", "'or so'"),
        ("yesterday's meeting", "'meeting'"),
        ("since", "not complete"),
        ("between monday and", "not complete"),
        ("ago", "ago"),
        ("days ago", "days ago"),
        ("5m ago", "5m"),
        ("1.5 hours ago", "1.5"),
        ("last summer", "season"),
        ("recently", "how long"),
        ("the other day", "how long"),
        ("05/08/2023", "month first"),
        ("auto", "recall"),
        ("all time", "leave timeframe out"),
        ("..", "empty"),
        ("2025..2026..2027", "is no time phrase"),
        ("x" * 5000, "5000 characters"),
        ("before " * 25, "before"),
    ],
)
def test_an_unknown_phrase_raises_and_names_what_was_not_understood(
    phrase: str, named: str
) -> None:
    with pytest.raises(InvalidArgument, match="last week") as caught:
        resolve(phrase, now=NOW, tz="UTC")
    assert named in str(caught.value)


@pytest.mark.parametrize(
    "phrase",
    [
        *("february 30", "2026-02-30", "2026-13-01", "2025-W60", "May 32, 2023", "29 feb 2025"),
        *("2025-11-28T25:00Z", "yesterday at 13pm", "yesterday at 25:00", "the fifth quarter"),
        *("Tuesday, May 8, 2023", "now", "99999 years ago", "last 999999999999 days", "0000-01-01"),
        *("from 2022 to 2020", "last 0 days", "10000 months from now to tomorrow", "0000-W01"),
    ],
)
def test_a_time_that_does_not_exist_raises(phrase: str) -> None:
    with pytest.raises(InvalidArgument, match=r"is no time|outside the years"):
        resolve(phrase, now=NOW, tz="UTC")


# ---- other forms ---------------------------------------------------------------------------------


def test_only_none_is_all_time() -> None:
    assert resolve(None, now=NOW, tz="UTC") is None
    assert resolve((None, None), now=NOW, tz="UTC") is None


def test_a_date_is_that_day_in_the_zone() -> None:
    day = Range(datetime(2025, 11, 27, 23, tzinfo=UTC), datetime(2025, 11, 28, 23, tzinfo=UTC))
    assert resolve(date(2025, 11, 28), now=NOW, tz="Europe/Berlin") == day
    assert resolve("2025-11-28", now=NOW, tz="Europe/Berlin") == day


def test_a_datetime_lasts_as_long_as_it_is_exact() -> None:
    second = datetime(2025, 11, 28, 10, 15, tzinfo=UTC)
    micro = second.replace(microsecond=7)
    assert resolve(second, now=NOW, tz="UTC") == Range(second, second + timedelta(seconds=1))
    assert resolve(micro, now=NOW, tz="UTC") == Range(micro, micro + timedelta(microseconds=1))


def test_a_pair_is_half_open_and_none_is_open() -> None:
    start, stop = datetime(2025, 1, 1, tzinfo=UTC), datetime(2025, 2, 1, tzinfo=UTC)
    expected = Range(start, stop)
    for pair in (
        (start, stop),
        [start.astimezone(timezone(timedelta(hours=5))), stop],
        (date(2025, 1, 1), date(2025, 2, 1)),
        ("2025-01-01", "february 2025"),
        (1735689600000, "2025-02-01T00:00:00Z"),
    ):
        assert resolve(pair, now=NOW, tz="UTC") == expected
    assert resolve((start, None), now=NOW, tz="UTC") == Range(start, None)
    assert resolve((None, "now"), now=NOW, tz="UTC") == Range(None, NOW)
    assert start in expected and stop not in expected and NOW not in expected


@pytest.mark.parametrize(
    "wrong",
    [
        (datetime(2025, 2, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)),
        (NOW, NOW),
        (datetime(2025, 1, 1), None),
        datetime(2025, 1, 1),
        ("since monday", None),
        ("", None),
        (True, None),
        (1, 2, 3),
        17,
        b"today",
        timedelta(days=1),
        {"start": None},
    ],
)
def test_what_cannot_be_meant_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidArgument):
        resolve(wrong, now=NOW, tz="UTC")


@pytest.mark.parametrize("zone", ["Mars/Olympus", "America", "", "../etc/passwd", "+25:00", 3])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidArgument, match=r"time zone|name of a zone"):
        resolve("today", now=NOW, tz=zone)


def test_a_naive_now_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="aware"):
        resolve("today", now=datetime(2026, 3, 11), tz="UTC")


def test_a_range_survives_pickle_copy_and_its_own_text() -> None:
    for phrase, _ in ALL_ROWS:
        found = resolve(phrase, now=NOW, tz="UTC")
        assert found is not None
        assert pickle.loads(pickle.dumps(found)) == copy.deepcopy(found) == found
        assert resolve(found, now=NOW, tz="Asia/Tokyo") == found
        assert resolve(str(found), now=NOW, tz="Asia/Tokyo") == found


# ---- zones ---------------------------------------------------------------------------------------


def local(zone: str, now: str, phrase: str) -> tuple[str, str]:
    """The range in wall times of the zone, and its length."""
    found = resolve(phrase, now=datetime.fromisoformat(now), tz=zone)
    assert found is not None and found.start is not None and found.stop is not None
    start = found.start.astimezone(ZoneInfo(zone))
    return f"{start:%Y-%m-%d %H:%M}", str(found.stop - found.start)


# zone | now | phrase | start on the wall | length
CLOCK_CHANGES = """
# Clocks go forward on 2026-03-08 in New York and back on 2026-11-01.
America/New_York  | 2026-03-09T12:00-04:00 | yesterday     | 2026-03-08 00:00 | 23:00:00
America/New_York  | 2026-11-02T12:00-05:00 | yesterday     | 2026-11-01 00:00 | 1 day, 1:00:00
America/New_York  | 2026-11-02T12:00-05:00 | 2026-11-01    | 2026-11-01 00:00 | 1 day, 1:00:00
America/New_York  | 2026-03-09T12:00-04:00 | last week     | 2026-03-02 00:00 | 6 days, 23:00:00
# Days are reckoned on the wall, hours on the time line.
America/New_York  | 2026-03-08T12:00-04:00 | last 1 day    | 2026-03-07 12:00 | 23:00:00
America/New_York  | 2026-03-08T12:00-04:00 | last 24 hours | 2026-03-07 11:00 | 1 day, 0:00:00
# What clocks skip is the moment of the skip; what they show twice is the first.
America/New_York  | 2026-03-09T02:30-04:00 | last 1 day    | 2026-03-08 03:00 | 23:30:00
America/New_York  | 2026-11-02T01:30-05:00 | last 1 day    | 2026-11-01 01:30 | 1 day, 1:00:00
# Midnight itself is skipped in Sao Paulo, and shown twice in Havana.
America/Sao_Paulo | 2018-11-05T12:00-02:00 | yesterday     | 2018-11-04 01:00 | 23:00:00
America/Havana    | 2025-11-03T12:00-05:00 | yesterday     | 2025-11-02 00:00 | 1 day, 1:00:00
# Toronto's clocks went from 23:30 to 00:30.
America/Toronto   | 1919-04-01T12:00-04:00 | yesterday     | 1919-03-31 00:30 | 23:30:00
# Half-hour zones have their hours on the half.
Asia/Kolkata      | 2026-03-11T14:45+00:00 | this hour     | 2026-03-11 20:00 | 0:15:00
Asia/Kolkata      | 2026-03-11T14:45+00:00 | an hour ago   | 2026-03-11 19:00 | 1:00:00
# It is already Thursday there.
Pacific/Auckland  | 2026-03-11T14:30+00:00 | yesterday     | 2026-03-11 00:00 | 1 day, 0:00:00
Pacific/Auckland  | 2026-03-11T14:30+00:00 | wednesday     | 2026-03-11 00:00 | 1 day, 0:00:00
Pacific/Auckland  | 2026-03-31T14:30+00:00 | last month    | 2026-03-01 00:00 | 31 days, 0:00:00
"""


@pytest.mark.parametrize(
    ("zone", "now", "phrase", "start", "length"),
    [
        [cell.strip() for cell in line.split("|")]
        for line in CLOCK_CHANGES.splitlines()
        if "|" in line
    ],
)
def test_days_follow_the_clocks_of_the_zone(
    zone: str, now: str, phrase: str, start: str, length: str
) -> None:
    assert local(zone, now, phrase) == (start, length)


def test_a_day_that_a_zone_left_out_does_not_exist() -> None:
    """Samoa went from 29 to 31 December 2011."""
    now = datetime(2012, 1, 3, tzinfo=UTC)
    with pytest.raises(InvalidArgument, match="is no time"):
        resolve("2011-12-30", now=now, tz="Pacific/Apia")
    assert local("Pacific/Apia", "2012-01-03T00:00+00:00", "2011-12-29")[1] == "1 day, 0:00:00"


# ---- month ends, leap years, limits --------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "phrase", "start", "stop"),
    [
        ("2026-03-31 12:00", "last month", "2026-02-01", "2026-03-01"),
        ("2026-03-31 12:00", "a month ago", "2026-02-01", "2026-03-01"),
        ("2026-03-31 12:00", "past month", "2026-02-28 12:00", "2026-03-31 12:00"),
        ("2024-03-31 12:00", "past month", "2024-02-29 12:00", "2024-03-31 12:00"),
        ("2026-05-31 12:00", "last 3 months", "2026-02-28 12:00", "2026-05-31 12:00"),
        ("2024-02-29 12:00", "past year", "2023-02-28 12:00", "2024-02-29 12:00"),
        ("2024-02-29 12:00", "a year ago", "2023-01-01", "2024-01-01"),
        ("2024-03-01 12:00", "yesterday", "2024-02-29", "2024-03-01"),
        ("2103-03-01 12:00", "february 29", "2096-02-29", "2096-03-01"),
        ("2026-01-01 00:30", "last month", "2025-12-01", "2026-01-01"),
        ("2026-01-01 00:30", "last quarter", "2025-10-01", "2026-01-01"),
        ("2026-03-01 00:00", "this month", "2026-03-01", "2026-04-01"),
        ("2026-03-14 12:00", "last weekend", "2026-03-07", "2026-03-09"),
        ("2026-03-14 12:00", "this weekend", "2026-03-14", "2026-03-14 12:00"),
        ("2026-03-14 12:00", "over the weekend", "2026-03-14", "2026-03-14 12:00"),
        ("2026-03-16 12:00", "last weekend", "2026-03-14", "2026-03-16"),
        ("2026-03-13 12:00", "between monday and friday", "2026-03-02", "2026-03-07"),
        ("2026-03-14 12:00", "between monday and friday", "2026-03-09", "2026-03-14"),
        ("2026-03-12 02:00", "tonight", "2026-03-11 18:00", "2026-03-12 02:00"),
        ("2026-03-12 02:00", "last night", "2026-03-11 18:00", "2026-03-12 02:00"),
        ("2026-03-11 20:00", "tonight", "2026-03-11 18:00", "2026-03-11 20:00"),
        ("0001-01-03 12:00", "yesterday", "0001-01-02", "0001-01-03"),
        ("9999-12-31 12:00", "this week", "9999-12-27", "9999-12-31 12:00"),
    ],
)
def test_the_ends_of_months_weeks_and_years(now: str, phrase: str, start: str, stop: str) -> None:
    found = resolve(phrase, now=datetime.fromisoformat(now).replace(tzinfo=UTC), tz="UTC")
    assert found == Range(moment(start), moment(stop))


def test_the_calendar_has_a_first_and_a_last_year() -> None:
    first, last = datetime.min.replace(tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
    assert resolve("0001", now=NOW, tz="UTC") == Range(first, datetime(2, 1, 1, tzinfo=UTC))
    assert resolve("9999", now=NOW, tz="UTC") == Range(last, None)
    assert resolve("december 9999", now=NOW, tz="UTC") == Range(last.replace(month=12), None)
    assert resolve("before 9999-12-31", now=NOW, tz="UTC") == Range(None, moment("9999-12-31"))
    assert resolve("since 0001-01-01", now=NOW, tz="Asia/Tokyo") == Range(first, NOW)
    for zone in ("Asia/Tokyo", "America/New_York", "UTC"):
        for phrase in ("0001-01-01", "9999-12-31", "9999-12-30", "between 0001 and 9999"):
            found = resolve(phrase, now=NOW, tz=zone)
            assert found is not None and found.start is not None
    with pytest.raises(InvalidArgument, match="outside the years"):
        resolve("today", now=datetime.max.replace(tzinfo=UTC), tz="Asia/Tokyo")
    with pytest.raises(InvalidArgument):
        resolve("yesterday", now=datetime(1, 1, 1, 12, tzinfo=UTC), tz="UTC")


# ---- properties ----------------------------------------------------------------------------------

ZONES = st.sampled_from(
    (
        *("UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe"),
        *("America/St_Johns", "America/Sao_Paulo", "Pacific/Chatham", "Africa/Cairo"),
    )
)
NOWS = st.datetimes(datetime(1902, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
PHRASES = st.sampled_from([phrase for phrase, _ in ALL_ROWS])


@given(phrase=PHRASES, now=NOWS, zone=ZONES)
def test_a_range_starts_before_it_stops_and_not_in_the_far_future(
    phrase: str, now: datetime, zone: str
) -> None:
    found = resolve(phrase, now=now, tz=zone)
    assert found is not None and (found.start is not None or found.stop is not None)
    assert found.start is None or found.start.tzinfo is UTC
    if found.start is not None and found.stop is not None:
        assert found.start < found.stop
    if not any(letter in "0123456789" for letter in phrase):
        horizon = now + timedelta(days=2 * 366)
        assert all(at is None or at < horizon for at in (found.start, found.stop))


@given(now=NOWS, zone=ZONES, count=st.integers(0, 2000))
def test_days_ago_leave_no_gap_and_do_not_overlap(now: datetime, zone: str, count: int) -> None:
    later = resolve(f"{count} days ago", now=now, tz=zone)
    earlier = resolve(f"{count + 1} days ago", now=now, tz=zone)
    assert later is not None and earlier is not None and earlier.stop == later.start
    assert later.start is not None and later.start <= now
    assert later.stop is not None and (count == 0 or later.stop <= now)


@given(at=st.datetimes(timezones=st.just(UTC)), zone=ZONES)
def test_iso_forms_say_the_same_in_text_and_as_objects(at: datetime, zone: str) -> None:
    assume(1 < at.year < 9999)
    assert resolve(at.isoformat(), now=NOW, tz=zone) == resolve(at, now=NOW, tz=zone)
    found = resolve(at.date(), now=NOW, tz=zone)
    assert found == resolve(at.date().isoformat(), now=NOW, tz=zone)
    assert found == resolve(f"{at:%d} {at:%B} {at.year:04}", now=NOW, tz=zone)
    assert found is not None and resolve(str(found), now=NOW, tz=zone) == found
    assert resolve((found.start, found.stop), now=NOW, tz=zone) == found


SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


@given(count=st.integers(1, 99), unit=st.sampled_from(["minute", "hour", "day", "week", "month"]))
def test_numbers_may_be_written_out(count: int, unit: str) -> None:
    spelled = SMALL[count] if count < 20 else TENS[count // 10 - 2]
    if count >= 20 and count % 10:
        spelled += "-" + SMALL[count % 10]
    for form in ("{} {}s ago", "last {} {}s"):
        by_digits = resolve(form.format(count, unit), now=NOW, tz="Europe/Berlin")
        assert resolve(form.format(spelled, unit), now=NOW, tz="Europe/Berlin") == by_digits


VOCABULARY = (
    *("the", "last", "a", "few", "3", "may", "march", "second", "8", "days", "week", "ago"),
    *("since", "before", "of", ",", "2023", "and", "to", "in", "monday"),
)


@given(st.lists(st.sampled_from(VOCABULARY), max_size=8).map(" ".join) | st.text(max_size=40))
def test_any_other_text_raises_invalid_argument(text: str) -> None:
    try:
        found = resolve(text, now=NOW, tz="America/New_York")
    except InvalidArgument as error:
        assert "timeframe" in str(error) or "of timeframe" in str(error)
    else:
        assert found is not None
