"""A member of the embedder pool: embeds for all owners and clients of a store that ask for it.

It holds nothing that could be lost. Texts come as data and embedders by name; nothing is unpickled
from a socket. Who asks has a deadline and is answered by then, whatever the embedder does.
"""

from __future__ import annotations

import heapq
import itertools
import os
from collections.abc import Callable, Sequence

from neverforget.actors.embedder_checked import CheckedEmbedder, Embedded
from neverforget.actors.embedder_job import Answer, Job
from neverforget.actors.embedder_spec import EmbedderSpec
from neverforget.actors.embedding import DESCRIBE_S, EmbedderLines, late
from neverforget.actors.longterm_messages import (
    DescribeEmbedder,
    Embed,
    EmbeddedReply,
    EmbedderReply,
    unpacked,
)
from neverforget.actors.messages import (
    PROTOCOL_VERSION,
    AnyReply,
    Settle,
    Status,
    StatusReply,
    Welcome,
)
from neverforget.actors.messages import DoneReply as Done
from neverforget.actors.metrics import Meter
from neverforget.actors.places import EMBEDDER
from neverforget.actors.ports import Pending, failure
from neverforget.storage.clock import Clock, SystemClock
from neverforget.storage.errors import InvalidArgument, NeverforgetError

_SWEEP_MIN = 64


class EmbedderService:
    """A ``Service`` (see ports.py): plain, and like owners it never raises when it is made."""

    reason: str | None = None

    def __init__(
        self,
        spec: EmbedderSpec,
        make: Callable[[str], CheckedEmbedder | None],
        *,
        clock: Clock | None = None,
    ) -> None:
        self.spec = spec
        self._clock = clock or SystemClock()
        self.meter = Meter(self._clock)
        self._lines = EmbedderLines(make)
        self._due: list[tuple[float, int, str, Job]] = []  # a heap
        self._sweep_at = _SWEEP_MIN
        self._numbers = itertools.count()
        self._clients = 0
        self._closed = False

    @property
    def state(self) -> str:
        return "recovering" if self._closed else "serving"

    def start(self) -> None:
        """There is nothing to recover: models are read when they are first needed."""

    def close(self) -> None:
        """Everybody who waits is told."""
        self._closed = True
        self._lines.close()

    # ---- Service ---------------------------------------------------------------------------------

    def bind(self, wake: Callable[[], None]) -> None:
        """Answers wake the transport by themselves."""

    def welcome(self, id: int) -> Welcome:
        place = EMBEDDER - self.spec.member
        return Welcome(
            id, self.spec.store_id, place, 0, PROTOCOL_VERSION, self.state, None, os.getpid()
        )

    def clients_changed(self, clients: int) -> None:
        self._clients = clients

    def deadline(self) -> float | None:
        while self._due and self._due[0][3].over:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def run(self, pendings: Sequence[Pending], send: Callable[[], None]) -> None:
        for pending in pendings:
            request = pending.request
            try:
                if type(request) is Embed:
                    self._embed(pending, request)
                elif type(request) is DescribeEmbedder:
                    self._describe(pending, request)
                elif type(request) is Status:
                    pending.reply(self._status(request.id, len(pendings) - 1))
                elif type(request) is Settle:
                    pending.reply(Done(request.id))
                else:
                    raise InvalidArgument(f"{type(request).__name__} is not for an embedder")
            except NeverforgetError as error:
                pending.reply(failure(request.id, error))

    def tick(self, send: Callable[[], None]) -> None:
        now = self._clock.monotonic()
        while self._due and self._due[0][0] <= now:
            _, _, embedder, job = heapq.heappop(self._due)
            job.stop(late(embedder))

    # ---- requests --------------------------------------------------------------------------------

    def _embed(self, pending: Pending, request: Embed) -> None:
        texts = unpacked(request.texts, list[str])
        self._submit(pending, request.embedder, texts, request.urgent, request.deadline_ms / 1000)

    def _describe(self, pending: Pending, request: DescribeEmbedder) -> None:
        self._submit(pending, request.embedder, None, True, DESCRIBE_S)

    def _submit(
        self,
        pending: Pending,
        embedder: str,
        texts: Sequence[str] | None,
        urgent: bool,
        deadline_s: float,
    ) -> None:
        id = pending.request.id
        job = Job(
            texts,
            urgent=urgent,
            done=lambda answer: pending.reply(_reply(id, answer)),
            alive=lambda: pending.alive,
        )
        due = self._clock.monotonic() + deadline_s
        self._lines.submit(embedder, job)
        heapq.heappush(self._due, (due, next(self._numbers), embedder, job))
        if len(self._due) >= self._sweep_at:
            self._due = [one for one in self._due if not one[3].over]
            heapq.heapify(self._due)
            self._sweep_at = 2 * len(self._due) + _SWEEP_MIN

    def _status(self, id: int, queued: int) -> StatusReply:
        waiting = sum(not job.over for *_, job in self._due)
        return StatusReply(id, None, self.state, None, os.getpid(), queued + waiting, self._clients)


def _reply(id: int, answer: Answer) -> AnyReply:
    if isinstance(answer, NeverforgetError):
        return failure(id, answer)
    if isinstance(answer, Embedded):
        vectors = answer.vectors
        return EmbeddedReply(
            id,
            vectors.shape[1],
            vectors.astype("<f4", copy=False).tobytes(),
            answer.owners.tolist(),
            answer.failed,
            answer.waiting,
        )
    return EmbedderReply(id, *answer)
