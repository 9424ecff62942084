"""Calls to owners on other nodes, as calls of their actors. Only for processes that are connected
to the same Ray already: nothing here starts or joins one.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from neverforget.actors.longterm_messages import Recall
from neverforget.actors.messages import (
    AnyReply,
    Failure,
    Request,
    Wait,
    encoder,
    reply_decoder,
)
from neverforget.actors.places import HOST, LONGTERM, REFLECTOR
from neverforget.actors.under_way import UnderWay
from neverforget.runtime.channel import closed
from neverforget.runtime.link_watch import LinkWatch
from neverforget.runtime.retrying import Retrying
from neverforget.storage.errors import Overloaded, Unavailable

if TYPE_CHECKING:
    from neverforget.actors.handles import OwnerHandle

LOOK_S = 2.0  # between two looks at whether the owner is still the one
TRY_S_MAX = 30.0  # one call of an actor; a lost one is noticed by then and asked again


def is_connected() -> bool:
    """This process is a driver or worker of some Ray. Ray is not imported to find that out."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


class RayChannel:
    """``actors``: the owners' names in Ray, in the order of the partitions; ``longterm``: that of
    the long-term owner; ``others``: of more, by their numbers. ``lost`` is told of an owner that
    does not answer, on any thread, and may ``rename`` it: the next try goes there."""

    def __init__(
        self,
        actors: tuple[str, ...],
        longterm: str,
        others: Mapping[int, str] | None = None,
        lost: Callable[[int], None] | None = None,
    ) -> None:
        from neverforget.actors.handles import OwnerHandle

        self._handles = {number: OwnerHandle(name) for number, name in enumerate(actors)}
        if longterm:
            self._handles[LONGTERM] = OwnerHandle(longterm)
        self._handles.update({n: OwnerHandle(name) for n, name in (others or {}).items()})
        self._ways = {number: UnderWay() for number in self._handles}
        self._lost = lost
        self.link = LinkWatch()
        self._closed = False

    def rename(self, names: Mapping[int, str]) -> None:
        """Other actors are these owners now."""
        from neverforget.actors.handles import OwnerHandle

        for number, name in names.items():
            if self._handles[number].name != name:
                self._handles[number] = OwnerHandle(name)
                # What the old one has not answered may never end, and nobody waits behind it.
                left = self._ways[number]
                self._ways[number] = UnderWay()
                left.open()

    @property
    def follows(self) -> bool:
        """Owners may move."""
        return self._lost is not None

    def moved(self, partition: int, handle: OwnerHandle) -> bool:
        """``handle`` does not answer: is another one the owner now?"""
        self.link.suspect()
        if self._lost is not None:
            self._lost(partition)
        return self.handle(partition) is not handle

    def handle(self, partition: int) -> OwnerHandle:
        """The actor of an owner; Unavailable for the host, the reflector and the embedders: these
        are asked through sockets, and by owners."""
        if self._closed:
            raise closed()
        found = self._handles.get(partition)
        if found is None:
            named = {HOST: "the host", REFLECTOR: "the reflector"}
            who = named.get(partition, f"owner {partition}")
            raise Unavailable(f"{who} can be asked on its own node only", outcome="not_applied")
        return found

    def current(self, partition: int) -> OwnerHandle:
        """It may have been moved since somebody asked for its ``handle``."""
        return self._handles[partition]

    def call(self, partition: int, request: Request, deadline: float) -> AnyReply:
        tries = Retrying(request, deadline)
        message = encoder.encode(request)
        while True:
            handle = self.handle(partition)
            ended, way = nothing, self.way(partition, request)
            if way is not None:
                if not way.begin_waiting(len(message), _turn_s(deadline)):
                    raise tries.overloaded(busy(handle))
                ended = partial(way.end, len(message))
                handle = self.current(partition)
            moved = partial(self.moved, partition, handle) if self.follows else None
            try:
                payload = handle.call(message, _try_s(deadline), moved, ended)
            except Unavailable as error:
                if moved is not None and time.monotonic() < deadline:
                    moved()
                sent = error.outcome == "unknown"
                time.sleep(tries.lost(self.link.explained(error), sent=sent))
                continue
            reply = reply_decoder.decode(payload)
            if not isinstance(reply, Failure):
                return reply
            time.sleep(tries.refused(reply))

    def way(self, partition: int, request: Request) -> UnderWay | None:
        """None: it waits for what others do, an append or an embedder, and is no work meanwhile."""
        return None if isinstance(request, Wait | Recall) else self._ways[partition]

    def close(self) -> None:
        self._closed = True


class AsyncRayChannel:
    """The same for the tasks of one event loop."""

    def __init__(self, channel: RayChannel) -> None:
        self._channel = channel

    async def call(self, partition: int, request: Request, deadline: float) -> AnyReply:
        tries = Retrying(request, deadline)
        message = encoder.encode(request)
        while True:
            handle = self._channel.handle(partition)
            ended, way = nothing, self._channel.way(partition, request)
            if way is not None:
                if not await _begin(way, len(message), _turn_s(deadline)):
                    raise tries.overloaded(busy(handle))
                ended = partial(way.end, len(message))
                handle = self._channel.current(partition)
            try:
                payload = await self._ask(partition, handle, message, _try_s(deadline), ended)
            except TimeoutError:
                late = Unavailable(f"owner {handle.name} did not answer", outcome="unknown")
                await asyncio.sleep(tries.lost(self._channel.link.explained(late), sent=True))
                continue
            except Unavailable as error:
                if self._channel.follows and time.monotonic() < deadline:
                    await asyncio.to_thread(self._channel.moved, partition, handle)
                sent = error.outcome == "unknown"
                await asyncio.sleep(tries.lost(self._channel.link.explained(error), sent=sent))
                continue
            reply = reply_decoder.decode(payload)
            if not isinstance(reply, Failure):
                return reply
            await asyncio.sleep(tries.refused(reply))

    async def _ask(
        self,
        partition: int,
        handle: OwnerHandle,
        message: bytes,
        timeout_s: float,
        ended: Callable[[], object],
    ) -> bytes:
        """TimeoutError: no answer in time, or somebody else would have to give it."""
        if not self._channel.follows:
            async with asyncio.timeout(timeout_s):
                return await handle.call_async(message, ended)
        begun = False

        async def ask() -> bytes:
            nonlocal begun
            begun = True
            return await handle.call_async(message, ended)

        async with asyncio.timeout(timeout_s):
            call = asyncio.ensure_future(ask())
            try:
                while not (await asyncio.wait({call}, timeout=LOOK_S))[0]:
                    if await asyncio.to_thread(self._channel.moved, partition, handle):
                        raise TimeoutError("it was moved meanwhile")
                return call.result()
            finally:
                call.cancel()
                if not begun:
                    ended()

    def close(self) -> None:
        """Nothing of its own to let go: the engine closes the channel."""


async def _begin(way: UnderWay, n_bytes: int, timeout_s: float) -> bool:
    """As ``UnderWay.begin_waiting``."""
    loop = asyncio.get_running_loop()
    turn = asyncio.Event()

    def wake() -> None:
        try:
            loop.call_soon_threadsafe(turn.set)
        except RuntimeError:  # the loop was closed, and nobody has told its tasks
            assert waiter is not None
            way.give_up(waiter)

    waiter = way.begin(n_bytes, wake)
    if waiter is None:
        return True
    came = False
    try:
        async with asyncio.timeout(timeout_s):
            came = await turn.wait()
    except TimeoutError:
        pass
    finally:
        if not came:
            way.give_up(waiter)
    return came


def busy(handle: OwnerHandle) -> Overloaded:
    return Overloaded(
        f"too many calls to owner {handle.name} wait for an answer; call again later, or with less "
        "at once"
    )


def nothing() -> None:
    pass


def _try_s(deadline: float) -> float:
    return max(0.001, min(TRY_S_MAX, deadline - time.monotonic()))


def _turn_s(deadline: float) -> float:
    """How long to wait for a turn. Who comes to it late would be answered too late, and so would
    all behind: at most half of the time goes for that."""
    return _try_s(deadline) / 2
