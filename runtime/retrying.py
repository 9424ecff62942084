"""When a call that did not get its answer is asked again, and when it is given up. No I/O here.

A request keeps its request id however often it is sent, and owners know the ids they have seen, so
asking again is safe whatever became of the first try. What cannot be known after the deadline is
said: ``Unavailable.outcome`` is "not_applied" only if no try can have reached an owner.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable

from neverforget.actors.messages import Failure, Request
from neverforget.storage.errors import (
    NeverforgetError,
    Overloaded,
    Poisoned,
    Unavailable,
    from_wire,
)

PAUSE_S_MIN, PAUSE_S_MAX = 0.001, 0.1
REACH_S_MAX = 60.0  # so long a request without a deadline looks for an owner that takes it
RETRIED = {"unavailable", "overloaded", "poisoned"}


class Retrying:
    """The tries of one request. ``deadline`` is on the monotonic clock."""

    def __init__(
        self,
        request: Request,
        deadline: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.request = request
        self.deadline = deadline
        self._monotonic = monotonic
        self._unknown = False
        self._tries = 0
        self._unreached_since: float | None = None
        self._refused_since: float | None = None

    def lost(self, error: BaseException, *, sent: bool) -> float:
        """A connection failed; ``sent``: the request may have arrived. Seconds to pause before the
        next try; raises Unavailable when there is no time for one.
        """
        self._unknown = self._unknown or sent
        pause_s = self._pause()
        now, limit = self._monotonic(), self.deadline
        if sent:
            self._unreached_since = self._refused_since = None
        elif limit == math.inf:
            if self._unreached_since is None:
                self._unreached_since = now
            limit = self._unreached_since + REACH_S_MAX
        if now + pause_s >= limit:
            raise self.too_late(f"no answer within the deadline ({error})") from error
        return pause_s

    def refused(self, failure: Failure) -> float:
        """The owner answered with an error. Seconds to pause before the next try; raises the error
        when trying again cannot help, or not in time.
        """
        error = error_of(failure)
        if failure.code not in RETRIED:
            raise error
        if isinstance(error, Unavailable) and error.outcome is None:
            # The owner is there, and has waited already for what it asks itself: an embedder.
            error.outcome = "not_applied"
            raise error
        if isinstance(error, Poisoned) or getattr(error, "outcome", None) == "unknown":
            self._unknown = True
        pause_s = self._pause()
        now, limit = self._monotonic(), self.deadline
        if limit == math.inf:
            # What may take for ever is not asked for ever of an owner that does not begin it.
            if self._refused_since is None:
                self._refused_since = now
            limit = self._refused_since + REACH_S_MAX
        if now + pause_s >= limit:
            if isinstance(error, Poisoned):
                raise error
            if isinstance(error, Overloaded):
                raise self.overloaded(error) from error
            raise self.too_late(error.message) from error
        return pause_s

    def overloaded(self, error: Overloaded) -> Overloaded | Unavailable:
        """What is true of all the tries. Who is told that an owner is overloaded repeats the call:
        only if no try was taken."""
        return self.too_late(error.message) if self._unknown and self.mutates else error

    def too_late(self, why: str, *, sent: bool = False) -> Unavailable:
        """The error of a request whose time is up; ``sent``: an owner has it, or had it."""
        self._unknown = self._unknown or sent
        outcome = "unknown" if self._unknown and self.mutates else "not_applied"
        remedy = (
            "; it may have been done: repeat the call with the same key"
            if outcome == "unknown"
            else "; nothing was done: call again later"
        )
        return Unavailable(why + remedy, outcome=outcome, request_id=self.request_id)

    @property
    def mutates(self) -> bool:
        """Does the request change anything?"""
        return hasattr(self.request, "producer")

    @property
    def request_id(self) -> str | None:
        """The id under which owners remember a mutation, as text."""
        producer = getattr(self.request, "producer", None)
        if producer is None:
            return None
        return f"{producer:016x}-{getattr(self.request, 'producer_seq', 0)}"

    def _pause(self) -> float:
        # The first loss is most often an idle connection to an owner that restarted: try at once.
        self._tries += 1
        if self._tries == 1:
            return 0.0
        pause_s = min(PAUSE_S_MAX, PAUSE_S_MIN * 2.0 ** min(self._tries - 2, 10))
        # A fleet that lost one owner must not come back in step.
        return pause_s * random.uniform(0.5, 1.5)


def error_of(failure: Failure) -> NeverforgetError:
    """The error that a Failure stands for."""
    return from_wire(failure.code, failure.message, failure.fields)
