"""The reflector of a store inside this process: made, in a thread of its own, when a session is
due, or when somebody asks for it.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from msgspec.structs import replace

from neverforget.runtime import extractors
from neverforget.runtime.channel import closed
from neverforget.storage.clock import Clock, SystemClock
from neverforget.storage.errors import Unavailable

if TYPE_CHECKING:
    from neverforget.actors.extractor_contract import Extractor
    from neverforget.actors.ports import Owners
    from neverforget.actors.reflector import Reflector
    from neverforget.actors.reflector_spec import ReflectorSpec

log = logging.getLogger(__name__)
_LATER = "begins with the next session that is due, or when somebody asks"


class InlineReflection:
    """``extractor``: a name, or an object. ``automatic`` False: only when somebody asks. It begins
    with ``attach``, since the reflector is a client of the owners.
    """

    def __init__(
        self,
        spec: ReflectorSpec,
        extractor: str | Extractor,
        clock: Clock | None,
        *,
        automatic: bool,
    ) -> None:
        self._spec = replace(spec, automatic=automatic)
        self._extractor = extractor
        self._clock = clock or SystemClock()
        self._automatic = automatic
        self._owners: Owners | None = None
        self._reflector: Reflector | None = None
        self._starter: threading.Thread | None = None
        self._due = False
        self._closed = self._ended = False
        self._lock = threading.Lock()  # held for moments only: a partition may wait for it
        self._making = threading.Lock()
        self._turns = threading.RLock()

    @property
    def runs(self) -> bool:
        return self._reflector is not None

    def attach(self, owners: Owners) -> None:
        """Where to find the owners; the last one counts."""
        with self._lock:
            self._owners = owners
            if self._due:
                self._start()

    def due(self) -> None:
        """A session is due. For the threads of partitions: waits for nobody."""
        if not self._automatic:
            return
        with self._lock:
            if self._reflector is not None:
                self._reflector.wake()
                return
            self._due = True
            if self._owners is not None:
                self._start()

    def service(self) -> tuple[Reflector, threading.RLock]:
        """The reflector, made now if nobody has needed it yet, and the lock of its turns. Raises
        Unavailable.
        """
        with self._making:
            if self._reflector is None:
                from neverforget.actors.reflector import Reflector

                if self._closed or self._owners is None:
                    raise closed()
                made = Reflector(self._spec, self._owners, self._made, clock=self._clock)
                with self._lock:
                    self._reflector = made  # who wakes it before it starts is heard
                self._begin(made)
            return self._reflector, self._turns

    def _begin(self, made: Reflector) -> None:
        try:
            made.start()
        except RuntimeError as error:  # no more threads
            with self._lock:
                self._reflector = None
            made.close()
            raise Unavailable(
                f"the reflector cannot be started ({error}); end other threads and ask again",
                outcome="not_applied",
            ) from error

    def close(self) -> None:
        """It begins nothing more. Waits for a window under way as long as the reflector does, never
        for an extractor that hangs. Idempotent.
        """
        with self._lock:
            self._closed = True
            starter = self._starter
        if starter is not None:
            starter.join()
        with self._making:
            if self._reflector is not None and not self._ended:
                self._ended = True
                self._reflector.close()

    def _start(self) -> None:
        if self._closed or self._starter is not None:
            return
        starter = threading.Thread(target=self._run, name="neverforget-reflect", daemon=True)
        try:
            starter.start()
        except RuntimeError as error:  # no more threads
            log.warning("reflection %s: %s", _LATER, error)
        else:
            self._starter = starter

    def _run(self) -> None:
        try:
            self.service()
        except Exception as error:
            with self._lock:
                self._starter = None
            if not self._closed:
                known = isinstance(error, Unavailable)
                log.warning("reflection %s: %s", _LATER, error, exc_info=not known)

    def _made(self) -> Extractor | None:
        return extractors.made(self._extractor, timezone=self._spec.timezone)
