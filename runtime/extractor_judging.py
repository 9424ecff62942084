"""Whether a sentence says something worth keeping, and what kind of thing it is.

An English sentence is weighed by what it tells besides filler: how many words of content, whether
somebody speaks of himself, names and numbers, and the phrases that tell preferences, plans,
decisions and events. Sentences in other languages are only told from greetings and questions, and
kept whole.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final, NamedTuple

from neverforget.runtime.extractor_fillers import (
    ANNOUNCED,
    ASKED,
    COURTESY,
    GENERAL,
    GUESSED,
    INTERJECTIONS,
    LASTING,
    ORDER,
    PRAISE,
    REACTION,
    SOFT,
)
from neverforget.runtime.extractor_words import (
    ADDRESSED,
    COURTESY_FOREIGN,
    CUES,
    DANGLING,
    DOUBT,
    ELLIPTIC,
    FILLERS,
    FOREIGN,
    HIMSELF,
    LEANING,
    POINTING,
    TOGETHER,
)

KEPT_FROM: Final = 2.25  # worth of a sentence
WORDS_MIN_FOREIGN: Final = 4
CHARACTERS_MIN_UNSPACED: Final = 8  # in a script without blanks
_CONTENT_MAX, _CONTENT_WORTH = 6, 0.5
_POINTING_CONTENT_MAX: Final = 2
_OWN_WORTH, _ADDRESSED_WORTH, _REACTION_WORTH, _ORDER_WORTH = 1.5, -1.0, -1.0, -2.0
_NAME_WORTH, _NUMBER_WORTH = 1.0, 0.5

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_UNSPACED = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7ff]")
_NAME = re.compile(r"(?<=[\w,;:'’\"] )[A-Z][\w'’-]+")
_NUMBER = re.compile(r"\d")
_TURNED = re.compile(r",? but | [-–—] |, (?=i\b|i')", re.IGNORECASE)
_OPENING = "¡¿\"'“‘(* "
_CLOSING = "\"'”’)*"


class Kind(IntEnum):
    FILLER = 0
    QUESTION = 1
    STATEMENT = 2


class Judged(NamedTuple):
    """``content``: how many of its words tell something. ``worth``: of a statement; 0 of others.

    leaning: it says less without the question that it answers. dangling: it begins with "it" or
    "they", or says little else, which stand for what was said before. named: with a name or number.
    sure: without doubt.
    """

    kind: Kind
    content: int
    worth: float = 0.0
    type: str = "fact"
    leaning: bool = False
    dangling: bool = False
    named: bool = False
    sure: bool = True


def judged(sentence: str, names: frozenset[str]) -> Judged:
    """``names``: the words, in small letters, of the names of whoever takes part."""
    if sentence.startswith("!["):
        return _shown(sentence)
    plain = sentence.replace("’", "'")
    words = [word.lower() for word in _WORD.findall(plain)]
    if not _is_english(words):
        return _foreign(sentence, words)
    content = sum(1 for word in words if _tells(word, names))
    if plain.rstrip(_CLOSING).endswith(("?", "？")):
        return Judged(Kind.QUESTION, content)
    said = _without_interjections(plain, names)
    greets = _is_only(COURTESY, said) or (len(words) < WORDS_MIN_FOREIGN and _greets_foreign(plain))
    if not content or greets:
        return Judged(Kind.FILLER, content)
    proper = {w.lower().removesuffix("'s") for w in _NAME.findall(said)} - names - FILLERS
    type_, worth = _worth(said, words, content, bool(proper))
    points = content <= _POINTING_CONTENT_MAX and POINTING.search(said) is not None
    dangling = points or DANGLING.match(said) is not None
    leaning = dangling or LEANING.match(plain) is not None or not (HIMSELF | TOGETHER) & set(words)
    sure = DOUBT.search(plain) is None
    named = bool(proper) or _NUMBER.search(said) is not None
    return Judged(Kind.STATEMENT, content, worth, type_, leaning, dangling, named, sure)


def _is_english(words: list[str]) -> bool:
    """Or so short that nobody can tell."""
    ours = sum(1 for word in words if word in FILLERS)
    others = sum(1 for word in words if word in FOREIGN or not word.isascii())
    return ours >= others


def _tells(word: str, names: frozenset[str]) -> bool:
    return word not in FILLERS and word.removesuffix("'s") not in names


def _without_interjections(sentence: str, names: frozenset[str]) -> str:
    """What follows "Wow, Caroline, "."""
    left = sentence
    while True:
        found = INTERJECTIONS.match(left)
        rest = left[found.end() :] if found else left
        word, comma, after = rest.partition(",")
        if comma and _is_called(word, names):
            rest = after.lstrip()
        if rest == left:
            return left
        left = rest


def _is_called(word: str, names: frozenset[str]) -> bool:
    """By a name, or the first letters of one: "Mel" for Melanie."""
    called = word.lower()
    short = len(called) > 2 and word[:1].isupper() and any(n.startswith(called) for n in names)
    return called in names or short


def _worth(said: str, words: list[str], content: int, proper: bool) -> tuple[str, float]:
    """What type of statement it is, and how much it is worth."""
    held = {word.lower() for word in _WORD.findall(PRAISE.sub("", said))}
    worth = _CONTENT_WORTH * min(content, _CONTENT_MAX)
    numbered = _NUMBER.search(said) is not None
    tells_more = proper or numbered
    if not tells_more and (_is_only(SOFT, said) or _is_only(ANNOUNCED, said)):
        return "fact", 0.0
    if not tells_more and PRAISE.match(said) and not held & HIMSELF:
        return "fact", 0.0
    lasting = LASTING.search(said) is not None
    if ORDER.match(said) and not lasting:
        worth += _ORDER_WORTH
    elif held & HIMSELF or ELLIPTIC.match(said) or (lasting and ASKED.match(said)):
        worth += _OWN_WORTH
    elif REACTION.match(said) or (not tells_more and _is_general(said)):
        worth += _REACTION_WORTH
    elif held & TOGETHER:
        worth += _OWN_WORTH
    elif held & ADDRESSED:
        worth += _ADDRESSED_WORTH
    worth += _NAME_WORTH * proper + _NUMBER_WORTH * numbered
    type_, more = next(
        ((name, more) for name, more, cue in CUES if cue.search(said)), ("fact", 0.0)
    )
    if content < 2 and not tells_more and type_ in ("fact", "plan"):
        return type_, min(worth, _CONTENT_WORTH * content)  # "I'm trying", "We'll go"
    return type_, worth + more


def _is_general(said: str) -> bool:
    return GENERAL.search(said) is not None or GUESSED.search(said) is not None


def _is_only(filler: re.Pattern[str], said: str) -> bool:
    """It begins with that, and does not go on with what somebody tells of himself."""
    found = filler.match(said)
    if found is None:
        return False
    turned = _TURNED.search(said, found.end())
    if turned is None:
        return True
    rest = said[turned.end() :]
    words = {word.lower() for word in _WORD.findall(rest)}
    return not (words & HIMSELF or ELLIPTIC.match(rest)) or len(words - FILLERS) < 2


def _shown(image: str) -> Judged:
    """What an image shows is kept with what is said beside it, and alone where it is described."""
    content = len(_WORD.findall(image))
    return Judged(Kind.STATEMENT, content, KEPT_FROM) if content > 2 else Judged(Kind.FILLER, 0)


def _greets_foreign(sentence: str) -> bool:
    return COURTESY_FOREIGN.match(sentence.lstrip(_OPENING)) is not None


def _foreign(sentence: str, words: list[str]) -> Judged:
    unspaced = len(_UNSPACED.findall(sentence))
    content = unspaced // 2 if unspaced else len(words)
    if sentence.rstrip(_CLOSING).endswith(("?", "？", "吗。", "か。")):
        return Judged(Kind.QUESTION, content)
    long = unspaced >= CHARACTERS_MIN_UNSPACED if unspaced else content >= WORDS_MIN_FOREIGN
    if _greets_foreign(sentence) and (
        unspaced < 2 * CHARACTERS_MIN_UNSPACED and len(words) < 2 * WORDS_MIN_FOREIGN
    ):
        return Judged(Kind.FILLER, 0)
    return Judged(Kind.STATEMENT, content, KEPT_FROM + 1) if long else Judged(Kind.FILLER, content)
