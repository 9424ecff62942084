"""Carrying a start through: all that ``Shipping`` asks until it is decided what may be served.

Blocks. Whoever wants to be told meanwhile that the store does not answer looks at ``failure``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from neverforget.storage.object_store import ObjectStore
from neverforget.storage.shipping_calls import Got, StoreAnswer, carry_out
from neverforget.storage.shipping_events import (
    Action,
    Apply,
    Compare,
    Compared,
    Done,
    Event,
    Fetch,
    Fetched,
    Level,
    Look,
    Notice,
    Persisted,
    PersistEpoch,
    Put,
    ReadHeader,
    ReadRun,
    Serve,
    SetAside,
    Shipped,
    Stop,
    StoreQuestion,
    Tick,
)
from neverforget.storage.shipping_local import LocalCopy
from neverforget.storage.shipping_machine import Shipping
from neverforget.storage.shipping_object import OBJECT_HEADER_BYTES

AHEAD_MAX = 16  # objects, of 8 MiB at most but for single larger batches


class ReadAhead:
    """Objects are read one after the other; those that come next are on their way meanwhile: a lost
    disk may be a million of them, at some ten milliseconds each.
    """

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self._store = store
        self._prefix = prefix
        self._pool = ThreadPoolExecutor(AHEAD_MAX, thread_name_prefix="shipped")
        self._coming: dict[tuple[type[StoreQuestion], int], Future[StoreAnswer]] = {}

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(self, *raised: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def carry_out(self, question: StoreQuestion, last: int) -> StoreAnswer:
        """``last``: up to which number it goes on in order; 0: this is a single question."""
        if not isinstance(question, Fetch | ReadHeader) or question.number > last:
            return carry_out(self._store, self._prefix, question)
        kind = type(question)
        for number in range(question.number, min(last, question.number + AHEAD_MAX) + 1):
            if (kind, number) not in self._coming:
                asked = replace(question, number=number)
                self._coming[kind, number] = self._pool.submit(
                    carry_out, self._store, self._prefix, asked
                )
        answer = self._coming.pop((kind, question.number)).result()
        if isinstance(answer, Got):
            return answer._replace(call=question.call)
        return replace(answer, call=question.call)


class Opening:
    """``persist``: makes an epoch above the stored one and its argument durable, and answers it.
    ``now_us``: of a clock that never goes back. ``pause``: lets so many seconds pass.
    ``wall_us``: the time that people go by. ``tell``: called with the bytes of each whole object
    that was read.
    """

    def __init__(
        self,
        machine: Shipping,
        store: ObjectStore,
        prefix: str,
        local: LocalCopy,
        *,
        persist: Callable[[int], int],
        now_us: Callable[[], int],
        pause: Callable[[float], object],
        wall_us: Callable[[], int] = lambda: 0,
        tell: Callable[[int], None] | None = None,
    ) -> None:
        self._machine = machine
        self._store = store
        self._prefix = prefix
        self._local = local
        self._persist = persist
        self._now_us = now_us
        self._pause = pause
        self._wall_us = wall_us
        self._tell = tell
        self._got: Got | None = None

    def carry_through(self) -> list[Notice]:
        """Until the level rises above NOTHING or the machine stops: what it said, in order; the
        last Serve or Stop is what holds. Raises what the local log raises, OSError and Corrupt.
        """
        with ReadAhead(self._store, self._prefix) as self._ahead:
            return self._carry_through()

    def _carry_through(self) -> list[Notice]:
        machine = self._machine
        actions: deque[Action] = deque(machine.begin(self._now_us()))
        notices: list[Notice] = []
        while actions or (machine.level == Level.NOTHING and machine.stopped is None):
            if not actions:
                wake_us = machine.wake_at_us
                assert wake_us is not None, "a start has a question open, or waits to repeat one"
                self._pause(max(0, wake_us - self._now_us()) / 1e6)
                actions.extend(machine.handle(Tick(), self._now_us()))
                continue
            action = actions.popleft()
            if isinstance(action, Serve | Shipped | Stop):
                notices.append(action)
            elif machine.level == Level.NOTHING:
                actions.extend(machine.handle(self._answer(action), self._now_us()))
        return notices

    def _answer(self, question: Action) -> Event:
        local = self._local
        match question:
            case Look() | ReadHeader() | Put() | Fetch():
                answer = self._ahead.carry_out(question, self._machine.catching_up_to)
                if not isinstance(answer, Got):
                    return answer
                assert isinstance(question, Fetch)
                self._got = answer
                if self._tell is not None:
                    self._tell(OBJECT_HEADER_BYTES + len(answer.payload))
                same = local.same_until(answer.header, answer.payload, question.position)
                return Fetched(answer.call, answer.header, *same)
            case PersistEpoch(call, at_least):
                local.epoch = self._persist(at_least)
                return Persisted(call, local.epoch, self._wall_us())
            case Compare(call, header, position):
                return Compared(call, local.holds(header, position))
            case SetAside(call, position):
                local.set_aside(position)
                return Done(call)
            case Apply(call, _, position):
                assert self._got is not None, "what was fetched is applied"
                local.apply(self._got.header, self._got.payload, position)
                return Done(call)
            case ReadRun() | Serve() | Shipped() | Stop():
                raise AssertionError(f"{question} is not of a start")
