"""The prose of a turn, cut into sentences; code, tables, quotations and markup are left out.

One pass over the lines, linear in the text. Sentences end at a mark with a space after it, and at
the marks of scripts that put none; not after an abbreviation, an initial or before a small letter.
Whatever script it is, a sentence stays whole, unless it is longer than SENTENCE_CHARACTERS_MAX.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from neverforget.actors.splitter_kinds import kind_of

SENTENCE_CHARACTERS_MAX: Final = 600
_LINE_LOOKED_AT: Final = 2_000  # characters, for what kind of line it is

_FENCE = re.compile(r" {0,3}(`{3}|~{3})")
_MARKUP = re.compile(r"\s*(?:#{1,6}\s|\||>|[-=*_]{3,}\s*$|</?\w[^<>]*>\s*$)")
_TRACE = re.compile(
    r"\s*(?:Traceback \(most recent|File \"[^\"]*\", line \d|[\w.]{0,99}(?:Error|Exception): "
    r"|at [\w.$<>/]{1,200} ?\()"
)
_ITEM = re.compile(r"\s*(?:[-*+•]\s+|\d{1,3}[.)]\s+)(?:\[[ xX]\]\s+)?")
_IMAGE = re.compile(r"!\[([^\[\]\n]{0,500})\](?:\([^()\s]{0,2000}\))?")
_LINK = re.compile(r"(?<!!)\[([^\[\]\n]{1,300})\]\([^()\s]{1,2000}\)")
_SYMBOL = re.compile(r"[{}()\[\];=<>|\\$#@&^%~/`_]")
_CODE_ENDS = ("{", "}", ";", "=>", "(", "\\")
_JSON = (("{", "}"), ("[", "]"))

# Looked for at the first mark of a row only, or a row of n marks costs n times n.
_END = re.compile(
    r"(?<![.!?…])[.!?…]+[\"'”’)\]*_]{0,4}(?=\s|$)|(?<![。！？｡।])[。！？｡।]+[」』”’）】]{0,4}"
)
_ABBREVIATED = re.compile(
    r"(?:^|[\s(\"'“])(?:[A-Za-z]|mr|mrs|ms|dr|prof|st|jr|sr|vs|etc|e\.g|i\.e|z\.b|d\.h|u\.a|bzw|ca"
    r"|approx|no|nr|vol|fig|inc|ltd|co|dept|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
    r"|(?:[a-z]\.){1,4}[a-z])\.$",
    re.IGNORECASE,
)
_SENTENCE_AFTER = ("a.m.", "p.m.", " i.")  # these do end one, before a capital


def sentences(text: str) -> Iterator[str]:
    """In order, white space made plain. What an image shows is a sentence ``![...]`` of its own."""
    stripped = text.strip()
    if any(stripped.startswith(a) and stripped.endswith(b) for a, b in _JSON):
        return
    if kind_of(text).is_code:
        return
    for paragraph in _paragraphs(text):
        yield from _cut(paragraph)


def _paragraphs(text: str) -> Iterator[str]:
    held: list[str] = []
    fence = ""
    for line in text.splitlines():
        head = line[:_LINE_LOOKED_AT]
        mark = _FENCE.match(head)
        if fence:
            fence = "" if mark and mark[1] == fence else fence
            continue
        begins = mark is not None or not head.strip() or _is_markup(head)
        item = _ITEM.match(head)
        if held and (begins or item or _starts_anew(held[-1], head)):
            yield " ".join(held)
            held = []
        if mark:
            fence = "" if line.count(mark[1]) > 1 else mark[1]
        elif not begins:
            held.append(line[item.end() :].strip() if item else line.strip())
    if held:
        yield " ".join(held)


def _is_markup(line: str) -> bool:
    return any(kind.match(line) for kind in (_MARKUP, _TRACE)) or _is_code(line)


def _is_code(line: str) -> bool:
    plain = _IMAGE.sub("", _LINK.sub("", line)).strip()
    symbols = len(_SYMBOL.findall(plain))
    return symbols > 2 and (symbols * 8 > len(plain) or plain.endswith(_CODE_ENDS))


def _starts_anew(before: str, line: str) -> bool:
    """Of two lines of one paragraph: wrapped prose goes on with a small letter."""
    first = line.lstrip()[:1]
    return not first.islower() and not before.endswith((",", "–", "-"))


def _cut(paragraph: str) -> Iterator[str]:
    images = [f"![{shown.strip()}]" for shown in _IMAGE.findall(paragraph) if shown.strip()]
    paragraph = _LINK.sub(r"\1", _IMAGE.sub(" ", paragraph))
    start = 0
    for found in _END.finditer(paragraph):
        if _ends(paragraph, start, found):
            yield from _whole(paragraph[start : found.end()])
            start = found.end()
    yield from _whole(paragraph[start:])
    yield from images


def _ends(text: str, start: int, found: re.Match[str]) -> bool:
    """Whether a sentence ends at this mark."""
    if not found[0].startswith("."):
        return True
    following = text[found.end() : found.end() + 40].lstrip()[:1]
    if following.islower() and not text[start : start + 40].lstrip()[:1].islower():
        return False  # who begins one with a small letter begins the next one with it
    before = text[max(start, found.start() - 12) : found.start() + 1]
    if before.lower().endswith(_SENTENCE_AFTER):
        return True
    return len(found[0]) > 1 or _ABBREVIATED.search(before) is None


def _whole(sentence: str) -> Iterator[str]:
    if len(sentence) > SENTENCE_CHARACTERS_MAX:  # no more of it is looked at than is kept
        sentence = sentence[: 4 * SENTENCE_CHARACTERS_MAX]
    plain = " ".join(sentence.replace("**", "").split())
    if len(plain) > SENTENCE_CHARACTERS_MAX:
        cut = plain.rfind(" ", SENTENCE_CHARACTERS_MAX // 2, SENTENCE_CHARACTERS_MAX)
        plain = plain[: cut if cut > 0 else SENTENCE_CHARACTERS_MAX] + " …"
    if plain:
        yield plain
