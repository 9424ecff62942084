"""What was said before the turns that fit into a context, in its own words and in few of them.

The facts that the extractor ``rules`` makes of those turns, the most important ones and of these
the newest, in the order in which they were said: each says who and when, greetings and the like are
no facts. Where nothing is a fact, the sentences that say most of what is spoken of. 200 turns of
chat take 60 ms. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from neverforget.actors.extractor_contract import Window, WindowTurn
from neverforget.actors.reflector_turns import RECALLED, without_recalled
from neverforget.actors.tokenizers import Count
from neverforget.runtime.context_text import plain
from neverforget.runtime.extractor_rules import RulesExtractor
from neverforget.runtime.summarizer_extractive import ExtractiveSummarizer
from neverforget.runtime.turn_text import (
    ASSISTANT,
    CALL,
    RESULTS,
    THOUGHT,
    speaker_of,
    text_of,
)
from neverforget.runtime.values import EPOCH, Turn
from neverforget.runtime.working_values import counted

TURNS_MAX = 200  # of those before the shown ones, the newest
TURN_CHARACTERS_MAX = 1_000  # of each
CHARACTERS_MIN = 40
CHARACTERS_PER_TOKEN = 3  # a first guess at how long a summary may be
GUESSES_MAX = 4
_MICROSECOND = timedelta(microseconds=1)


def summarized(
    turns: Sequence[Turn], number: int, room: int, count: Count, timezone: str
) -> str | None:
    """``number`` earlier turns in at most ``room`` tokens, in the words of the newest of them,
    ``turns``. None: that is not even room to say how many there are.
    """
    head = how_many(number)
    if not number or count(head) > room:
        return None
    told = [turn for turn in turns if turn.metadata.get(RECALLED) is not True]
    return _facts(told, head, room, count, timezone) or _sentences(told, head, room, count) or head


def how_many(number: int) -> str:
    """How a summary begins."""
    return f"{counted(number, 'earlier turn')}."


def _facts(turns: Sequence[Turn], head: str, room: int, count: Count, timezone: str) -> str | None:
    window = Window((), "", tuple(_window_turn(turn) for turn in turns))
    facts = RulesExtractor(timezone).extract(window)
    best = sorted(range(len(facts)), key=lambda at: (-facts[at].importance, -at))
    room -= count(f"{head}\n")
    taken = []
    for at in best:
        cost = count(f"\n  {plain(facts[at].text)}")
        if cost <= room:
            room -= cost
            taken.append(at)
    if not taken:
        return None
    return "\n".join([head, *(plain(facts[at].text) for at in sorted(taken))])


def _window_turn(turn: Turn) -> WindowTurn:
    speaker = turn.name or (turn.agent if turn.role == ASSISTANT else None)
    at = (turn.timestamp - EPOCH) // _MICROSECOND
    return WindowTurn(turn.seq, turn.role, speaker, _said(turn), at)


def _said(turn: Turn) -> str:
    """What came from memory is in the context already, where it matters."""
    return without_recalled(text_of(turn.content))[:TURN_CHARACTERS_MAX]


def _sentences(turns: Sequence[Turn], head: str, room: int, count: Count) -> str | None:
    silent = RESULTS | {CALL, THOUGHT}
    told = [turn for turn in turns if turn.role not in silent]
    text = "\n".join(f"{speaker_of(turn)}: {_said(turn)}" for turn in told)
    characters = CHARACTERS_PER_TOKEN * room
    for _ in range(GUESSES_MAX):
        if not text or characters < CHARACTERS_MIN:
            return None
        summary = f"{head}\n{plain(ExtractiveSummarizer(characters).summarize(text))}"
        tokens = count(summary)
        if tokens <= room:
            return summary
        characters = characters * room // tokens - CHARACTERS_MIN // 2
    return None
