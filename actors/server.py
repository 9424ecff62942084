"""The socket an owner serves: one event-loop thread, non-blocking Unix sockets, requests handled in
groups.

One turn of the loop takes every request that is ready on any connection and hands them to the
service together, which is what makes a group commit need no timer. The service's answers are queued
on their connections and sent when it says so, one system call a connection.

Invariants
* Only the loop's thread touches connections and the service. ``wake``, ``submit`` and a reply may
  come from any thread: they go through a deque and the wake-up socket.
* No client can block the loop, make it grow without bound, or hurt another client: see ``Bounds``.
  What breaks the protocol is closed, with a Failure as far as the socket takes it.
* Idle means asleep: the loop waits in the selector until a request, a wake-up or the service's
  deadline.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from pathlib import Path

from neverforget.actors.connection import (
    SCRATCH_BYTES,
    Bounds,
    BrokenFrame,
    Connection,
    Disconnected,
    SocketPending,
)
from neverforget.actors.event_loop import READ, WRITE, EventLoop
from neverforget.actors.frames import greeting_error
from neverforget.actors.large_frames import LargeFrames
from neverforget.actors.listener import Listener
from neverforget.actors.messages import AnyReply, AnyRequest, Failure, Hello
from neverforget.actors.metrics import Meter
from neverforget.actors.ports import Pending, Service, failure, internal_error
from neverforget.storage.clock import Clock, SystemClock
from neverforget.storage.errors import (
    InvalidArgument,
    NeverforgetError,
    Overloaded,
)

log = logging.getLogger(__name__)
_ACCEPT_PAUSE_S = 0.5


class SocketServer:
    """``start`` binds ``path`` (taking the place of a dead owner's socket) and runs the loop in a
    thread; ``run`` is that loop, for a caller that has a thread to give. ``stop`` ends it and
    removes the socket. ``meter`` counts the errors that it answers."""

    def __init__(
        self,
        path: Path,
        service: Service,
        *,
        store_id: str,
        bounds: Bounds | None = None,
        clock: Clock | None = None,
        meter: Meter | None = None,
        on_crash: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.path = path
        self._service = service
        self._store_id = store_id
        self._bounds = bounds or Bounds()
        self._clock = clock or SystemClock()
        self._meter = meter
        self._on_crash = on_crash
        self._connections: set[Connection] = set()
        self._clients = 0
        self._turn: list[Pending] = []
        self._dirty: set[Connection] = set()  # replies queued and not sent
        self._again: set[Connection] = set()  # hold requests that were read and not taken
        self._large = LargeFrames(self._bounds.large_bytes_max)
        self._submitted: deque[Pending] = deque()
        self._late: deque[tuple[Connection, AnyReply]] = deque()  # answers from other threads
        self._due: float | None = None  # the service's deadline, as of the beginning of the turn
        self._sweep_at: float | None = None
        self._accept_again_at: float | None = None
        self._stopping = False
        self._thread_id = 0
        self._thread: threading.Thread | None = None
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._loop = EventLoop()
        self._listener = Listener(path)
        self._loop.listen(self._listener.socket, self._accept)
        _live.add(self)
        service.bind(self.wake)

    # ---- from any thread -------------------------------------------------------------------------

    def start(self, name: str) -> None:
        self._thread = threading.Thread(target=self.run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the loop after the turn it is in; wait for it. Idempotent."""
        self._stopping = True
        self.wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        elif self._thread is None and self._thread_id == 0:
            self._close()

    def wake(self) -> None:
        self._loop.wake()

    def submit(self, pending: Pending) -> None:
        """A request that came another way than by socket joins the next turn."""
        self._submitted.append(pending)
        self.wake()

    def answer(self, connection: Connection, message: AnyReply) -> None:
        if threading.get_ident() != self._thread_id:
            self._late.append((connection, message))
            self.wake()
        elif not connection.closed:
            if type(message) is Failure and self._meter is not None:
                self._meter.answered(message)
            connection.queue(message)
            self._dirty.add(connection)

    # ---- the loop --------------------------------------------------------------------------------

    def run(self) -> None:
        self._thread_id = threading.get_ident()
        try:
            while not self._stopping:
                self._one_turn()
        except BaseException as error:
            log.exception("the socket loop at %s ends", self.path)
            if self._on_crash is None:
                raise
            self._on_crash(error)
        finally:
            self._close()

    def _one_turn(self) -> None:
        timeout = self._timeout()
        again, self._again = self._again, set()
        for connection, events in self._loop.wait(timeout):
            self._on_connection(connection, events)
        for connection in again:
            if not connection.closed:
                self._read(connection)
        while self._submitted:
            self._take(self._submitted.popleft())
        while self._late:
            self.answer(*self._late.popleft())
        turn, self._turn = self._turn, []
        if turn:
            self._serve(turn)
        now = self._clock.monotonic()
        if self._due is not None and self._due <= now:
            self._service.tick(self.send)
        self.send()
        if self._sweep_at is not None and self._sweep_at <= now:
            self._sweep(now)
        if self._accept_again_at is not None and self._accept_again_at <= now:
            self._accept_again_at = None
            self._loop.listen(self._listener.socket, self._accept)

    def _timeout(self) -> float | None:
        self._due = self._service.deadline()
        if self._again or self._submitted or self._late or self._turn:
            return 0.0
        due = [at for at in (self._due, self._sweep_at, self._accept_again_at) if at is not None]
        return max(0.0, min(due) - self._clock.monotonic()) if due else None

    def _serve(self, turn: list[Pending]) -> None:
        try:
            self._service.run(turn, self.send)
        except Exception as error:  # a mistake of ours: the callers are told, the next turn goes on
            log.exception("a turn failed")
            for pending in turn:
                pending.reply(failure(pending.request.id, internal_error(error)))

    def send(self) -> None:
        """Send what has been answered."""
        while self._dirty:
            connection = self._dirty.pop()
            if connection.closed:
                continue
            try:
                connection.send()
            except Disconnected:
                self._drop(connection)
                continue
            if connection.closing and not connection.unsent_bytes:
                self._drop(connection)
            else:
                if connection.has_held and not connection.congested:
                    self._again.add(connection)
                self._watch_for(connection)

    def _take(self, pending: Pending) -> None:
        if len(self._turn) < self._bounds.requests_max:
            self._turn.append(pending)
            return
        error = Overloaded(
            "more requests wait than this owner takes at once; try again in a moment"
        )
        pending.reply(failure(pending.request.id, error))

    # ---- connections -----------------------------------------------------------------------------

    def _on_connection(self, connection: Connection, events: int) -> None:
        if connection.closed:
            return
        if events & WRITE:
            connection.progress_at = self._clock.monotonic()
            self._dirty.add(connection)
            self.send()
        if events & READ and not connection.closed and not connection.has_held:
            self._read(connection)

    def _read(self, connection: Connection) -> None:
        try:
            requests = connection.requests(self._scratch)
            for request in requests:
                if not connection.greeted or type(request) is Hello:
                    self._greet(connection, request)
                else:
                    self._take(SocketPending(request, connection, self.answer))
        except Disconnected:
            self._drop(connection)
            return
        except BrokenFrame as error:
            log.warning("closing a connection to %s: %s", self.path, error)
            self._refuse(connection, InvalidArgument(f"not a request of neverforget: {error}"))
            return
        if connection.closing:
            return
        if connection.has_held and not connection.congested:
            self._again.add(connection)
        self._ration(connection)
        if connection.waits_for_peer or connection.has_held or connection.events != READ:
            connection.progress_at = self._clock.monotonic()
            self._watch_for(connection)

    def _greet(self, connection: Connection, request: AnyRequest) -> None:
        if type(request) is not Hello or connection.greeted:
            raise BrokenFrame("a connection begins with one Hello")
        if (error := greeting_error(request, self._store_id)) is not None:
            self._refuse(connection, error, request.id)
            return
        connection.greeted = True
        self._clients += 1
        self.answer(connection, self._service.welcome(request.id))
        self._service.clients_changed(self._clients)

    def _refuse(self, connection: Connection, error: NeverforgetError, id: int = 0) -> None:
        connection.closing = True
        self.answer(connection, failure(id, error))
        self.send()

    def _watch_for(self, connection: Connection) -> None:
        """Ask the selector for what this connection waits for, and remember to look whether it
        stalls."""
        reading = not (
            connection.closing or connection.has_held or self._large.holds_back(connection)
        )
        events = (READ if reading else 0) | (WRITE if connection.unsent_bytes else 0)
        if events != connection.events:
            self._loop.follow(connection, events)
            connection.progress_at = self._clock.monotonic()
        if self._sweep_at is None and connection.waits_for_peer:
            self._sweep_at = self._clock.monotonic() + self._bounds.stall_s

    def _ration(self, connection: Connection) -> None:
        for admitted in self._large.observe(connection):
            admitted.progress_at = self._clock.monotonic()
            self._watch_for(admitted)

    def _drop(self, connection: Connection) -> None:
        if connection.closed:
            return
        connection.closed = True
        self._loop.follow(connection, 0)
        connection.socket.close()
        self._connections.discard(connection)
        self._ration(connection)
        if connection.greeted:
            self._clients -= 1
            self._service.clients_changed(self._clients)

    def _sweep(self, now: float) -> None:
        """Close what has stalled. Runs only while something could stall."""
        oldest = None
        for connection in list(self._connections):
            if not connection.waits_for_peer or self._large.holds_back(connection):
                continue
            if connection.progress_at + self._bounds.stall_s <= now:
                log.warning("closing a connection to %s: it stalled", self.path)
                self._drop(connection)
            elif oldest is None or connection.progress_at < oldest:
                oldest = connection.progress_at
        self._sweep_at = None if oldest is None else oldest + self._bounds.stall_s

    def _accept(self) -> None:
        try:
            for accepted in self._listener.accept():
                connection = Connection(accepted, self._bounds, self._clock.monotonic())
                self._connections.add(connection)
                self._watch_for(connection)
                if len(self._connections) > self._bounds.connections_max:
                    self._refuse(connection, Overloaded("too many connections; close some"))
        except OSError as error:  # no descriptors left: the backlog waits, the loop does not spin
            log.warning("cannot accept at %s: %s", self.path, error)
            self._loop.forget(self._listener.socket)
            self._accept_again_at = self._clock.monotonic() + _ACCEPT_PAUSE_S

    def _close(self) -> None:
        for connection in list(self._connections):
            with contextlib.suppress(Disconnected):
                connection.send()
            self._drop(connection)
        self._forget(unlink=True)

    def _forget(self, *, unlink: bool) -> None:
        _live.discard(self)
        self._loop.close()
        self._listener.close(unlink=unlink)


_live: weakref.WeakSet[SocketServer] = weakref.WeakSet()


def _close_in_child() -> None:
    for server in list(_live):
        for connection in list(server._connections):
            connection.socket.close()
        server._forget(unlink=False)


os.register_at_fork(after_in_child=_close_in_child)
