"""Embedding by the members of a pool, over their sockets; blocking, for any thread.

A call goes to the member with the fewest calls under way, and to the next one when that is gone,
stopped, or its embedder fails: to embed twice does no harm. While nobody is there it waits, up to
its deadline, for one to come back. A member that is silent is greeted anew from time to time: its
socket answers even while its model is at work.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Sequence

import msgspec
import numpy as np

from neverforget.actors.embedder_checked import Embedded
from neverforget.actors.embedding import DESCRIBE_S, late
from neverforget.actors.frames import LENGTH, LENGTH_BYTES, frame
from neverforget.actors.greeting import greet
from neverforget.actors.longterm_messages import (
    DescribeEmbedder,
    Embed,
    EmbeddedReply,
    EmbedderReply,
    packed,
)
from neverforget.actors.messages import FRAME_BYTES_MAX, AnyReply, Failure, reply_decoder
from neverforget.storage.errors import (
    NeverforgetError,
    Overloaded,
    Unavailable,
    from_wire,
)

GREETING_S = 2.0  # a member that is well greets within this
LOOK_S = 2.0  # how long it may be silent before it is greeted anew
IDLE_MAX = 4  # connections kept open to one member
BATCH_CHARACTERS = 4 * 1024 * 1024  # of the texts of one request
_ANSWER_S = 0.25
_PAUSE_S_MIN, _PAUSE_S_MAX = 0.02, 0.25


class _Lost(Exception):
    """The member is not there, or went away. Another one may be asked the same."""


class _Member:
    def __init__(self, path: str) -> None:
        self.path = path
        self.calls = 0
        self.idle: list[socket.socket] = []


class PoolEmbedding:
    """An ``Embedding`` (see embedding.py). ``sockets``: of the pool's members, there or not."""

    def __init__(self, sockets: Sequence[str], store_id: str) -> None:
        assert sockets, "a pool has a member"
        self._members = [_Member(path) for path in sockets]
        self._store_id = store_id
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()  # with a call on them
        self._closed = threading.Event()

    def describe(self, embedder: str) -> tuple[str, int]:
        reply = self._call(DescribeEmbedder(0, embedder), embedder, DESCRIBE_S)
        assert isinstance(reply, EmbedderReply)
        return reply.model, reply.dimension

    def embed(
        self, embedder: str, texts: Sequence[str], *, urgent: bool, deadline_s: float
    ) -> Embedded:
        deadline = time.monotonic() + deadline_s
        parts: list[tuple[int, Embedded]] = []
        for first, some in _batches(texts):
            left_s = deadline - time.monotonic()
            request = Embed(0, embedder, packed(some), urgent, 0)
            try:
                parts.append((first, _embedded(self._call(request, embedder, left_s))))
            except NeverforgetError as error:
                if not parts:
                    raise
                left = {n: str(error) for n in range(len(texts) - first)}
                parts.append((first, _nothing(parts[0][1], left)))
                break
        return _joined(parts)

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            under_way = list(self._open)
            for member in self._members:
                _close(member.idle)
        for connection in under_way:
            with contextlib.suppress(OSError):  # it has just ended by itself
                connection.shutdown(socket.SHUT_RDWR)

    # ---- one request -----------------------------------------------------------------------------

    def _call(self, request: Embed | DescribeEmbedder, who: str, time_s: float) -> AnyReply:
        deadline = time.monotonic() + time_s
        refused: NeverforgetError | None = None
        tried: set[_Member] = set()
        pause_s = _PAUSE_S_MIN
        while not self._closed.is_set():
            if time.monotonic() >= deadline:
                raise refused or late(who)
            member = self._take(tried)
            try:
                return self._exchange(member, request, deadline)
            except _Lost:
                tried.add(member)
            except (Unavailable, Overloaded) as error:
                # Its embedder fails, or has too much to do: another member's may not.
                refused = error
                tried.add(member)
            finally:
                with self._lock:
                    member.calls -= 1
            if len(tried) == len(self._members):
                if refused is not None:
                    raise refused
                tried.clear()
                self._closed.wait(max(0.0, min(pause_s, deadline - time.monotonic())))
                pause_s = min(2 * pause_s, _PAUSE_S_MAX)
        raise Unavailable("the owner has ended; ask again", outcome="not_applied")

    def _take(self, tried: set[_Member]) -> _Member:
        with self._lock:
            member = min((m for m in self._members if m not in tried), key=lambda m: m.calls)
            member.calls += 1
            return member

    def _exchange(
        self, member: _Member, request: Embed | DescribeEmbedder, deadline: float
    ) -> AnyReply:
        """Raises _Lost, and what the member answered."""
        if type(request) is Embed:
            left_s = deadline - time.monotonic()
            # A little less than there is: what it has got by then is to arrive in time.
            request.deadline_ms = max(1, int((left_s - min(_ANSWER_S, left_s / 10)) * 1000))
        connection = self._connection(member, deadline)
        try:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            connection.sendall(frame(request))
            reply = self._receive(connection, member, deadline)
        except OSError as error:
            connection.close()
            # What is idle was connected to the one that went.
            with self._lock:
                _close(member.idle)
            raise _Lost from error
        except BaseException:
            connection.close()
            raise
        finally:
            with self._lock:
                self._open.discard(connection)
        self._give_back(member, connection)
        if isinstance(reply, Failure):
            raise from_wire(reply.code, reply.message, reply.fields)
        return reply

    def _connection(self, member: _Member, deadline: float) -> socket.socket:
        with self._lock:
            connection = member.idle.pop() if member.idle else None
        if connection is None:
            connection = self._greeted(member, deadline)
        with self._lock:
            self._open.add(connection)
        if self._closed.is_set():  # after the add: close() may just have looked
            connection.close()
            raise _Lost
        return connection

    def _greeted(self, member: _Member, deadline: float) -> socket.socket:
        left_s = max(0.001, min(GREETING_S, deadline - time.monotonic()))
        try:
            return greet(member.path, self._store_id, left_s)[0]
        except (OSError, NeverforgetError) as error:
            raise _Lost from error

    def _give_back(self, member: _Member, connection: socket.socket) -> None:
        with self._lock:
            if not self._closed.is_set() and len(member.idle) < IDLE_MAX:
                member.idle.append(connection)
                return
        connection.close()

    # ---- its answer ------------------------------------------------------------------------------

    def _receive(self, connection: socket.socket, member: _Member, deadline: float) -> AnyReply:
        """Raises OSError when there is none, or not in time."""
        (length,) = LENGTH.unpack(self._read(connection, LENGTH_BYTES, member, deadline))
        if length > FRAME_BYTES_MAX:
            raise ConnectionError(f"an answer of {length:,} bytes is none")
        try:
            return reply_decoder.decode(self._read(connection, length, member, deadline))
        except msgspec.MsgspecError as error:
            raise ConnectionError(f"an answer that is none: {error}") from error

    def _read(
        self, connection: socket.socket, size: int, member: _Member, deadline: float
    ) -> bytearray:
        received = bytearray(size)
        view = memoryview(received)
        got = 0
        while got < size:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError("no answer in time")
            connection.settimeout(min(LOOK_S, left_s))
            try:
                read = connection.recv_into(view[got:])
            except TimeoutError:
                self._greeted(member, deadline).close()
                continue
            if not read:
                raise ConnectionResetError("the member closed the connection")
            got += read
        return received


def _batches(texts: Sequence[str]) -> list[tuple[int, list[str]]]:
    """Consecutive texts that go into one request, with the index of the first of them."""
    batches: list[tuple[int, list[str]]] = []
    size = 0
    for number, text in enumerate(texts):
        if not batches or size + len(text) > BATCH_CHARACTERS:
            batches.append((number, []))
            size = 0
        batches[-1][1].append(text)
        size += len(text)
    return batches or [(0, [])]


def _embedded(reply: AnyReply) -> Embedded:
    assert isinstance(reply, EmbeddedReply)
    rows = np.frombuffer(reply.vectors, "<f4").astype(np.float32, copy=False)
    return Embedded(
        rows.reshape(len(reply.owners), reply.dimension),
        np.array(reply.owners, np.int64),
        reply.failed,
        reply.waiting,
    )


def _nothing(like: Embedded, waiting: dict[int, str]) -> Embedded:
    return Embedded(like.vectors[:0], like.owners[:0], {}, waiting)


def _joined(parts: list[tuple[int, Embedded]]) -> Embedded:
    if len(parts) == 1:
        return parts[0][1]
    return Embedded(
        np.concatenate([part.vectors for _, part in parts]),
        np.concatenate([part.owners + first for first, part in parts]),
        {first + n: why for first, part in parts for n, why in part.failed.items()},
        {first + n: why for first, part in parts for n, why in part.waiting.items()},
    )


def _close(connections: list[socket.socket]) -> None:
    while connections:
        connections.pop().close()
