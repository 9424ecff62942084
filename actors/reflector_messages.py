"""The words of the reflector; frames as in ``messages.py``. It answers ``Status`` with
``ReflectorStatusReply``, and ``Settle`` with Done when no session that it knows of is due.
"""

from __future__ import annotations

from msgspec import Struct

from neverforget.actors.message_bases import Reply, Request
from neverforget.storage.reflection_results import FailedRange

RUNNING, DONE, UNKNOWN = "running", "done", "unknown"  # states of a run that was asked for


class Reflect(Request, tag=80):
    """Begin to reflect everything that waits in one session (None: in all at or below
    ``namespace``), or (``begin`` False) see how far that is. ``run`` is the caller's name for it:
    to begin one that is there already, or was ended a moment ago, begins nothing. ``again``: also
    what another extractor has done before.
    """

    run: str
    begin: bool
    namespace: tuple[str, ...]
    session: str | None
    again: bool


class WakeReflector(Request, tag=81):
    """Look at once at what is due, instead of at the next look. Answered with Done."""


class RunningWindow(Struct, array_like=True, frozen=True):
    """``since``: microseconds UTC."""

    namespace: tuple[str, ...]
    session: str
    first: int
    last: int
    since: int


class ReflectReply(Reply, tag=160):
    """``state``: "running", "done", or "unknown": this reflector was not asked for it, or has been
    restarted; begin again. ``turns_all`` may grow while the run looks for what there is to do.
    ``failed``: ranges of this run that failed (at most 100, newest) of ``failures`` in all.
    ``error``: the last one, of a range or of an owner that is away; it may be over.
    """

    state: str
    sessions: int
    turns_done: int
    turns_all: int
    windows: int
    facts: int
    failures: int
    failed: list[FailedRange]
    extractor: str
    error: str | None


class ReflectorStatusReply(Reply, tag=161):
    """What was done since this reflector started. ``queue``: sessions that wait for their turn;
    ``runs``: those that were asked for and are not done. ``stuck``: extractions that were given up
    and still run. ``error``: the last one, at ``error_at`` (microseconds UTC).
    """

    pid: int
    extractor: str
    running: list[RunningWindow]
    queue: int
    runs: int
    turns: int
    windows: int
    facts: int
    stuck: int
    error: str | None
    error_at: int | None


ReflectorRequest = Reflect | WakeReflector
ReflectorReply = ReflectReply | ReflectorStatusReply
