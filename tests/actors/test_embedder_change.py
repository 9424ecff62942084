"""What the owner asks of a change of embedders, on a thread beside the indexer's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from neverforget.actors.embedder_change import EmbedderChange

NOTHING: Any = None


class Ending(EmbedderChange):
    """The indexer ends what runs as soon as somebody has looked at it."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name == "running":
            self.running = None
        return value


def test_what_ends_while_it_is_looked_at_is_no_error() -> None:
    """It was looked at twice: None the second time, an AttributeError in the owner's loop."""
    change = Ending(NOTHING, NOTHING, NOTHING, lambda: None)
    running: Any = SimpleNamespace(error=None, is_clean=lambda end: end < 7)
    for end in (6, 7):
        change.running = running
        assert change.error is None
        change.running = running
        assert change.is_clean(end) == (end < 7)
    assert change.is_clean(9) and change.error is None, "nothing runs"
