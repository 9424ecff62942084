"""One conversation with one owner over a blocking Unix socket: a request, then its reply.

The kernel's own timeouts (SO_RCVTIMEO, SO_SNDTIMEO) wake a waiting call up to look at its deadline,
which costs no system call as long as nothing times out.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time

import msgspec

from neverforget.actors.frames import LENGTH, LENGTH_BYTES, frame, peer_is_trusted
from neverforget.actors.messages import (
    FRAME_BYTES_MAX,
    PROTOCOL_VERSION,
    AnyReply,
    Failure,
    Hello,
    Request,
    Welcome,
    encoder,
    reply_decoder,
)
from neverforget.runtime.retrying import error_of
from neverforget.storage.errors import InvalidArgument, UnsupportedFormat

_BUFFER_BYTES = 64 * 1024
_TICK_S = 1.0  # how often a waiting call looks at its deadline
_TICK_S_MIN = 0.001


class ConnectionLost(Exception):
    """``sent``: the request may have reached the owner."""

    def __init__(self, why: str, *, sent: bool) -> None:
        super().__init__(why)
        self.sent = sent


class Connection:
    """Used by one thread at a time. After ConnectionLost, or any other error, it is closed."""

    def __init__(self, path: str, store_id: str, partition: int, deadline: float) -> None:
        """Connect, check who is there, and greet. Raises OSError or ConnectionLost when nobody
        answers, UnsupportedFormat when it is somebody else.
        """
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._tick_s = 0.0
        self._id = 0
        self._out = bytearray()
        self._in = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._in)
        try:
            self._set_tick(_TICK_S)
            self._socket.connect(path)
            if not peer_is_trusted(self._socket):
                raise UnsupportedFormat(
                    f"the process at {path} runs as another user; remove that socket"
                )
            self._send(frame(Hello(0, store_id)), deadline)
            reply = self._receive(deadline)
            if isinstance(reply, Failure):
                raise error_of(reply)
            check_welcome(reply, store_id, partition, path)
        except BaseException:
            self.close()
            raise

    def exchange(self, request: Request, deadline: float) -> AnyReply:
        """Send ``request`` and wait for its reply. ConnectionLost when there is none in time."""
        self._id = request.id = (self._id + 1) & 0xFFFFFFFF
        out = self._out
        encoder.encode_into(request, out, LENGTH_BYTES)
        length = len(out) - LENGTH_BYTES
        if length > FRAME_BYTES_MAX:
            self.close()
            raise InvalidArgument(
                f"a request of {length:,} bytes is above the limit of {FRAME_BYTES_MAX:,}; append "
                "less at a time"
            )
        LENGTH.pack_into(out, 0, length)
        try:
            self._send(out, deadline)
            reply = self._receive(deadline)
        except BaseException:
            self.close()
            raise
        if length > _BUFFER_BYTES:
            self._out = bytearray()
        if reply.id != request.id:
            self.close()
            why = reply.message if isinstance(reply, Failure) else "an answer to another request"
            raise ConnectionLost(why, sent=True)
        return reply

    def close(self) -> None:
        """Idempotent."""
        self._socket.close()

    def interrupt(self) -> None:
        """From another thread: end the exchange that is going on with ConnectionLost."""
        with contextlib.suppress(OSError):  # it has just ended by itself
            self._socket.shutdown(socket.SHUT_RDWR)

    def _send(self, data: bytes | bytearray, deadline: float) -> None:
        view = memoryview(data)
        sent = 0
        while sent < len(view):
            try:
                sent += self._socket.send(view[sent:] if sent else view)
            except BlockingIOError:
                self._look_at(deadline, "the owner takes no requests", sent=False)
            except OSError as error:
                # Half a frame is no request: an owner never acts on it.
                raise ConnectionLost(f"the connection broke: {error}", sent=False) from error

    def _receive(self, deadline: float) -> AnyReply:
        if deadline - time.monotonic() < self._tick_s or self._tick_s < _TICK_S:
            self._set_tick(deadline - time.monotonic())
        got = self._read_into(self._view, deadline)
        while got < LENGTH_BYTES:
            got += self._read_into(self._view[got:], deadline)
        (length,) = LENGTH.unpack_from(self._in)
        if length > FRAME_BYTES_MAX:
            raise ConnectionLost(f"a reply of {length:,} bytes is no reply", sent=True)
        end = LENGTH_BYTES + length
        if end <= got:
            return _decoded(self._view[LENGTH_BYTES:end])
        whole = bytearray(length)
        view = memoryview(whole)
        view[: got - LENGTH_BYTES] = self._view[LENGTH_BYTES:got]
        got -= LENGTH_BYTES
        while got < length:
            got += self._read_into(view[got:], deadline)
        return _decoded(whole)

    def _read_into(self, view: memoryview, deadline: float) -> int:
        while True:
            try:
                got = self._socket.recv_into(view)
            except BlockingIOError:
                self._look_at(deadline, "the owner does not answer", sent=True)
                continue
            except OSError as error:
                raise ConnectionLost(f"the connection broke: {error}", sent=True) from error
            if not got:
                raise ConnectionLost("the owner closed the connection", sent=True)
            return got

    def _look_at(self, deadline: float, why: str, *, sent: bool) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise ConnectionLost(why, sent=sent)
        self._set_tick(left)

    def _set_tick(self, left_s: float) -> None:
        tick_s = min(_TICK_S, max(_TICK_S_MIN, left_s))
        if tick_s == self._tick_s:
            return
        self._tick_s = tick_s
        value = struct.pack("ll", int(tick_s), int(tick_s % 1 * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)


def _decoded(payload: memoryview | bytearray) -> AnyReply:
    try:
        return reply_decoder.decode(payload)
    except msgspec.MsgspecError as error:
        raise ConnectionLost(f"the owner's reply cannot be read: {error}", sent=True) from error


def check_welcome(reply: AnyReply, store_id: str, partition: int, path: str) -> None:
    """Is it the owner that was looked for? UnsupportedFormat if not."""
    if not isinstance(reply, Welcome):
        raise UnsupportedFormat(f"the process at {path} does not speak neverforget's protocol")
    if (reply.store_id, reply.partition, reply.version) != (store_id, partition, PROTOCOL_VERSION):
        raise UnsupportedFormat(
            f"{path} is answered by partition {reply.partition} of store {reply.store_id}, "
            f"protocol {reply.version}; expected partition {partition} of {store_id}, protocol "
            f"{PROTOCOL_VERSION}; open the store again"
        )


def close_all(connections: list[Connection]) -> None:
    """Close connections that other threads may be taking from the same list."""
    while connections:
        with contextlib.suppress(IndexError):
            connections.pop().close()
