"""The nodes of a deployed store as its keeper sees them: which has which disk, and who hosts it."""

from __future__ import annotations

import logging
import time

import msgspec
from msgspec.structs import replace

from neverforget.actors import ray_link
from neverforget.runtime import deployed_cluster as cluster
from neverforget.runtime import deployed_disk as disk_side
from neverforget.runtime.deployed_cluster import NodeHostHandle, RayNode
from neverforget.runtime.deployed_disk import Disk
from neverforget.runtime.deployment import Description, Plan, Told
from neverforget.runtime.moving import newest
from neverforget.runtime.node_looks import NodeLooks
from neverforget.storage.errors import (
    InvalidArgument,
    NeverforgetError,
    NotFound,
    Unavailable,
    UnsupportedFormat,
)

log = logging.getLogger(__name__)
_LOOK_S = 2.0  # so long a look waits for nodes that it did not know
_ANSWER_S = 5.0
_SILENT_S = 1.0  # where it did not answer the last time either
_STOP_S = 45.0


class Found:
    """A disk and the node that has it now. ``host``: of its part, where it has one."""

    def __init__(self, node: RayNode, disk: Disk) -> None:
        self.node = node
        self.disk = disk
        self.host: NodeHostHandle | None = None
        self.told: Told | None = None
        self.silent = False  # the host did not answer when last asked


class Disks:
    """Used by one thread at a time; others may read what is there. ``found``: by the ids of the
    disks, only those that are there. ``away``: since when the others are, by the monotonic clock.
    ``leaving``: disks whose nodes are being drained; their hosts end by themselves. ``left``: those
    whose hosts have done that; ``may_leave``: those of which only the last keeper knew.
    ``conflict``: why the disks cannot be those of one store.
    """

    def __init__(self, name: str, plan: Plan) -> None:
        self._name = name
        self._plan = plan
        self._key = f"{name}:{plan.path}"
        self.description: Description | None = None
        self.conflict: str | None = None
        self.found: dict[str, Found] = {}
        self.away: dict[str, float] = {}
        self.leaving: set[str] = set()
        self.left: set[str] = set()
        self.may_leave: set[str] = set()
        self._kept: set[str] | None = None
        self._refused: dict[str, str] = {}  # nodes that offer and cannot be used, and why
        self._looks = NodeLooks(lambda id: cluster.on_node(id, disk_side.look, plan.path))
        self._unheard: dict[str, str] = {}  # nodes that have not told yet what they have

    def and_refused(self) -> str:
        """For the end of an error."""
        silent = [f"{name} has not told yet which disk it has" for name in self._unheard.values()]
        return "".join(f"; {why}" for why in (*self._refused.values(), *silent))

    @property
    def all_heard(self) -> bool:
        """Every node that offers has told what it has, or that it cannot: none has a part that
        nobody knows of."""
        return not self._unheard

    def named(self, node: str) -> str:
        """The disk that is there on this node, given by its id, the beginning of that, or its name;
        or the disk of this id. InvalidArgument: there is none, or several."""

        def is_meant(disk: str, found: Found) -> bool:
            begins = len(node) >= 6 and found.node.id.startswith(node)
            return begins or node in (found.node.name, disk)

        matching = [disk for disk, found in self.found.items() if is_meant(disk, found)]
        if len(matching) == 1:
            return matching[0]
        there = ", ".join(f"{f.node.name} ({f.node.id})" for f in self.found.values())
        what = f"{len(matching)} nodes are called" if matching else "no node offers a disk under"
        raise InvalidArgument(
            f"{what} {node!r}; give a name, or six digits or more of an id: {there or 'none'}"
        )

    def take(self, description: Description) -> None:
        """It counts from now on; ``describe`` brings it to a disk."""
        self.description = description
        cluster.remember(self._key, msgspec.msgpack.encode(description))

    def look(self) -> None:
        """Once, at the nodes and at the hosts on them. Takes as long as those that do not
        answer."""
        draining = ray_link.draining()  # first: Unavailable, where the rest would wait for a head
        if self.description is None and (known := cluster.remembered(self._key)) is not None:
            self.description = msgspec.msgpack.decode(known, type=Description)
        nodes = {node.id: node for node in cluster.offering(self._plan)}
        for disk, found in list(self.found.items()):
            if found.node.id not in nodes:
                log.warning("disk %s is away with node %s", disk, found.node.name)
                if disk in self.leaving:  # the node ended together with its host
                    self.left.add(disk)
                if found.host is not None:
                    found.host.end()  # or Ray would keep its name for a node that never returns
                del self.found[disk]
        self.leaving = {disk for disk, found in self.found.items() if found.node.id in draining}
        there = {found.node.id for found in self.found.values()}
        self._keep_leaving()
        if not any(id in draining for id in nodes):
            self.left |= self.may_leave - self.found.keys()
            self.may_leave = set()
        for id in list(self._refused):
            if id not in nodes:
                del self._refused[id]
        self._find([n for n in nodes.values() if n.id not in there and n.id not in draining])
        self._take_newest()
        self._note_away()
        for found in self._in_order():
            if found.disk.disk in self.leaving:
                self._see_off(found)
            else:
                self._host(found)

    def _keep_leaving(self) -> None:
        """Known to the next keeper, too: this one may be on a node that is drained."""
        key = f"{self._key}:leaving"
        if self._kept is None:
            kept = cluster.remembered(key)
            self._kept = set() if kept is None else msgspec.msgpack.decode(kept, type=set[str])
            self.may_leave = set(self._kept)
        known = self.leaving | self.left | self.may_leave
        if known != self._kept:
            cluster.remember(key, msgspec.msgpack.encode(sorted(known)))
            self._kept = known

    def _note_away(self) -> None:
        needed = [] if self.description is None else self.description.disks
        now = time.monotonic()
        self.away = {d: self.away.get(d, now) for d in needed if d not in self.found}

    def _in_order(self) -> list[Found]:
        """Those first that have parts which were moved elsewhere: their owners end in order, with
        everything shipped, before the next ones start."""
        description = self.description
        if description is None:
            return []

        def keeps_its_parts(found: Found) -> bool:
            return set(found.disk.holds) <= set(description.places_of(found.disk.disk))

        return sorted(self.found.values(), key=keeps_its_parts)

    def _find(self, nodes: list[RayNode]) -> None:
        self._looks.ask([node.id for node in nodes], _LOOK_S)
        self._unheard = {}
        for node in nodes:
            try:
                disk = self._looks.answer(node.id)
                if disk is None:
                    self._unheard[node.id] = node.name
                    continue
                self._check(node, disk)
            except NeverforgetError as error:
                log.error("node %s cannot be used: %s", node.name, error)
                self._refused[node.id] = error.message
                continue
            self._refused.pop(node.id, None)
            self.found[disk.disk] = Found(node, disk)
            self.left.discard(disk.disk)
            self.may_leave.discard(disk.disk)

    def _check(self, node: RayNode, disk: Disk) -> None:
        """Raises UnsupportedFormat where it is none of this store's, or another node has it."""
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
        known = [] if self.description is None else [self.description]
        counts = newest([*known, *held])
        if counts is not None and counts != self.description:
            self.take(counts)

    def _host(self, found: Found) -> None:
        """Have the part on this disk hosted, and ask how it is."""
        description = self.description
        if description is None or description.state != "made":
            return
        try:
            name = f"{description.store_id}-{found.disk.disk[:8]}-host-{found.node.id[:12]}"
            found.host = found.host or cluster.running_node_host(name, found.node.id)
            if found.host is not None:
                # First: for a node that does not answer nobody waits any longer, a failover least.
                self._ask(found, found.host)
            if found.disk.description != description:  # it was away while that changed
                self.describe(found, description)
            if found.disk.disk not in description.disks:
                self.end_host(found)
                return
            parts = description.places_of(found.disk.disk)
            found.disk = replace(found.disk, holds=tuple({*found.disk.holds, *parts}))
            if found.host is None:
                found.host = cluster.start_node_host(
                    name, found.node.id, found.disk.path, found.disk.disk, description.store_id
                )
                self._ask(found, found.host)
            told = found.told
            if told is not None and told.state == "serving" and told.version < description.version:
                found.host.follow(_STOP_S)
                self._ask(found, found.host)
        except NotFound as error:
            log.warning("the host on %s: %s", found.node.name, error)
            found.host = found.told = None  # the next look starts another
        except NeverforgetError as error:
            log.warning("the host on %s: %s", found.node.name, error)
            found.told = None

    def _ask(self, found: Found, host: NodeHostHandle) -> None:
        found.told, wait_s = None, _SILENT_S if found.silent else _ANSWER_S
        found.silent = True
        found.told = host.told(wait_s)
        found.silent = False

    def _see_off(self, found: Found) -> None:
        """The host ends its owners and then itself, as soon as it sees that its node is drained."""
        try:
            if found.host is not None:
                found.told = found.host.told(_ANSWER_S)
                return
        except NotFound:
            log.warning("the host on %s has left", found.node.name)
        except NeverforgetError as error:
            log.warning("the host on %s: %s", found.node.name, error)
            return
        found.host = found.told = None
        del self.found[found.disk.disk]  # away, until a node has it that is not drained
        self.left.add(found.disk.disk)

    def describe(self, found: Found, description: Description) -> None:
        """Durable on that disk when it returns. Unavailable: perhaps; the disk is read again."""
        try:
            cluster.on_node(
                found.node.id, disk_side.describe, found.disk.path, found.disk.disk, description
            )
        except Unavailable:
            self.found.pop(found.disk.disk, None)
            raise
        found.disk = replace(found.disk, description=description)

    def end_host(self, found: Found) -> None:
        host, found.host, found.told = found.host, None, None
        if host is not None:
            host.stop(_STOP_S)
