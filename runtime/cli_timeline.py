"""What a recall found, in the order in which it happened, with who said it: a topic's history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from neverforget.runtime.cli_render import local, printable
from neverforget.runtime.turn_json import format_timestamp
from neverforget.runtime.turn_text import said_by, speaker_of

if TYPE_CHECKING:
    from neverforget.runtime.memory_values import Hit
    from neverforget.runtime.store import Store
    from neverforget.runtime.values import Turn, TurnRef

TURNS_SHOWN = 3  # of one memory
TURN_CHARACTERS_MAX = 200


class Found(NamedTuple):
    """A hit, where it is from, and what was said there: the first of those turns."""

    hit: Hit
    refs: list[TurnRef]
    said: list[Turn]


def timeline(store: Store, hits: Sequence[Hit]) -> list[Found]:
    """The hits, oldest first."""
    ordered = sorted(hits, key=lambda hit: (happened(hit), hit.memory.id))
    found = []
    for hit in ordered:
        refs = store.provenance(hit.memory.id)
        found.append(Found(hit, refs, _said(store, refs)))
    return found


def happened(hit: Hit) -> datetime:
    """When what a hit tells occurred, else when it was remembered."""
    return hit.memory.occurred_at or hit.memory.created_at


def _said(store: Store, refs: Sequence[TurnRef]) -> list[Turn]:
    turns: list[Turn] = []
    for ref in refs:
        if len(turns) >= TURNS_SHOWN:
            break
        chat = store.session(ref.session, namespace=ref.namespace)
        turns += chat[ref.first : ref.last + 1][: TURNS_SHOWN - len(turns)]
    return turns


def turn_lines(said: Sequence[Turn], *, full: bool) -> list[Text]:
    """Who said what, and when: a line for each turn."""
    lines = []
    for turn in said:
        line = Text(f"#{turn.seq}  ", "bright_black")
        line.append(printable(speaker_of(turn)), "bold")
        if turn.agent is not None and turn.agent != speaker_of(turn):
            line.append(f" to {printable(turn.agent)}", "bright_black")
        line.append(f"  {local(turn.timestamp)}  ", "bright_black")
        line.append(_words(turn, full=full), "italic")
        lines.append(line)
    return lines


def _words(turn: Turn, *, full: bool) -> str:
    if turn.state in ("erased", "unreadable"):
        return f"({turn.state})"
    words = printable(" ".join(said_by(turn).split()))
    if full or len(words) <= TURN_CHARACTERS_MAX:
        return words
    return words[:TURN_CHARACTERS_MAX] + "…"


def turns_object(said: Sequence[Turn]) -> list[dict[str, Any]]:
    """The same for a program."""
    return [
        {
            "namespace": list(turn.namespace),
            "session": turn.session,
            "seq": turn.seq,
            "speaker": speaker_of(turn),
            "agent": turn.agent,
            "timestamp": format_timestamp(turn.timestamp),
            "state": turn.state,
            "text": None if turn.state in ("erased", "unreadable") else said_by(turn),
        }
        for turn in said
    ]
