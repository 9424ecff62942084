"""Who waits at an owner for what is beyond this machine: replies to ``sync="replica"``, and appends
while the log is too far ahead of the objects.

Plain bookkeeping, without I/O; the owner's loop calls it. The order in which mutations were asked
is kept: while one is held back, so are those behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Sequence

from neverforget.actors.message_bases import SYNC_REPLICA
from neverforget.actors.messages import AnyReply
from neverforget.actors.metrics import Meter
from neverforget.actors.ports import Pending, failure
from neverforget.storage.errors import NeverforgetError, Overloaded

Replied = tuple[Pending, AnyReply, int]  # ... the position that must be shipped


class Replicating:
    """``queued_max``: requests held back at most; beyond it they are refused with Overloaded.
    ``meter`` is told how long those waited that are answered.
    """

    def __init__(self, queued_max: int, meter: Meter) -> None:
        self._queued_max = queued_max
        self._meter = meter
        self._replies: deque[tuple[Replied, float]] = deque()
        self._held: deque[Pending] = deque()

    def __len__(self) -> int:
        return len(self._replies) + len(self._held)

    def admit(
        self, pendings: Sequence[Pending], mutating: Container[type], may_append: bool
    ) -> list[Pending]:
        """Those that are carried out now; mutations are held back where they may not be, or where
        others are.
        """
        if may_append and not self._held:
            return list(pendings)
        admitted = []
        for pending in pendings:
            if type(pending.request) not in mutating:
                admitted.append(pending)
            elif len(self._held) < self._queued_max:
                self._held.append(pending)
            else:
                error = Overloaded("the replica is too far behind, and too many appends wait")
                pending.reply(failure(pending.request.id, error))
        return admitted

    def let_go(self) -> list[Pending]:
        """All that are held back."""
        held, self._held = list(self._held), deque()
        return held

    @property
    def holds_back(self) -> bool:
        return bool(self._held)

    def wait(self, replies: Sequence[Replied], began: float) -> int:
        """Keep these answers until they are true; the position that must be shipped for that.
        ``began``: when their turn did."""
        self._replies.extend((reply, began) for reply in replies)
        return max((end for *_, end in replies), default=0)

    def answer(self, shipped: int) -> None:
        """Answer whoever waits for no more than this position. A repeat may wait for less than
        those in front of it.
        """
        if not self._replies:
            return
        left: deque[tuple[Replied, float]] = deque()
        for replied, began in self._replies:
            pending, reply, end = replied
            if end <= shipped:
                pending.reply(reply)
                self._meter.appends[SYNC_REPLICA].add(self._meter.now() - began)
            else:
                left.append((replied, began))
        self._replies = left

    def fail(self, error: NeverforgetError) -> None:
        """Whoever waits for an answer gets this one; what is held back was not begun, and stays."""
        while self._replies:
            (pending, *_), _began = self._replies.popleft()
            pending.reply(failure(pending.request.id, error))
