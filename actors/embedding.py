"""What the long-term owner asks of embedders, wherever these are: in this process, or in a pool."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from neverforget.actors.embedder_checked import CheckedEmbedder, Embedded
from neverforget.actors.embedder_job import Answer, Job
from neverforget.actors.embedder_line import EmbedderLine
from neverforget.storage.errors import NeverforgetError, Overloaded, Unavailable

DESCRIBE_S = 60.0
LINES_MAX = 8  # a store has one embedder, and while it is reindexed two


class Embedding(Protocol):
    """Any thread may call. Errors of both calls: NotFound, the store's embedder is an object that
    nobody has passed; InvalidArgument, there is no such embedder; Unavailable, it fails or does not
    answer; Overloaded.
    """

    def describe(self, embedder: str) -> tuple[str, int]:
        """Its model id and dimension."""
        ...

    def embed(
        self, embedder: str, texts: Sequence[str], *, urgent: bool, deadline_s: float
    ) -> Embedded:
        """Vectors of all windows of ``texts``, and what failed or waits; within ``deadline_s``.
        Where nothing could be embedded by then it raises. ``urgent``: somebody waits for it.
        """
        ...

    def close(self) -> None:
        """Calls under way end with Unavailable."""
        ...


class EmbedderLines:
    """A queue for each embedder that is asked for. ``make`` makes it, by its name (see
    ``EmbedderLine``), unless it is one of ``lent``.
    """

    def __init__(
        self,
        make: Callable[[str], CheckedEmbedder | None],
        lent: Mapping[str, CheckedEmbedder] | None = None,
    ) -> None:
        self._make = make
        self._lent = dict(lent or {})
        self._lines: dict[str, EmbedderLine] = {}
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, embedder: str, job: Job) -> None:
        with self._lock:
            line = self._lines.get(embedder)
            if line is None:
                if self._closed:
                    raise Unavailable("the embedder has ended", outcome="not_applied")
                if len(self._lines) >= LINES_MAX:
                    raise Overloaded(f"more than {LINES_MAX} embedders are asked for at once")
                line = self._lines[embedder] = self._line(embedder)
        line.submit(job)

    def lend(self, name: str, embedder: CheckedEmbedder) -> None:
        """From now on ``name`` is this one, unless it was asked for already."""
        with self._lock:
            self._lent[name] = embedder
            line = self._lines.get(name)
            if line is not None and not line.made:  # it was looked for in vain
                del self._lines[name]
                line.close()

    def _line(self, name: str) -> EmbedderLine:
        lent = self._lent.get(name)
        if lent is not None:
            return EmbedderLine(name, lambda _: lent, lent=True)
        return EmbedderLine(name, self._make)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            lines = list(self._lines.values())
        for line in lines:
            line.close()


class LocalEmbedding:
    """Embedders in this process. ``given``: objects by the name of their store's setting, which
    stay open; ``make`` makes all others.
    """

    def __init__(
        self,
        make: Callable[[str], CheckedEmbedder | None],
        given: Mapping[str, CheckedEmbedder] | None = None,
    ) -> None:
        self._lines = EmbedderLines(make, given)

    def lend(self, name: str, embedder: CheckedEmbedder) -> None:
        """One more object."""
        self._lines.lend(name, embedder)

    def describe(self, embedder: str) -> tuple[str, int]:
        found = self._ask(embedder, None, urgent=True, deadline_s=DESCRIBE_S)
        assert not isinstance(found, Embedded | NeverforgetError)
        return found

    def embed(
        self, embedder: str, texts: Sequence[str], *, urgent: bool, deadline_s: float
    ) -> Embedded:
        found = self._ask(embedder, texts, urgent=urgent, deadline_s=deadline_s)
        assert isinstance(found, Embedded)
        return found

    def close(self) -> None:
        self._lines.close()

    def _ask(
        self, embedder: str, texts: Sequence[str] | None, *, urgent: bool, deadline_s: float
    ) -> Answer:
        answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        job = Job(texts, urgent=urgent, done=answers.put)
        self._lines.submit(embedder, job)
        try:
            answer = answers.get(timeout=min(max(0.0, deadline_s), threading.TIMEOUT_MAX))
        except queue.Empty:
            job.stop(late(embedder))
            answer = answers.get()
        if isinstance(answer, NeverforgetError):
            raise answer
        return answer


def late(embedder: str) -> Unavailable:
    return Unavailable(
        f"the embedder {embedder} has not answered in time; what waits for it is embedded when it "
        "answers again",
        outcome="not_applied",
    )
