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
from collections.abc import Iterable, Sequence
from datetime import tzinfo
from typing import Any, Final

from neverforget.actors.extractor_contract import (
    FACTS_MAX,
    NAME_CHARACTERS_MAX,
    Fact,
    Window,
    WindowTurn,
    extractable,
)
from neverforget.runtime.extractor_choosing import (
    Group,
    Lead,
    Quoted,
    Said,
    groups_of,
    kept_of,
    lead_of,
    read_of,
    short_answer,
    understood,
    with_answer,
)
from neverforget.runtime.extractor_dates import dated, day_of
from neverforget.runtime.extractor_judging import KEPT_FROM
from neverforget.runtime.extractor_words import ASKED_TO, WEIGHTY
from neverforget.runtime.timeframe.resolving import zone_of

FACTS_A_TURN_MAX: Final = 12
NAMES_MAX: Final = 64

# Whoever speaks in these roles tells nothing about himself: tools, instructions, thinking aloud.
_SILENT = frozenset(
    {"system", "developer", "tool", "function", "tool_call", "tool_result", "thought", "reasoning"}
)
_ASSISTANT = frozenset({"assistant", "ai", "model", "bot"})
_ASSISTANT_FROM: Final = 4.0  # worth: what an assistant explains is no memory, what it did is
_IMPORTANCE: Final = {"decision": 6.0, "preference": 5.0, "plan": 5.0, "event": 5.0, "fact": 4.0}
_IMAGE_IMPORTANCE: Final = 2.0
_WORD = re.compile(r"[^\W_]+")
_PHOTO_OF = re.compile(r"^an? (?:photo(?:graph|graphy)?|picture|image) of ", re.IGNORECASE)
_UNSPACED_END = re.compile("([。！？」』]) ")


class RulesExtractor:
    """An ``Extractor``. ``timezone``: where "yesterday" is reckoned."""

    extractor_id = "rules-2"

    def __init__(self, timezone: str | tzinfo = "UTC") -> None:
        zone_of(timezone)  # InvalidArgument for what is none
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
        lead: Lead | None = None
        for turn in window.turns:
            if turn.role in _SILENT or turn.recalled:
                continue
            read = read_of(turn.text, names)
            if turn.seq in fresh:
                before = lead if lead is not None and _answers(turn, lead.turn) else None
                for fact in self._facts(turn, read, before, fresh):
                    if (fact.speaker, fact.text) not in told:
                        told.add((fact.speaker, fact.text))
                        found.append(fact)
            lead = lead_of(turn, read)
        return _best(found, FACTS_MAX)

    def _facts(
        self,
        turn: WindowTurn,
        read: Sequence[Said],
        lead: Lead | None,
        fresh: set[int],
    ) -> list[Fact]:
        least = _ASSISTANT_FROM if turn.role in _ASSISTANT else KEPT_FROM
        kept = kept_of(read, least, lead is not None and lead.clear)
        quoted = None if lead is None else lead.for_answer(read, kept)
        if lead is None or quoted is None:
            kept = understood(kept)
        elif not kept:
            kept = short_answer(read, quoted.text)
        elif quoted.text == lead.question:
            kept = with_answer(read, kept)
        facts: list[Fact] = []
        for group in groups_of(kept, _speaks(turn)):
            facts.append(self._fact(turn, group, None if facts else quoted, fresh))
        return _best(facts, FACTS_A_TURN_MAX)

    def _fact(
        self,
        turn: WindowTurn,
        group: Group,
        quoted: Quoted | None,
        fresh: set[int],
    ) -> Fact:
        said = [dated(_plain(one.text), turn.timestamp, self._zone) for one in group.said]
        at = next((one.at for one in said if one.at is not None), turn.timestamp)
        words = _joined(one.text for one in said)
        text = f"{_speaks(turn)}, {day_of(turn.timestamp, self._zone)}: {words}"
        first = turn.seq
        if quoted is not None:
            text = f"{_speaks(quoted.turn)}: {quoted.text} {text}"
            first = quoted.turn.seq if quoted.turn.seq in fresh else first
        best = max(group.said, key=lambda one: one.judged.worth).judged
        return Fact(
            text,
            first,
            turn.seq,
            type=best.type,
            speaker=_speaker(turn),
            importance=_importance(best.type, words),
            confidence=0.9 if best.sure and quoted is None else 0.7,
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


def _joined(texts: Iterable[str]) -> str:
    """With blanks between them, but for scripts that put none."""
    return _UNSPACED_END.sub(r"\1", " ".join(texts))


def _plain(text: str) -> str:
    """As it is read; of an image, that it is one."""
    if text.startswith("!["):
        return f"[image: {_PHOTO_OF.sub('', text[2:-1])}]"
    return text


def _importance(type_: str, words: str) -> float:
    if words.startswith("[image: ") and words.endswith("]"):
        return _IMAGE_IMPORTANCE
    base = _IMPORTANCE.get(type_, 4.0)
    return min(9.0, base + 3.0 * bool(ASKED_TO.search(words)) + bool(WEIGHTY.search(words)))


def _best(facts: list[Fact], most: int) -> list[Fact]:
    """The most important ones, in their order."""
    if len(facts) <= most:
        return facts
    ranked = sorted(range(len(facts)), key=lambda at: (-facts[at].importance, at))
    return [facts[at] for at in sorted(ranked[:most])]
