"""Text with lone surrogates, made fit for what only takes UTF-8: Arrow columns and index terms.

A lone surrogate becomes a character of the last private-use block (U+10F800..U+10FFFF), one each.
Equal text stays equal and different text different, unless somebody uses that block, so filters may
compare escaped values. It is not meant to be reversed: keep the original beside it.
"""

from __future__ import annotations

import re

_LONE = re.compile("[\ud800-\udfff]")
_SHIFT = 0x10F800 - 0xD800


def escaped(text: str) -> str:
    """``text`` where UTF-8 takes it, else without its lone surrogates."""
    if text.isascii():
        return text
    return _LONE.sub(lambda found: chr(ord(found.group()) + _SHIFT), text)


def is_plain(text: str) -> bool:
    """Whether ``text`` has no lone surrogate, so that ``escaped`` leaves it as it is."""
    return text.isascii() or _LONE.search(text) is None
