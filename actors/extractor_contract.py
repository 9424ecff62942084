"""What every extractor must keep to, and the check of one answer against it.

A window is some turns of one session in their order: the fresh ones, of which facts are to be made,
and a few before them that were looked at already and are given for context. Times are microseconds
UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, runtime_checkable

from msgspec import Struct

from neverforget.storage.errors import InvalidArgument
from neverforget.storage.longterm_checks import check_tags, check_type
from neverforget.storage.type_names import a_type

FACT_TYPES: Final = ("fact", "preference", "plan", "decision", "event")
FACTS_MAX: Final = 200  # of a window
TEXT_CHARACTERS_MAX: Final = 8_000
NAME_CHARACTERS_MAX: Final = 200  # of a type, a tag, a speaker, a subject
TAGS_MAX: Final = 32
EXTRACTOR_ID_CHARACTERS_MAX: Final = 520  # a setting of 512, and a version
CONTEXT_CHARACTERS_MAX: Final = 2_000
CONTEXT_SEQS_MAX: Final = 4  # from a fact's turns to one in its context: erasing looks as far
_I64: Final = 2**63


class WindowTurn(Struct, frozen=True):
    """``speaker``: the name of who says it: the turn's ``name``, of an assistant that has none its
    agent; None where nobody knows. ``text``: the content where it is text, else as JSON.

    ``fresh`` False: facts were made of it before. ``recalled``: it came from recall, and nothing is
    learned from it again. Neither may be a fact's turn.
    """

    seq: int
    role: str
    speaker: str | None
    text: str
    timestamp: int
    fresh: bool = True
    recalled: bool = False


class Known(Struct, frozen=True):
    """What is remembered already, near to what the window speaks of."""

    text: str
    subject: str | None = None


class Window(Struct, frozen=True):
    """``turns``: by seq. ``known`` may be empty: whoever has no use for it need not look."""

    namespace: tuple[str, ...]
    session: str
    turns: tuple[WindowTurn, ...]
    known: tuple[Known, ...] = ()


class Fact(Struct, frozen=True):
    """What is worth remembering, in words that can be understood alone.

    first, last: the seqs of the turns that it is from, both included; fresh turns.
    type: one of FACT_TYPES, or what else ``remember`` takes.
    speaker: whose words it holds. importance: 0 to 10; confidence: 0 to 1.
    occurred_at: when what it tells happens; None: nobody knows.
    subject: what of whom it tells, in the same words each time: "caroline: home". A newer fact of
        the same subject takes the place of an older one, so it is None where both may hold.
    """

    text: str
    first: int
    last: int
    type: str = "fact"
    speaker: str | None = None
    importance: float = 1.0
    confidence: float = 1.0
    tags: tuple[str, ...] = ()
    occurred_at: int | None = None
    subject: str | None = None
    valid_from: int | None = None
    valid_to: int | None = None


@runtime_checkable
class Extractor(Protocol):
    """Makes facts of turns.

    An extractor is picklable: it runs in the process of the reflector, one call at a time. It
    depends on nothing but the window. It raises Unavailable or ConnectionError where what it asks
    is away: that lasts, and is no fault of the window. Whatever else it raises, and an answer that
    comes too late, leaves the window to be tried again, three times at most. It may have a
    ``close()``, which is called when the reflector ends.
    """

    @property
    def extractor_id(self) -> str:
        """Names it, with its version: "rules-1", "openai:MODEL". Another one may look at the same
        turns again. Not empty, up to EXTRACTOR_ID_CHARACTERS_MAX.
        """
        ...

    def extract(self, window: Window, /) -> list[Fact]:
        """At most FACTS_MAX facts of the fresh turns; none where nothing is worth it. May raise
        anything.
        """
        ...


class NotExtracted(Exception):
    """The extractor is there and gave no usable facts for this window. The message holds nothing of
    its texts.
    """


def extractable(window: Window) -> tuple[WindowTurn, ...]:
    """The turns that facts may be made of."""
    return tuple(turn for turn in window.turns if turn.fresh and not turn.recalled)


def checked_facts(window: Window, answer: Any) -> list[Fact]:
    """``answer``, if all of it can be remembered. NotExtracted says what is wrong and where, and
    repeats nothing that it was given.
    """
    if not isinstance(answer, list | tuple):
        raise NotExtracted(f"the answer is {a_type(answer)}, not a list of facts")
    if len(answer) > FACTS_MAX:
        raise NotExtracted(f"{len(answer):,} facts of one window; at most {FACTS_MAX}")
    seqs = {turn.seq for turn in extractable(window)}
    for number, fact in enumerate(answer):
        if not isinstance(fact, Fact):
            raise NotExtracted(f"fact {number} is {a_type(fact)}, not a Fact")
        fault = _fault(fact, seqs)
        if fault is not None:
            raise NotExtracted(f"fact {number}: {fault}")
    return list(answer)


def context_of(window: Window, fact: Fact) -> str | None:
    """What is said around a fact: the turn before its turns and the one after, as they are; none
    that is further off than CONTEXT_SEQS_MAX. It is searched by words only. Not more than
    CONTEXT_CHARACTERS_MAX; None where there is nothing.
    """
    turns = window.turns
    inside = [at for at, turn in enumerate(turns) if fact.first <= turn.seq <= fact.last]
    if not inside:
        return None
    beside = turns[max(0, inside[0] - 1) : inside[0]] + turns[inside[-1] + 1 : inside[-1] + 2]
    first, last = fact.first - CONTEXT_SEQS_MAX, fact.last + CONTEXT_SEQS_MAX
    near = [turn for turn in beside if first <= turn.seq <= last]
    said = [turn.text for turn in near if not turn.recalled and turn.text.strip()]
    share = CONTEXT_CHARACTERS_MAX // max(1, len(said)) - 1
    return "\n".join(text[:share] for text in said) or None


def _fault(fact: Fact, seqs: set[int]) -> str | None:
    """What is wrong with it."""
    faults: Sequence[tuple[str, bool]] = (
        ("text is no text", not isinstance(fact.text, str)),
        ("text is empty", isinstance(fact.text, str) and not fact.text.strip()),
        ("text is too long", _longer(fact.text, TEXT_CHARACTERS_MAX)),
        ("first and last name no fresh turns", not _are_turns(fact, seqs)),
        ("type is none that can be remembered", not _is_type(fact.type)),
        ("speaker is no name", not _is_name(fact.speaker)),
        ("subject is no short text", not _is_name(fact.subject)),
        ("importance is not from 0 to 10", not _on_scale(fact.importance, 10)),
        ("confidence is not from 0 to 1", not _on_scale(fact.confidence, 1)),
        ("tags are no tuple of short words", not _are_tags(fact.tags)),
        ("occurred_at is no time", not _is_time(fact.occurred_at)),
        ("valid_from is no time", not _is_time(fact.valid_from)),
        ("valid_to is no time", not _is_time(fact.valid_to)),
    )
    found = next((what for what, wrong in faults if wrong), None)
    if found is None and fact.valid_from is not None and fact.valid_to is not None:
        return "valid_to lies before valid_from" if fact.valid_to < fact.valid_from else None
    return found


def _longer(text: object, most: int) -> bool:
    return isinstance(text, str) and len(text) > most


def _are_turns(fact: Fact, seqs: set[int]) -> bool:
    ends: tuple[object, object] = (fact.first, fact.last)
    return all(type(end) is int and end in seqs for end in ends) and fact.first <= fact.last


def _is_type(name: object) -> bool:
    if not isinstance(name, str) or _longer(name, NAME_CHARACTERS_MAX):
        return False
    try:
        check_type(name)
    except InvalidArgument:  # its message repeats the name
        return False
    return True


def _is_name(name: object) -> bool:
    if name is None:
        return True
    return isinstance(name, str) and 0 < len(name) <= NAME_CHARACTERS_MAX


def _on_scale(value: object, top: float) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value <= top  # type: ignore[operator]


def _are_tags(tags: object) -> bool:
    if not isinstance(tags, tuple) or len(tags) > TAGS_MAX:
        return False
    if any(_longer(tag, NAME_CHARACTERS_MAX) for tag in tags):
        return False
    try:
        check_tags(tags)
    except InvalidArgument:
        return False
    return True


def _is_time(value: object) -> bool:
    return value is None or (type(value) is int and -_I64 + 2 <= value < _I64 - 1)
