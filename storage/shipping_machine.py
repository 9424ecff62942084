"""The shipping of one log to an object store: a state machine without I/O, clock or threads.

    actions = shipping.begin(now_us)                  then, for whatever happens:
    actions = shipping.handle(event, now_us)          and a Tick at shipping.wake_at_us

The rules (design, section 9). A start finds the last object, puts a fence at the next number with
an epoch above all others, and takes from the objects what the local log lacks; only then does it
serve (``shipping_start``). Runs are put in order, one at a time, and only what lies below the local
durable mark. A put that may have been carried out is repeated with the same bytes under the same
number. Where a number is taken by anything else than that very put, this owner is fenced, for good.

Invariants: ``shipped <= durable``; every object up to ``number`` exists, and together they hold all
records below ``shipped``; nothing is asked, said or acknowledged once ``stopped``.
"""

from __future__ import annotations

from neverforget.storage.shipping_asking import ShippingOptions
from neverforget.storage.shipping_events import (
    Action,
    Bad,
    Durable,
    Event,
    Failed,
    HeaderRead,
    Level,
    Put,
    PutAnswered,
    ReadHeader,
    ReadRun,
    RunRead,
    Shipped,
    Stop,
    Tick,
    Wanted,
)
from neverforget.storage.shipping_lag import Lag
from neverforget.storage.shipping_object import Author, Run, decode_header, encode_run
from neverforget.storage.shipping_start import LocalLog, Starting


class Shipping(Starting):
    """One owner's, from its start to its end; another start takes another one, with an author of
    its own.
    """

    def __init__(
        self, author: Author, local: LocalLog, options: ShippingOptions | None = None
    ) -> None:
        super().__init__(author, local, options or ShippingOptions())
        self.held = 0  # where the objects end; behind it stands no record up to ``shipped``
        self._lag = Lag()
        self._now_us = 0
        self._limit = 0
        self._wanted = 0
        self._run: Run | None = None
        self._put_bytes = b""

    # ---- what is asked of it ---------------------------------------------------------------------

    def begin(self, now_us: int) -> list[Action]:
        """Once, before anything else."""
        self._now_us = now_us
        self._lag.synced(self._local.tail, now_us)
        return self._begin()

    def handle(self, event: Event, now_us: int) -> list[Action]:
        """What to do now that this has happened. ``now_us``: of a clock that never goes back."""
        if self.stopped is not None:
            return []
        self._now_us = now_us
        actions: list[Action] = []
        if isinstance(event, Durable):
            self._lag.synced(event.position, now_us)
        elif isinstance(event, Wanted):
            self._wanted = max(self._wanted, event.position)
        elif isinstance(event, Failed):
            self._fail(event, now_us)
        elif isinstance(event, Bad):
            actions += self._bad(event)
        elif not isinstance(event, Tick):
            actions += self._answer(event)
        actions += self._retry(now_us)
        actions += self._unreachable(now_us)
        actions += self._ship(now_us)
        return actions

    @property
    def wake_at_us(self) -> int | None:
        """When to come with a Tick at the latest; None: only when something happens."""
        if self.stopped is not None:
            return None
        times = [self._retry_at_us] if self._retry_at_us is not None else []
        failure, since_us = self.failure, self._lag.since_us
        if self.level == Level.NOTHING and failure is not None:
            times.append(failure[0] + self._options.unreachable_after_us)
        if self._running and self._asked is None and since_us is not None:
            times.append(since_us + self._options.run_wait_us)
        return min(times, default=None)

    @property
    def shipped(self) -> int:
        """Everything that ends at or below this position is beyond this machine."""
        return self._lag.shipped

    @property
    def lag_bytes(self) -> int:
        return self._lag.bytes

    def lag_us(self, now_us: int) -> int:
        """How long the oldest byte that is not shipped has been durable."""
        return self._lag.age_us(now_us)

    def may_append(self, now_us: int) -> bool:
        """False: appends wait (or are refused, where the level is below UNFENCED)."""
        if self.level < Level.UNFENCED:
            return False
        options = self._options
        if options.write_without_store and self.failure is not None:
            return True
        return self.level == Level.UNFENCED or (
            self.lag_bytes < options.lag_bytes_max and self.lag_us(now_us) < options.lag_us_max
        )

    # ---- shipping --------------------------------------------------------------------------------

    @property
    def _running(self) -> bool:
        return self.level == Level.EVERYTHING

    def _caught_up(self, position: int) -> list[Action]:
        serve = self._serve(Level.EVERYTHING, f"owner of epoch {self.epoch}")
        self.held = position
        self._lag.ship(position)
        return [*serve, Shipped(position, self.number)]

    def _serve(self, level: Level, reason: str) -> list[Action]:
        if self.level == Level.NOTHING:  # from here on it grows; its end may have been set aside
            self._lag = Lag()
            self._lag.synced(self._tail, self._now_us)
        return super()._serve(level, reason)

    def _ship(self, now_us: int) -> list[Action]:
        lag, options = self._lag, self._options
        if not self._running or self._asked is not None or not lag.bytes:
            return []
        due = (
            self._wanted > lag.shipped
            or lag.bytes >= options.run_bytes
            or lag.age_us(now_us) >= options.run_wait_us
        )
        if not due:
            return []
        question = ReadRun(0, lag.shipped, lag.durable, options.run_bytes_max)
        self._limit = lag.durable
        return self._ask(question, self._run_read)

    def _run_read(self, answer: RunRead) -> list[Action]:
        run = answer.run
        if run is None:
            self._lag.ship(self._limit)  # no record stands there
            return []
        assert self.shipped <= run.start < run.stop <= self._limit, "only what is durable"
        self._run = run
        self._put_bytes = encode_run(self._author, self.number + 1, self.epoch, run, answer.now_us)
        return self._ask(Put(0, self.number + 1, self._put_bytes), self._run_put)

    def _run_put(self, answer: PutAnswered) -> list[Action]:
        if answer.created:
            return self._confirmed()
        return self._ask(ReadHeader(0, self.number + 1), self._taken)

    def _taken(self, answer: HeaderRead) -> list[Action]:
        """The number is taken: by this very put, whose answer was lost, or by another owner."""
        header = answer.header
        if header.first_put == decode_header(self._put_bytes).first_put:
            return self._confirmed()
        return self._stop(
            Stop(
                "fenced",
                f"object {self.number + 1} is of owner {header.owner:016x}, epoch {header.epoch}: "
                "it serves this log now",
            )
        )

    def _confirmed(self) -> list[Action]:
        assert self._run is not None
        self.number += 1
        self.held = self._run.stop
        self._lag.ship(self.held)
        self._run, self._put_bytes = None, b""
        return [Shipped(self.shipped, self.number)]

    def _bad(self, event: Bad) -> list[Action]:
        if self._asked is None or event.call != self._asked.call:
            return []
        return self._stop(Stop("newer" if event.newer else "refused", event.reason))
