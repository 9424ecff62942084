"""A process that has one long-term store after another chunked, each time in a child that may die.

    python -m tests.faults.chunking_owner

A line is the directory of a store: its owner is opened with a chunker beside it, everything is
chunked, and it is closed; see ``forked.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from tests.actors.chunkers import Scripted, long_text
from tests.actors.longterm_owners import OwnedLongTerm, create, own
from tests.faults.forked import main

WORDS = ("first", "second", "third")


def owner(directory: Path, *, chunks: bool = True) -> OwnedLongTerm:
    return own(directory, "none", chunkers=Scripted if chunks else None)


def furnish(directory: Path) -> list[str]:
    """A store with long memories that nobody has chunked; their ids."""
    owned = owner(create(directory), chunks=False)
    ids = owned.remember(*(long_text(word) for word in WORDS))
    owned.remember("short")
    owned.settle()
    owned.owner.close()
    return ids


def prepared(directory: str) -> Callable[[], None]:
    def carry_out() -> None:
        owned = owner(Path(directory))
        owned.settle()
        owned.owner.close()

    return carry_out


if __name__ == "__main__":
    sys.exit(main(prepared))
