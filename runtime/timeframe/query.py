"""``timeframe="auto"``: finds the time phrase in a query and takes it out.

A word that might be something else stays. So a phrase counts only where its words can mean nothing
else ("last week", but not "march" or "the second"), where what stands around it does not turn it
into something else ("the last week of school", "compared to last week"), outside quotation marks,
and when it has begun: the plan for next week was not remembered next week. Of two phrases neither
is taken, because either could hide what was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, tzinfo

from msgspec import Struct

from neverforget.runtime.timeframe.grammar import Reading
from neverforget.runtime.timeframe.phrases import Phrase
from neverforget.runtime.timeframe.reckoning import Here, NoSuchTime
from neverforget.runtime.timeframe.resolving import Range, here_at, range_of
from neverforget.runtime.timeframe.table import GRAMMAR
from neverforget.runtime.timeframe.words import VERBS, Token, quoted, tokens
from neverforget.storage.errors import InvalidArgument

# The query is read in blocks, each with the block after it in sight, so that a word costs the same
# in a long query as in a short one. No phrase longer than a block is looked for.
_BLOCK_TOKENS = 16

# Words before a phrase that make it one side of something; then other phrases stay too.
_JOINED_BY = frozenset({"and", "or", "vs", "versus", "to", "with", "than", "but", "between", "–"})
# Words before a phrase that make it a habit, an exception, or a part of a longer expression that
# was not understood.
_TURNED_BY = _JOINED_BY | {
    *("every", "each", "any", "by", "like", "as", "at", "not", "except", "excluding", "without"),
    *("half", "hundred", "thousand", "million", "dozen"),
    *("since", "before", "after", "until", "till"),
}
_SENTENCE_ENDS = frozenset({".", "?", "!", ":", ";", "…", "(", "[", "-", "—", '"', "“"})
_RANGE_GOES_ON = frozenset({"to", "until", "till", "through", "thru", "–"})
_LISTED_BY = frozenset({"and", "or", "&", ","})
_NAMES = frozenset({"MONTH", "WEEKDAY", "YEAR", "QUARTER", "ISODATE", "ISOMONTH"})
# After "may" and "march": then it is a verb.
_SUBJECTS = frozenset(
    {
        *("i", "we", "you", "he", "she", "they", "it", "this", "that", "be", "have", "not", "also"),
        *("on", "off", "up", "down", "into", "toward", "towards", "against", "well"),
    }
)
# After a number of four digits: then it is no year.
_MEASURES = frozenset(
    {
        *("words", "characters", "chars", "tokens", "rows", "lines", "bytes", "kb", "mb", "gb"),
        *("users", "people", "items", "ms", "px", "pixels", "dollars", "usd", "eur", "euros"),
        *("steps", "records", "requests", "files", "pages", "times", "points", "miles", "km"),
        *("m", "meters", "metres", "percent", "%", "messages", "turns", "memories", "documents"),
        *("calls", "queries", "attempts", "iterations", "samples", "units", "feet", "degrees"),
        *("seconds", "minutes", "hours", "days", "weeks", "months", "years"),
    }
)


class _Found(Struct, frozen=True):
    """``free``: what stands around it leaves it what it is."""

    start: int
    stop: int
    range: Range
    free: bool


def take(query: str, *, now: datetime, tz: tzinfo | str) -> tuple[Range | None, str | None, str]:
    """The range that a time phrase in the query means, the phrase, and the query without it.

    (None, None, query) where there is none, more than one, or one that has not begun. ``resolve``
    of the phrase gives the same range. The rest may be empty. Never raises for a query that is
    text.
    """
    if not isinstance(query, str):
        raise InvalidArgument(f"query is {query!r}, a {type(query).__name__}; pass text")
    here = here_at(now, tz)
    found = list(_all_phrases(query, here))
    if len(found) != 1 or not found[0].free:
        return None, None, query
    one = found[0]
    return one.range, query[one.start : one.stop], _without(query, one.start, one.stop)


def _all_phrases(query: str, here: Here) -> Iterator[_Found]:
    """Those that have begun, without the turned ones that do not count at all."""
    words = tokens(query)
    quotations = {place for start, stop in quoted(query) for place in range(start, stop)}
    at, block, reading = 0, -1, Reading(GRAMMAR, ())
    while at < len(words):
        if words[at].start in quotations or not GRAMMAR.may_begin("TIMEFRAME", words[at]):
            at += 1
            continue
        if at // _BLOCK_TOKENS != block:
            block = at // _BLOCK_TOKENS
            first = block * _BLOCK_TOKENS
            reading = Reading(GRAMMAR, words[first : first + 2 * _BLOCK_TOKENS])
        length, phrase = _longest(reading, at % _BLOCK_TOKENS)
        end = at + length
        if phrase is not None and not _is_name(query, words, at):
            range_ = _begun(phrase, here)
            joined = at > 0 and words[at - 1].text in _JOINED_BY
            free = not _turned(words, at, end)
            if range_ is not None and (free or joined):
                yield _Found(words[at].start, words[end - 1].stop, range_, free)
        at = max(end, at + 1)


def _longest(reading: Reading, at: int) -> tuple[int, Phrase | None]:
    """The longest sure phrase that begins here, and its length in tokens."""
    length, phrase = 0, None
    for end, read in reading.read("TIMEFRAME", at):
        assert isinstance(read, Phrase)
        if read.sure and end - at > length:
            length, phrase = end - at, read
    return length, phrase


def _begun(phrase: Phrase, here: Here) -> Range | None:
    try:
        found = range_of(phrase, here)
    except (NoSuchTime, OverflowError):
        return None
    if found.stop is None:
        return None
    begun = found.stop <= here.now if found.start is None else found.start < here.now
    return found if begun else None


def _is_name(query: str, words: list[Token], at: int) -> bool:
    """USA Today: a capital that neither a sentence nor the calendar asks for."""
    first = words[at]
    if not query[first.start].isupper() or query.isupper() or at == 0:
        return False
    if words[at - 1].text in _SENTENCE_ENDS:
        return False
    return not first.kinds.keys() & {"MONTH", "WEEKDAY", "QUARTER"}


def _turned(words: list[Token], at: int, end: int) -> bool:
    """Whether the words around a phrase make something else of it."""
    if at > 0 and words[at - 1].text in _TURNED_BY:
        return True
    if end == len(words):
        return False
    first, last, following = words[at].text, words[end - 1], words[end].text
    if following in ("of", "'s") or (following == "before" and first == "the"):
        return True
    if at > 0 and words[at - 1].text == "from" and following in _RANGE_GOES_ON:
        return True
    if (first in VERBS or last.text in VERBS) and following in _SUBJECTS:
        return True
    if "YEAR" in last.kinds and following in _MEASURES:
        return True
    listed = following in _LISTED_BY and end + 1 < len(words)  # in May or June
    return listed and not _NAMES.isdisjoint(words[end + 1].kinds)


def _without(query: str, start: int, stop: int) -> str:
    """The query without that place, and without the comma or brackets that only it needed."""
    left, right = query[:start].rstrip(), query[stop:].lstrip()
    if left[-1:] == "(" and right[:1] == ")":
        left, right = left[:-1].rstrip(), right[1:].lstrip()
    if right[:1] == "," and (not left or left[-1] == ","):
        right = right[1:].lstrip()
    if not right.strip(".?!…"):
        left = left.rstrip(",;: ")
    if not left.strip("¿¡ ") and not right.strip(".,;:?!… "):
        return ""
    between = " " if left and right and right[0] not in ".,;:?!…)" else ""
    return left + between + right
