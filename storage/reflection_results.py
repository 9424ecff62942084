"""What a region answers about reflection: what waits, what is planned, what failed.

Small msgspec structs that go over the socket as they are. Ranges are inclusive seqs, times
microseconds UTC.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

REFLECTION: Final = "reflection"  # the source of memories that were made so
SUBJECT_TAG: Final = "subject"  # above the tags of facts of which one takes the place of another


class PlannedRange(Struct, array_like=True, frozen=True):
    """A window that a reflector has begun and not marked as done. ``at``: of its record, the same
    after every restart. ``begun``: how often, where nothing was heard of how it ended.
    """

    first: int
    last: int
    extractor: str
    at: int
    begun: int = 1


class FailedRange(Struct, array_like=True, frozen=True):
    """A dead letter: turns given up after ``tries``. ``error`` holds no text of theirs."""

    namespace: tuple[str, ...]
    session: str
    first: int
    last: int
    extractor: str
    tries: int
    error: str
    at: int


class DueSession(Struct, array_like=True, frozen=True):
    """What is to be done in one session. Turns first..stop-1 are to be done without a gap: the
    planned range, or the first turns that wait. ``end``: the seq that the next append gets;
    ``turns``: how many are to be done in all, those of the plan counted; ``oldest_at``: the time of
    turn ``first``, 0 where its record is lost.
    """

    namespace: tuple[str, ...]
    session: str
    first: int
    end: int
    turns: int
    planned: PlannedRange | None
    oldest_at: int
    stop: int = 0


class ReflectionLag(Struct, array_like=True, frozen=True):
    """Of a whole region. ``turns`` of ``sessions`` wait, the oldest since ``oldest_at``; ``due``
    sessions are to be reflected now; ``failed`` ranges were given up, of which ``failed_ranges``
    are the newest, at most 100, newest last.
    """

    turns: int
    sessions: int
    oldest_at: int | None
    due: int
    failed: int
    failed_ranges: list[FailedRange]
