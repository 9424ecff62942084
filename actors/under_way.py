"""What one process has under way to one owner through Ray.

Ray keeps a call until it is answered, also one that nobody waits for any more, and puts what is
large into its object store, and from there on a disk. Calls to an owner that is slow or away would
pile up: each try of each caller, again and again. So there is a bound, and what is given up counts
until Ray has let it go. Thread-safe; no Ray here.
"""

from __future__ import annotations

import threading

CALLS_MAX = 1000  # as many as an owner takes
BYTES_MAX = 8 * 1024 * 1024


class UnderWay:
    """Whoever ``begin`` lets go on says ``end``. A call goes whatever its own size: a large one
    would wait for ever for a moment without others."""

    def __init__(self, calls_max: int = CALLS_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._calls_max, self._bytes_max = calls_max, bytes_max
        self._calls = self._bytes = 0
        self._lock = threading.Lock()

    def begin(self, n_bytes: int) -> bool:
        """False: there is too much already."""
        with self._lock:
            if self._calls >= self._calls_max or self._bytes >= self._bytes_max:
                return False
            self._calls, self._bytes = self._calls + 1, self._bytes + n_bytes
            return True

    def end(self, n_bytes: int) -> None:
        with self._lock:
            self._calls, self._bytes = self._calls - 1, self._bytes - n_bytes
