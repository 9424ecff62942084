"""Deletions that may concern many memories: a slice at each tick of the owner, and between two of
them everybody else is served. One at a time, in the order they were asked for; so a repeat waits
for what it repeats, and never answers before the bytes are gone.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from neverforget.actors.group_commit import of_one_request, outcome_unknown
from neverforget.actors.messages import AnyReply
from neverforget.actors.ports import Pending, failure
from neverforget.storage.errors import NeverforgetError, Overloaded, Poisoned, Unavailable
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.slices import Slices

log = logging.getLogger(__name__)
_WAITING_MAX: Final = 64
Deletion = Callable[[LongTermRegion, Any], Slices[AnyReply]]


class _Running(NamedTuple):
    pending: Pending
    region: LongTermRegion
    slices: Slices[AnyReply]


class Deletions:
    """``deletions``: how each kind of request is carried out. The owner's loop calls it."""

    def __init__(self, deletions: Mapping[type, Deletion]) -> None:
        self._deletions = deletions
        self._waiting: deque[Pending] = deque()
        self._running: _Running | None = None

    def __len__(self) -> int:
        return len(self._waiting) + (self._running is not None)

    def takes(self, pending: Pending) -> bool:
        """False: it is none."""
        if type(pending.request) not in self._deletions:
            return False
        if len(self) < _WAITING_MAX:
            self._waiting.append(pending)
        else:
            error = Overloaded("too many deletions wait at this owner; ask again later")
            pending.reply(failure(pending.request.id, error))
        return True

    def step(
        self, region: LongTermRegion, refusal: NeverforgetError | None
    ) -> tuple[Pending, AnyReply] | None:
        """Do one slice. Whom to answer what, when that was the last one. ``refusal``: why nothing
        can be deleted. Raises Poisoned.
        """
        if self._running is None:
            pending = self._waiting.popleft()
            if refusal is not None:
                pending.reply(failure(pending.request.id, refusal))
                return None
            slices = self._deletions[type(pending.request)](region, pending.request)
            self._running = _Running(pending, region, slices)
        pending = self._running.pending
        try:
            next(self._running.slices)
            return None
        except StopIteration as done:
            self._running = None
            return pending, done.value
        except Poisoned as error:
            self.lose(outcome_unknown(error))
            raise
        except NeverforgetError as error:
            answer = failure(pending.request.id, error)
        except OSError as error:
            answer = failure(pending.request.id, of_one_request(error))
        except Exception as error:  # a mistake of ours: what it has staged is in doubt
            log.exception("a deletion failed")
            poisoned = outcome_unknown(error)
            self.lose(poisoned)
            raise poisoned from error
        self._running = None
        pending.reply(answer)
        return None

    def lose(self, answer: NeverforgetError, *, but_of: LongTermRegion | None = None) -> None:
        """The region of the one that is under way is gone; ``but_of``: unless it is this one. What
        is on record of it the next opening completes, so nobody knows here whether it is.
        """
        running = self._running
        if running is not None and running.region is not but_of:
            self._running = None
            running.slices.close()
            running.pending.reply(failure(running.pending.request.id, answer))

    def refuse(self, error: NeverforgetError) -> None:
        """Nothing will be deleted here: everybody who waits is told."""
        self.lose(unknown(error.message))
        while self._waiting:
            pending = self._waiting.popleft()
            pending.reply(failure(pending.request.id, error))


def unknown(why: str) -> Unavailable:
    return Unavailable(f"{why}; whether it is deleted is unknown: repeat it", outcome="unknown")
