"""Calls to the owners of a deployed store: through the socket where the owner is on this node, as a
call of its actor elsewhere.

Which it is follows from where the owner's disk is, which the keeper knows. It is asked again when
an owner does not answer, or says that another one serves: a part may have been moved. The call then
goes there under the same request id, so that what was done already is not done twice.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from neverforget.actors.places import HOST, LONGTERM, REFLECTOR
from neverforget.runtime.channel import SocketChannel
from neverforget.runtime.deployment import away
from neverforget.runtime.endpoint import Endpoint
from neverforget.runtime.ray_channel import AsyncRayChannel, RayChannel
from neverforget.runtime.retrying import Retrying
from neverforget.storage.directory_lock import boot_id, this_process
from neverforget.storage.errors import NeverforgetError, NotFound, OwnerFenced, Unavailable

if TYPE_CHECKING:
    from neverforget.actors.messages import AnyReply, Request
    from neverforget.runtime.async_channel import AsyncChannel
    from neverforget.runtime.deployment import Where

_Lost = OwnerFenced | Unavailable
Through = Literal["socket", "ray"]
_ASK_AGAIN_S = 5.0  # between two questions to the keeper about sockets that are not known yet
_ASK_LOST_S = 1.0  # and about owners that do not answer
_KEEPER_S = 5.0
_KEEPER_PAUSE_S = 0.2  # before one that did not answer is asked again
_KEEPER_LOST_S = 1.5  # for who looks beside a call


class _Way(NamedTuple):
    """How a call went."""

    through: Through
    actor: str


class DeployedChannel:
    """A ``Channel``. ``where``: as the keeper told it; one without nodes is completed at the first
    call."""

    def __init__(self, where: Where) -> None:
        self._where = where
        self.replaced = False  # another store has its name now
        self._node_id = ""  # of this process
        self._asked_at = time.monotonic() if where.nodes else float("-inf")
        self._asking = threading.Lock()
        names = {**self._names(), HOST: keeper_name(where.description.name)}
        self.by_ray = RayChannel((), "", names, self._lost)
        self.by_socket = SocketChannel(where.description.store_id, self)

    @property
    def where(self) -> Where:
        return self._where

    def through(self, place: int) -> Through:
        """How calls to ``place`` go from this process, as far as is known now."""
        if place == HOST or place not in self._where.sockets:
            return "ray"
        node = self._where.nodes.get(self._where.description.disk_of(place))
        return "socket" if node is not None and node[0] == self._here() else "ray"

    def call(self, partition: int, request: Request, deadline: float) -> AnyReply:
        tries = Moving(request, deadline)
        while True:
            if self.is_incomplete(partition):
                self.complete()
            way = self.way(partition)
            by = self.by_socket if way.through == "socket" else self.by_ray
            try:
                return by.call(partition, request, deadline)
            except (OwnerFenced, Unavailable) as error:
                moved = not tries.over and self.is_elsewhere(partition, way, error, deadline)
                tries.failed(self.explained(partition, way, error), moved=moved)

    def close(self) -> None:
        self.by_socket.close()
        self.by_ray.close()

    # ---- Addresses, for the sockets --------------------------------------------------------------

    @property
    def endpoint(self) -> Endpoint:
        """With the sockets on this node."""
        description, sockets = self._where.description, self._where.sockets
        here = {place: sockets[place] for place in sockets if self.through(place) == "socket"}
        return Endpoint(
            store_id=description.store_id,
            kind="serve",
            process=this_process(),
            boot=boot_id(),
            node=os.uname().nodename,
            started_at=0,
            sockets=tuple(here.get(n, "") for n in range(len(description.partitions))),
            longterm=here.get(LONGTERM, ""),
            reflector=here.get(REFLECTOR, ""),
        )

    def refresh(self, deadline: float | None = None) -> Endpoint:
        """An owner that went away comes back where it was, unless the keeper says otherwise."""
        self.by_ray.link.suspect()
        left_s = math.inf if deadline is None else deadline - time.monotonic()
        self._ask(_ASK_LOST_S, max(0.0, min(_KEEPER_S, left_s)))
        return self.endpoint

    # ---- where owners are ------------------------------------------------------------------------

    def way(self, place: int) -> _Way:
        return _Way(self.through(place), self.by_ray.handle(place).name)

    def explained(self, place: int, way: _Way, error: _Lost) -> _Lost:
        """``error``, with what is known of why nobody answers: the part's disk is away, or what is
        wrong with Ray, which the way by sockets knows nothing of."""
        if not isinstance(error, Unavailable):
            return error
        if self._is_away(place):
            why = away(self._where.description, place)
            return Unavailable(
                f"{error.message}; {why}", outcome=error.outcome, request_id=error.request_id
            )
        return error if way.through == "ray" else self.by_ray.link.explained(error)

    def _is_away(self, place: int) -> bool:
        """As the keeper told it last."""
        nodes = self._where.nodes
        return place != HOST and bool(nodes) and self._where.description.disk_of(place) not in nodes

    def is_elsewhere(self, place: int, way: _Way, error: NeverforgetError, deadline: float) -> bool:
        """After that error on that way: there is another one now. One that is fenced knows of an
        owner elsewhere, which the keeper had told to serve before; a keeper that does not answer,
        as it starts again somewhere, is asked until the deadline."""
        if place == HOST:
            return False
        if isinstance(error, OwnerFenced):
            while not self._ask(0.0, _KEEPER_S, wait=True):
                left_s = deadline - time.monotonic()
                if left_s <= 0 or self.way(place) != way:
                    break
                time.sleep(min(_KEEPER_PAUSE_S, left_s))
        return self.way(place) != way

    def _names(self) -> dict[int, str]:
        found = self._where.description
        places = [*range(len(found.partitions)), LONGTERM, REFLECTOR]
        return {place: found.owner(place) for place in places}

    def _here(self) -> str:
        if not self._node_id:
            from neverforget.actors.ray_link import node_id

            self._node_id = node_id()
        return self._node_id

    def is_incomplete(self, place: int) -> bool:
        """This place's socket might be on this node, and it is time to ask for it."""
        if place == HOST or place in self._where.sockets or not self._is_due(_ASK_AGAIN_S):
            return False
        node = self._where.nodes.get(self._where.description.disk_of(place))
        return node is None or node[0] == self._here()

    def complete(self) -> None:
        """Have the keeper tell. Blocks."""
        self._ask(_ASK_AGAIN_S, _KEEPER_LOST_S)

    def _lost(self, place: int) -> None:
        if place != HOST:
            self._ask(_ASK_LOST_S, _KEEPER_LOST_S)

    def _is_due(self, every_s: float) -> bool:
        return time.monotonic() - self._asked_at >= every_s

    def _ask(self, every_s: float, keeper_s: float, *, wait: bool = False) -> bool:
        """Unless somebody does, or did less than ``every_s`` ago. ``wait``: for that one, too.
        ``keeper_s``: the time for an answer. False: the keeper was asked and did not answer."""
        if not self._is_due(every_s) or not self._asking.acquire(blocking=wait):
            return True
        try:
            from neverforget.runtime.deployed_cluster import ask_keeper

            found = ask_keeper(self._where.description.name, keeper_s)
            if found.description.store_id != self._where.description.store_id:
                self.replaced = True  # the owners of this one have ended
                return True
            # One that ends just now comes back at the same path; the keeper does not know it then.
            sockets = {**self._where.sockets, **found.sockets}
            self._where = msgspec.structs.replace(found, sockets=sockets)
            self.by_ray.rename(self._names())
        except (Unavailable, NotFound) as error:
            # The actors are called; whoever is away says so. That nobody has deployed the store, or
            # not again yet, must not be taken for "no such memory" by who asked for one.
            return isinstance(error, NotFound)
        finally:
            self._asked_at = time.monotonic()
            self._asking.release()
        return True


class Moving:
    """The ways that one call was tried on. No I/O."""

    def __init__(self, request: Request, deadline: float) -> None:
        self._request, self._deadline = request, deadline
        self._unknown = False

    @property
    def over(self) -> bool:
        return time.monotonic() >= self._deadline

    def failed(self, error: OwnerFenced | Unavailable, *, moved: bool) -> None:
        """Return if there is another way to try. Else raise ``error``, or what is true of all the
        tries."""
        # A fenced owner may have written what it did not acknowledge; it is brought back from its
        # disk, under its request id.
        sent = isinstance(error, OwnerFenced) or error.outcome == "unknown"
        if moved:
            self._unknown = self._unknown or sent
            return
        if self._unknown and isinstance(error, Unavailable) and error.outcome != "unknown":
            tries = Retrying(self._request, self._deadline)
            raise tries.too_late("no answer within the deadline", sent=True) from error
        raise error


class AsyncDeployedChannel:
    """The same for the tasks of one event loop."""

    def __init__(self, channel: DeployedChannel) -> None:
        from neverforget.runtime.async_channel import AsyncSocketChannel

        self._channel = channel
        store_id = channel.where.description.store_id
        self._by_socket: AsyncChannel = AsyncSocketChannel(store_id, channel)
        self._by_ray = AsyncRayChannel(channel.by_ray)

    async def call(self, partition: int, request: Request, deadline: float) -> AnyReply:
        channel, tries = self._channel, Moving(request, deadline)
        while True:
            if channel.is_incomplete(partition):
                await asyncio.to_thread(channel.complete)
            way = channel.way(partition)
            by = self._by_socket if way.through == "socket" else self._by_ray
            try:
                return await by.call(partition, request, deadline)
            except (OwnerFenced, Unavailable) as error:
                moved = not tries.over and await asyncio.to_thread(
                    channel.is_elsewhere, partition, way, error, deadline
                )
                tries.failed(channel.explained(partition, way, error), moved=moved)

    def close(self) -> None:
        self._by_socket.close()


def keeper_name(name: str) -> str:
    """Of the keeper of the store ``name``, in Ray."""
    return f"keeper-{name}"
