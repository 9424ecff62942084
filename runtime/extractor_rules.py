"""Facts in the words in which they were said: offline, and the same on every machine.

A fact is what one turn says that is worth keeping, or an answer together with its question. Its
text begins with who said it and when, so that it can be understood alone: ``Caroline, 8 May 2023: I
went to a support group yesterday (7 May 2023).`` The words themselves are left as they are. To put
"Caroline" where she says "I" would mean to change verbs and to guess whom "we" and "her" mean, in
one language out of many; with the speaker before it, "I" is as plain and cannot be wrong.

No turn costs more than its length, and no text makes it raise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from typing import Any, Final, NamedTuple

from neverforget.actors.extractor_contract import (
    FACTS_MAX,
    NAME_CHARACTERS_MAX,
    Fact,
    Window,
    WindowTurn,
    extractable,
)
from neverforget.runtime.extractor_dates import dated, day_of
from neverforget.runtime.extractor_judging import KEPT_FROM, Judged, Kind, judged
from neverforget.runtime.extractor_sentences import sentences
from neverforget.runtime.extractor_subjects import subject_of
from neverforget.runtime.extractor_words import ASKED_TO, ASKING, WEIGHTY, YES_OR_NO

FACT_CHARACTERS_MAX: Final = 400  # of the words of a fact; a longer sentence is one by itself
FACTS_A_TURN_MAX: Final = 12
SENTENCES_A_TURN_MAX: Final = 2_000  # of a longer turn, as many that lie evenly in it
QUESTION_CHARACTERS_MAX: Final = 200
NAMES_MAX: Final = 64

# Whoever speaks in these roles tells nothing about himself: tools, instructions, thinking aloud.
_SILENT = frozenset(
    {"system", "developer", "tool", "function", "tool_call", "tool_result", "thought", "reasoning"}
)
_ASSISTANT = frozenset({"assistant", "ai", "model", "bot"})
_ASSISTANT_FROM: Final = 4.0  # worth: what an assistant explains is no memory, what it did is
_DANGLING_COSTS: Final = 0.5
_ANSWER_EASE, _BESIDE_EASE = 1.5, 2.5
_IMPORTANCE: Final = {"decision": 6.0, "preference": 5.0, "plan": 5.0, "event": 5.0, "fact": 4.0}
_IMAGE_IMPORTANCE: Final = 2.0
_WORD = re.compile(r"[^\W_]+")
_UNSPACED_END = re.compile("([。！？」』]) ")


class _Said(NamedTuple):
    """A sentence of a turn that is kept."""

    text: str
    judged: Judged


class _Group(NamedTuple):
    """What becomes one fact."""

    said: list[_Said]
    subject: str | None


class _Question(NamedTuple):
    """``clear``: it says by itself what is asked for, as "Anything new?" does not."""

    turn: WindowTurn
    text: str
    clear: bool


class RulesExtractor:
    """An ``Extractor``. ``timezone``: where "yesterday" is reckoned."""

    extractor_id = "rules-1"

    def __init__(self, timezone: str | tzinfo = "UTC") -> None:
        self._zone = timezone

    def __repr__(self) -> str:
        return f"RulesExtractor({self._zone!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return RulesExtractor, (self._zone,)

    def extract(self, window: Window, /) -> list[Fact]:
        names = _names(window.turns)
        fresh = {turn.seq for turn in extractable(window)}
        found: list[Fact] = []
        told: set[tuple[str | None, str]] = set()
        asked: _Question | None = None
        for turn in window.turns:
            if turn.role in _SILENT or turn.recalled:
                continue
            read = [(text, judged(text, names)) for text in _spread(list(sentences(turn.text)))]
            if turn.seq in fresh:
                answered = asked if asked is not None and _answers(turn, asked.turn) else None
                for fact in self._facts(turn, read, answered, fresh):
                    if (fact.speaker, fact.text) not in told:
                        told.add((fact.speaker, fact.text))
                        found.append(fact)
            asked = _question(turn, read)
        return _best(found, FACTS_MAX)

    def _facts(
        self,
        turn: WindowTurn,
        read: Sequence[tuple[str, Judged]],
        asked: _Question | None,
        fresh: set[int],
    ) -> list[Fact]:
        least = _ASSISTANT_FROM if turn.role in _ASSISTANT else KEPT_FROM
        kept = _kept(read, least, asked)
        needed = asked is not None and (not kept or (asked.clear and kept[0].judged.leaning))
        if asked is not None and not kept:
            kept = _short_answer(read)
        groups = _groups(kept, _speaks(turn))
        facts = [
            self._fact(turn, group, asked if needed and at == 0 else None, fresh)
            for at, group in enumerate(groups)
        ]
        return _best(facts, FACTS_A_TURN_MAX)

    def _fact(
        self, turn: WindowTurn, group: _Group, asked: _Question | None, fresh: set[int]
    ) -> Fact:
        said = [dated(_plain(one.text), turn.timestamp, self._zone) for one in group.said]
        at = next((one.at for one in said if one.at is not None), turn.timestamp)
        words = _joined(one.text for one in said)
        text = f"{_speaks(turn)}, {day_of(turn.timestamp, self._zone)}: {words}"
        first = turn.seq
        if asked is not None:
            text = f"{_speaks(asked.turn)}: {asked.text} {text}"
            first = asked.turn.seq if asked.turn.seq in fresh else first
        best = max(group.said, key=lambda one: one.judged.worth).judged
        return Fact(
            text,
            first,
            turn.seq,
            type=best.type,
            speaker=_speaker(turn),
            importance=_importance(best.type, words),
            confidence=0.9 if best.sure and asked is None else 0.7,
            occurred_at=at,
            subject=group.subject,
            valid_from=None if group.subject is None else turn.timestamp,
        )


# ---- who and what --------------------------------------------------------------------------------


def _speaks(turn: WindowTurn) -> str:
    """Who says it: a name, or the role with a capital."""
    named = " ".join((turn.speaker or "").split())[:NAMES_MAX]
    return named or " ".join(turn.role.split())[:NAMES_MAX].capitalize() or "Somebody"


def _speaker(turn: WindowTurn) -> str | None:
    """The name as it is, where a fact may hold it."""
    return turn.speaker if 0 < len(turn.speaker or "") <= NAME_CHARACTERS_MAX else None


def _answers(turn: WindowTurn, asked: WindowTurn) -> bool:
    """Whether it may answer a question. What an assistant explains when asked is no memory."""
    explains = turn.role in _ASSISTANT and asked.role not in _ASSISTANT
    return not explains and _speaks(turn) != _speaks(asked)


def _names(turns: Sequence[WindowTurn]) -> frozenset[str]:
    """The words of the names of those who speak; they tell nothing in what is said to them."""
    speakers = list(dict.fromkeys(turn.speaker for turn in turns if turn.speaker))[:NAMES_MAX]
    return frozenset(
        word.lower() for name in speakers for word in _WORD.findall(name[:200]) if len(word) > 1
    )


def _kept(read: Sequence[tuple[str, Judged]], least: float, asked: _Question | None) -> list[_Said]:
    """The statements that are worth it, and those beside them that say more of the same. An answer
    to a clear question need not be worth as much; one that begins with "it" or "they" has to be
    worth more, unless it brings along what stands before it.
    """
    said = [_Said(text, one) for text, one in read]
    clear = asked is not None and asked.clear
    chosen = {
        at
        for at, one in enumerate(said)
        if _is_worth(
            one.judged, least - (_ANSWER_EASE if clear and at < 2 else 0.0), not (at or clear)
        )
    }
    beside = {
        at
        for near in chosen
        for at in (near - 1, near + 1)
        if 0 <= at < len(said) and _goes_with(said, at, near, least)
    }
    return [one for at, one in enumerate(said) if at in chosen | beside]


def _is_worth(one: Judged, least: float, dangles: bool) -> bool:
    costs = _DANGLING_COSTS if one.dangling and dangles else 0.0
    return one.kind is Kind.STATEMENT and one.worth >= least + costs


def _goes_with(said: list[_Said], at: int, near: int, least: float) -> bool:
    """Whether a statement beside a kept one tells more of the same."""
    one = said[at].judged
    if one.kind is not Kind.STATEMENT or not one.content:
        return False
    if at < near and said[near].judged.dangling:
        return True
    return one.content > 1 and one.worth >= least - _BESIDE_EASE


def _question(turn: WindowTurn, read: Sequence[tuple[str, Judged]]) -> _Question | None:
    """What the turn asks at its end."""
    for text, said in reversed(read[-2:]):
        if said.kind is Kind.QUESTION and said.content and len(text) <= QUESTION_CHARACTERS_MAX:
            return _Question(turn, text, said.content > 1 or ASKING.match(text) is not None)
    return None


def _short_answer(read: Sequence[tuple[str, Judged]]) -> list[_Said]:
    """The first sentence that tells something, where none is a statement of its own."""
    for text, said in read[:3]:
        if YES_OR_NO.match(text) or (said.kind is Kind.STATEMENT and said.content):
            return [_Said(text, said)]
    return []


def _groups(kept: Sequence[_Said], speaker: str) -> Iterator[_Group]:
    """What a turn says, as one fact where it is short: its sentences lean on each other. What a
    newer fact may replace stands alone, so that nothing else is replaced with it.
    """
    group, length = _Group([], None), 0
    for one in kept:
        subject = subject_of(one.text, speaker)
        apart = subject is not None or (group.subject is not None and not one.judged.dangling)
        if group.said and (apart or length + len(one.text) > FACT_CHARACTERS_MAX):
            yield group
            group, length = _Group([], None), 0
        group = _Group([*group.said, one], group.subject or subject)
        length += len(one.text) + 1
    if group.said:
        yield group


def _joined(texts: Iterable[str]) -> str:
    """With blanks between them, but for scripts that put none."""
    return _UNSPACED_END.sub(r"\1", " ".join(texts))


def _plain(text: str) -> str:
    """As it is read; of an image, that it is one."""
    if text.startswith("!["):
        return f"[image: {text[2:-1]}]"
    return text


def _importance(type_: str, words: str) -> float:
    if words.startswith("[image: ") and words.endswith("]"):
        return _IMAGE_IMPORTANCE
    base = _IMPORTANCE.get(type_, 4.0)
    return min(9.0, base + 3.0 * bool(ASKED_TO.search(words)) + bool(WEIGHTY.search(words)))


def _spread(found: list[str]) -> list[str]:
    return found[:: -(-len(found) // SENTENCES_A_TURN_MAX) or 1]


def _best(facts: list[Fact], most: int) -> list[Fact]:
    """The most important ones, in their order."""
    if len(facts) <= most:
        return facts
    ranked = sorted(range(len(facts)), key=lambda at: (-facts[at].importance, at))
    return [facts[at] for at in sorted(ranked[:most])]
