"""Samples of the LoCoMo benchmark: two people who talk over many sessions, each with a date.

Session ``locomo/{sample}/session_{n}``; both speakers have the role "user" and are told apart by
``name``; the key is ``dia_id``. A session has one date: its first turn gets it, and each further
one a second more, so that time orders the turns as they were said. What an image showed is kept in
the metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from neverforget.runtime.importers.source_turn import Malformed, Parsed, Place, SourceTurn

_SESSION = re.compile(r"session_(\d+)")
_DATE_FORMATS = ("%I:%M %p on %d %B, %Y", "%H:%M on %d %B, %Y", "%d %B, %Y")


class LoCoMo:
    name = "locomo"

    def recognises(self, value: Any) -> bool:
        return isinstance(value, dict) and isinstance(value.get("conversation"), dict)

    def parse(self, value: Any, place: Place, stem: str) -> Iterator[Parsed]:
        if not self.recognises(value):
            raise Malformed("a LoCoMo sample must be an object with a conversation")
        conversation: Mapping[str, Any] = value["conversation"]
        sample = value.get("sample_id")
        if not isinstance(sample, str | int):
            raise Malformed("the sample has no sample_id")
        numbers = sorted(int(m[1]) for name in conversation if (m := _SESSION.fullmatch(name)))
        for number in numbers:
            yield from self._session(conversation, f"locomo/{sample}", f"session_{number}", place)

    def _session(
        self, conversation: Mapping[str, Any], prefix: str, name: str, place: Place
    ) -> Iterator[Parsed]:
        turns = conversation[name]
        session = f"{prefix}/{name}"
        if not isinstance(turns, list):
            yield place.problem(f"{session} is not a list of turns")
            return
        try:
            began = parse_date(conversation.get(f"{name}_date_time"))
        except ValueError as error:
            yield place.problem(f"{session}: {error}; its turns get the time of the import")
            began = None
        for index, turn in enumerate(turns):
            try:
                fields = _fields(turn)
            except Malformed as error:
                yield place.problem(f"{session}, turn {index}: {error}")
                continue
            if began is not None:
                fields["timestamp"] = began + timedelta(seconds=index)
            yield SourceTurn(session=session, line=place.line, fields=fields)


def _fields(turn: Any) -> dict[str, Any]:
    if not isinstance(turn, dict):
        raise Malformed(f"a turn must be an object, not {type(turn).__name__}")
    for name in ("speaker", "dia_id", "text"):
        if not isinstance(turn.get(name), str):
            raise Malformed(f"there is no {name}")
    fields = {
        "role": "user",
        "content": turn["text"],
        "name": turn["speaker"] or None,
        "key": turn["dia_id"],
    }
    metadata = {
        n: v for n, v in turn.items() if n not in ("speaker", "dia_id", "text") and v is not None
    }
    return fields | ({"metadata": metadata} if metadata else {})


def parse_date(text: Any) -> datetime:
    """``1:56 pm on 8 May, 2023``, taken as UTC. ValueError for anything else."""
    if isinstance(text, str):
        for form in _DATE_FORMATS:
            try:
                return datetime.strptime(" ".join(text.split()), form).replace(tzinfo=UTC)
            except ValueError:
                continue
    raise ValueError(f"no date in {text!r}")
