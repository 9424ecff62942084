"""Windows of turns, as short as a test can say them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from neverforget.actors.extractor_contract import Window, WindowTurn
from neverforget.runtime.times import to_us

SAID = datetime(2023, 5, 10, 13, 56, tzinfo=UTC)  # a Wednesday
SAID_US = to_us(SAID, "said")


def turn(seq: int, speaker: str | None, text: str, **how: Any) -> WindowTurn:
    role = how.pop("role", "user")
    return WindowTurn(seq, role, speaker, text, how.pop("at", SAID_US + seq * 1_000_000), **how)


def window(*turns: WindowTurn, **how: Any) -> Window:
    return Window(("team",), "chat", turns, **how)


def chat(*said: str) -> Window:
    """Of lines like "Caroline: I adopted a dog."."""
    parts = [line.partition(": ") for line in said]
    return window(*(turn(seq, name, text) for seq, (name, _, text) in enumerate(parts)))
