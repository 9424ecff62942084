"""The thread that has long memories chunked: it follows the log of an open region, keeps the pool
of chunkers, and hands what they bring to the owner's loop.

The queue is what the log says (``Unchunked``): nothing of it is written, so nothing can be lost
with this thread, with a chunker, or with the process. A chunking that was cut for a text that has
changed meanwhile is refused by the region. What the store cannot take now (a full disk) waits.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from neverforget.actors.chunker_pool import ChunkerPool, Done, Member
from neverforget.actors.chunker_spec import Chunked, Document
from neverforget.actors.chunking_tries import Trial, Tries
from neverforget.actors.deriving import Derive, Deriving
from neverforget.actors.longterm_messages import ChunkingStatus
from neverforget.actors.longterm_spec import LongTermSpec
from neverforget.actors.messages import AnyReply, Failure
from neverforget.actors.splitter import SPLITTER_VERSION
from neverforget.actors.summaries import Summaries
from neverforget.actors.worker_threads import joined
from neverforget.storage.clock import Clock
from neverforget.storage.errors import (
    Conflict,
    Corrupt,
    InvalidArgument,
    NeverforgetError,
    NotFound,
    from_wire,
)
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.longterm_deriving import derived_id
from neverforget.storage.longterm_results import NewDerived
from neverforget.storage.longterm_unchunked import LongText, Unchunked

log = logging.getLogger(__name__)
BATCH_CHARACTERS: Final = 256 * 1024
DERIVING_MAX: Final = 32  # chunkings that wait for the owner's loop; no others are cut then
DERIVING_CHARACTERS_MAX: Final = 4_000_000
CALL_S, SUMMARY_CALL_S = 120.0, 600.0
PAUSE_S_MIN, PAUSE_S_MAX = 1.0, 30.0
_LOOK_S: Final = 0.05  # between two looks at the log, however much is written
_END_S: Final = 15.0


class _Derived(NamedTuple):
    trial: Trial
    reply: AnyReply


class Chunking:
    """Of one open region. ``spawn`` makes a chunker; ``submit`` hands a chunking to the owner's
    loop; ``news`` is called, on any thread, when there is something to see.
    """

    def __init__(
        self,
        spec: LongTermSpec,
        clock: Clock,
        region: LongTermRegion,
        spawn: Callable[[], Member],
        submit: Callable[[Deriving], None],
        news: Callable[[], None],
    ) -> None:
        self.region = region
        self._summaries = Summaries(spec.summarizer, clock.monotonic)
        self._monotonic = clock.monotonic
        self._submit = submit
        self._news = news
        self._unchunked = Unchunked(region.state, spec.chunk_over_characters)
        self._woken = threading.Event()
        self._ending = threading.Event()
        self._pool: ChunkerPool[list[Trial]] = ChunkerPool(
            spawn, spec.chunker_processes, clock.monotonic, self._woken.set
        )
        self._tries = Tries(clock.monotonic)
        self._derived: queue.SimpleQueue[_Derived] = queue.SimpleQueue()
        self._running = 0  # documents that a chunker or the owner's loop has
        self._deriving = self._deriving_characters = 0  # of these: the loop
        self._noticed, self._followed = 0, -1  # how far the log is written, and is followed
        self._followed_at = -_LOOK_S  # by the real clock: it only keeps this thread from the others
        self._error: str | None = None
        self._not_before = 0.0
        self._pause_s = PAUSE_S_MIN
        self._thread = threading.Thread(
            target=self._run, name=f"neverforget-chunking-lt{spec.shard}", daemon=True
        )

    # ---- the owner -------------------------------------------------------------------------------

    def start(self) -> None:
        self._noticed = self.region.written
        self._thread.start()

    def notice(self) -> None:
        """The log may have grown, and what is in it counts. On the owner's thread."""
        written = self.region.written
        if written != self._noticed:
            self._noticed = written
            self._woken.set()

    def look(self) -> None:
        """Something may be due now."""
        self._woken.set()

    @property
    def idle(self) -> bool:
        """Everything long that was noticed is chunked, or has failed."""
        return self._followed == self._noticed and not self._unchunked.waiting

    def status(self) -> ChunkingStatus:
        """On the owner's thread. What the log says now waits, whether or not it is followed yet."""
        with suppress(NeverforgetError, OSError):  # the thread meets it as well, and says so
            self._unchunked.follow()
        running = self._running
        return ChunkingStatus(
            waiting=max(0, self._unchunked.waiting - running),
            running=running,
            failed=len(self._unchunked.failures),
            chunkers=len(self._pool),
            summaries_failed=self._summaries.failed,
            error=self._pool.error or self._error,
        )

    def close(self) -> bool:
        """What is under way is given up, and cut again when the store is opened. False, and logged:
        the thread still hangs.
        """
        self._ending.set()
        self._woken.set()
        return joined(self._thread, _END_S)

    # ---- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                try:
                    begun = self._monotonic()
                    self._step()
                    self._woken.wait(self._timeout(begun))
                except Exception as error:
                    log.exception("chunking pauses")
                    self._stand_still(f"chunking pauses: {type(error).__name__}: {error}")
                    self._ending.wait(self._pause_s)
                self._woken.clear()
        finally:
            self._pool.close()

    def _step(self) -> None:
        changed = self._follow()
        while not self._derived.empty():
            self._see_derived(*self._derived.get_nowait())
            changed = True
        for done in self._pool.tend(self._wanted()):
            self._see_done(done)
            changed = True
            self._woken.set()  # what is to be tried again may need another chunker
        self._hand_out()
        if changed:
            self._news()

    def _follow(self) -> bool:
        """Whether there is something to see: nothing waits any more, or something new."""
        noticed = self._noticed
        if noticed == self._followed or self._until_look() > 0:
            return False
        changed = self._unchunked.follow()
        self._followed, self._followed_at = noticed, time.monotonic()
        return changed or self.idle

    def _until_look(self) -> float:
        return self._followed_at + _LOOK_S - time.monotonic()

    def _timeout(self, begun: float) -> float | None:
        """How long nothing is due that was not when the last step had ``begun``."""
        if not self._derived.empty():
            return 0.0
        if self._noticed != self._followed:
            return max(0.0, self._until_look())
        dues = [self._pool.deadline(), self._tries.deadline()]
        dues += [self._not_before] if self._unchunked.waiting else []
        later = [due for due in dues if due is not None and due > begun]
        return max(0.0, min(later) - self._monotonic()) if later else None

    def _stand_still(self, why: str) -> None:
        """For a while, longer each time: it is nothing that one text does."""
        self._error = why
        self._not_before = self._monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)

    # ---- handing out -----------------------------------------------------------------------------

    def _wanted(self) -> int:
        """Chunkers that have something to do."""
        if self._monotonic() < self._not_before:
            return 0
        untaken = self._unchunked.waiting - self._running - len(self._tries)
        return self._pool.busy + self._tries.due + -(-max(0, untaken) // self._summaries.together)

    def _hand_out(self) -> None:
        if self._monotonic() < self._not_before:
            return
        while self._pool.free and not self._loop_is_behind:
            batch = self._next()
            if not batch:
                return
            batch = self._summaries.asked_of(batch)
            self._running += len(batch)
            deadline_s = SUMMARY_CALL_S if self._summaries.wanted else CALL_S
            documents = [Document(trial.one.text, trial.summarize) for trial in batch]
            self._pool.give(batch, documents, deadline_s)

    @property
    def _loop_is_behind(self) -> bool:
        characters = self._deriving_characters
        return self._deriving >= DERIVING_MAX or characters > DERIVING_CHARACTERS_MAX

    def _next(self) -> list[Trial]:
        while (trial := self._tries.take()) is not None:
            if self._unchunked.is_current(trial.one):
                return [trial]
        if self._tries.full:
            return []
        some = self._unchunked.take(self._summaries.together, BATCH_CHARACTERS)
        return [Trial(one) for one in some]

    # ---- taking back -----------------------------------------------------------------------------

    def _see_done(self, done: Done[list[Trial]]) -> None:
        batch, outcome = done
        self._running -= len(batch)
        if isinstance(outcome, NeverforgetError):
            for trial in batch:
                if len(batch) > 1:
                    self._tries.alone(trial)
                else:
                    self._went_wrong(trial, outcome.message)
            return
        for trial, chunked in zip(batch, outcome, strict=True):
            if chunked.error is not None:
                self._went_wrong(trial, chunked.error)
            else:
                self._bring(trial, chunked)

    def _bring(self, trial: Trial, chunked: Chunked) -> None:
        self._error = self._summaries.seen(trial, chunked) or self._error
        one = trial.one
        derive = Derive(0, one.id, one.version, parts_of(one, chunked), SPLITTER_VERSION)
        self._running += 1
        self._deriving += 1
        self._deriving_characters += len(one.text)
        self._submit(Deriving(derive, lambda reply: self._answered(_Derived(trial, reply))))

    def _answered(self, derived: _Derived) -> None:
        """On the owner's thread."""
        self._derived.put(derived)
        self._woken.set()

    def _see_derived(self, trial: Trial, reply: AnyReply) -> None:
        self._running -= 1
        self._deriving -= 1
        self._deriving_characters -= len(trial.one.text)
        if not isinstance(reply, Failure):
            self._pause_s = PAUSE_S_MIN
            return
        error = from_wire(reply.code, reply.message, reply.fields)
        if isinstance(error, InvalidArgument):  # the same chunking again would be refused again
            self._give_up(trial, error.message)
        elif isinstance(error, Conflict | NotFound | Corrupt):
            # The text has changed meanwhile, and is not current any more; or nobody can help it.
            self._went_wrong(trial, error.message)
        else:
            self._unchunked.put_back(trial.one)
            self._stand_still(error.message)

    def _went_wrong(self, trial: Trial, reason: str) -> None:
        if not self._tries.again(trial):
            self._give_up(trial, reason)

    def _give_up(self, trial: Trial, reason: str) -> None:
        self._error = f"memory {trial.one.id}: {reason}"
        self._unchunked.failed(trial.one, reason)


def parts_of(one: LongText, chunked: Chunked) -> list[NewDerived]:
    """What is to be stored of a text that was cut."""
    parts = []
    for start, stop, context in chunked.pieces:
        span = (start, stop)
        wanted = derived_id(one.id, one.version, "chunk", span, SPLITTER_VERSION)
        parts.append(NewDerived(wanted, one.text[start:stop], "chunk", span, context))
    if chunked.summary is not None:
        wanted = derived_id(one.id, one.version, "summary", None, SPLITTER_VERSION)
        parts.append(NewDerived(wanted, chunked.summary, "summary"))
    return parts
