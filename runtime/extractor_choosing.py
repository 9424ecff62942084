"""What of a turn is kept, what of it belongs together, and what it is an answer to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from neverforget.actors.extractor_contract import WindowTurn
from neverforget.runtime.extractor_judging import KEPT_FROM, Judged, Kind, judged
from neverforget.runtime.extractor_sentences import sentences
from neverforget.runtime.extractor_subjects import subject_of
from neverforget.runtime.extractor_words import (
    ASKING,
    ASKS_BEHIND,
    FOR_SOMETHING,
    LEANING,
    OPEN,
    YES,
    YES_OR_NO,
)

FACT_CHARACTERS_MAX: Final = 400  # of the words of a fact; a longer sentence is one by itself
SENTENCES_A_TURN_MAX: Final = 2_000  # of a longer turn, as many that lie evenly in it
LEAD_CHARACTERS_MAX: Final = 200  # of what is quoted of the turn before
_LEAD_SENTENCES: Final = 4
_ANSWER_SENTENCES: Final = 2
_BEFORE_ANSWER_MAX: Final = 1  # statements
_TOLD_FROM: Final = 1.0  # worth of what helps to understand the next turn
_ASKED_CONTENT_MIN: Final = 2  # of a question that is kept with what follows it
_ALONE_CONTENT_MIN: Final = 5  # words that tell something, of a sentence about "it"
# In the worth of sentences: how much less an answer needs, and what stands beside something kept;
# and how much more a turn that begins with "it".
_ANSWER_EASE, _BESIDE_EASE, _DANGLING_COSTS = 1.5, 1.5, 0.5


class Said(NamedTuple):
    """A sentence of a turn."""

    text: str
    judged: Judged


class Group(NamedTuple):
    """What becomes one fact."""

    said: list[Said]
    subject: str | None


class Quoted(NamedTuple):
    turn: WindowTurn
    text: str


class Lead(NamedTuple):
    """What a turn is an answer to: the question at the end of the turn before it, and the last
    thing that is told there. ``clear``: the question says by itself what is asked for, as "Anything
    new?" does not.
    """

    turn: WindowTurn
    question: str | None
    clear: bool
    told: str | None

    def for_answer(self, read: Sequence[Said], kept: Sequence[Said]) -> Quoted | None:
        """What has to be said before what is kept of the turn, so that it is understood. An answer
        stands near its beginning: what comes after other statements is of something else.
        """
        before = 0
        if kept:
            at = next(place for place, one in enumerate(read) if one is kept[0])
            before = sum(one.judged.kind is Kind.STATEMENT for one in read[:at])
        told_yes = len(kept) == 1 and YES.match(kept[0].text) is not None
        if before > _BEFORE_ANSWER_MAX or (told_yes and OPEN.match(self.question or "")):
            text = None
        elif not kept or (self.clear and kept[0].judged.leaning):
            text = self.question
        else:
            text = self.told if kept[0].judged.dangling else None
        return None if text is None else Quoted(self.turn, text)


def kept_of(read: Sequence[Said], least: float, clear: bool) -> list[Said]:
    """The statements that are worth it, and those beside them that say more of the same: what "it"
    or "they" stand for among them. An answer to a ``clear`` question need not be worth as much; a
    turn that begins with "it" or "they" has to be worth more.
    """
    chosen = {at for at, one in enumerate(read) if _is_worth(one.judged, at, least, clear)}
    beside = {
        at
        for near in chosen
        for at in (near - 1, near + 1)
        if 0 <= at < len(read) and _goes_with(read, at, near, least)
    }
    return [one for at, one in enumerate(read) if at in chosen | beside]


def _is_worth(one: Judged, at: int, least: float, clear: bool) -> bool:
    if clear:
        least -= _ANSWER_EASE if at < _ANSWER_SENTENCES else 0.0
    elif at == 0 and one.dangling:
        least += _DANGLING_COSTS
    return one.kind is Kind.STATEMENT and one.worth >= least


def _goes_with(read: Sequence[Said], at: int, near: int, least: float) -> bool:
    """Whether a statement beside a kept one tells more of the same."""
    one = read[at].judged
    if at < near and read[near].judged.dangling and one.kind is Kind.QUESTION:
        return one.content > _ASKED_CONTENT_MIN
    if one.kind is not Kind.STATEMENT or not one.content:
        return False
    if at < near and read[near].judged.dangling:
        return True
    follows = at > near and one.dangling
    return one.content > 1 and (follows or one.worth >= least - _BESIDE_EASE)


def _tells(text: str, said: Judged) -> bool:
    """Whether it helps to understand what the next one says."""
    return said.kind is Kind.STATEMENT and said.worth >= _TOLD_FROM and not text.startswith("![")


def lead_of(turn: WindowTurn, read: Sequence[Said]) -> Lead:
    question, clear, told, dangling = None, False, None, False
    for at, (text, said) in enumerate(reversed(read[-_LEAD_SENTENCES:])):
        if len(text) > LEAD_CHARACTERS_MAX or not said.content:
            continue
        if said.kind is Kind.QUESTION and at < 2 and question is None:
            question, clear = text, said.content > 1 or ASKING.match(text) is not None
        better = told is None or (dangling and not said.dangling)
        if better and _tells(text, said):
            told, dangling = text, said.dangling
    return Lead(turn, question, clear, told)


def with_answer(read: Sequence[Said], kept: Sequence[Said]) -> list[Said]:
    """With the "no, only that one" that stands before what is kept."""
    for one in read[:2]:
        if one is kept[0]:
            break
        told = one.judged.kind is Kind.STATEMENT and one.judged.content > 0
        if told and LEANING.match(one.text):
            return [one, *kept]
    return list(kept)


def understood(kept: Sequence[Said]) -> list[Said]:
    """Without what says little but "it", at the beginning, where nothing stands before it."""
    for at, (_, one) in enumerate(kept):
        shown = at + 1 < len(kept) and kept[at + 1].text.startswith("![")
        if not one.dangling or one.named or shown or one.content >= _ALONE_CONTENT_MIN:
            return list(kept[at:])
    return []


def short_answer(read: Sequence[Said], question: str) -> list[Said]:
    """The first sentence that tells something, where none is a statement of its own. To a question
    for something "yes" is no answer.
    """
    for text, said in read[:3]:
        yes = YES_OR_NO.match(text) is not None and not FOR_SOMETHING.search(question)
        if yes or (said.worth > 0 and (said.content > 1 or not said.dangling)):
            return [Said(text, said)]
    return []


def groups_of(kept: Sequence[Said], speaker: str) -> Iterator[Group]:
    """What a turn says, as one fact where it is short: its sentences lean on each other. What a
    newer fact may replace stands alone, so that nothing else is replaced with it.
    """
    group, length = Group([], None), 0
    for one in kept:
        subject = subject_of(one.text, speaker)
        apart = subject is not None or (group.subject is not None and not one.judged.dangling)
        if group.said and (apart or length + len(one.text) > FACT_CHARACTERS_MAX):
            yield group
            group, length = Group([], None), 0
        group = Group([*group.said, one], group.subject or subject)
        length += len(one.text) + 1
    if group.said:
        yield group


def read_of(text: str, names: frozenset[str]) -> list[Said]:
    """The sentences of a turn. ``names``: see ``judged``. What is told in front of a question, "I
    fly on Monday, can you drive me?", is a sentence of its own before it.
    """
    found = list(sentences(text))
    step = -(-len(found) // SENTENCES_A_TURN_MAX) or 1
    read: list[Said] = []
    for sentence in found[::step]:
        said = Said(sentence, judged(sentence, names))
        asks = ASKS_BEHIND.search(sentence) if said.judged.kind is Kind.QUESTION else None
        if asks is not None:
            before = sentence[: asks.start()].rstrip(" ,;:-–—")
            told = judged(before, names)
            if told.worth >= KEPT_FROM and not told.leaning:
                read.append(Said(f"{before}.", told))
        read.append(said)
    return read
