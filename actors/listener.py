"""The listening end of an owner's socket: there from one moment to the next, in the place of a dead
owner's."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from neverforget.actors.frames import peer_is_trusted

log = logging.getLogger(__name__)

# Binding happens under the path with this suffix, so the path itself must leave room for it in the
# 108 bytes.
FRESH_SUFFIX = "~"
_ACCEPTS_A_TURN = 64


class Listener:
    """Bound and listening when made; mode 0600, and the folder is 0700 besides."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        fresh = path.with_name(path.name + FRESH_SUFFIX)
        try:
            with contextlib.suppress(FileNotFoundError):
                fresh.unlink()
            self.socket.bind(str(fresh))
            os.chmod(fresh, 0o600)
            self.socket.listen(1024)
            self.socket.setblocking(False)
            self._identity = _identity(fresh)
            fresh.rename(path)
        except BaseException:
            self.socket.close()
            raise

    def accept(self) -> Iterator[socket.socket]:
        """The clients that wait, non-blocking sockets, some at a time. OSError when descriptors run
        out."""
        for _ in range(_ACCEPTS_A_TURN):
            try:
                accepted, _address = self.socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            if not peer_is_trusted(accepted):
                log.warning("refusing a connection to %s from another user", self.path)
                accepted.close()
                continue
            accepted.setblocking(False)
            yield accepted

    def close(self, *, unlink: bool) -> None:
        """``unlink``: the name goes too, unless a successor has put its own socket there."""
        self.socket.close()
        if unlink:
            with contextlib.suppress(FileNotFoundError):
                if _identity(self.path) == self._identity:
                    self.path.unlink()


def _identity(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino
