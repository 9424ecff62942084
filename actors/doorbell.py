"""Sockets of owners that nobody has needed yet: the first who connects has them started.

An owner that starts puts its own socket in the place of the bell's. Whoever rang is told nothing:
its connection ends, and it asks again, as it does when an owner was restarted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from neverforget.actors.listener import Listener

log = logging.getLogger(__name__)
_RING_S = 1.0


def ring(path: Path) -> None:
    """Ring the bell at ``path``, if one hangs there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as visitor:
        visitor.settimeout(_RING_S)
        with contextlib.suppress(OSError):  # it does not hang yet, or its thread is at another one
            visitor.connect(str(path))
            visitor.recv(1)  # until the bell has taken notice


class Doorbells:
    """``hang`` them, then ``start``; each rings once, in the thread of the bells."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = os.pipe()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread: threading.Thread | None = None

    def hang(self, path: Path, ring: Callable[[], None]) -> None:
        """``ring`` is called at the first connection to ``path``. OSError: no socket there."""
        listener = Listener(path)
        self._selector.register(listener.socket, selectors.EVENT_READ, (listener, ring))

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="doorbells", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """What has not rung never will; its socket is gone."""
        os.write(self._wake, b"\0")
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                key.data[0].close(unlink=True)
        self._selector.close()
        os.close(self._woken)
        os.close(self._wake)

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    return
                listener, ring = key.data
                # Somebody of another user does not count; nor does one that has gone again.
                visitors = list(listener.accept())
                if not visitors:
                    continue
                self._selector.unregister(listener.socket)
                # Its name stays until the owner takes it: who comes meanwhile is refused, and
                # waits.
                listener.close(unlink=False)
                for visitor in visitors:
                    visitor.close()
                try:
                    ring()
                except Exception:
                    log.exception("what stands behind %s cannot be started", listener.path)
