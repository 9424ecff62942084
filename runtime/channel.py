"""How a call reaches its owner: the seam between clients and transports, and the way over sockets.

A client asks; the channel finds the owner, asks again when it went away, and gives up at the
deadline. Callers in different threads use different connections, so nobody waits for anybody.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Protocol

from neverforget.actors.messages import AnyReply, Failure, Request, Wait
from neverforget.runtime.connection import Connection, ConnectionLost, close_all
from neverforget.runtime.endpoint import Endpoint
from neverforget.runtime.operation import Operation, T
from neverforget.runtime.retrying import Retrying
from neverforget.storage.errors import NeverforgetError, StoreClosed, Unavailable

IDLE_MAX = 8  # connections kept open to one owner; more are opened when needed and closed after


class Channel(Protocol):
    """``partition``: its number, or one of ``places.py``."""

    def call(self, partition: int, request: Request, deadline: float) -> AnyReply:
        """The owner's reply, never a Failure: those are raised. Asks again under the same request
        id until ``deadline`` (monotonic), then raises Unavailable. Any thread may call.
        """
        ...

    def close(self) -> None:
        """Let go of everything. Calls in flight end with their answer, waits with StoreClosed."""
        ...


class Addresses(Protocol):
    """Where the owners are: the part of an attachment that a channel needs."""

    @property
    def endpoint(self) -> Endpoint: ...

    def refresh(self, deadline: float | None = None) -> Endpoint:
        """The endpoint of a living host, brought up or waited for if need be. Unavailable."""
        ...


def run(operation: Operation[T], channel: Channel, deadline_s: float) -> T:
    """Drive ``operation`` to its end, in this thread. Each request may take ``deadline_s``."""
    try:
        call = operation.send(None)
        while True:
            patience_s = deadline_s if call.patience_s is None else call.patience_s
            try:
                reply = channel.call(call.partition, call.request, time.monotonic() + patience_s)
            except NeverforgetError as error:
                call = operation.throw(error)
            else:
                call = operation.send(reply)
    except StopIteration as stop:
        value: T = stop.value
        return value


class SocketChannel:
    """Owners on this node, through their Unix sockets. A forked child starts with none of its
    parent's connections, so frames of two processes never meet on one socket.
    """

    def __init__(self, store_id: str, addresses: Addresses) -> None:
        self._store_id = store_id
        self._addresses = addresses
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._idle: dict[int, list[Connection]] = {}
        self._waiting: set[Connection] = set()
        self._sockets: dict[int, str] = {}
        self._lock = threading.Lock()  # of what follows a change of the endpoint

    def call(self, partition: int, request: Request, deadline: float) -> AnyReply:
        if self._pid != os.getpid():
            self._leave_parents_connections()
        if self._closed:
            raise closed()
        try:
            connection = self._idle[partition].pop()
        except (KeyError, IndexError):
            return self._persist(partition, request, deadline, None)
        try:
            reply = self._exchange(connection, request, deadline)
        except ConnectionLost as error:
            return self._persist(partition, request, deadline, error)
        self._give_back(partition, connection)
        if type(reply) is Failure:
            return self._persist(partition, request, deadline, reply)
        return reply

    def _persist(
        self,
        partition: int,
        request: Request,
        deadline: float,
        first: Failure | ConnectionLost | None,
    ) -> AnyReply:
        """Ask until there is an answer; ``first`` is what became of a first try."""
        tries = Retrying(request, deadline)
        outcome = first
        while True:
            if isinstance(outcome, Failure):
                pause_s = tries.refused(outcome)
            elif outcome is not None:
                # Owners go as a whole: what is idle now was connected to the one that went.
                close_all(self._idle.get(partition, []))
                pause_s = tries.lost(outcome, sent=outcome.sent)
            else:
                pause_s = 0.0
            if pause_s:
                time.sleep(pause_s)
            outcome = None
            try:
                connection = self._connect(partition, deadline)
            except ConnectionLost as error:
                outcome = ConnectionLost(str(error), sent=False)
                continue
            except Unavailable as error:
                raise tries.too_late(error.message) from error
            try:
                reply = self._exchange(connection, request, deadline)
            except ConnectionLost as error:
                outcome = error
                continue
            self._give_back(partition, connection)
            if not isinstance(reply, Failure):
                return reply
            outcome = reply

    def _exchange(self, connection: Connection, request: Request, deadline: float) -> AnyReply:
        if type(request) is not Wait:
            return connection.exchange(request, deadline)
        # May take long with nothing to lose: close() ends it.
        self._waiting.add(connection)
        try:
            if self._closed:  # after the add: close() may just have looked at who waits
                connection.close()
                raise closed()
            return connection.exchange(request, deadline)
        finally:
            self._waiting.discard(connection)

    def _connect(self, partition: int, deadline: float) -> Connection:
        """A new connection. ConnectionLost: not now, try again; Unavailable: no host in time."""
        if self._closed:
            raise closed()
        path = self._sockets.get(partition) or self._look_up(self._addresses.endpoint, partition)
        try:
            return Connection(path, self._store_id, partition, deadline)
        except OSError as error:
            endpoint = self._addresses.refresh(deadline)
            self._look_up(endpoint, partition)
            raise ConnectionLost(f"no owner at {path}: {error}", sent=False) from error

    def _look_up(self, endpoint: Endpoint, partition: int) -> str:
        path = endpoint.socket_of(partition)
        with self._lock:
            if self._sockets.get(partition) != path:
                self._sockets[partition] = path
                close_all(self._idle.setdefault(partition, []))
        return path

    def _give_back(self, partition: int, connection: Connection) -> None:
        idle = self._idle[partition]
        if len(idle) >= IDLE_MAX:
            connection.close()
            return
        idle.append(connection)
        if self._closed:  # after the append: close() may just have emptied the list
            close_all(idle)

    def _leave_parents_connections(self) -> None:
        inherited = self._idle
        self._begin()
        for connections in inherited.values():
            close_all(connections)  # the child's copies only: the parent's stay open

    def close(self) -> None:
        self._closed = True
        if self._pid == os.getpid():
            for connections in list(self._idle.values()):
                close_all(connections)
            for connection in list(self._waiting):
                connection.interrupt()


def closed() -> StoreClosed:
    """What a call on a closed handle raises."""
    return StoreClosed("this store was closed; open it again")
