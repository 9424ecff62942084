"""The keeper of a deployed store: knows where its parts are, has them hosted, tells clients.

An actor that may run, die and come back anywhere: what it must know, the description, stands on the
disks, and the highest version counts. Ray keeps a copy for as long as it lives, so that a store
whose disks are all away is not taken for one that was never made.

It looks at the cluster once a second. A node that offers what the plan wants is asked for the disk
that it has; where that disk holds a part of the store and has no host on that node, one is started.
A disk whose node is gone is away until a node has it again: its parts move only by a failover, see
``keeper_moves.py``. A disk that a second node has, too, stays where it was found first.

Regions are made in ``deploy``, before the store was complete for the first time, and by a failover,
from the replica.
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

from neverforget.actors import ray_link
from neverforget.actors.host_messages import HostReply, HostStatus, OwnerView
from neverforget.actors.messages import AnyReply, Failure, encoder, request_decoder
from neverforget.actors.places import LONGTERM, REFLECTOR
from neverforget.actors.ports import failure
from neverforget.runtime import deployed_cluster as cluster
from neverforget.runtime.deployed_replica import prepare_replica
from neverforget.runtime.deployment import Description, Plan, Where, described, updated, where_of
from neverforget.runtime.keeper_disks import Disks, Found
from neverforget.runtime.keeper_metrics import MEMORIES, KeeperMetrics
from neverforget.runtime.keeper_moves import Moves
from neverforget.runtime.leaving import must_leave
from neverforget.runtime.moving import check_movable, named, targets
from neverforget.storage.errors import (
    InvalidArgument,
    NeverforgetError,
    Unavailable,
    UnsupportedFormat,
    to_wire,
)

log = logging.getLogger(__name__)
_INTERVAL_S = 1.0
Answer = tuple[bytes, tuple[str, str, dict[str, Any]] | None]


class Keeper:
    """Made remote in ``deployed_cluster.py``. ``__init__`` never raises."""

    def __init__(self, name: str, plan: bytes) -> None:
        self._name = name
        self._plan = msgspec.msgpack.decode(plan, type=Plan)
        self._disks = Disks(name, self._plan)
        self._moves = Moves(self._disks)
        self._metrics = KeeperMetrics(name)
        self._started_us = time.time_ns() // 1000
        self._busy = threading.Lock()  # of what changes it
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

    async def failover(self, place: int, to: str | None, wait_s: float, before: int) -> Answer:
        """Have one part served from another disk; when it is. ``before``: the term that it had when
        this was asked for first."""
        work = lambda: _told(lambda: self._failover(place, to, wait_s, before))  # noqa: E731
        answer: Answer = await self._in_pool(work)
        return answer

    async def undeploy(self) -> Answer:
        """End every owner and host in order; the data stays. Start nobody any more."""
        answer: Answer = await self._in_pool(lambda: _told(self._undeploy))
        return answer

    async def _in_pool(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _where(self) -> Where:
        description = self._disks.description
        if description is None or description.state != "made":
            raise Unavailable(
                self._disks.conflict
                or f"none of the {len(self._disks.found)} nodes that offer {self._plan.offer} has "
                f"a part of {self._name}"
                + self._disks.and_refused(),
                outcome="not_applied",
            )
        found = dict(self._disks.found)
        nodes = {disk: (each.node.id, each.node.name) for disk, each in found.items()}
        told = [each.told for each in found.values() if each.told is not None]
        return where_of(description, nodes, told)

    def _status(self, id: int) -> HostReply:
        owners = []
        description = self._disks.description
        if description is not None:
            places = [*range(len(description.partitions)), LONGTERM, REFLECTOR]
            owners = [self._view(description, place) for place in places]
        address = cluster.gcs_address()
        findings = tuple(self._moves.findings)
        return HostReply(
            id,
            os.getpid(),
            "keeper",
            self._started_us,
            0,
            None,
            address,
            owners,
            findings=findings,
        )

    def _view(self, description: Description, place: int) -> OwnerView:
        name = description.owner(place)
        found = self._disks.found.get(description.disk_of(place))
        if found is None:
            return OwnerView(name, 0, "", "away", 0, "")
        if found.disk.disk in self._disks.leaving:
            return OwnerView(name, 0, found.node.name, "draining", 0, "")
        view = None if found.told is None else found.told.owners.get(place)
        if view is None:
            return OwnerView(name, 0, found.node.name, "recovering", 0, "")
        return msgspec.structs.replace(view, name=name, node=found.node.name)

    def _states(self) -> list[tuple[str, str]]:
        description = self._disks.description
        if description is None or description.state != "made":
            return []
        places = {str(n): n for n in range(len(description.partitions))} | {MEMORIES: LONGTERM}
        return [(name, self._view(description, place).state) for name, place in places.items()]

    # ---- looking ---------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                with self._busy:
                    if not self._ending.is_set():
                        self._disks.look()
                        self._moves.go_on()
                        self._metrics.publish(self._states())
                        self._leave_drained_node()
            except Unavailable as error:
                log.warning("the nodes cannot be looked at: %s", error)
            except Exception:
                log.exception("looking at the nodes failed")
            self._first_look.set()
            self._ending.wait(_INTERVAL_S)

    def _leave_drained_node(self) -> None:
        """Ray starts it again on another; where hosts end on this one, it is there until then."""
        mine = ray_link.node_id()
        hosts = [found for found in self._disks.found.values() if found.node.id == mine]
        if not hosts and must_leave() is not None:
            log.warning("leaving this node")
            os._exit(1)

    # ---- deploying -------------------------------------------------------------------------------

    def _deploy(self, plan: Plan, wait_s: float) -> Where:
        with self._busy:
            self._disks.look()
            if self._disks.description is None:  # whatever was asked for before came to nothing
                self._plan, self._disks = plan, Disks(self._name, plan)
                self._moves = Moves(self._disks)
        if plan.place != self._plan.place:
            raise InvalidArgument(
                f"{self._name} is deployed at {self._plan.path} where nodes offer "
                f"{self._plan.offer}; undeploy it before you deploy it elsewhere"
            )
        deadline = time.monotonic() + wait_s
        while True:
            with self._busy:
                self._disks.look()
                if self._disks.conflict is not None:
                    raise UnsupportedFormat(self._disks.conflict)
                enough = len(self._disks.found) >= plan.nodes and self._disks.all_heard
                if self._disks.description is None and enough:
                    disks = sorted(self._disks.found)
                    store_id = str(uuid.uuid4())
                    self._disks.take(described(plan, self._name, store_id, disks))
                if self._disks.description is not None:
                    self._bring_about(self._disks.description, plan)
                    self._disks.look()
            missing = self._missing(plan)
            if missing is None:
                return self._where()
            if time.monotonic() >= deadline:
                raise Unavailable(missing + self._disks.and_refused(), outcome="unknown")
            time.sleep(0.1)

    def _bring_about(self, description: Description, plan: Plan) -> None:
        """What was begun is completed; then the host settings are those of the plan."""
        before, description = description, updated(description, plan)
        self._prepare_replica(before, description)
        if description.state == "creating":
            away = [disk for disk in description.disks if disk not in self._disks.found]
            if away:
                return
            for found in self._disks.found.values():
                self._disks.describe(found, description)
            made = msgspec.structs.replace(
                description, state="made", version=description.version + 1
            )
            for found in self._disks.found.values():
                self._disks.describe(found, made)
            description = made
        if description != self._disks.description:
            self._disks.take(description)

    def _prepare_replica(self, before: Description, after: Description) -> None:
        had = None if before.state == "creating" else before.config.replica
        if after.config.replica in (None, had):
            return
        for found in self._disks.found.values():
            cluster.on_node(found.node.id, prepare_replica, found.disk.path, had, after)
            return

    def _missing(self, plan: Plan) -> str | None:
        """What hinders the store from serving everything, None: nothing."""
        description = self._disks.description
        if description is None:
            return (
                f"{len(self._disks.found)} nodes offer {plan.offer} and a folder for the store; "
                f"{plan.nodes} are needed: start Ray with it on more nodes, or set nodes lower"
            )
        waiting = []
        for place in (*range(len(description.partitions)), LONGTERM):
            view = self._view(description, place)
            found = self._disks.found.get(description.disk_of(place))
            version = 0 if found is None or found.told is None else found.told.version
            if view.state in ("recovering", "away", "draining") or version < description.version:
                reason = None if found is None or found.told is None else found.told.reason
                waiting.append(f"{view.name} is {view.state}" + (f": {reason}" if reason else ""))
        return "; ".join(waiting) or None

    # ---- moving ----------------------------------------------------------------------------------

    def _failover(self, place: int, to: str | None, wait_s: float, before: int) -> None:
        deadline = time.monotonic() + wait_s
        with self._busy:
            self._disks.look()
            description = self._where().description
            check_movable(description, place)
            if description.moved.get(place, 0) <= before:  # else it was told that already
                there = set(self._disks.found) - self._disks.leaving
                named_disk = None if to is None else {place: self._disks.named(to)}
                self._moves.move(named_disk or targets(description, [place], there))
                self._disks.look()
        while (waits_for := self._unserved(place)) is not None:
            if time.monotonic() >= deadline:
                raise Unavailable(
                    f"{named(place)} was moved and does not serve yet: {waits_for}; that goes on "
                    "by itself, see status",
                    outcome="unknown",
                )
            time.sleep(0.1)

    def _unserved(self, place: int) -> str | None:
        """Why a part does not serve by the newest description; None: it does. Unavailable: it will
        not by itself."""
        description = self._disks.description
        assert description is not None, "it was moved"
        view = self._view(description, place)
        found = self._disks.found.get(description.disk_of(place))
        told = None if found is None else found.told
        if told is None or told.version < description.version:
            return f"its new disk is {view.state}" + (f": {told.reason}" if told else "")
        if view.state == "quarantined":
            raise Unavailable(f"{view.name} is quarantined: {view.reason}", outcome="unknown")
        return None if view.state == "serving" else f"{view.name} is {view.state}: {view.reason}"

    def _undeploy(self) -> Where | None:
        self._ending.set()
        with self._busy:
            hosted = [found for found in self._disks.found.values() if found.host is not None]
            ending = [self._begin_end(found) for found in hosted]
            for thread in ending:
                thread.join()
        return None

    def _begin_end(self, found: Found) -> threading.Thread:
        thread = threading.Thread(target=self._disks.end_host, args=(found,), daemon=True)
        thread.start()
        return thread


def _told(ask: Callable[[], Any]) -> Answer:
    """As it travels: the answer, or what is wrong."""
    try:
        return msgspec.msgpack.encode(ask()), None
    except NeverforgetError as error:
        return b"", to_wire(error)
