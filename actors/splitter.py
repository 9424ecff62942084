"""Cutting a long text into pieces that can be found by themselves. Pure.

The pieces, joined, are the text. A piece ends where its structure does, near the target: at a
heading, a block, an item, a turn, a definition; else at a sentence, a clause, a word, and at last
between two graphemes. Every machine cuts alike: whole numbers, own tables, no locale. The time is
linear in the text, whatever it holds.

Written here since the library at hand (``semantic-text-splitter`` 0.33) was measured and is not
good enough: a megabyte without a blank takes it 8 seconds, five times as much 25 times as long; it
takes no lone surrogates, cuts graphemes that are longer than a piece, makes pieces of lone headings
(12 characters), knows neither the path of headings nor turns of chats, needs a grammar for each
language of code, and may cut otherwise with its next version. Of the facts of ``bench/planted.py``
hybrid recall has 0.92 among the first five with these pieces, 0.89 with the library's.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from neverforget.actors.splitter_code import CodeReader
from neverforget.actors.splitter_graphemes import is_boundary, last_boundary
from neverforget.actors.splitter_kinds import kind_of
from neverforget.actors.splitter_outline import (
    SENTENCE,
    TITLE_CHARACTERS_MAX,
    Heading,
    Outline,
)
from neverforget.actors.splitter_prose import ProseReader

SPLITTER_VERSION: Final = "1"
CONTEXT_CHARACTERS_MAX: Final = 200
_PATH_DELIMITER: Final = " > "
_END: Final = 100  # what it is worth to end with the text
_LEAST: Final = 4  # a piece is no shorter than target // 4 where there is a choice

# A sentence ends: by a mark and space, by a mark that needs no space.
_SENTENCE = re.compile(
    r"(?<=[.!?…\"'”’)\]。！？।])\s++(?=[^\sa-z])|(?<=[。！？｡．।॥…」』”’）】])(?![。！？｡．।॥…」』”’）】\s])"
)
_SENTENCE_END = re.compile(r"[.!?…。！？｡．।॥][\"'”’)\]」』）】]{0,3}$")
_ABBREVIATED = re.compile(
    r"(?:^|[\s(])(?:[A-Za-z]|Dr|Mr|Mrs|Ms|Prof|St|vs|No|Nr|Fig|Eq|e\.g|i\.e|cf|etc)\.$"
)
_CLAUSE = re.compile(r"(?<=[,;:])\s++|(?<=[，、；：])|\s++")
_MARKS = re.compile(r"^[#\s]+|[#\s]+$|[*_`]{1,3}")


class Piece(NamedTuple):
    """Characters ``start``..``stop`` of the text. ``context``: title and headings it stands under;
    None where there are none outside of itself.
    """

    start: int
    stop: int
    context: str | None


def split(text: str, *, target: int = 1_500, most: int = 2_000) -> list[Piece]:
    """The pieces of ``text``, none longer than ``most`` characters unless it is one grapheme.
    None of an empty text; one of a text that fits.
    """
    assert 0 < target <= most
    outline = _outline(text, most)
    pieces = []
    path = _Path(text, outline.headings)
    start = 0
    while start < len(text):
        stop = _end_of_piece(text, outline, start, target, most)
        pieces.append(Piece(start, stop, path.at(start)))
        start = stop
    return pieces


def _outline(text: str, most: int) -> Outline:
    kind = kind_of(text)
    if kind.is_code:
        return CodeReader(text).outline
    return ProseReader(text, most, chat=kind.is_chat).outline


# ---- where a piece ends --------------------------------------------------------------------------


def _end_of_piece(text: str, outline: Outline, start: int, target: int, most: int) -> int:
    least, limit = max(start + target // _LEAST, start + 1), start + most
    best, found = -1_000_000, None
    for at, worth in _places(text, outline, start, least, limit):
        value = worth * target - 100 * abs(at - start - target)
        if len(text) - at < target // _LEAST and at < len(text):
            value -= 30 * target
        if value > best and is_boundary(text, at, start):
            best, found = value, at
    if found is not None:
        return found
    kept = outline.whole_around(least)
    if kept is not None and kept[0] > start and is_boundary(text, kept[0], start):
        return kept[0]
    return _forced(text, start, target, limit)


def _places(
    text: str, outline: Outline, start: int, least: int, limit: int
) -> Iterator[tuple[int, int]]:
    """Places from ``least`` to ``limit`` and what they are worth."""
    if len(text) <= limit:
        yield len(text), _END
    low, high = bisect_left(outline.at, least), bisect_right(outline.at, limit)
    yield from zip(outline.at[low:high], outline.worth[low:high])
    for found in _SENTENCE.finditer(text, least, min(limit, len(text))):
        at = found.end()
        if at > start and outline.whole_around(at) is None and _ends_sentence(text, found.start()):
            yield at, SENTENCE


def _ends_sentence(text: str, at: int) -> bool:
    before = text[max(0, at - 8) : at]
    return _SENTENCE_END.search(before) is not None and not _ABBREVIATED.search(before)


def _forced(text: str, start: int, target: int, limit: int) -> int:
    """No place of its own: after the last sentence, clause or word before the target, the first
    one after it, or between two graphemes.
    """
    word = None
    for found in _CLAUSE.finditer(text, start + 1, min(limit, len(text))):
        at = found.end()
        if at > start + target and word is not None:
            break
        if is_boundary(text, at, start):
            word = at
    return word if word is not None else last_boundary(text, start, start + target)


# ---- the path of headings ------------------------------------------------------------------------


class _Path:
    """Title and headings above a place; asked for places in order."""

    def __init__(self, text: str, headings: list[Heading]) -> None:
        self._text, self._headings = text, headings
        self._next = 0
        self._open: list[Heading] = []

    def at(self, place: int) -> str | None:
        headings = self._headings
        while self._next < len(headings) and headings[self._next].at <= place:
            heading = headings[self._next]
            while self._open and self._open[-1].depth >= heading.depth:
                self._open.pop()
            if heading.titled:
                self._open.append(heading)
            self._next += 1
        above = [heading for heading in self._open[:1] + self._open[1:][-4:] if heading.at < place]
        titles = [title for heading in above if (title := self._title(heading))]
        return _shortened(titles) or None

    def _title(self, heading: Heading) -> str:
        line = self._text[heading.at : min(heading.stop, heading.at + 2 * TITLE_CHARACTERS_MAX)]
        return " ".join(_MARKS.sub("", line).rstrip("{:( \n\r").split())


def _shortened(titles: list[str]) -> str:
    """At most ``CONTEXT_CHARACTERS_MAX``: first what stands between is left out, then the ends are
    cut.
    """
    while len(titles) > 2 and len(_PATH_DELIMITER.join(titles)) > CONTEXT_CHARACTERS_MAX:
        titles = [titles[0], *titles[2:]]
    room = CONTEXT_CHARACTERS_MAX
    if len(titles) > 1:
        room = (room - len(_PATH_DELIMITER)) // 2
    if len(_PATH_DELIMITER.join(titles)) > CONTEXT_CHARACTERS_MAX:
        titles = [t if len(t) <= room else t[: last_boundary(t, 0, room)] for t in titles]
    return _PATH_DELIMITER.join(titles)
