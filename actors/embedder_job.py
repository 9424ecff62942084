"""What one caller wants embedded: its texts, cut into windows, and what has become of each."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from neverforget.actors.embedder_checked import CheckedEmbedder, Embedded
from neverforget.actors.embedder_contract import Vectors
from neverforget.storage.errors import NeverforgetError

VECTOR_BYTES_MAX = 48 * 1024 * 1024  # of one job: an answer is a frame

Answer = Embedded | tuple[str, int] | NeverforgetError


class Window(NamedTuple):
    job: Job
    owner: int
    text: str


class Job:
    """Texts of one caller; ``texts`` None: only asks for model and dimension. ``done`` is called
    once, on any thread. ``alive`` False: nobody wants the answer any more.
    """

    def __init__(
        self,
        texts: Sequence[str] | None,
        *,
        urgent: bool,
        done: Callable[[Answer], None],
        alive: Callable[[], bool] = lambda: True,
    ) -> None:
        self.texts = texts
        self.urgent = urgent
        self.alive = alive
        self.characters = 0 if texts is None else sum(map(len, texts))
        self._done = done
        self._lock = threading.Lock()
        self._over = False
        self._next = 0  # the text to be cut next
        self._cut: deque[tuple[int, str]] = deque()
        self._windows = 0
        self._left: dict[int, int] = {}  # windows that were cut and are not embedded yet, by text
        self._dimension = 0
        self._rows: list[Vectors] = []
        self._owners: list[int] = []
        self._failed: dict[int, str] = {}
        self._waiting: dict[int, str] = {}

    @property
    def over(self) -> bool:
        """Answered, or to nobody."""
        return self._over or not self.alive()

    @property
    def has_more(self) -> bool:
        """Are there windows that are in no batch yet?"""
        assert self.texts is not None
        return bool(self._cut) or self._next < len(self.texts)

    def answer(self, answer: Answer) -> None:
        """Only the first one counts."""
        with self._lock:
            if self._over:
                return
            self._over = True
        self._done(answer)

    def stop(self, error: NeverforgetError) -> None:
        """No more of it can be done: what has its vectors is answered with, the rest waits."""
        with self._lock:
            if self._over:
                return
            if not self._rows and not self._failed:
                answer: Answer = error
            else:
                assert self.texts is not None
                for owner in [*self._left, *range(self._next, len(self.texts))]:
                    self._waiting.setdefault(owner, str(error))
                answer = self._embedded()
            self._end()
        self._done(answer)

    def _end(self) -> None:
        """Whoever keeps it from now on, until its time is up, keeps little."""
        self._over = True
        self._rows = []
        if self.texts is not None:
            self.texts = ()

    # ---- of the line's threads -------------------------------------------------------------------

    def take(self, most: int, embedder: CheckedEmbedder) -> list[Window]:
        """The next windows, ``most`` at most. Raises Unavailable."""
        texts = self.texts
        assert texts is not None
        self._dimension = embedder.dimension
        while not self._cut and self._next < len(texts):
            self._cut_next(texts, embedder, VECTOR_BYTES_MAX // (4 * self._dimension))
        taken: list[Window] = []
        while self._cut and len(taken) < most:
            owner, text = self._cut.popleft()
            taken.append(Window(self, owner, text))
        return taken

    def _cut_next(self, texts: Sequence[str], embedder: CheckedEmbedder, windows_max: int) -> None:
        owner, text = self._next, texts[self._next]
        try:
            parts = embedder.windows(text)
        except Exception:
            parts = [text]  # whose fault that is, the embedder's check finds out
        with self._lock:
            if len(parts) > windows_max:
                self._failed[owner] = f"has {len(parts):,} windows, above {windows_max:,}"
            elif self._windows + len(parts) > windows_max:
                for left in range(owner, len(texts)):
                    self._waiting[left] = "is more than one answer holds; bring it again"
                self._next = len(texts)
                return
            else:
                self._windows += len(parts)
                self._left[owner] = len(parts)
                self._cut.extend((owner, part) for part in parts)
            self._next = owner + 1

    def bring(
        self, owner: int, rows: Sequence[Vectors], failed: str | None, waits: str | None
    ) -> None:
        """What became of one of its windows."""
        with self._lock:
            self._left[owner] -= 1
            if not self._left[owner]:
                del self._left[owner]
            self._rows += rows
            self._owners += [owner] * len(rows)
            if failed is not None:
                self._failed.setdefault(owner, failed)
            elif waits is not None:
                self._waiting.setdefault(owner, waits)

    def end_if_complete(self) -> None:
        with self._lock:
            if self._over or self._left or self.has_more:
                return
            answer = self._embedded()
            self._end()
        self._done(answer)

    def _embedded(self) -> Embedded:
        waiting = {n: why for n, why in self._waiting.items() if n not in self._failed}
        return Embedded(
            np.stack(self._rows) if self._rows else np.empty((0, self._dimension), np.float32),
            np.array(self._owners, np.int64),
            self._failed,
            waiting,
        )
