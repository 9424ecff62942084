"""How a context reads: memories and a summary between two lines that say where they are from, then
the turns, each with its speaker. Pure.

What is remembered may hold any words. None of them can end the part that is recalled, and none can
pass for another memory or another speaker: further lines of a text are indented. What stands
between ``OPEN`` and ``CLOSE`` is never learned from again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo

from neverforget.actors.reflector_turns import RECALLED_BEGIN, RECALLED_END
from neverforget.runtime.memory_values import Memory
from neverforget.runtime.timeframe.resolving import zone_of
from neverforget.runtime.turn_text import THOUGHT, said_by, speaker_of
from neverforget.runtime.values import Turn, TurnRef
from neverforget.runtime.working_values import Context

OPEN, CLOSE = RECALLED_BEGIN, RECALLED_END
ABOUT = "Remembered from earlier:"
EARLIER = "In this conversation:"
REFS_SHOWN_MAX = 3

_FENCE = re.compile(r"<(\s*/?\s*recalled-memories\s*)>", re.IGNORECASE)
_LINE_END = re.compile("\r\n|[\n\r\x0b\x0c\x85\u2028\u2029]")


def whole_text(context: Context) -> str:
    """``context`` as one text; "" where there is nothing in it."""
    lines = turn_lines(context.turns, zone_of(context.timezone))
    recalled = recalled_text([item.text for item in context.items], context.summary)
    return "\n\n".join(part for part in (recalled, "\n".join(lines)) if part)


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
    """``- [when] text (whose words; from which turns)``."""
    said = [memory.speaker] if memory.speaker and not _names(memory.text, memory.speaker) else []
    said += _places(memory, list(provenance))
    about = f" ({plain('; '.join(said))})" if said else ""
    return indented(f"- [{_when(memory, zone)}] {plain(memory.text)}{about}")


def plain(text: str) -> str:
    """``text``, in which nothing begins or ends what is recalled."""
    return _FENCE.sub(r"[\1]", text)


def indented(text: str) -> str:
    """Every line but the first a little further right."""
    return "\n  ".join(_LINE_END.split(text))


def _names(text: str, speaker: str) -> bool:
    return speaker.casefold() in text.casefold()


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
    return f"{' '.join(name.split())} {span}"


# ---- turns ---------------------------------------------------------------------------------------


def turn_lines(turns: Sequence[Turn], zone: tzinfo) -> list[str]:
    """A line for each turn, and one for each new day."""
    lines: list[str] = []
    today = ""
    for turn in turns:
        said_on = day(turn.timestamp, zone)
        if said_on != today:
            today = said_on
            lines.append(day_line(said_on))
        lines.append(turn_line(turn))
    return lines


def day_line(said_on: str) -> str:
    """What stands before the turns of a day."""
    return f"[{said_on}]"


def turn_line(turn: Turn) -> str:
    """``speaker: what was said``."""
    speaker = " ".join(speaker_of(turn).split())
    thinking = " (thinking)" if turn.role == THOUGHT else ""
    return indented(f"{speaker}{thinking}: {said_by(turn)}")
