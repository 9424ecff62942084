"""Where windows are worked on: by several threads at a time, or by one alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Room:
    """Whoever wants to be alone waits until it is empty, and others wait for him."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._wanted = 0  # alone, by how many

    @contextmanager
    def __call__(self, *, alone: bool) -> Iterator[None]:
        with self._changed:
            self._wanted += alone
            try:
                self._changed.wait_for(lambda: not self._inside if alone else not self._wanted)
            except BaseException:
                self._wanted -= alone
                raise
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._wanted -= alone
                self._changed.notify_all()
