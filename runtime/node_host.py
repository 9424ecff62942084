"""The host of a deployed store's part on one node: what ``host.py`` is for a store on one machine.

It holds the LOCK of the node's folder, keeps the owners of what lies there running, and tells where
their sockets are. An actor of its own, pinned to its node: when the node comes back, as another
node of Ray's, the keeper makes the next one there. Its owners end with it, so that whoever has the
LOCK is the only one that writes.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import msgspec

from neverforget.runtime.deployment import Told
from neverforget.runtime.leaving import Leaving
from neverforget.runtime.node_part import NodePart
from neverforget.runtime.watchdog import HealthOptions
from neverforget.storage.errors import NeverforgetError

log = logging.getLogger(__name__)
_RETRY_S_MIN, _RETRY_S_MAX = 0.2, 5.0


class NodeHost:
    """Made remote in ``deployed_cluster.py``. ``__init__`` never raises: Ray would give it up for
    good. What is wrong shows in ``describe``, and is tried again. Its methods are plain ones, for
    Ray then makes it on the main thread, where SIGTERM is taken.
    """

    def __init__(
        self, path: str, disk: str, store_id: str, health: HealthOptions | None = None
    ) -> None:
        self._path, self._disk, self._store_id = Path(path), disk, store_id
        self._health = health
        self._state = "starting"
        self._reason: str | None = None
        self._part: NodePart | None = None
        self._ending = threading.Event()
        self._followed = threading.Condition()
        self._asked = self._answered = 0  # how often to follow the description of the disk
        self._lost_part = threading.Event()
        self._leaving = Leaving(self._ending.set)
        self._thread = threading.Thread(target=self._run, name="node-host", daemon=True)
        self._thread.start()
        self._leaving.watch()

    def describe(self) -> bytes:
        """``Told``, as msgpack."""
        part, reason = self._part, self._reason
        if part is None:
            return msgspec.msgpack.encode(Told(self._disk, self._state, reason, 0, {}, {}))
        owners = {place: owner.view() for place, owner in part.owners.items()}
        return msgspec.msgpack.encode(
            Told(self._disk, self._state, reason, part.version, owners, part.sockets)
        )

    def follow(self) -> None:
        """Go by the description that stands on the disk now; returns when it does, or has tried."""
        with self._followed:
            self._asked += 1
            mine = self._asked
            self._followed.wait_for(lambda: self._answered >= mine or self._ending.is_set())

    def stop(self) -> None:
        """End the owners in order, give the folder back."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        pause_s = _RETRY_S_MIN
        while not self._ending.is_set():
            asked = self._asked
            self._lost_part.clear()
            try:
                part = NodePart(self._path, self._disk, self._store_id, self._lost, self._health)
            except Exception as error:
                known = isinstance(error, NeverforgetError | OSError)
                log.error("the part in %s: %s", self._path, error, exc_info=not known)
                self._state, self._reason = "failing", str(error)
                self._answer(asked)
                self._ending.wait(pause_s)
                pause_s = min(2 * pause_s, _RETRY_S_MAX)
                continue
            pause_s = _RETRY_S_MIN
            self._part, self._state, self._reason = part, "serving", None
            self._answer(asked)
            self._keep(part)
            self._part, self._state = None, "starting"
            try:
                part.close()
            except Exception:  # its lock is given back all the same, and the next part begins
                log.exception("the part in %s did not end in order", self._path)
        self._state = "ended"
        self._answer(self._asked)
        if self._leaving.reason is not None:
            self._leaving.done()

    def _keep(self, part: NodePart) -> None:
        """Until the folder or Ray is lost, the host is to end, or the part must start anew."""
        while not self._ending.wait(0.1) and not self._lost_part.is_set():
            asked = self._asked
            if asked == self._answered:
                continue
            try:
                if not part.follow():
                    return  # and only the next one has followed
            except Exception:
                log.exception("%s cannot follow what was described; starting anew", self._path)
                return
            self._answer(asked)

    def _answer(self, asked: int) -> None:
        """Whoever asked up to then goes on."""
        with self._followed:
            self._answered = max(self._answered, asked)
            self._followed.notify_all()

    def _lost(self, why: str) -> None:
        log.error("%s: %s", self._path, why)
        self._lost_part.set()
