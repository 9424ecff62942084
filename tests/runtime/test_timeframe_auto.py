"""``timeframe="auto"``: what is taken out of a query as a time phrase, and what stays."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neverforget.runtime.timeframe import resolve, take
from neverforget.storage.errors import InvalidArgument

NOW = datetime(2026, 3, 11, 14, 30, tzinfo=UTC)  # a Wednesday


@pytest.mark.parametrize(
    ("query", "phrase", "rest"),
    [
        ("what did we decide last week?", "last week", "what did we decide?"),
        ("What did we decide last week about X?", "last week", "What did we decide about X?"),
        ("Last week, what did we decide?", "Last week", "what did we decide?"),
        ("So, last week, what did we decide", "last week", "So, what did we decide"),
        ("errors (yesterday)", "yesterday", "errors"),
        ("errors, yesterday.", "yesterday", "errors."),
        ("in the past few hours what broke", "in the past few hours", "what broke"),
        ("deployments since monday", "since monday", "deployments"),
        ("everything before yesterday", "before yesterday", "everything"),
        ("builds between monday and friday", "between monday and friday", "builds"),
        ("incidents 5 days ago in prod", "5 days ago", "incidents in prod"),
        ("three days ago", "three days ago", ""),
        ("last week?", "last week", ""),
        ("what did Bob say in May?", "in May", "what did Bob say?"),
        ("May I ask what happened in march", "in march", "May I ask what happened"),
        ("where did we go last may", "last may", "where did we go"),
        ("what was he working on yesterday", "yesterday", "what was he working on"),
        ("what did she look for last week?", "last week", "what did she look for?"),
        ("did she log in 3 days ago", "3 days ago", "did she log in"),
        ("for the past two weeks it rained", "for the past two weeks", "it rained"),
        ("her plan on the evening of 7 July, 2023", "on the evening of 7 July, 2023", "her plan"),
        ("he came over last night", "last night", "he came over"),
        ("notes from last week", "last week", "notes from"),
        ("the events of last month", "last month", "the events of"),
        ("yesterday's incident", "yesterday's", "incident"),
        ("last week’s release", "last week’s", "release"),
        ("on monday we met", "on monday", "we met"),
        ("in 2023 we moved", "in 2023", "we moved"),
        ("errors on 2025-11-28 at 10:15", "on 2025-11-28 at 10:15", "errors"),
        ("log of 2025-11-28T10:15:00Z", "2025-11-28T10:15:00Z", "log of"),
        ("made on May 8, 2023, in Rome", "on May 8, 2023", "made, in Rome"),
        ("the party of 8 May 2023", "8 May 2023", "the party of"),
        ("the first of May", "the first of May", ""),
        ("results of q1 2025", "q1 2025", "results of"),
        ("who was on call last night", "last night", "who was on call"),
        ("what changed over the weekend", "over the weekend", "what changed"),
        ("the plan two or three weeks ago", "two or three weeks ago", "the plan"),
        ("trips more than a year ago", "more than a year ago", "trips"),
        ("the race the week before 9 June 2023", "the week before 9 June 2023", "the race"),
        ("music in the 1990s", "in the 1990s", "music"),
        ("WHAT HAPPENED LAST WEEK", "LAST WEEK", "WHAT HAPPENED"),
        ("What did Bob do? Last week he was out", "Last week", "What did Bob do? he was out"),
        ("what did ann say yesterday about the plan for next week", "yesterday",
         "what did ann say about the plan for next week"),
        ("昨日 what broke yesterday 私は", "yesterday", "昨日 what broke 私は"),
        ("code:\n  x  =  1\nlast week", "last week", "code:\n  x  =  1"),
    ],
)  # fmt: skip
def test_a_phrase_is_taken_and_said(query: str, phrase: str, rest: str) -> None:
    found, taken, left = take(query, now=NOW, tz="UTC")
    assert (taken, left) == (phrase, rest)
    assert found is not None and found == resolve(phrase, now=NOW, tz="UTC")


@pytest.mark.parametrize(
    "query",
    [
        # words that are something else
        *("may I", "May I come in?", "march on", "the second question", "a few good men"),
        *("this may be wrong", "you may 8 times", "of 20 people 8 may attend", "you may first try"),
        *("may the force be with you", "at last may I speak", "march against time"),
        *("Did April call?", "a letter from June", "Sun and moon", "fall in love in spring"),
        *("just a second", "one second please", "second-hand goods", "last-minute changes"),
        *("the last second", "the last day", "last minute", "last 5 messages", "last of all"),
        *("dec format", "mar, jan, sep", "Q1 results", "the 5th element", "on the 5th floor"),
        *("last sat score", "the last sun of winter"),
        *("2023", "version 2025.11", "in 2000 words or less", "between 10 and 20 users"),
        *("1990s music", "the Monday meeting", "Black Friday deals", "USA Today", "noon"),
        # no phrases of the past
        *("the plan for next week", "what is due tomorrow", "in 5 minutes", "until next month"),
        *("how many days ago", "weeks ago", "recently", "since then", "now", "the day after"),
        # parts of something longer
        *("the last week of school", "last year of college", "every monday", "each last week"),
        *("the day after the fire", "two days after the fire", "two hundred and three days ago"),
        *("two and a half years ago", "1.5 hours ago", "before yesterday's meeting"),
        *("notes from last week to production", "compared to last week", "better than last year"),
        *("not yesterday", "everything except last week", "between yesterday and the release"),
        *("in may or june", "on monday or tuesday", "in 2023 and 2024", "open from 9am to 5pm"),
        *("logs/2025-11-28.txt", "see example.com/2023-05-08", "mid-march", "backup_2025-11-28"),
        *("logs from monday", "a letter from may"),
        # more than one
        *("compare last week with this week", "yesterday and last month", "today, last week"),
        *("last week versus last month",),
        # quotations and code
        *('"last week tonight" episodes', "“yesterday” by the Beatles", "run `date last week`"),
        # well said, but there is no such time
        *("on February 30, 2025", "2025-13-45", "99999 years ago", "last 999999999999 days"),
        *("", "   ", "?", '"', "`", "AND", ":*", "C ++", "😀", "\x00"),
        "私はPythonでADKを使っています",
    ],
)  # fmt: skip
def test_what_is_no_time_phrase_stays(query: str) -> None:
    assert take(query, now=NOW, tz="UTC") == (None, None, query)


def test_a_query_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="query"):
        take(None, now=NOW, tz="UTC")  # type: ignore[arg-type]  # pyright: ignore


def test_the_zone_decides_what_yesterday_is() -> None:
    found, _, _ = take("lunch yesterday", now=NOW, tz="Pacific/Auckland")
    assert found is not None
    assert found.start == datetime(2026, 3, 10, 11, tzinfo=UTC)


WORDS = (
    *("the", "last", "this", "next", "a", "an", "few", "couple", "of", "3", "20", "2023"),
    *("8th", "may", "march", "june", "monday", "second", "minute", "days", "week", "weeks"),
    *("month", "year", "ago", "since", "before", "after", "until", "between", "and", "to"),
    *("from", "in", "on", "at", "past", "today", "yesterday's", "tonight", "morning"),
    *("first", "quarter", "q1", "now", "3pm", "2025-11-28", "I", "met", "Bob", ",", "."),
    *("?", "(", ")", "'", '"', "–", "or"),
)


@given(st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join) | st.text())
def test_whatever_is_taken_is_a_phrase_of_the_query_that_means_what_was_said(query: str) -> None:
    found, phrase, rest = take(query, now=NOW, tz="America/St_Johns")
    if phrase is None:
        assert (found, rest) == (None, query)
        return
    assert found is not None and found == resolve(phrase, now=NOW, tz="America/St_Johns")
    assert (found.start or found.stop or NOW) <= NOW and (found.start, found.stop) != (None, None)
    before, _, after = query.partition(phrase)
    assert len(rest) <= len(before) + 1 + len(after)
    kept = [word for word in rest.split() if word.isalnum()]
    assert all(word in query for word in kept)


@pytest.mark.parametrize(
    "unit", ["the day before ", "between ", "last ", '"a" ', "1 year ", "from monday to ", "20 "]
)
def test_a_long_query_is_read_to_its_end(unit: str) -> None:
    """Nested phrases are bounded, so no query runs out of stack."""
    query = unit * (10_000 // len(unit)) + "; it broke 5 days ago"
    found, phrase, _ = take(query, now=NOW, tz="UTC")
    assert phrase == "5 days ago" and found is not None
