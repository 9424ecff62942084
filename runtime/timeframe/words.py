"""The words of time phrases: text cut into tokens, each with all that it can stand for.

A token knows its place in the text, its lower-case text, and its kinds: "may" is a MONTH, "second"
both a UNIT and an ORDINAL, "8" both DIGITS and a DAYNUMBER. Punctuation is a token of its own, so
that no phrase reaches across it unless a rule says so; words joined by hyphens or slashes are one
token that means nothing ("mid-march", "logs/2025-11-28"), dates and "twenty-one" excepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august"),
    *("september", "october", "november", "december"),
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
SHORT_WEEKDAYS: dict[str, int] = {
    **{day[:3]: number for number, day in enumerate(WEEKDAYS)},
    "tues": 1,
    "weds": 2,
    "thur": 3,
    "thurs": 3,
}
SHORT_MONTHS: dict[str, int] = {
    **{month[:3]: number for number, month in enumerate(MONTHS, 1) if month != "may"},
    "sept": 9,
}
OTHER_WORDS = frozenset({"sat", "sun", "mon", "wed"})
VERBS = frozenset({"may", "march"})  # in running text more often no month

ONES: dict[str, int] = dict(
    zip(("one", "two", "three", "four", "five", "six", "seven", "eight", "nine"), range(1, 10))
)
TEENS: dict[str, int] = dict(
    zip(
        (
            *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"),
            *("seventeen", "eighteen", "nineteen"),
        ),
        range(10, 20),
    ),
    zero=0,
)
TENS: dict[str, int] = dict(
    zip(
        ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"),
        range(20, 100, 10),
    )
)
ORDINALS: dict[str, int] = dict(
    zip(
        (
            *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"),
            *("ninth", "tenth", "eleventh", "twelfth", "thirteenth", "fourteenth"),
            *("fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth", "twentieth"),
            *("twenty-first", "twenty-second", "twenty-third", "twenty-fourth", "twenty-fifth"),
            *("twenty-sixth", "twenty-seventh", "twenty-eighth", "twenty-ninth", "thirtieth"),
            "thirty-first",
        ),
        range(1, 32),
    )
)
# "m" is left out: 5m is five minutes to one and five months to another.
UNIT_WORDS = {
    "second": "second seconds sec secs s",
    "minute": "minute minutes min mins",
    "hour": "hour hours hr hrs h",
    "day": "day days d",
    "week": "week weeks wk wks w",
    "month": "month months mo mos",
    "quarter": "quarter quarters qtr qtrs",
    "year": "year years yr yrs y",
    "decade": "decade decades",
}
UNIT_OF = {word: unit for unit, words in UNIT_WORDS.items() for word in words.split()}
PARTS = {"morning": (6, 12), "afternoon": (12, 18), "evening": (18, 24), "night": (18, 30)}

# What a dot may follow without ending a sentence.
_ABBREVIATED = {*SHORT_MONTHS, *SHORT_WEEKDAYS, "a.m", "p.m"} | {
    *("sec", "secs", "min", "mins", "hr", "hrs", "wk", "wks", "mo", "mos", "yr", "yrs")
}

_ISO_TIME = r"\d{2}:?\d{2}(?::?\d{2}(?:[.,]\d{1,9})?)?(?:z|[+-]\d{2}(?::?\d{2})?)?"
_ISO_INSTANT = (
    rf"\d{{4}}-\d{{2}}-\d{{2}}(?:t\d{{2}}(?:z|[+-]\d{{2}}(?::?\d{{2}})?)?|[t ]{_ISO_TIME})"
)
_ENDING = r".,;:!?)\]}\"'”’»…"
_CHUNK = re.compile(
    rf"(?P<open>[(\[{{\"'“‘«¿¡]+(?=\S))"
    rf"|(?P<instant>{_ISO_INSTANT})(?=[{_ENDING}]*(?:\s|$))"
    r"|(?P<word>\S+)",
    re.IGNORECASE,
)
_QUOTED = re.compile(r'"[^"]*"|“[^”]*”|«[^»]*»|`[^`]*`')

_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("ISODATE", re.compile(r"(\d{4})([-/])(\d{2})\2(\d{2})|\d{8}")),
    ("ISOMONTH", re.compile(r"\d{4}-\d{2}")),
    ("ISOWEEK", re.compile(r"\d{4}-?w\d{2}")),
    ("ISOQUARTER", re.compile(r"\d{4}-?q[1-4]")),
    ("DECADE", re.compile(r"\d{3}0s")),
    ("CLOCK", re.compile(r"\d{1,2}:\d{2}(:\d{2})?([ap]m)?|\d{1,2}[ap]m|noon")),
    ("QUARTER", re.compile(r"q[1-4]")),
    ("NTH", re.compile(r"\d{1,2}(?:st|nd|rd|th)")),
    ("AMOUNT", re.compile(r"(\d{1,9})([a-z]+)")),
    ("DIGITS", re.compile(r"\d{1,18}|\d{1,3}(?:,\d{3}){1,2}")),
)
_NO_DIGIT_FIRST = frozenset({"noon", "q1", "q2", "q3", "q4"})
_DIGIT_PAIR = re.compile(r"(\d{1,4})(-)(\d{1,4})")


class MonthName(Struct, frozen=True):
    """``sure``: a word that is nothing but a month in running text."""

    number: int
    sure: bool
    short: bool = False


class WeekdayName(Struct, frozen=True):
    """Monday is 0. ``sure``: after "last" nothing but a day, as "sat" and "sun" are not."""

    number: int
    sure: bool = True
    short: bool = False


class Token(Struct, frozen=True):
    """``text[start:stop]`` in lower case, and what it can stand for. ``keys`` is its text and the
    names of its kinds: what a rule may begin with.
    """

    text: str
    start: int
    stop: int
    kinds: dict[str, Any]
    keys: frozenset[str]


def tokens(text: str) -> list[Token]:
    """All of the text, in order."""
    found: list[Token] = []
    for chunk in _CHUNK.finditer(text):
        if chunk["open"]:
            found += (_punctuation(text, at) for at in range(*chunk.span()))
        elif chunk["instant"]:
            found.append(_token(text, *chunk.span(), {"ISOTIME": chunk[0].lower()}))
        else:
            found += _words(text, *chunk.span())
    return found


def quoted(text: str) -> list[tuple[int, int]]:
    """The places of quotations and code."""
    return [match.span() for match in _QUOTED.finditer(text)]


def _words(text: str, start: int, stop: int) -> Iterator[Token]:
    """The tokens of what stands between two spaces."""
    core = start + len(text[start:stop].rstrip(".,;:!?)]}\"'”’»…"))
    word = text[start:core]
    possessive = word[-2:].lower() in ("'s", "’s")
    if possessive:
        word = word[:-2]
    at = start
    for piece in _pieces(word):
        lower = piece.lower()
        yield _token(text, at, at + len(piece), _kinds(lower))
        at += len(piece)
    if possessive:
        yield Token("'s", at, at + 2, {}, frozenset({"'s"}))
    if word.lower() in _ABBREVIATED and text[core : core + 1] == ".":
        core += 1
    yield from (_punctuation(text, place) for place in range(core, stop))


def _pieces(word: str) -> list[str]:
    """A range written in one word is cut at its dash: 2020-2022, March–May."""
    if not word:
        return []
    pair = _DIGIT_PAIR.fullmatch(word)
    if pair and not _SHAPES[1][1].fullmatch(word):
        return list(pair.groups())
    return [piece for piece in re.split("(–)", word) if piece]


def _punctuation(text: str, at: int) -> Token:
    return Token(text[at], at, at + 1, {}, frozenset({text[at]}))


def _token(text: str, start: int, stop: int, kinds: dict[str, Any]) -> Token:
    lower = text[start:stop].lower()
    return Token(lower, start, stop, kinds, frozenset({lower, *kinds}))


def _kinds(word: str) -> dict[str, Any]:
    kinds: dict[str, Any] = {}
    if word[0].isdigit() or word in _NO_DIGIT_FIRST:
        return _shaped(word)
    for kind, table in (("ONES", ONES), ("TEENS", TEENS), ("TENS", TENS), ("ORDINAL", ORDINALS)):
        if word in table:
            kinds[kind] = table[word]
    tens, _, ones = word.partition("-")
    if tens in TENS and ones in ONES:
        kinds["SPELLED"] = TENS[tens] + ONES[ones]
    if word in UNIT_OF:
        kinds["UNIT"] = UNIT_OF[word]
    if word in MONTHS:
        kinds["MONTH"] = MonthName(MONTHS.index(word) + 1, word not in VERBS)
    elif word in SHORT_MONTHS:
        kinds["MONTH"] = MonthName(SHORT_MONTHS[word], False, short=True)
    if word in WEEKDAYS:
        kinds["WEEKDAY"] = WeekdayName(WEEKDAYS.index(word))
    elif word in SHORT_WEEKDAYS:
        kinds["WEEKDAY"] = WeekdayName(SHORT_WEEKDAYS[word], word not in OTHER_WORDS, short=True)
    if word in PARTS:
        kinds["PART"] = word
    if word in ("am", "pm", "a.m", "p.m"):
        kinds["MERIDIEM"] = word[0]
    return kinds


def _shaped(word: str) -> dict[str, Any]:
    """What begins with a digit, and the few other words that go by their shape."""
    kinds: dict[str, Any] = {}
    if not word.isascii():
        return kinds
    for kind, shape in _SHAPES:
        match = shape.fullmatch(word)
        if match is None:
            continue
        if kind == "AMOUNT":
            if match[2] in UNIT_OF:
                kinds[kind] = (int(match[1]), UNIT_OF[match[2]])
        elif kind == "DIGITS":
            kinds[kind] = int(word.replace(",", ""))
            if len(word) <= 2:
                kinds["DAYNUMBER"] = int(word)
            if len(word) == 4 and int(word):
                kinds["YEAR"] = int(word)
        elif kind in ("QUARTER", "NTH"):
            kinds[kind] = int(re.sub(r"\D", "", word))
        else:
            kinds[kind] = word
    return kinds
