"""Calls to the owners of a deployed store: through the socket where the owner is on this node, as a
call of its actor elsewhere.

Which it is follows from where the owner's disk is, which the keeper knows: partitions do not move
while their disk stays where it is. A socket that is not known yet (its owner still starts) is asked
for now and then; the actor is called meanwhile.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Literal

from neverforget.actors.places import HOST, LONGTERM, REFLECTOR
from neverforget.runtime.channel import SocketChannel
from neverforget.runtime.endpoint import Endpoint
from neverforget.runtime.ray_channel import AsyncRayChannel, RayChannel
from neverforget.storage.directory_lock import boot_id, this_process
from neverforget.storage.errors import Unavailable

if TYPE_CHECKING:
    from neverforget.actors.messages import AnyReply, Request
    from neverforget.runtime.async_channel import AsyncChannel
    from neverforget.runtime.deployment import Where

Through = Literal["socket", "ray"]
_ASK_AGAIN_S = 5.0  # between two questions to the keeper about sockets that are not known yet
_KEEPER_S = 5.0


class DeployedChannel:
    """A ``Channel``. ``where``: as the keeper told it; one without nodes is completed at the first
    call."""

    def __init__(self, where: Where) -> None:
        self._where = where
        self._node_id = ""  # of this process
        self._asked_at = time.monotonic() if where.nodes else float("-inf")
        self._asking = threading.Lock()
        found = where.description
        places = [*range(len(found.partitions)), LONGTERM, REFLECTOR]
        names = {place: found.owner(place) for place in places}
        self.by_ray = RayChannel((), "", {**names, HOST: keeper_name(found.name)})
        self.by_socket = SocketChannel(found.store_id, self)
        self._closed = False

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
        self._complete(partition)
        if self.through(partition) == "socket":
            return self.by_socket.call(partition, request, deadline)
        return self.by_ray.call(partition, request, deadline)

    def close(self) -> None:
        self.by_socket.close()
        self.by_ray.close()

    # ---- Addresses, for the sockets --------------------------------------------------------------

    @property
    def endpoint(self) -> Endpoint:
        where = self._where
        sockets = where.sockets
        return Endpoint(
            store_id=where.description.store_id,
            kind="serve",
            process=this_process(),
            boot=boot_id(),
            node=os.uname().nodename,
            started_at=0,
            sockets=tuple(sockets.get(n, "") for n in range(len(where.description.partitions))),
            longterm=sockets.get(LONGTERM, ""),
            reflector=sockets.get(REFLECTOR, ""),
        )

    def refresh(self, deadline: float | None = None) -> Endpoint:
        """An owner that went away comes back where it was, unless its node host says otherwise."""
        self._ask(_ASK_AGAIN_S)
        return self.endpoint

    # ---- where owners are ------------------------------------------------------------------------

    def _here(self) -> str:
        if not self._node_id:
            from neverforget.runtime.deployed_cluster import node_id

            self._node_id = node_id()
        return self._node_id

    def _complete(self, place: int) -> None:
        """Have the keeper tell, where this place's socket might be on this node."""
        if place == HOST or place in self._where.sockets:
            return
        node = self._where.nodes.get(self._where.description.disk_of(place))
        if node is None or node[0] == self._here():
            self._ask(_ASK_AGAIN_S)

    def _ask(self, every_s: float) -> None:
        if time.monotonic() - self._asked_at < every_s or not self._asking.acquire(blocking=False):
            return
        try:
            from neverforget.runtime.deployed_cluster import ask_keeper

            self._where = ask_keeper(self._where.description.name, _KEEPER_S)
        except Unavailable:
            pass  # the actors are called; whoever is away says so
        finally:
            self._asked_at = time.monotonic()
            self._asking.release()


class AsyncDeployedChannel:
    """The same for the tasks of one event loop."""

    def __init__(self, channel: DeployedChannel) -> None:
        from neverforget.runtime.async_channel import AsyncSocketChannel

        self._channel = channel
        store_id = channel.where.description.store_id
        self._by_socket: AsyncChannel = AsyncSocketChannel(store_id, channel)
        self._by_ray = AsyncRayChannel(channel.by_ray)

    async def call(self, partition: int, request: Request, deadline: float) -> AnyReply:
        if self._channel.through(partition) == "socket":
            return await self._by_socket.call(partition, request, deadline)
        return await self._by_ray.call(partition, request, deadline)

    def close(self) -> None:
        self._by_socket.close()


def keeper_name(name: str) -> str:
    """Of the keeper of the store ``name``, in Ray."""
    return f"keeper-{name}"
