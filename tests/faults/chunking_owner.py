"""A process that has one long-term store after another chunked, each time in a child that may die.

    python -m tests.faults.chunking_owner

On standard input the directory of a store: a child says ``ready``, waits for a line, opens the
owner of the store with a chunker beside it, waits until everything is chunked, and closes it; then
``end STATUS``, negative for the signal that killed it. Forked, so that a death costs no start of
Python.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

from tests.actors.chunkers import Scripted, long_text
from tests.actors.longterm_owners import OwnedLongTerm, create, own

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


def tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def child(directory: str) -> int:
    try:
        tell("ready")
        os.read(0, 100)
        owned = owner(Path(directory))
        owned.settle()
        owned.owner.close()
        return 0
    except BaseException:
        traceback.print_exc()
        return 1


def main() -> int:
    while line := sys.stdin.readline():
        pid = os.fork()
        if not pid:
            os._exit(child(line.strip()))
        _, status = os.waitpid(pid, 0)
        tell(f"end {os.waitstatus_to_exitcode(status)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
