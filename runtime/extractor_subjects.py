"""What of whom a statement tells, for the few things of which a newer one takes the place of an
older one: where somebody lives, what he works as, his favourite of a kind. Precise rather than
complete: of two statements that may both hold nothing is said.
"""

from __future__ import annotations

import re
from typing import Final

SUBJECT_CHARACTERS_MAX: Final = 120
_NOT = re.compile(
    r"\b(?:not|never|no longer|n't|used to|would|could|might|if|maybe|perhaps|wish|when|before"
    r"|after|while|almost|nearly)\b|n['’]t\b",
    re.IGNORECASE,
)
_I = (
    r"\b(?:i|we)(?:['’](?:m|ve|re)| am| are| have)?"
    r"(?: just| now| currently| finally| recently)?"
)
_MY = r"(?i:\bmy (?:new )?"
_IS = r"(?:['’]s| is))"
_DAYS = r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b|Tomorrow\b|I\b"
_PLACE = rf"(?!{_DAYS})[A-Z][\w'’-]+"
# "We moved to PostgreSQL": a place is written otherwise.
_TOWN = rf"(?!{_DAYS}|[A-Z]\w*[A-Z\d]|\w+\.\w)[A-Z][\w'’-]+"
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"

# What it is called, and how it is said by the one it is true of.
_OF_SPEAKER: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("home", rf"(?i:{_I} (?:live|living|moved|based|settled) (?:in|to|near)) {_TOWN}"),
        ("employer", rf"(?i:{_I} (?:work|working|started(?: working)?) (?:at|for)) {_PLACE}"),
        ("job", rf"(?i:{_I} (?:work|working) as an? \w+)"),
        ("name", rf"{_MY}(?:full |first |last )?name{_IS} {_PLACE}|(?i:\bcall me) {_PLACE}"),
        ("age", r"(?i:\bi(?:['’]m| am) \d{1,3}(?: years old|\.|,|$))"),
        ("birthday", rf"{_MY}birthday{_IS} (?:on |in )?(?:the )?(?:\d|{_MONTHS})"),
        ("phone", rf"{_MY}(?:phone |mobile |cell )?number{_IS} "),
        ("e-mail", rf"{_MY}e-?mail(?: address)?{_IS} "),
        ("address", rf"{_MY}(?:home )?address{_IS} "),
        ("time zone", rf"{_MY}time ?zone{_IS} "),
    )
)
_FAVOURITE = re.compile(
    r"(?i)\bmy (?:all-time |absolute )?favou?rite ([a-z]+(?: [a-z]+)?)(?:'s|’s| is| would be) "
)
# Of these there are many, each of another kind, and a new one takes no other's place.
_ANY = re.compile(
    r"\b(?:things?|parts?|ones?|ways?|moments?|times?|memor(?:y|ies)|bits?|aspects?|stuff|kinds?"
    r"|sorts?|types?|piece|example|day|about|of|to|so|right|here|there|from|this|that|ever|with)\b"
)
_THING = (
    r"deadline|budget|password|port|version|address|release date|launch date|due date|owner|limit"
    r"|price|database|region|framework"
)
_IS_NOW = r"(?:is|will be|(?:has (?:been )?|was )?(?:moved|changed|set))"
# A number, a name, a day: "the deadline is close" says nothing that a newer one could replace.
_VALUE = (
    r"(?: (?:now|on|at|to|in|about|around|only|currently|for|the))*"
    r" (?:[\"'`$€£#v]?\d|[\"'`(]?[A-Z]|(?:next|this|tomorrow|today|mid|early|late|end)\b)"
)
_OF_THING = re.compile(
    rf"(?:^|[.;:,] )(?:[Tt]he|[Oo]ur) ((?:[a-z][\w-]* ){{0,3}}(?:{_THING})) {_IS_NOW}{_VALUE}"
)
_WHOSE = frozenset({"port", "password", "version", "owner", "limit", "price", "address", "region"})
_ANOTHER = re.compile(
    r"\b(?:first|second|third|last|next|other|another|previous|old|same|only|of)\b"
)


def subject_of(statement: str, speaker: str | None) -> str | None:
    """``statement`` is one sentence, in the words of ``speaker``."""
    if _NOT.search(statement):
        return None
    if speaker is not None:
        favourite = _FAVOURITE.search(statement)
        if favourite is not None and not _ANY.search(favourite[1].lower()):
            return _named(speaker, f"favourite {favourite[1]}")
        for name, said in _OF_SPEAKER:
            if said.search(statement):
                return _named(speaker, name)
    thing = _OF_THING.search(statement)
    if thing is None or thing[1] in _WHOSE or _ANOTHER.search(thing[1]):  # of what?
        return None
    return _named("", thing[1])


def _named(whose: str, what: str) -> str | None:
    subject = " ".join(f"{whose}: {what}".casefold().split()).removeprefix(": ")
    return subject if len(subject) <= SUBJECT_CHARACTERS_MAX else None
