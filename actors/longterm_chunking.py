"""What the loop of the long-term owner has to do with chunking: it stages what was chunked.

To stage a chunking takes about a tenth of a millisecond a chunk, and is not to be interrupted: all
of it or nothing. Whoever remembers meanwhile waits for that. To index those chunks takes another
thread four times as long, which has to share the interpreter with the loop. So the loop takes one
in a turn; and while others ask it, none before fourteen times as long has passed as the last one
took: that leaves them two thirds of the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from neverforget.actors.chunker_pool import Member
from neverforget.actors.chunking import Chunking
from neverforget.actors.deriving import Deriving
from neverforget.actors.longterm_messages import ChunkingStatus
from neverforget.actors.longterm_spec import LongTermSpec
from neverforget.storage.clock import Clock
from neverforget.storage.longterm import LongTermRegion

FREE_SHARE: Final = 14.0  # of the loop's time, for each part of it that goes here
BUSY_S: Final = 1.0  # after somebody has asked the loop for something


class LongTermChunking:
    """Of one owner, whatever region it has. ``spawn`` makes a chunker; None: nothing is chunked.
    ``wake`` makes the loop look at ``deadline``; ``news`` is called, on any thread, when there is
    something to see. All else is for the loop's thread, but ``leave``, and ``_submit``, which the
    chunking thread calls.
    """

    def __init__(
        self,
        spec: LongTermSpec,
        clock: Clock,
        spawn: Callable[[], Member] | None,
        wake: Callable[[], None],
        news: Callable[[], None],
    ) -> None:
        self._spec = spec
        self._clock = clock
        self._spawn = spawn
        self._wake = wake
        self._news = news
        self._current: Chunking | None = None
        self._waiting: deque[Deriving] = deque()
        self._not_before = 0.0
        self._busy_until = 0.0

    def follow(self, region: LongTermRegion) -> None:
        """From now on this one's."""
        self._waiting.clear()  # for a region that is closed: nobody waits for an answer
        if self._spawn is not None:
            self._current = Chunking(
                self._spec, self._clock, region, self._spawn, self._submit, self._news
            )
            self._current.start()

    def leave(self, region: LongTermRegion) -> None:
        """Nothing reads ``region`` any more when this returns, unless the thread hangs: that is
        logged. On whatever thread closes it.
        """
        if self._current is not None and self._current.region is region:
            self._current.close()

    def notice(self) -> None:
        """The log has grown."""
        if self._current is not None:
            self._current.notice()

    def look(self) -> None:
        """Something may be due now."""
        if self._current is not None:
            self._current.look()

    @property
    def idle(self) -> bool:
        """Nothing that was noticed waits to be chunked, but what cannot be."""
        return self._current is None or self._current.idle

    def status(self) -> ChunkingStatus | None:
        return None if self._current is None else self._current.status()

    # ---- staging ---------------------------------------------------------------------------------

    def others_ask(self) -> None:
        """Leave them their share."""
        self._busy_until = self._clock.monotonic() + BUSY_S

    def deadline(self) -> float | None:
        return self._not_before if self._waiting else None

    def carry_out(self, run: Callable[[list[Deriving]], None]) -> None:
        """Stage the next one, if the loop has had time for others."""
        started = self._clock.monotonic()
        if not self._waiting or started < self._not_before:
            return
        try:
            run([self._waiting.popleft()])
        finally:
            now = self._clock.monotonic()
            if now < self._busy_until:
                self._not_before = now + FREE_SHARE * (now - started)

    def _submit(self, one: Deriving) -> None:
        self._waiting.append(one)
        self._wake()
