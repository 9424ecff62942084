"""The nodes of a deployed store as its keeper sees them: which has which disk, and who hosts it."""

from __future__ import annotations

import logging

import msgspec

from neverforget.runtime import deployed_cluster as cluster
from neverforget.runtime import deployed_disk as disk_side
from neverforget.runtime.deployed_cluster import NodeHostHandle, RayNode
from neverforget.runtime.deployed_disk import Disk
from neverforget.runtime.deployment import Description, Plan, Told
from neverforget.storage.errors import NeverforgetError, NotFound, UnsupportedFormat

log = logging.getLogger(__name__)
_ANSWER_S = 5.0
_STOP_S = 45.0


class Found:
    """A disk and the node that has it now. ``host``: of its part, where it has one."""

    def __init__(self, node: RayNode, disk: Disk) -> None:
        self.node = node
        self.disk = disk
        self.host: NodeHostHandle | None = None
        self.told: Told | None = None


class Disks:
    """Used by one thread at a time; others may read what is there. ``found``: by the ids of the
    disks, only those that are there. ``conflict``: why they cannot be those of one store.
    """

    def __init__(self, name: str, plan: Plan) -> None:
        self._name = name
        self._plan = plan
        self._key = f"{name}:{plan.path}"
        self.description: Description | None = None
        self.conflict: str | None = None
        self.found: dict[str, Found] = {}
        self._refused: dict[str, str] = {}  # nodes that offer and cannot be used, and why

    def and_refused(self) -> str:
        """For the end of an error."""
        return "".join(f"; {why}" for why in self._refused.values())

    def take(self, description: Description) -> None:
        """It counts from now on; ``describe`` brings it to a disk."""
        self.description = description
        cluster.remember(self._key, msgspec.msgpack.encode(description))

    def look(self) -> None:
        """Once, at the nodes and at the hosts on them. Takes as long as those that do not
        answer."""
        if self.description is None and (known := cluster.remembered(self._key)) is not None:
            self.description = msgspec.msgpack.decode(known, type=Description)
        nodes = {node.id: node for node in cluster.offering(self._plan)}
        for disk, found in list(self.found.items()):
            if found.node.id not in nodes:
                log.warning("disk %s is away with node %s", disk, found.node.name)
                if found.host is not None:
                    found.host.end()  # or Ray would keep its name for a node that never returns
                del self.found[disk]
        there = {found.node.id for found in self.found.values()}
        for id in list(self._refused):
            if id not in nodes:
                del self._refused[id]
        for node in nodes.values():
            if node.id not in there:
                self._find(node)
        self._take_newest()
        for found in self.found.values():
            self._host(found)

    def _find(self, node: RayNode) -> None:
        try:
            disk = cluster.on_node(node.id, disk_side.look, self._plan.path)
            held = disk.description
            if held is not None and held.name != self._name:
                raise UnsupportedFormat(
                    f"{disk.path} on {node.name} is a part of the deployed store {held.name!r}; "
                    f"give {self._name!r} a path of its own"
                )
            mine = self.description
            if held is not None and mine is not None and held.store_id != mine.store_id:
                raise UnsupportedFormat(
                    f"{disk.path} on {node.name} is a part of another store, {held.store_id}, not "
                    f"of {mine.store_id}"
                )
            twin = self.found.get(disk.disk)
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
        self.found[disk.disk] = Found(node, disk)

    def _take_newest(self) -> None:
        held = [f.disk.description for f in self.found.values() if f.disk.description is not None]
        stores = sorted({each.store_id for each in held})
        self.conflict = None
        if len(stores) > 1:
            self.conflict = (
                f"the nodes have parts of {len(stores)} stores called {self._name} "
                f"({', '.join(stores)}); take those away that are not meant"
            )
            log.error(self.conflict)
            return
        newest = max(held, key=lambda each: each.version, default=None)
        if newest is None:
            return
        if self.description is None or newest.version > self.description.version:
            self.take(newest)

    def _host(self, found: Found) -> None:
        """Have the part on this disk hosted, and ask how it is."""
        description = self.description
        if description is None or description.state != "made":
            return
        try:
            if found.disk.description != description:  # it was away while that changed
                self.describe(found, description)
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
                self.end_host(found)
        except NotFound as error:
            log.warning("the host on %s: %s", found.node.name, error)
            found.host = found.told = None  # the next look starts another
        except NeverforgetError as error:
            log.warning("the host on %s: %s", found.node.name, error)
            found.told = None

    def describe(self, found: Found, description: Description) -> None:
        cluster.on_node(
            found.node.id, disk_side.describe, found.disk.path, found.disk.disk, description
        )
        found.disk = msgspec.structs.replace(found.disk, description=description)

    def end_host(self, found: Found) -> None:
        host, found.host, found.told = found.host, None, None
        if host is not None:
            host.stop(_STOP_S)
