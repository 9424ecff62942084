"""What of whom a statement tells, for the few things of which a newer one takes the place of an
older one: where somebody lives, what he works as, his favourite of a kind. Precise rather than
complete: of two statements that may both hold nothing is said.
"""

from __future__ import annotations

import re
from typing import Final

SUBJECT_CHARACTERS_MAX: Final = 120
_NOT = re.compile(
    r"\b(?:not|never|no longer|n't|used to|would|could|might|if|maybe|perhaps|wish)\b|n['’]t\b"
)
_I = (
    r"\b(?:i|we)(?:['’](?:m|ve|re)| am| are| have)?"
    r"(?: just| now| currently| finally| recently)?"
)
_MY = r"(?i:\bmy (?:new )?"
_IS = r"(?:['’]s| is))"
_PLACE = r"[A-Z][\w'’-]+"

# What it is called, and how it is said by the one it is true of.
_OF_SPEAKER: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("home", rf"(?i:{_I} (?:live|living|moved|based|settled) (?:in|to|near)) {_PLACE}"),
        ("employer", rf"(?i:{_I} (?:work|working|started(?: working)?) (?:at|for)) {_PLACE}"),
        ("job", rf"(?i:{_I} (?:work|working) as an? \w+)"),
        ("name", rf"{_MY}(?:full |first |last )?name{_IS} {_PLACE}|(?i:\bcall me) {_PLACE}"),
        ("age", r"(?i:\bi(?:['’]m| am) \d{1,3}(?: years old|\.|,|$))"),
        ("birthday", rf"{_MY}birthday{_IS} (?:on )?\w+"),
        ("phone", rf"{_MY}(?:phone |mobile |cell )?number{_IS} "),
        ("e-mail", rf"{_MY}e-?mail(?: address)?{_IS} "),
        ("address", rf"{_MY}(?:home )?address{_IS} "),
        ("time zone", rf"{_MY}time ?zone{_IS} "),
    )
)
_FAVOURITE = re.compile(
    r"(?i)\bmy (?:all-time )?favou?rite ([a-z]+(?: [a-z]+)?)(?:'s|’s| is| would be) "
)
_THING = (
    r"deadline|budget|password|port|version|address|release date|launch date|due date|owner|limit"
    r"|price|database|region|framework"
)
_IS_NOW = r"(?:is|will be|(?:has (?:been )?|was )?(?:moved|changed|set))"
_OF_THING = re.compile(
    rf"(?:^|[.;:,] )(?:[Tt]he|[Oo]ur) ((?:[a-z][\w-]* ){{0,3}}(?:{_THING})) {_IS_NOW}\b"
)


def subject_of(statement: str, speaker: str | None) -> str | None:
    """``statement`` is one sentence, in the words of ``speaker``."""
    if _NOT.search(statement):
        return None
    if speaker is not None:
        favourite = _FAVOURITE.search(statement)
        if favourite is not None:
            return _named(speaker, f"favourite {favourite[1]}")
        for name, said in _OF_SPEAKER:
            if said.search(statement):
                return _named(speaker, name)
    thing = _OF_THING.search(statement)
    return None if thing is None else _named("", thing[1])


def _named(whose: str, what: str) -> str | None:
    subject = " ".join(f"{whose}: {what}".casefold().split()).removeprefix(": ")
    return subject if len(subject) <= SUBJECT_CHARACTERS_MAX else None
