"""Looks at this process's link to Ray beside calls that get no answer, so that what they raise can
say what is wrong with it and what to do. Those calls never wait for that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from neverforget.storage.errors import Unavailable

if TYPE_CHECKING:
    from neverforget.actors.ray_link import Trouble

_AGAIN_S = 2.0
_KNOWN_S = 60.0  # longer than one call may go without an answer


def look_at_link() -> Trouble | None:
    from neverforget.actors.ray_link import trouble

    return trouble()


class LinkWatch:
    """``suspect`` and ``explained`` are for any thread. ``now``: seconds, never going back."""

    def __init__(
        self,
        look: Callable[[], Trouble | None] = look_at_link,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look_at_link, self._now = look, now
        self._found: Trouble | None = None
        self._looked_at = float("-inf")
        self._looking = threading.Lock()

    def suspect(self) -> None:
        """Look now, on a thread of its own, unless that was done a moment ago."""
        if self._now() - self._looked_at < _AGAIN_S or not self._looking.acquire(False):
            return
        threading.Thread(target=self._look, name="link-watch", daemon=True).start()

    def explained(self, error: Unavailable) -> Unavailable:
        """``error``, with what is wrong with the link where that is known by now; what was wrong
        with it long ago is not.
        """
        found = self._found if self._now() - self._looked_at < _KNOWN_S else None
        self.suspect()
        if found is None:
            return error
        from neverforget.actors import ray_link

        why = ray_link.explained(found)
        return Unavailable(
            f"{error.message}; {why}", outcome=error.outcome, request_id=error.request_id
        )

    def _look(self) -> None:
        try:
            self._found = self._look_at_link()
        finally:
            self._looked_at = self._now()
            self._looking.release()
