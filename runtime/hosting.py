"""What this process hosts in its own Ray, for as long as it has handles on it.

One host per real path; handles count, the last one's ``release`` ends it. What is still hosted when
the interpreter ends is closed then, before Ray's own exit function runs. A forked child hosts
nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neverforget.runtime.config import Config
from neverforget.storage.errors import StoreLocked

if TYPE_CHECKING:
    from neverforget.runtime.host import Host

log = logging.getLogger(__name__)


class Hosting:
    """This process's host of one path, and how many handles need it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.handles = 0
        self.host: Host | None = None
        self.lock = threading.Lock()

    def ensure(self, config: Config, *, create: bool, store_id: str | None) -> None:
        """Host it, unless that is so already or another process was faster."""
        from neverforget.runtime.host import Host

        self._end_displaced()
        with self.lock:
            if self.host is not None:
                return
            # From now on, and not from the import on: so it runs before Ray's own.
            atexit.unregister(_close_all)
            atexit.register(_close_all)
            with contextlib.suppress(StoreLocked):
                self.host = Host.start(
                    self.path,
                    config,
                    role="application",
                    on_end=self.end,
                    create=create,
                    store_id=store_id,
                )

    def lend_embedder(self, embedder: Any) -> str | None:
        """See ``Host.lend_embedder``. None: it is not hosted here now."""
        with self.lock:
            return None if self.host is None else self.host.lend_embedder(embedder)

    def end(self, why: str | None) -> None:
        """The host's Ray, or its directory, is gone. Handles find, or become, the next host."""
        log.error("the host of %s ends: %s", self.path, why)
        with self.lock:
            host, self.host = self.host, None
        if host is not None:
            # On a thread of the host's own, for which it waits when it ends.
            threading.Thread(target=host.close, name="host-end", daemon=True).start()

    def _end_displaced(self) -> None:
        """A host whose directory is gone makes room for the next one; its actors may have the names
        of those that come."""
        with self.lock:
            host = self.host
            if host is None or not host.displaced:
                return
            self.host = None
        host.close()

    def release(self) -> None:
        with _registry:
            self.handles -= 1
            if self.handles:
                return
            if _hostings.get(self.path) is self:
                del _hostings[self.path]
        with self.lock:
            host, self.host = self.host, None
        if host is not None:
            host.close()


def hosting_of(path: Path) -> Hosting:
    """One handle more on what this process hosts, or will host, at ``path``."""
    with _registry:
        hosting = _hostings.setdefault(path, Hosting(path))
        hosting.handles += 1
        return hosting


def share_hosting(path: Path) -> Hosting | None:
    """Another handle on what this process hosts already. None: nothing, or not through handles."""
    with _registry:
        hosting = _hostings.get(path)
        if hosting is not None:
            hosting.handles += 1
        return hosting


def _close_all() -> None:
    for hosting in list(_hostings.values()):
        with hosting.lock:
            host, hosting.host = hosting.host, None
        if host is not None:
            host.close()


def _forget_in_child() -> None:
    global _registry
    _registry = threading.Lock()
    _hostings.clear()


_registry = threading.Lock()
_hostings: dict[Path, Hosting] = {}
os.register_at_fork(after_in_child=_forget_in_child)
