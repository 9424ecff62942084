"""An owner that breaks the conversation at a chosen point: greets, reads, and does not answer."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from pathlib import Path

from msgspec.structs import replace

from neverforget.actors.frames import LENGTH, frame
from neverforget.actors.messages import (
    PROTOCOL_VERSION,
    AnyReply,
    AnyRequest,
    Welcome,
    request_decoder,
)
from neverforget.runtime.endpoint import Endpoint
from neverforget.storage.directory_lock import boot_id, this_process

STORE_ID = "00000000-0000-4000-8000-000000000000"


class RudeOwner:
    """Answers the greeting, then the requests with what ``replies`` holds, in order; when that is
    used up it closes the connection after reading a request. ``requests`` is what it read.
    """

    def __init__(self, path: Path, store_id: str = STORE_ID) -> None:
        self.path = path
        self.requests: list[AnyRequest] = []
        self.replies: list[AnyReply | bytes] = []
        self.silent = threading.Event()  # set: read and say nothing, keep the connection
        self.reads: threading.Semaphore | None = None  # acquired before each request is read
        self.welcome = Welcome(0, store_id, 0, 1, PROTOCOL_VERSION, "serving", None, os.getpid())
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._open.append(connection)
            self._threads.append(threading.Thread(target=self._talk, args=(connection,)))
            self._threads[-1].start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, struct.error):
            _read(connection)
            connection.sendall(frame(self.welcome))
            while True:
                if self.reads is not None:
                    self.reads.acquire()
                request = _read(connection)
                self.requests.append(request)
                if self.silent.is_set():
                    continue
                if not self.replies:
                    return
                reply = self.replies.pop(0)
                if isinstance(reply, bytes):
                    connection.sendall(reply)
                else:
                    # A copy: the same reply may be on its way over another connection.
                    connection.sendall(frame(replace(reply, id=request.id)))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if self.reads is not None:
            self.reads.release(len(self._threads))
        for thread in self._threads:
            thread.join()


def _read(connection: socket.socket) -> AnyRequest:
    (length,) = LENGTH.unpack(connection.recv(LENGTH.size, socket.MSG_WAITALL))
    body = connection.recv(length, socket.MSG_WAITALL)
    if len(body) < length:
        raise ConnectionError("the client went in the middle of a request")
    return request_decoder.decode(body)


class FixedAddresses:
    """An attachment that always knows the same place."""

    def __init__(self, path: Path, store_id: str = STORE_ID) -> None:
        self.endpoint = Endpoint(
            store_id=store_id,
            kind="serve",
            process=this_process(),
            boot=boot_id(),
            node="here",
            started_at=time.time_ns() // 1000,
            control=str(path),
            sockets=(str(path),),
        )
        self.refreshed = 0

    def refresh(self, deadline: float | None = None) -> Endpoint:
        self.refreshed += 1
        return self.endpoint
