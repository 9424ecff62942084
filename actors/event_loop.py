"""A selector that other threads can wake.

Only ``wake`` may be called from other threads than the one that calls ``wait``.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Callable, Iterator

from neverforget.actors.connection import Connection

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class EventLoop:
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._selector.register(self._wake_out, READ, self._woken)

    def wake(self) -> None:
        """Make ``wait`` return soon. Closed already: nothing to wake."""
        # A full socket has bytes to read, so the other side wakes anyway.
        with contextlib.suppress(OSError):
            self._wake_in.send(b"\0")

    def listen(self, listener: socket.socket, callback: Callable[[], None]) -> None:
        self._selector.register(listener, READ, callback)

    def forget(self, listener: socket.socket) -> None:
        self._selector.unregister(listener)

    def follow(self, connection: Connection, events: int) -> None:
        """Change what is waited for on ``connection``; 0: nothing. No system call when nothing
        changes."""
        if events == connection.events:
            return
        if not events:
            self._selector.unregister(connection.socket)
        elif not connection.events:
            self._selector.register(connection.socket, events, connection)
        else:
            self._selector.modify(connection.socket, events, connection)
        connection.events = events

    def wait(self, timeout: float | None) -> Iterator[tuple[Connection, int]]:
        """Sleep until something is ready, at most ``timeout`` seconds (None: for ever). Callbacks
        are called, connections come out with what they are ready for."""
        for key, events in self._selector.select(timeout):
            if type(key.data) is Connection:
                yield key.data, events
            else:
                key.data()

    def close(self) -> None:
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wake_out.recv(4096):
                pass
