"""Publishing what an owner counts, once a second, from a thread of its own.

Nothing is published where the work is done: the loop adds up, the thread asks it for its status as
any client would, and hands the sums on. A loop that does not answer is published as not serving.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from neverforget.actors.messages import AnyReply, AnyRequest, Status
from neverforget.actors.metric_names import observed
from neverforget.actors.metrics import BOUNDS_S, Latencies, Meter

log = logging.getLogger(__name__)
EVERY_S: Final = 1.0
SHARE_MAX: Final = 0.01  # of the time, for a store so large that a status takes long
PAUSE_S_MAX: Final = 5.0  # Ray forgets a gauge that is not set again in twice its interval of 10 s
ANSWER_S: Final = 5.0  # for which the loop may be busy
# Of one histogram in one publication. Ray takes each by itself, here and in its agent, so that all
# appends of a busy owner would cost a good part of a core: of more, an even selection is taken.
OBSERVATIONS_MAX: Final = 200


class Sink(Protocol):
    """Where figures go; names without prefix. One thread calls it."""

    def gauge(self, name: str, value: float) -> None:
        """It is this now."""
        ...

    def count(self, name: str, more: int) -> None:
        """It has grown by ``more`` > 0."""
        ...

    def observe(self, name: str, seconds: float, times: int) -> None:
        """So much was seen so many times."""
        ...


class StatusRequest:
    """A ``Pending`` whose answer a thread waits for."""

    def __init__(self) -> None:
        self.request: AnyRequest = Status(0)
        self.alive = True
        self._answer: AnyReply | None = None
        self._answered = threading.Event()

    def reply(self, message: AnyReply) -> None:
        if not self._answered.is_set():
            self._answer = message
            self._answered.set()

    def answer(self, wait_s: float) -> AnyReply | None:
        """None: there was none in this time."""
        self.alive = self._answered.wait(wait_s)
        return self._answer


class Publication:
    """What was published of one owner, so that only what is new goes out next."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._counted: dict[str, int] = {}
        self._thinned: dict[str, Thinned] = {}

    def publish(self, told: AnyReply | None, meter: Meter) -> None:
        """``told``: see ``observed``."""
        found = observed(told, meter)
        for name, value in found.gauges.items():
            self._sink.gauge(name, value)
        for name, total in found.counters.items():
            before = self._counted.get(name, 0)
            if total < before:
                before = 0  # of a log that was opened anew
            if total > before:
                self._sink.count(name, total - before)
            self._counted[name] = total
        for name, latencies in found.latencies.items():
            thinned = self._thinned.setdefault(name, Thinned())
            for seconds, times in thinned.news(latencies):
                self._sink.observe(name, seconds, times)


class Thinned:
    """The news of one histogram: everything, or an even selection of ``OBSERVATIONS_MAX``. What is
    left over of a bucket counts for the next time, so that the shares are right in the long run.
    """

    def __init__(self) -> None:
        self._seen = [0] * (len(BOUNDS_S) + 1)
        self._left = [0.0] * len(self._seen)

    def news(self, latencies: Latencies) -> Sequence[tuple[float, int]]:
        """(seconds, how often): in the middle of each bucket with something new in it."""
        counts = list(latencies.counts)
        new = [count - seen for count, seen in zip(counts, self._seen, strict=True)]
        self._seen = counts
        share = min(1.0, OBSERVATIONS_MAX / max(1, sum(new)))
        found = []
        for bucket, count in enumerate(new):
            wanted = count * share + self._left[bucket]
            times = round(wanted) if share == 1.0 else int(wanted)
            self._left[bucket] = wanted - times if share < 1.0 else 0.0
            if times:
                found.append((MIDDLES_S[bucket], times))
        return found


def _middles() -> tuple[float, ...]:
    lows = (0.0, *BOUNDS_S)
    highs = (*BOUNDS_S, 3 * BOUNDS_S[-1])
    return tuple((low + high) / 2 for low, high in zip(lows, highs, strict=True))


MIDDLES_S: Final = _middles()


class Publisher:
    """``submit`` puts a request into the owner's queue. ``make`` makes the sink, on the thread;
    None: nobody would see anything, so nothing is published.
    """

    def __init__(
        self,
        meter: Meter,
        submit: Callable[[StatusRequest], None],
        make: Callable[[], Sink | None],
    ) -> None:
        self._meter, self._submit, self._make = meter, submit, make
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Publish nothing more than what is under way."""
        self._ending.set()

    def join(self, wait_s: float) -> bool:
        """Whether the thread has ended."""
        self._thread.join(wait_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            sink = self._make()
            if sink is None:
                return
            publication = Publication(sink)
            pause_s = EVERY_S
            while not self._ending.wait(pause_s):
                began = time.monotonic()
                asked = StatusRequest()
                self._submit(asked)
                publication.publish(asked.answer(ANSWER_S), self._meter)
                took_s = time.monotonic() - began
                pause_s = min(max(EVERY_S, took_s / SHARE_MAX), PAUSE_S_MAX)
        except Exception:  # the owner goes on without
            log.exception("metrics are not published any more")
