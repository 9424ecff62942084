"""A worker thread without a thread: what was submitted runs at moments that a seed chooses.

It stands for the executor that makes segments and side files. A job may run at once, between any
two steps of the test, or only when somebody asks for its result, so one seed is one interleaving,
and it can be repeated. Asking waits, as it does for a real future: by running the job.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class LazyFuture(Future[Any]):
    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__()
        self._work: Callable[[], Any] | None = work

    def run(self) -> None:
        work, self._work = self._work, None
        if work is None:
            return
        try:
            self.set_result(work())
        except Exception as error:
            self.set_exception(error)
        except BaseException as death:  # of the process, not of this job alone
            self.set_exception(death)
            raise

    def result(self, timeout: float | None = None) -> Any:
        self.run()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self.run()
        return super().exception(timeout)


class LazyWorker:
    """``submit`` is what a log takes; the test calls ``some`` wherever a thread could run."""

    def __init__(self, seed: int) -> None:
        self._choices = random.Random(seed)
        self._waiting: list[LazyFuture] = []

    def submit(self, work: Callable[[], Any], /) -> Future[Any]:
        future = LazyFuture(work)
        if self._choices.random() < 0.25:
            future.run()
        else:
            self._waiting.append(future)
        return future

    def some(self) -> None:
        while self._waiting and self._choices.random() < 0.4:
            self._waiting.pop(0).run()
