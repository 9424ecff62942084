"""What kind of text it is: source code, a chat, or anything else. Pure; looks at its beginning."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_LOOK_AT: Final = 64 * 1024  # characters
_LINE_MAX: Final = 160  # of a line, for a judgement
_LINES_MIN: Final = 8

# A turn of a chat: a time or a mark before it perhaps, the speaker, a colon.
_TIME = r"\[[^\]\n]{1,40}\]|\(?\d{1,4}[-/.:]\d{1,2}[-/.:\dTZ, apmAPM]{0,24}\)?"
_NAME = r"[^\W\d_][^\s:*\[\]<>()|#`{}=;\"]{0,24}(?: [^\s:*\[\]<>()|#`{}=;\"]{1,24}){0,2}"
_TURN = re.compile(
    rf"(?:[-*>] )?(?:\*\*|__)?(?:{_TIME})?[ ]?(?:[-–—] )?(?:\*\*|__)?"
    rf"(?:(?P<name>{_NAME})(?: \([^)\n]{{1,30}}\)| \[[^\]\n]{{1,30}}\])?"
    r"(?:\*\*|__)?[:：](?:\*\*|__)?(?=\s|$)"
    rf"|<(?P<nick>{_NAME})> )"
)

DEFINITION: Final = re.compile(
    r"[ \t]*(?:(?:export|default|public|private|protected|internal|static|abstract|final|async"
    r"|pub(?:\([^)\n]{1,20}\))?|unsafe|override|data|sealed|inline|virtual|extern) )*"
    r"(?:class|def|function|func|fn|impl|struct|enum|interface|trait|module|namespace|type"
    r"|template|protocol|object|record|CREATE (?:TABLE|VIEW|FUNCTION|INDEX))\b[ (<]"
)
_CODE_LINE = re.compile(
    r"[^\n]*(?:[;{}]|\) ?:|\):|=>|->|\\|[(\[,])[ \t]*$"
    r"|[ \t]*(?:import|from|return|if|elif|else|for|while|try|except|raise|with|let|const|var|use"
    r"|package|#include|#define|@\w|//|/\*|\*/|\}|\)|\]|self\.|this\.|print|assert|yield|await)"
    r"|[ \t]*[\w.\[\]]{1,60} ?[-+*/|&]?= ?\S|[ \t]*[\w.]{1,60}\("
)
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")


class Kind(NamedTuple):
    is_code: bool
    is_chat: bool


def speaker(line: str) -> str | None:
    """Whose turn of a chat begins with this line, if one does."""
    found = _TURN.match(line)
    return None if found is None else found["name"] or found["nick"]


def kind_of(text: str) -> Kind:
    """A chat: a good part of the lines begin turns, and speakers come again. Code: most lines are
    such as no prose has, and definitions or punctuation bear it out.
    """
    lines = [line[:_LINE_MAX] for line in text[:_LOOK_AT].splitlines() if line.strip()]
    spoken = [name for name in map(speaker, lines) if name]
    if _is_chat(spoken, len(lines)):
        return Kind(False, True)
    if len(lines) < _LINES_MIN or any(_FENCE.match(line) for line in lines):
        return Kind(False, False)
    like_code = sum(1 for line in lines if _CODE_LINE.match(line) or DEFINITION.match(line))
    return Kind(like_code * 10 >= len(lines) * 6, False)


def _is_chat(spoken: list[str], lines: int) -> bool:
    return len(spoken) >= 4 and len(spoken) * 5 >= lines and len(set(spoken)) * 2 <= len(spoken)
