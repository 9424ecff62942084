"""How a context reads: memories and a summary between two lines that say where they are from, then
the turns, each with its speaker. Pure.

What is remembered may hold any words. None of them can end the part that is recalled, and none can
pass for another memory or another speaker: further lines of a text are indented, and who said it
stands before it. No name passes for the agent's, or a role. What stands between ``OPEN`` and
``CLOSE`` is never learned from again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo

from neverforget.actors.reflector_turns import RECALLED_BEGIN, RECALLED_END
from neverforget.runtime.memory_values import Memory
from neverforget.runtime.timeframe.resolving import zone_of
from neverforget.runtime.turn_text import (
    ASSISTANT,
    THOUGHT,
    as_json,
    carried,
    said_by,
    speaker_of,
)
from neverforget.runtime.values import Turn, TurnRef
from neverforget.runtime.working_values import Context

OPEN, CLOSE = RECALLED_BEGIN, RECALLED_END
ABOUT = "Remembered from earlier:"
EARLIER = "In this conversation:"
REFS_SHOWN_MAX = 3

_FENCE = re.compile(r"<(\s*/?\s*recalled-memories\s*)>", re.IGNORECASE)
_LINE_END = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")  # as str.splitlines
_IN_BRACKETS = str.maketrans("[];", "(),")
_MORE = re.compile("[:(]")
_NAMES_OF_ROLES = frozenset({ASSISTANT, "developer", "system", "tool", "user"})


def whole_text(context: Context) -> str:
    """``context`` as one text; "" where there is nothing in it."""
    lines = turn_lines(context.turns, zone_of(context.timezone))
    recalled = recalled_text([item.text for item in context.items], context.summary)
    return carried("\n\n".join(part for part in (recalled, "\n".join(lines)) if part))


def recalled_text(memories: Sequence[str], summary: str | None) -> str:
    """The part that is recalled; "" where there is nothing to say."""
    if not memories and summary is None:
        return ""
    lines = [OPEN]
    if memories:
        lines += [ABOUT, *memories]
    if summary is not None:
        lines.append(indented(f"{EARLIER} {summary}"))
    return "\n".join([*lines, CLOSE])


# ---- memories ------------------------------------------------------------------------------------


def memory_text(memory: Memory, provenance: Iterable[TurnRef], zone: tzinfo) -> str:
    """``- [when; whose words; from which turns] text``. What stands in brackets is from the store,
    all that follows may be anybody's.
    """
    about = [memory.speaker] if memory.speaker and not _names(memory.text, memory.speaker) else []
    about += _places(memory, list(provenance))
    known = "; ".join([_when(memory, zone), *map(_in_brackets, about)])
    return indented(f"- [{plain(known)}] {plain(memory.text)}")


def _in_brackets(text: str) -> str:
    return " ".join(text.split()).translate(_IN_BRACKETS)


def plain(text: str) -> str:
    """``text``, in which nothing begins or ends what is recalled."""
    return _FENCE.sub(r"[\1]", text)


def indented(text: str) -> str:
    """Every line but the first a little further right."""
    return "\n  ".join(_LINE_END.split(text))


def _names(text: str, speaker: str) -> bool:
    """As a word of its own: Ed is not named where somebody moved."""
    name = re.escape(speaker.casefold())
    return re.search(rf"(?<!\w){name}(?!\w)", text.casefold()) is not None


def _when(memory: Memory, zone: tzinfo) -> str:
    """When it happened, else since when it holds, else when it was remembered."""
    if memory.occurred_at is not None:
        when = day(memory.occurred_at, zone)
    elif memory.valid_from is not None:
        when = f"since {day(memory.valid_from, zone)}"
    else:
        when = f"noted {day(memory.created_at, zone)}"
    return when if memory.valid_to is None else f"{when}, true until {day(memory.valid_to, zone)}"


def day(at: datetime, zone: tzinfo) -> str:
    """2026-03-05."""
    try:
        return at.astimezone(zone).date().isoformat()
    except OverflowError:  # in the first and last hours of time
        return at.astimezone(UTC).date().isoformat()


def _places(memory: Memory, provenance: Sequence[TurnRef]) -> list[str]:
    shown = [_place(memory, ref) for ref in provenance[:REFS_SHOWN_MAX]]
    return [*shown, "…"] if len(provenance) > REFS_SHOWN_MAX else shown


def _place(memory: Memory, ref: TurnRef) -> str:
    """``session #3``, or with another namespace than the memory's ``namespace/session #3-5``."""
    name = ref.session
    if tuple(ref.namespace) != tuple(memory.namespace):
        name = "/".join((*ref.namespace, name))
    span = f"#{ref.first}" if ref.first == ref.last else f"#{ref.first}-{ref.last}"
    return f"{name} {span}"


# ---- turns ---------------------------------------------------------------------------------------


def turn_lines(turns: Sequence[Turn], zone: tzinfo) -> list[str]:
    """A line for each turn, and one for each new day."""
    lines: list[str] = []
    today = ""
    agents = frozenset(turn.agent for turn in turns if turn.agent)
    for turn in turns:
        said_on = day(turn.timestamp, zone)
        if said_on != today:
            today = said_on
            lines.append(day_line(said_on))
        lines.append(turn_line(turn, agents))
    return lines


def day_line(said_on: str) -> str:
    """What stands before the turns of a day."""
    return f"[{said_on}]"


def turn_line(turn: Turn, agents: frozenset[str] = frozenset()) -> str:
    """``speaker: what was said``. ``agents``: the others that are heard of."""
    thinking = " (thinking)" if turn.role == THOUGHT else ""
    return indented(f"{_speaker(turn, agents)}{thinking}: {said_by(turn)}")


def _speaker(turn: Turn, agents: frozenset[str]) -> str:
    """Who speaks. A name is anybody's: one that an agent or a role has, too, comes with the role of
    the turn, and one that looks like a name with more behind it stands in quotes.
    """
    name = " ".join(speaker_of(turn).split())
    shown = as_json(name) if _MORE.search(name) else name
    if turn.name and turn.role not in (ASSISTANT, THOUGHT):
        others = _NAMES_OF_ROLES - {turn.role} | {a.casefold() for a in (*agents, turn.agent or "")}
        if name.casefold() in others:
            return f"{shown} ({' '.join(turn.role.split())})"
    return shown
