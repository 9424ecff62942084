"""What an import came to."""

from __future__ import annotations

import msgspec

from neverforget.runtime.importers.source_turn import Problem

PROBLEMS_MAX = 1000


class ImportReport(msgspec.Struct, frozen=True):
    """Counts are of turns unless their name says otherwise.

    ``turns`` read from the file = ``appended`` + ``existing`` (there from an earlier run) +
    ``refused``. ``contentless`` of the appended ones stand for turns that were erased or unreadable
    when they were exported. ``problems`` holds the first 1,000; ``problem_count`` counts all. With
    ``dry_run`` nothing was written and ``appended`` says what would have been.
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

    @property
    def ok(self) -> bool:
        """Everything in the file is in the store."""
        return self.problem_count == 0
