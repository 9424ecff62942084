"""What the agents say: conversations of a file, or the ones that come with neverforget."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.resources import as_file, files
from typing import Any

from neverforget.runtime.importers import SourceTurn, parse_file
from neverforget.storage.errors import InvalidArgument

TURNS_MAX = 20_000
SAMPLE = "ferries.jsonl"


@dataclass(frozen=True, slots=True)
class Line:
    """One turn to be said: the arguments of ``Session.append``, without the key."""

    session: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Conversation:
    namespace: tuple[str, ...]
    name: str
    lines: tuple[Line, ...]


def read_conversations(
    path: str | os.PathLike[str] | None, *, turns_max: int = TURNS_MAX
) -> tuple[list[Conversation], bool]:
    """The conversations of ``path`` (None: the samples), and whether it holds more than
    ``turns_max``."""
    if path is None:
        with as_file(files("neverforget.runtime") / "samples" / SAMPLE) as sample:
            return read_conversations(sample, turns_max=turns_max)
    found: dict[tuple[tuple[str, ...], str], list[Line]] = {}
    count = 0
    for turn in parse_file(path):
        if not isinstance(turn, SourceTurn):
            continue
        if count == turns_max:
            break
        count += 1
        found.setdefault((turn.namespace, turn.session), []).append(_line(turn))
    if not found:
        raise InvalidArgument(f"{os.fspath(path)} holds no turn that can be read; try another file")
    conversations = [Conversation(*place, tuple(lines)) for place, lines in found.items()]
    return conversations, count == turns_max


def _line(turn: SourceTurn) -> Line:
    fields = {name: value for name, value in turn.fields.items() if name != "key"}
    if turn.agent is not None:
        fields.setdefault("name", turn.agent)
    return Line(turn.session, fields)


def share_out(conversations: list[Conversation], agents: int) -> list[list[Conversation]]:
    """Each agent's part: the longest conversation goes to whoever has least to say so far."""
    parts: list[list[Conversation]] = [[] for _ in range(agents)]
    load = [0] * agents
    for conversation in sorted(conversations, key=lambda c: len(c.lines), reverse=True):
        least = load.index(min(load))
        parts[least].append(conversation)
        load[least] += len(conversation.lines)
    return [part or [conversations[i % len(conversations)]] for i, part in enumerate(parts)]
