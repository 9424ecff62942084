"""Memory for large frames is shared: what does not fit waits in the kernel until others have
arrived.

Frames of up to 72 MiB are legal, and a hundred clients may send one at once. Each connection's
frame is admitted with the size it announced, in the order of arrival; the first is admitted
whatever its size, so that there is progress.
"""

from __future__ import annotations

from collections import deque

from neverforget.actors.connection import Connection


class LargeFrames:
    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._admitted: dict[Connection, int] = {}
        self._waiting: deque[Connection] = deque()

    def holds_back(self, connection: Connection) -> bool:
        """Nothing may be read from this connection now."""
        return connection in self._waiting

    def observe(self, connection: Connection) -> list[Connection]:
        """After each read, and when ``connection`` is gone: who may go on now and could not
        before."""
        size = 0 if connection.closed else connection.large_frame_bytes
        if size:
            if connection not in self._admitted and connection not in self._waiting:
                self._waiting.append(connection)
                return [c for c in self._admit() if c is not connection]
            return []
        if connection in self._waiting:
            self._waiting.remove(connection)
        elif self._admitted.pop(connection, None) is None:
            return []
        return self._admit()

    def _admit(self) -> list[Connection]:
        admitted = []
        used = sum(self._admitted.values())
        while self._waiting:
            connection = self._waiting[0]
            size = connection.large_frame_bytes
            if self._admitted and used + size > self._bytes_max:
                break
            self._waiting.popleft()
            self._admitted[connection] = size
            used += size
            admitted.append(connection)
        return admitted
