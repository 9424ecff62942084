"""What reflection says of itself: what ``reflect`` returns, and its part of ``status``."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from neverforget.runtime.times import from_us
from neverforget.runtime.values import Namespace
from neverforget.storage.reflection_results import FailedRange as StorageFailedRange


class FailedRange(Struct, frozen=True):
    """Turns ``first`` to ``last`` of a session of which no memories could be made: the extractor
    failed ``tries`` times, the last time with ``error``. They are as they were, and tried again
    when somebody calls ``reflect``.
    """

    namespace: tuple[str, ...]
    session: str
    first: int
    last: int
    extractor: str
    tries: int
    error: str
    at: datetime


class ReflectionReport(Struct, frozen=True):
    """What one ``reflect`` has done: ``turns`` of ``sessions`` in ``windows``, of which ``facts``
    became memories. ``failed``: what it could not, the newest 100.
    """

    sessions: int
    turns: int
    windows: int
    facts: int
    failed: tuple[FailedRange, ...]
    extractor: str


class ReflectionInfo(Struct, frozen=True):
    """How far reflection is behind, and what it does.

    extractor: its name, as in the settings.
    turns: that wait, of ``sessions``; the oldest was said at ``oldest_at``, None: none waits.
    due: sessions that are to be reflected now; the others wait until there are more turns.
    state: "running", "idle" (started when something is due) or "unavailable".
    running: windows that are being worked on.
    failures: ranges that failed and wait for somebody to call ``reflect``; ``failed``: the newest.
    error: what went wrong last, also where it is tried again by itself.
    turns_reflected, facts: since the reflector was started.
    """

    extractor: str
    turns: int
    sessions: int
    due: int
    oldest_at: datetime | None
    state: str
    running: int
    failures: int
    failed: tuple[FailedRange, ...]
    error: str | None
    turns_reflected: int
    facts: int


def failed_range(found: StorageFailedRange) -> FailedRange:
    """As a region tells of it."""
    return FailedRange(
        Namespace(found.namespace),
        found.session,
        found.first,
        found.last,
        found.extractor,
        found.tries,
        found.error,
        from_us(found.at),
    )
