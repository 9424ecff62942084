"""A service that answers what it is asked, and a client that may misbehave, for tests of the
server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from neverforget.actors.frames import LENGTH, frame
from neverforget.actors.messages import (
    AnyReply,
    AnyRequest,
    Append,
    AppendedReply,
    DoneReply,
    Failure,
    Get,
    Hello,
    Info,
    Settle,
    Welcome,
    WindowReply,
    reply_decoder,
)
from neverforget.actors.ports import Pending
from neverforget.storage.results import Appended, Window

STORE_ID = "echo"
PATIENCE_S = 60.0


class Echo:
    """Append: the number of its bytes. Get: ``stop - first`` zero bytes. Info: kept in ``parked``.
    Settle: done. Sees every group in ``groups``."""

    def __init__(self) -> None:
        self.groups: list[list[AnyRequest]] = []
        self.parked: list[Pending] = []
        self.clients = 0
        self.wake: Callable[[], None] = lambda: None
        self.due: float | None = None
        self.ticks = 0
        self.asked_for_deadline = 0
        self.seen = threading.Condition()
        self.gate = threading.Event()  # closed: the service stays inside `run`
        self.gate.set()
        self.raises: Exception | None = None

    def bind(self, wake: Callable[[], None]) -> None:
        self.wake = wake

    def run(self, pendings: Sequence[Pending], send: Callable[[], None]) -> None:
        with self.seen:
            self.groups.append([p.request for p in pendings])
            self.seen.notify_all()
        self.gate.wait(PATIENCE_S)
        if self.raises is not None:
            raise self.raises
        for pending in pendings:
            request = pending.request
            match request:
                case Append():
                    size = len(request.records)
                    pending.reply(AppendedReply(request.id, Appended(size, [], size)))
                case Get():
                    zeros = bytes(request.stop - request.first)
                    pending.reply(WindowReply(request.id, window(zeros)))
                case Settle():
                    pending.reply(DoneReply(request.id))
                case _:
                    with self.seen:
                        self.parked.append(pending)
                        self.seen.notify_all()

    def tick(self, send: Callable[[], None]) -> None:
        with self.seen:
            self.due = None
            self.ticks += 1
            self.seen.notify_all()

    def deadline(self) -> float | None:
        self.asked_for_deadline += 1
        return self.due

    def welcome(self, id: int) -> Welcome:
        return Welcome(id, STORE_ID, 0, 1, 1, "serving", None, 1)

    def clients_changed(self, clients: int) -> None:
        with self.seen:
            self.clients = clients
            self.seen.notify_all()

    def until(self, condition: Callable[[], Any]) -> None:
        with self.seen:
            assert self.seen.wait_for(condition, PATIENCE_S)


def window(records: bytes) -> Window:
    """A window that holds ``records`` and says nothing else."""
    fields: dict[str, Any] = {
        "records": records, "flags": [], "first_seq": 0, "stop_seq": 0, "more": False, "end": 0,
        "base": 0, "parent": None, "consolidated_through": 0, "tokens": 0, "session_id": 0,
        "salvaged": [],
    }  # fmt: skip
    return Window(**{name: fields[name] for name in Window.__struct_fields__})


def append(id: int, size: int) -> Append:
    return Append(id, (), "s", None, 1, id, 1, None, bytes(size))


def get(id: int, size: int) -> Get:
    return Get(id, (), "s", 0, size)


def info(id: int) -> Info:
    return Info(id, (), "s")


class Client:
    """Speaks frames, blocking, with a time limit."""

    def __init__(self, path: Path, *, greet: bool = True) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(str(path))
        if greet:
            self.send(Hello(0, STORE_ID))
            assert isinstance(self.receive(), Welcome)

    def send(self, *requests: AnyRequest) -> None:
        self.socket.sendall(b"".join(frame(request) for request in requests))

    def receive(self) -> AnyReply:
        size = LENGTH.unpack(self._read(4))[0]
        return reply_decoder.decode(self._read(size))

    def ask(self, request: AnyRequest) -> AnyReply:
        self.send(request)
        return self.receive()

    def refused(self) -> Failure:
        reply = self.receive()
        assert isinstance(reply, Failure), reply
        return reply

    def at_end(self) -> bool:
        """The server has closed this connection. Waits for it; what comes before is thrown away."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionResetError:
            pass
        return True

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            piece = self.socket.recv(size - len(received))
            if not piece:
                raise EOFError("closed by the server")
            received += piece
        return bytes(received)
