"""Reflection as operations: a run that is asked for, how far it is behind, and waiting for it.

What is done is in the logs. A reflector that is started again knows of no run; whoever asked begins
it again, under another name, and nothing is done twice.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from neverforget.actors.longterm_messages import (
    LongTermStatusReply,
    Memories,
    MemoryPageReply,
    packed,
    unpacked,
)
from neverforget.actors.messages import Status, StatusReply
from neverforget.actors.places import REFLECTOR
from neverforget.actors.reflector_messages import (
    RUNNING,
    UNKNOWN,
    Reflect,
    ReflectorStatusReply,
    ReflectReply,
    WakeReflector,
)
from neverforget.runtime import extractors
from neverforget.runtime.memory_codec import memory_of
from neverforget.runtime.memory_values import Memory
from neverforget.runtime.operation import LONGTERM, Call, Context, Operation
from neverforget.runtime.reflection_values import (
    FailedRange,
    ReflectionInfo,
    ReflectionReport,
    failed_range,
)
from neverforget.runtime.times import from_us
from neverforget.storage.errors import InvalidArgument, Unavailable
from neverforget.storage.longterm_results import MemoryFilter, MemoryView
from neverforget.storage.reflection_results import ReflectionLag

Progress = Callable[[int, int], None]
PAUSE_S: Final = 0.05  # between two looks
STATUS_S: Final = 5.0  # for the reflector to say how it is
WAKE_EVERY_S: Final = 1.0
STALLED_S: Final = 15.0  # without any progress, and with an error, nobody is waited for
FAILED_SHOWN: Final = 100


class Reflection:
    """One call of ``reflect``. ``session`` None: all at or below ``namespace``."""

    def __init__(
        self,
        context: Context,
        extractor: str,
        namespace: tuple[str, ...],
        session: str | None,
        again: bool,
        progress: Progress | None,
    ) -> None:
        if extractor == extractors.NONE:
            raise InvalidArgument(
                'this store has extractor="none", so nothing is made of what was said; set another '
                'in its store.toml ([host] extractor = "rules") and open it anew'
            )
        self._context = context
        self._place = namespace, session
        self._again = again
        self._progress = progress
        self._run = ""
        self._sessions = self._turns = self._windows = self._facts = 0  # of runs that are over
        self._failed: tuple[FailedRange, ...] = ()
        self._last: ReflectReply | None = None

    def look(self) -> Operation[bool]:
        """Begin it, or see how far it is. True: look again in a moment."""
        begin = not self._run
        if begin:
            self._run = secrets.token_hex(16)
        reply: ReflectReply = yield Call(
            REFLECTOR, Reflect(0, self._run, begin, *self._place, self._again)
        )
        if reply.state == UNKNOWN:
            self._keep()
            self._run = ""
            return True
        self._last = reply
        if self._progress is not None:
            self._progress(self._turns + reply.turns_done, self._turns + reply.turns_all)
        if reply.state == RUNNING:
            return True
        if reply.failures and not reply.failed:  # it knows not even what there is to do
            raise Unavailable(f"nothing was reflected: {reply.error}", outcome="not_applied")
        if self._facts + reply.facts:
            yield from self._note_writes()
        return False

    def report(self) -> ReflectionReport:
        """Once there is nothing left to look at."""
        assert self._last is not None
        extractor = self._last.extractor
        self._keep()
        return ReflectionReport(
            self._sessions, self._turns, self._windows, self._facts, self._failed, extractor
        )

    def _keep(self) -> None:
        """A run is over, in order or with its reflector."""
        last, self._last = self._last, None
        if last is None:
            return
        self._sessions += last.sessions
        self._turns += last.turns_done
        self._windows += last.windows
        self._facts += last.facts
        failed = self._failed + tuple(map(failed_range, last.failed))
        self._failed = failed[-FAILED_SHOWN:]

    def _note_writes(self) -> Operation[None]:
        """This client's recalls wait for what was stored now, as for what it stores itself."""
        reply: LongTermStatusReply = yield Call(LONGTERM, Status(0))
        if reply.region is not None:
            self._context.longterm.note(reply.region.tail)


class DueWait:
    """Until no session is due. ``timeout_s`` 0: only look; None: however long it takes, unless
    nothing comes of it.
    """

    def __init__(self, context: Context, extractor: str, timeout_s: float | None) -> None:
        self._partitions = 0 if extractor == extractors.NONE else context.partitions
        self._timeout_s = timeout_s
        now = time.monotonic()
        self._until = None if timeout_s is None else now + timeout_s
        self._wake_at = self._progress_at = now
        self._done = 0

    def look(self) -> Operation[bool]:
        """True: look again in a moment. Unavailable: there is no time left for that, or no use."""
        due = 0
        for partition in range(self._partitions):
            reply: StatusReply = yield Call(partition, Status(0))
            due += 0 if reply.reflection is None else reply.reflection.due
        if not due:
            return False
        now = time.monotonic()
        if self._until is not None and now >= self._until:
            raise Unavailable(
                f"sessions that wait to be reflected: {due:,}; wait longer, or see "
                "status().reflection",
                outcome="not_applied",
            )
        if now >= self._wake_at:
            self._wake_at = now + WAKE_EVERY_S
            said: ReflectorStatusReply | None = None
            left_s = None if self._until is None else self._until - now
            try:
                yield Call(REFLECTOR, WakeReflector(0), left_s)
                said = yield Call(REFLECTOR, Status(0), left_s)
            except Unavailable:
                pass  # it is away, or on another node; it looks by itself, too
            self._check_progress(said, due)
        return True

    def _check_progress(self, reply: ReflectorStatusReply | None, due: int) -> None:
        now = time.monotonic()
        if reply is None or reply.running or reply.error is None or reply.turns != self._done:
            self._progress_at = now
            self._done = 0 if reply is None else reply.turns
        elif now - self._progress_at >= STALLED_S:
            raise Unavailable(
                f"sessions that cannot be reflected: {due:,}; {reply.error}", outcome="not_applied"
            )


def info(
    extractor: str, lags: Sequence[ReflectionLag | None], root: tuple[str, ...], runs: bool
) -> Operation[ReflectionInfo]:
    """``lags``: of the partitions. ``root``: failed ranges elsewhere are not shown. ``runs``:
    somebody has needed the reflector; who asks how it is must not be the one.
    """
    found = [lag for lag in lags if lag is not None]
    reply: ReflectorStatusReply | None = None
    error = None
    if runs:
        try:
            reply = yield Call(REFLECTOR, Status(0), STATUS_S)
        except Unavailable as away:
            error = away.message
    failed = [
        each for lag in found for each in lag.failed_ranges if each.namespace[: len(root)] == root
    ]
    failed.sort(key=lambda each: each.at)
    times = [lag.oldest_at for lag in found if lag.oldest_at]
    return ReflectionInfo(
        extractor=extractor,
        turns=sum(lag.turns for lag in found),
        sessions=sum(lag.sessions for lag in found),
        due=sum(lag.due for lag in found),
        oldest_at=from_us(min(times)) if times else None,
        state="idle" if not runs else "unavailable" if reply is None else "running",
        running=0 if reply is None else len(reply.running),
        failures=sum(lag.failed for lag in found),
        failed=tuple(map(failed_range, failed[-FAILED_SHOWN:])),
        error=error if reply is None else reply.error,
        turns_reflected=0 if reply is None else reply.turns,
        facts=0 if reply is None else reply.facts,
    )


def newest_learned(
    root: tuple[str, ...], session: str | None, extractor: str, count: int
) -> Operation[list[Memory]]:
    """The newest ``count`` memories that this extractor made, at or below ``root``; oldest first.
    ``extractor``: its id.
    """
    if not count:
        return []
    where: dict[str, Any] = {"metadata.extractor": extractor}
    if session is not None:
        where["metadata.session"] = session
    asked = packed(MemoryFilter(namespace=root, where=where))
    found: list[MemoryView] = []
    before: int | None = None
    more = True
    while more and len(found) < count:
        request = Memories(0, asked, None, before, True, count - len(found))
        reply: MemoryPageReply = yield Call(LONGTERM, request)
        found = unpacked(reply.memories, list[MemoryView]) + found
        more, before = reply.more, reply.previous
    return [memory_of(view) for view in found]
