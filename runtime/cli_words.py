"""What of a long text is shown to a person, and which of its words are marked."""

from __future__ import annotations

import re

from rich.text import Text

from neverforget.runtime.cli_render import printable

TEXT_CHARACTERS_MAX = 600
LEAD_CHARACTERS = 80  # shown before the part of a long memory that was found
AROUND_CHARACTERS = TEXT_CHARACTERS_MAX - LEAD_CHARACTERS  # shown from there
# Words that say nothing about which memory is meant; marking them would mark half the text.
_STOP = """
    a an and are as at be by did do does for from had has have he her his how i in is it its me my
    of on or our she so than that the their them they this to us was we were what when where which
    who whom whose why will with you your
"""
STOP_WORDS = frozenset(_STOP.split())
_WORD = re.compile(r"\w+")
_ENDINGS = ("ings", "ing", "ies", "ied", "ed", "es", "s", "y", "e")
_STEM_MIN = 3
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def excerpt(text: str, around: tuple[int, int] | None = None, *, full: bool = False) -> str:
    """``text`` as far as it is shown: its beginning, or what was found with a little before it."""
    if full or len(text) <= TEXT_CHARACTERS_MAX:
        return printable(text)
    begin = 0 if around is None else max(around[0] - LEAD_CHARACTERS, 0)
    begin = min(begin, max(len(text) - TEXT_CHARACTERS_MAX, 0))
    end = begin + TEXT_CHARACTERS_MAX
    left = len(text) - (end - begin)
    shown = printable(text[begin:end])
    rest = f" ({left:,} more characters, --full shows them)"
    return ("… " if begin else "") + shown + ("…" if end < len(text) else "") + rest


def words_of(query: str) -> frozenset[str]:
    """What to mark of a query in what it found: stems of its words, characters of East Asian
    text."""
    found = {stem(word) for word in words_in(query) if word not in STOP_WORDS}
    found |= set(_CJK.findall(query))
    return frozenset(found)


def words_in(text: str) -> list[str]:
    """The words of ``text`` in small letters, as often as they stand there."""
    return _WORD.findall(text.casefold())


def stem(word: str) -> str:
    """A word without its ending, roughly: it only decides what is printed bold."""
    if _CJK.search(word):
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM_MIN:
            return word[: -len(ending)]
    return word


def where_most(text: str, words: frozenset[str]) -> tuple[int, int] | None:
    """The stretch of a long text, as long as ``excerpt`` shows of it, that has most of ``words``.
    None: it has none of them.
    """
    found = [(m.start(), stem(m[0].casefold())) for m in _WORD.finditer(text)]
    found += [(m.start(), m[0]) for m in _CJK.finditer(text)]
    places = sorted({place for place in found if place[1] in words})
    best, most, last = None, 0, 0
    for first, (start, _) in enumerate(places):
        last = max(last, first)
        while last < len(places) and places[last][0] < start + AROUND_CHARACTERS:
            last += 1
        count = len({word for _, word in places[first:last]})
        if count > most:
            best, most = (start, start + AROUND_CHARACTERS), count
    return best


def marked(text: str, words: frozenset[str]) -> Text:
    """``text`` with every occurrence of ``words`` in bold."""
    shown = Text(text)
    if not words:
        return shown
    for word in _WORD.finditer(text):
        if stem(word[0].casefold()) in words:
            shown.stylize("bold yellow", *word.span())
    for character in _CJK.finditer(text):
        if character[0] in words:
            shown.stylize("bold yellow", *character.span())
    return shown
