"""Whether the embedder of a store answers, as its owner has seen it, and when it is asked again.

ok --fails--> failing --answers--> ok        asked again after pauses that grow, with jitter
none      the store has no embedder
missing   it is an object, and nobody has passed it to this process
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Literal

from neverforget.storage.errors import NeverforgetError, NotFound

State = Literal["ok", "none", "missing", "failing"]
PAUSE_S_MIN, PAUSE_S_MAX = 0.5, 60.0


class EmbedderHealth:
    """Any thread. ``jitter`` gives numbers from 0 to 1."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.state: State = "ok"
        self.error: NeverforgetError | None = None
        self._monotonic = monotonic
        self._jitter = jitter
        self._lock = threading.Lock()
        self._pause_s = PAUSE_S_MIN
        self._retry_at = 0.0

    @property
    def reason(self) -> str | None:
        """Why it is not "ok". Never anything of a text."""
        return None if self.error is None else self.error.message

    def may_try(self) -> bool:
        return self.state != "none" and self._monotonic() >= self._retry_at

    @property
    def retry_at(self) -> float | None:
        """When it may be tried again; None: whenever there is something."""
        return self._retry_at if self._retry_at > self._monotonic() else None

    def went_well(self) -> None:
        with self._lock:
            self.state, self.error = "ok", None
            self._pause_s, self._retry_at = PAUSE_S_MIN, 0.0

    def failed(self, error: NeverforgetError) -> None:
        with self._lock:
            now = self._monotonic()
            if now >= self._retry_at:  # several that fail together are one failure
                self._retry_at = now + self._pause_s * (0.5 + self._jitter() / 2)
                self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)
            self.state = "missing" if isinstance(error, NotFound) else "failing"
            self.error = error

    def there_is_none(self) -> None:
        self.state = "none"
