"""The shell that makes a service an actor of its own process: socket server, Ray method, and the
tie to its host.

``__init__`` never raises: Ray would drop the actor and its name for good. What went wrong shows in
``describe`` and in every answer. The process ends at once when its host has ended: nobody would
restart it, and the next host must get the locks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from neverforget.actors.connection import Bounds
from neverforget.actors.descriptor_limit import raise_descriptor_limit
from neverforget.actors.doorbell import ring
from neverforget.actors.messages import AnyReply, AnyRequest, Failure, encoder, request_decoder
from neverforget.actors.metrics import Meter
from neverforget.actors.owner_spec import OwnerSpec
from neverforget.actors.ports import Service, failure
from neverforget.actors.process_end import when_ended
from neverforget.actors.publishing import Publisher, Sink
from neverforget.actors.server import SocketServer
from neverforget.storage.errors import InvalidArgument, Overloaded, Unavailable

log = logging.getLogger(__name__)
_PARTS = {"longterm-0": "memories"}  # in metrics, as elsewhere; a partition is its number
SHUTDOWN_S = 20.0  # to sync, seal and ship when the process is told to end; what is left recovers
# Frames from other nodes under way at once, and their bytes; who comes then: Overloaded. Whatever
# its size: a large one does not have to wait for a moment without others.
CALLS_MAX = 1000
CALLS_BYTES_MAX = 256 * 1024 * 1024


class Owner(Service, Protocol):
    """A service with a life of its own."""

    @property
    def state(self) -> str: ...

    @property
    def reason(self) -> str | None: ...

    @property
    def meter(self) -> Meter: ...

    def start(self) -> None:
        """Recover in the background; never raises because of a disk."""
        ...

    def close(self) -> None:
        """Finish, sync, seal, give everything back."""
        ...


class RemotePending:
    """A request that came as a Ray call and is awaited on the actor's event loop."""

    def __init__(self, request: AnyRequest, meter: Meter | None = None) -> None:
        self.request = request
        self.alive = True
        self._meter = meter
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[bytes] = self._loop.create_future()
        self._answered = False

    def reply(self, message: AnyReply) -> None:
        if self._answered:
            return
        self._answered = True
        if type(message) is Failure and self._meter is not None:
            self._meter.answered(message)
        payload = encoder.encode(message)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._set, payload)

    def _set(self, payload: bytes) -> None:
        if not self._answer.done():
            self._answer.set_result(payload)

    async def answer(self) -> bytes:
        try:
            return await self._answer
        finally:
            self.alive = False


class ActorShell:
    """Plain; ``spawn.py`` makes its kinds remote. ``make`` makes the owner, on the loop of the
    actor; ``what`` names it in logs.
    """

    def __init__(self, spec: OwnerSpec, what: str, make: Callable[[], Owner]) -> None:
        self._server: SocketServer | None = None
        self._owner: Owner | None = None
        self._publisher: Publisher | None = None
        self._fault: str | None = None
        self._calls = self._calls_bytes = 0
        try:
            raise_descriptor_limit()
            if spec.host is not None:
                when_ended(spec.host, lambda: os._exit(1))
            self._owner = make()
            self._server = SocketServer(
                Path(spec.socket),
                self._owner,
                store_id=spec.store_id,
                bounds=Bounds(requests_max=spec.requests_queued_max),
                meter=self._owner.meter,
                on_crash=_end_process,
            )
            self._server.start(what)
            self._owner.start()
            self._publish(spec, what)
        except Exception as error:
            log.exception("%s cannot serve", what)
            self._fault = f"{type(error).__name__}: {error}"

    def _publish(self, spec: OwnerSpec, what: str) -> None:
        assert self._owner is not None and self._server is not None
        part = _PARTS.get(what, what.removeprefix("partition-"))

        def sink() -> Sink | None:
            from neverforget.actors.ray_metrics import sink

            return sink(spec.store_name or spec.store_id, part)

        self._publisher = Publisher(self._owner.meter, self._server.submit, sink)
        self._publisher.start()

    async def call(self, *pieces: bytes) -> bytes:
        """One request and its reply, msgpack without the length: the way in from other nodes.
        ``pieces``: of the request, see ``handles.pieces_of``."""
        frame = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        try:
            request = request_decoder.decode(frame)
        except msgspec.MsgspecError as error:
            return encoder.encode(failure(0, InvalidArgument(f"not a request: {error}")))
        if self._server is None or self._fault is not None:
            broken = Unavailable(f"the owner cannot serve: {self._fault}", outcome="not_applied")
            return encoder.encode(failure(request.id, broken))
        n_bytes = len(frame)
        if self._calls >= CALLS_MAX or self._calls_bytes >= CALLS_BYTES_MAX:
            return encoder.encode(failure(request.id, Overloaded("too many calls at once")))
        self._calls, self._calls_bytes = self._calls + 1, self._calls_bytes + n_bytes
        try:
            pending = RemotePending(request, self._owner.meter if self._owner else None)
            self._server.submit(pending)
            return await pending.answer()
        finally:
            self._calls, self._calls_bytes = self._calls - 1, self._calls_bytes - n_bytes

    async def describe(self) -> dict[str, Any]:
        owner = self._owner
        if self._fault is not None or owner is None:
            return {"pid": os.getpid(), "state": "quarantined", "reason": self._fault}
        return {"pid": os.getpid(), "state": owner.state, "reason": owner.reason}

    async def ring(self, bell: str) -> None:
        """Ring a bell on this node, for somebody on another one."""
        await asyncio.get_running_loop().run_in_executor(None, ring, Path(bell))

    async def stop(self) -> None:
        """Take nothing more, finish, sync, seal, give everything back."""
        await asyncio.get_running_loop().run_in_executor(None, self._stop)

    def __ray_shutdown__(self) -> None:
        """Ray's hook, on the main thread of a process that ends by SIGTERM, or because its last
        handle went. The next owner starts meanwhile and waits for the lock."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would interrupt this
        late = threading.Timer(SHUTDOWN_S, os._exit, (1,))
        late.daemon = True
        late.start()
        self._stop()

    def _stop(self) -> None:
        if self._publisher is not None:
            self._publisher.close()
        if self._server is not None:
            self._server.stop()
        if self._owner is not None:
            self._owner.close()


def _end_process(error: BaseException) -> None:
    """A loop that ended by a mistake of ours is an owner that answers nobody: Ray starts
    another."""
    log.critical("the socket loop has ended: %r", error)
    logging.shutdown()
    os._exit(1)
