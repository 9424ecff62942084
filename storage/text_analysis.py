"""How text becomes words, the same for documents and queries. Pure, no I/O.

A prepared text is words with one blank between them; tantivy's analyzer then lower-cases, folds
what accents are left, and stems (English). What happens here is what it cannot do:

* scripts without blanks between words (Chinese, Japanese, Thai, ...) and Korean become overlapping
  pairs of characters and single characters; a query uses the pairs, and single characters only
  where it has nothing longer;
* accents, Hebrew points and Arabic vowel signs are taken off, full-width forms made plain;
* ``snake_case`` and ``camelCase`` names are words, and so are their parts; ``C++`` and ``C#`` are
  words of their own; emoji are words;
* everything else that is no letter or digit separates words. A query is made of words like any
  text: quotes, ``AND``, ``:*`` or brackets mean nothing in it and cannot raise.

Raise ``ANALYSIS_VERSION`` whenever a text is cut or labelled differently: indexes are rebuilt
then.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

ANALYSIS_VERSION: Final = 2
WORD_CHARACTERS_MAX: Final = 64  # of longer ones (base64, hashes) the beginning counts

_ASCII_WORD = re.compile(r"[A-Za-z0-9]+(?:[_'][A-Za-z0-9]+)*(?:\+\+|#(?![A-Za-z0-9#]))?")

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Signs that belong to the letter before them and are no \w: vowels of Indian scripts, points.
_MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
_INDIC = "\u0900-\u0963\u0966-\u0dff"
_LETTER = rf"(?:[^\W_{_UNSPACED}]|[{_MARKS}{_INDIC}])"
_EMOJI = "[\u2600-\u27bf\U0001f000-\U0001faff]"
_ANY_WORD = re.compile(
    rf"(?P<unspaced>[{_UNSPACED}]+)"
    rf"|(?P<word>{_LETTER}+(?:[_'\u2019]{_LETTER}+)*(?:\+\+|\#(?![\w\#]))?)"
    rf"|(?P<emoji>{_EMOJI})"
)
_MARK = re.compile(f"[{_MARKS}]")
_APOSTROPHE = re.compile("['\u2019]")
_NAME_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_CAMEL = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]{2}")
_SUFFIXES = frozenset({"s", "t", "d", "m", "ll", "ve", "re"})  # she's, don't, we'll

# Words that say nothing about what is asked for; dropped from queries only. Not among them: "may"
# and "will", which are a month and a name.
_STOP_WORDS = """
    a about after again all also am an and any are as at be because been before being between both
    but by can could did do does doing don down during each few for from further get had has have
    having he her here hers herself him himself his how i if in into is it its itself just let me
    more most much my myself no nor not now of off on once one only or other our ours ourselves out
    over own same she should so some such than that the their theirs them themselves then there
    these they this those through to too under until up upon us very was we were what when where
    which while who whom whose why with would you your yours yourself yourselves
    """
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())


def prepared(text: str) -> str:
    """A document's text as words with a blank between them."""
    return " ".join(_words(text, query=False))


def query_words(text: str) -> list[str]:
    """The words of a query, each once, in their order, less the stop words. If nothing else is
    there ("who is she"), the stop words.
    """
    words = list(dict.fromkeys(word.lower() for word in _words(text, query=True)))
    return [word for word in words if word not in STOP_WORDS] or words


def date_words(at_us: int) -> str:
    """A time (microseconds UTC) in the words people use for its day: "Monday 8 May 2023"."""
    day = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)
    return f"{_DAYS[day.weekday()]} {day.day} {_MONTHS[day.month - 1]} {day.year}"


_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)  # fmt: skip


def _words(text: str, *, query: bool) -> Iterator[str]:
    if text.isascii():
        for word in _ASCII_WORD.findall(text):
            if len(word) <= WORD_CHARACTERS_MAX and word.islower() and word.isalnum():
                yield word
            else:
                yield from _forms(word)
        return
    for found in _ANY_WORD.finditer(unicodedata.normalize("NFKC", text)):
        word = found.group()
        if found.lastgroup == "unspaced":
            yield from _pairs(word, query=query)
        elif found.lastgroup == "emoji":
            yield word
        else:
            yield from _forms(word)


def _forms(word: str) -> Iterator[str]:
    """The word without its possessive; of a name in a program also its parts."""
    if word[-1] in "+#":
        yield word
        word = word.rstrip("+#")
    pieces = _APOSTROPHE.split(word)
    if len(pieces) > 1 and pieces[-1].lower() in _SUFFIXES:
        pieces.pop()
    for piece in pieces:
        if "_" in piece or _CAMEL.search(piece):
            yield _plain(piece)
            for part in piece.split("_"):
                parts = _NAME_PART.findall(part) if _CAMEL.search(part) and part.isascii() else ()
                yield from (_plain(p) for p in parts or (part,))
        else:
            yield _plain(piece)


def _plain(word: str) -> str:
    """Without accents and points, and not longer than it may be."""
    if not word.isascii():
        decomposed = unicodedata.normalize("NFD", word.casefold())
        # A word of nothing but marks stays as it is: no word may be empty.
        word = unicodedata.normalize("NFC", _MARK.sub("", decomposed)) or word
    return word[:WORD_CHARACTERS_MAX]


def _pairs(run: str, *, query: bool) -> Iterator[str]:
    if not query or len(run) == 1:
        yield from run
    for at in range(len(run) - 1):
        yield run[at : at + 2]
