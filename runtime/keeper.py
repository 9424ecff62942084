"""The keeper of a deployed store: knows where its parts are, has them hosted, tells clients.

An actor that may run, die and come back anywhere: what it must know, the description, stands on the
disks, and the highest version counts. Ray keeps a copy for as long as it lives, so that a store
whose disks are all away is not taken for one that was never made.

It looks at the cluster once a second. A node that offers what the plan wants is asked for the disk
that it has; where that disk holds a part of the store and has no host on that node, one is started.
A disk whose node is gone is away until a node has it again: its partitions move nowhere, and
nothing is made anew for them. A disk that a second node has, too, stays where it was found first.

Regions are made in ``deploy`` only, and only before the store was complete for the first time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from neverforget.actors.messages import (
    AnyReply,
    Failure,
    HostReply,
    HostStatus,
    OwnerView,
    encoder,
    request_decoder,
)
from neverforget.actors.places import LONGTERM, REFLECTOR
from neverforget.actors.ports import failure
from neverforget.runtime import deployed_cluster as cluster
from neverforget.runtime.deployed_cluster import NodeHostHandle, RayNode
from neverforget.runtime.deployed_disk import Disk, describe, look
from neverforget.runtime.deployment import Description, Plan, Where, described, updated
from neverforget.runtime.node_host import Told
from neverforget.storage.errors import (
    InvalidArgument,
    NeverforgetError,
    NotFound,
    Unavailable,
    UnsupportedFormat,
    to_wire,
)

log = logging.getLogger(__name__)
_INTERVAL_S = 1.0
_ANSWER_S = 5.0
_STOP_S = 45.0
Answer = tuple[bytes, tuple[str, str, dict[str, Any]] | None]


class _Found:
    """A disk and the node that has it now. ``host``: of its part, where it has one."""

    def __init__(self, node: RayNode, disk: Disk) -> None:
        self.node = node
        self.disk = disk
        self.host: NodeHostHandle | None = None
        self.told: Told | None = None


class Keeper:
    """Made remote in ``deployed_cluster.py``. ``__init__`` never raises."""

    def __init__(self, name: str, plan: bytes) -> None:
        self._name = name
        self._plan = msgspec.msgpack.decode(plan, type=Plan)
        self._description: Description | None = None
        self._conflict: str | None = None  # the disks cannot be those of one store
        self._disks: dict[str, _Found] = {}  # by their ids; only those that are there
        self._refused: dict[str, str] = {}  # nodes that offer and cannot be used, and why
        self._started_us = time.time_ns() // 1000
        self._busy = threading.Lock()  # of what changes the three above
        self._ending = threading.Event()
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="keeper")
        self._first_look = threading.Event()
        threading.Thread(target=self._run, name="keeper-look", daemon=True).start()

    # ---- asked -----------------------------------------------------------------------------------

    async def where(self) -> Answer:
        """``Where``, as msgpack."""
        if not self._first_look.is_set():
            await self._in_pool(self._first_look.wait)  # who looks is slow, or Ray is
        return _told(self._where)

    async def call(self, frame: bytes) -> bytes:
        """As an owner's: the one request that a host answers."""
        request = request_decoder.decode(frame)
        reply: AnyReply
        if isinstance(request, HostStatus):
            reply = self._status(request.id)
        else:
            reply = failure(request.id, InvalidArgument("this is the keeper: ask an owner"))
        assert isinstance(reply, HostReply | Failure)
        return encoder.encode(reply)

    async def deploy(self, plan: bytes, wait_s: float) -> Answer:
        """Create or update the store; ``where`` when its owners serve."""
        asked = msgspec.msgpack.decode(plan, type=Plan)
        answer: Answer = await self._in_pool(lambda: _told(lambda: self._deploy(asked, wait_s)))
        return answer

    async def undeploy(self) -> Answer:
        """End every owner and host in order; the data stays. Start nobody any more."""
        answer: Answer = await self._in_pool(lambda: _told(self._undeploy))
        return answer

    async def _in_pool(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _where(self) -> Where:
        description = self._description
        if description is None or description.state != "made":
            raise Unavailable(
                self._conflict
                or f"none of the {len(self._disks)} nodes that offer {self._plan.offer} has a part "
                f"of {self._name}"
                + self._and_refused(),
                outcome="not_applied",
            )
        found = dict(self._disks)
        nodes = {disk: (each.node.id, each.node.name) for disk, each in found.items()}
        sockets: dict[int, str] = {}
        for each in found.values():
            if each.told is not None:
                sockets.update(each.told.sockets)
        return Where(description=description, nodes=nodes, sockets=sockets)

    def _status(self, id: int) -> HostReply:
        owners = []
        description = self._description
        if description is not None:
            places = [*range(len(description.partitions)), LONGTERM, REFLECTOR]
            owners = [self._view(description, place) for place in places]
        address = cluster.gcs_address()
        return HostReply(id, os.getpid(), "keeper", self._started_us, 0, None, address, owners)

    def _view(self, description: Description, place: int) -> OwnerView:
        name = description.owner(place)
        found = self._disks.get(description.disk_of(place))
        if found is None:
            return OwnerView(name, 0, "", "away", 0, "")
        view = None if found.told is None else found.told.owners.get(place)
        if view is None:
            return OwnerView(name, 0, found.node.name, "recovering", 0, "")
        return OwnerView(name, view.pid, found.node.name, view.state, view.epoch, view.socket)

    # ---- looking ---------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                with self._busy:
                    if not self._ending.is_set():
                        self._look()
            except Exception:
                log.exception("looking at the nodes failed")
            self._first_look.set()
            self._ending.wait(_INTERVAL_S)

    def _look(self) -> None:
        """Once, at the nodes and at the hosts on them. Takes as long as those that do not
        answer."""
        if self._description is None and (known := cluster.remembered(self._name)) is not None:
            self._description = msgspec.msgpack.decode(known, type=Description)
        nodes = {node.id: node for node in cluster.offering(self._plan)}
        for disk, found in list(self._disks.items()):
            if found.node.id not in nodes:
                log.warning("disk %s is away with node %s", disk, found.node.name)
                if found.host is not None:
                    found.host.end()  # or Ray would keep its name for a node that never returns
                del self._disks[disk]
        there = {found.node.id for found in self._disks.values()}
        for id in list(self._refused):
            if id not in nodes:
                del self._refused[id]
        for node in nodes.values():
            if node.id not in there:
                self._find(node)
        self._take_newest()
        for found in self._disks.values():
            self._host(found)

    def _find(self, node: RayNode) -> None:
        try:
            disk = cluster.on_node(node.id, look, self._plan.path)
            held = disk.description
            if held is not None and held.name != self._name:
                raise UnsupportedFormat(
                    f"{disk.path} on {node.name} is a part of the deployed store {held.name!r}; "
                    f"give {self._name!r} a path of its own"
                )
            mine = self._description
            if held is not None and mine is not None and held.store_id != mine.store_id:
                raise UnsupportedFormat(
                    f"{disk.path} on {node.name} is a part of another store, {held.store_id}, not "
                    f"of {mine.store_id}"
                )
            twin = self._disks.get(disk.disk)
            if twin is not None:
                raise UnsupportedFormat(
                    f"{disk.path} on {node.name} holds the same disk as {twin.disk.path} on "
                    f"{twin.node.name}, or a copy of it; give each node a folder of its own"
                )
        except NeverforgetError as error:
            log.error("node %s cannot be used: %s", node.name, error)
            self._refused[node.id] = error.message
            return
        self._refused.pop(node.id, None)
        self._disks[disk.disk] = _Found(node, disk)

    def _take_newest(self) -> None:
        held = [f.disk.description for f in self._disks.values() if f.disk.description is not None]
        stores = sorted({each.store_id for each in held})
        self._conflict = None
        if len(stores) > 1:
            self._conflict = (
                f"the nodes have parts of {len(stores)} stores called {self._name} "
                f"({', '.join(stores)}); take those away that are not meant"
            )
            log.error(self._conflict)
            return
        newest = max(held, key=lambda each: each.version, default=None)
        if newest is None:
            return
        if self._description is None or newest.version > self._description.version:
            self._description = newest
            cluster.remember(self._name, msgspec.msgpack.encode(newest))

    def _host(self, found: _Found) -> None:
        """Have the part on this disk hosted, and ask how it is."""
        description = self._description
        if description is None or description.state != "made":
            return
        try:
            if found.disk.description != description:  # it was away while that changed
                self._describe(found, description)
            if found.disk.disk not in description.disks:
                return
            if found.host is None:
                name = f"{description.store_id}-{found.disk.disk[:8]}-host-{found.node.id[:12]}"
                name += f"-{description.version}"
                found.host = cluster.start_node_host(
                    name, found.node.id, found.disk.path, found.disk.disk, description.store_id
                )
            found.told = found.host.told(_ANSWER_S)
            if found.told.state == "serving" and found.told.version < description.version:
                self._end_host(found)
        except NotFound as error:
            log.warning("the host on %s: %s", found.node.name, error)
            found.host = found.told = None  # the next look starts another
        except NeverforgetError as error:
            log.warning("the host on %s: %s", found.node.name, error)
            found.told = None

    def _describe(self, found: _Found, description: Description) -> None:
        cluster.on_node(found.node.id, describe, found.disk.path, found.disk.disk, description)
        found.disk = msgspec.structs.replace(found.disk, description=description)

    def _end_host(self, found: _Found) -> None:
        host, found.host, found.told = found.host, None, None
        if host is not None:
            host.stop(_STOP_S)

    # ---- deploying -------------------------------------------------------------------------------

    def _deploy(self, plan: Plan, wait_s: float) -> Where:
        if plan.place != self._plan.place:
            raise InvalidArgument(
                f"{self._name} is deployed at {self._plan.path} where nodes offer "
                f"{self._plan.offer}; undeploy it before you deploy it elsewhere"
            )
        deadline = time.monotonic() + wait_s
        while True:
            with self._busy:
                self._look()
                if self._conflict is not None:
                    raise UnsupportedFormat(self._conflict)
                if self._description is None and len(self._disks) >= plan.nodes:
                    disks = sorted(self._disks)
                    self._description = described(plan, self._name, str(uuid.uuid4()), disks)
                if self._description is not None:
                    self._bring_about(self._description, plan)
                    cluster.remember(self._name, msgspec.msgpack.encode(self._description))
                    self._look()
            missing = self._missing(plan)
            if missing is None:
                return self._where()
            if time.monotonic() >= deadline:
                raise Unavailable(missing + self._and_refused(), outcome="unknown")
            time.sleep(0.1)

    def _bring_about(self, description: Description, plan: Plan) -> None:
        """What was begun is completed; then the host settings are those of the plan."""
        if description.state == "creating":
            away = [disk for disk in description.disks if disk not in self._disks]
            if away:
                return
            for found in self._disks.values():
                self._describe(found, description)
            made = msgspec.structs.replace(
                description, state="made", version=description.version + 1
            )
            for found in self._disks.values():
                self._describe(found, made)
            description = self._description = made
        self._description = updated(description, plan)

    def _missing(self, plan: Plan) -> str | None:
        """What hinders the store from serving everything, None: nothing."""
        description = self._description
        if description is None:
            return (
                f"{len(self._disks)} nodes offer {plan.offer} and a folder for the store; "
                f"{plan.nodes} are needed: start Ray with it on more nodes, or set nodes lower"
            )
        waiting = []
        for place in (*range(len(description.partitions)), LONGTERM):
            view = self._view(description, place)
            found = self._disks.get(description.disk_of(place))
            version = 0 if found is None or found.told is None else found.told.version
            if view.state == "recovering" or view.state == "away" or version < description.version:
                reason = None if found is None or found.told is None else found.told.reason
                waiting.append(f"{view.name} is {view.state}" + (f": {reason}" if reason else ""))
        return "; ".join(waiting) or None

    def _and_refused(self) -> str:
        return "".join(f"; {why}" for why in self._refused.values())

    def _undeploy(self) -> Where | None:
        self._ending.set()
        with self._busy:
            ending = [
                self._pool_end(found) for found in self._disks.values() if found.host is not None
            ]
            for thread in ending:
                thread.join()
        return None

    def _pool_end(self, found: _Found) -> threading.Thread:
        thread = threading.Thread(target=self._end_host, args=(found,), daemon=True)
        thread.start()
        return thread


def _told(ask: Callable[[], Any]) -> Answer:
    """As it travels: the answer, or what is wrong."""
    try:
        return msgspec.msgpack.encode(ask()), None
    except NeverforgetError as error:
        return b"", to_wire(error)
