"""What an import came to."""

from __future__ import annotations

import msgspec

from neverforget.runtime.importers.source_turn import Problem

PROBLEMS_MAX = 1000


class Problems:
    """All are counted, the first are kept."""

    def __init__(self) -> None:
        self.count = 0
        self.kept: list[Problem] = []

    def add(self, problem: Problem) -> None:
        self.count += 1
        if len(self.kept) < PROBLEMS_MAX:
            self.kept.append(problem)


class ImportReport(msgspec.Struct, frozen=True):
    """Counts are of turns unless they are said to be of memories.

    ``turns`` read from the file = ``appended`` + ``existing`` (there from an earlier run) +
    ``refused``. ``contentless`` of the appended ones stand for turns that were erased or unreadable
    when they were exported. ``memories`` read = ``remembered`` + ``revised`` (known here in an
    earlier version) + ``memories_existing`` + ``memories_refused``. ``problems`` holds the first
    1,000; ``problem_count`` counts all. With ``dry_run`` nothing was written; ``appended`` and
    ``remembered`` say what would have been.
    """

    path: str
    format: str
    turns: int
    appended: int
    existing: int
    refused: int
    contentless: int
    sessions: int
    bytes: int
    problem_count: int
    problems: tuple[Problem, ...]
    dry_run: bool
    memories: int = 0
    remembered: int = 0
    revised: int = 0
    memories_existing: int = 0
    memories_refused: int = 0

    @property
    def ok(self) -> bool:
        """Everything in the file is in the store."""
        return self.problem_count == 0
