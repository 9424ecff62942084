"""Where graphemes end: the rules of UAX 29, and the tables against what Python knows."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from neverforget.actors.splitter_graphemes import is_boundary, last_boundary

# Graphemes apart from each other by a bar; after GraphemeBreakTest.txt and UAX 29, table 1.
APART = (
    "a|b",
    "\r\n|a|\r|\r\n|\n|\u0308",
    "a\u0308|b|\u200b|c",
    "g\u0308\u0301|ü|x\u20dd",
    "한|글|각|\u1112\u1161\u11ab|\u1112\u1161\u11ab\u11ab|가\u11a8",
    "🇩🇪|🇫🇷|🇬|a|🇬🇧",
    "👩\u200d👩\u200d👧\u200d👦|👍🏽|❤\ufe0f\u200d🔥|a\u200d|b",
    "क्षि|क|षि|ক্ষ|நி|ด\u0e33|ก",
    "\u0600١|\u0600|\n",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f|x",
    "\ud800|\ud800\u0301|z",
)


@pytest.mark.parametrize("apart", APART)
def test_graphemes_end_where_the_rules_say(apart: str) -> None:
    graphemes = apart.split("|")
    text = "".join(graphemes)
    ends, at = [], 0
    for grapheme in graphemes:
        at += len(grapheme)
        ends.append(at)
    assert [at for at in range(1, len(text) + 1) if is_boundary(text, at, 0)] == ends


@pytest.mark.skipif(
    int(unicodedata.unidata_version.split(".")[0]) > 17, reason="the tables are of Unicode 17"
)
def test_no_combining_mark_that_python_knows_begins_a_grapheme() -> None:
    marks = [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.combining(c)]
    assert len(marks) > 800
    assert [c for c in marks if is_boundary("a" + c, 1, 0)] == []


def test_the_last_grapheme_that_fits_is_found_and_a_longer_one_whole() -> None:
    assert last_boundary("abcdef", 0, 4) == 4
    assert last_boundary("abc\u0301\u0302def", 0, 4) == 2
    assert last_boundary("a" + "\u0301" * 9 + "b", 0, 4) == 10
    assert last_boundary("🇩🇪🇫🇷🇬🇧", 2, 5) == 4
    assert last_boundary("ab", 0, 9) == 2
