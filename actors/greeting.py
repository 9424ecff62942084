"""The first words with an owner, from a client that may block: connect, Hello, Welcome."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import msgspec

from neverforget.actors.frames import LENGTH, LENGTH_BYTES, frame, peer_is_trusted
from neverforget.actors.messages import (
    AnyReply,
    AnyRequest,
    Failure,
    Hello,
    Welcome,
    reply_decoder,
)
from neverforget.storage.errors import Unavailable, from_wire

_ANSWER_BYTES_MAX = 16 * 1024 * 1024


def greet(path: str | Path, store_id: str, timeout_s: float) -> tuple[socket.socket, Welcome]:
    """An open connection, with ``timeout_s`` still set, and what the owner said.

    Raises OSError (nobody there, or no answer in time: TimeoutError), Unavailable (it is not ours
    to talk to, or talks nonsense), and what the owner answered.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(str(path))
        if not peer_is_trusted(connection):
            raise Unavailable(
                f"the socket {path} belongs to another user; remove it", outcome="not_applied"
            )
        welcome = ask(connection, Hello(0, store_id), timeout_s)
        if not isinstance(welcome, Welcome):
            raise Unavailable(f"no owner answers at {path}", outcome="not_applied")
    except BaseException:
        connection.close()
        raise
    return connection, welcome


def ask(connection: socket.socket, request: AnyRequest, timeout_s: float) -> AnyReply:
    """One request, one answer, on a connection with nothing else under way."""
    deadline = time.monotonic() + timeout_s
    connection.settimeout(timeout_s)
    connection.sendall(frame(request))
    length = LENGTH.unpack(_read(connection, LENGTH_BYTES, deadline))[0]
    if length > _ANSWER_BYTES_MAX:
        raise Unavailable("an answer that is too long", outcome="unknown")
    try:
        reply = reply_decoder.decode(_read(connection, length, deadline))
    except msgspec.MsgspecError as error:
        raise Unavailable(f"an answer that is none: {error}", outcome="unknown") from error
    if isinstance(reply, Failure):
        raise from_wire(reply.code, reply.message, reply.fields)
    return reply


def _read(connection: socket.socket, size: int, deadline: float) -> bytes:
    received = bytearray()
    while len(received) < size:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        connection.settimeout(left)
        piece = connection.recv(size - len(received))
        if not piece:
            raise ConnectionResetError("the owner closed the connection")
        received += piece
    return bytes(received)
