"""The host of a deployed store's part on one node: what ``host.py`` is for a store on one machine.

It holds the LOCK of the node's folder, keeps the owners of what lies there running, and tells where
their sockets are. An actor of its own, pinned to its node: when the node comes back, as another
node of Ray's, the keeper makes the next one there. Its owners end with it, so that whoever has the
LOCK is the only one that writes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from neverforget.actors.descriptor_limit import raise_descriptor_limit
from neverforget.actors.places import LONGTERM, REFLECTOR
from neverforget.runtime.config import HOST, Config, effective
from neverforget.runtime.deployed_channel import DeployedChannel
from neverforget.runtime.deployed_disk import check_part
from neverforget.runtime.deployment import Description, Told, Where
from neverforget.runtime.endpoint import Endpoint, leave_socket_folder, socket_folder
from neverforget.runtime.late_owners import LateOwners
from neverforget.runtime.owner_specs import OwnerSpecs
from neverforget.runtime.store_directory import StoreDirectory
from neverforget.runtime.store_path import typed_errors
from neverforget.runtime.stored_settings import read_stored
from neverforget.runtime.watchdog import HealthOptions, Owner, Watchdog
from neverforget.storage.directory_lock import DirectoryLock, boot_id, this_process
from neverforget.storage.errors import NeverforgetError

if TYPE_CHECKING:
    from neverforget.runtime.cluster import Cluster

log = logging.getLogger(__name__)
_RETRY_S_MIN, _RETRY_S_MAX = 0.2, 5.0


class NodeHost:
    """Made remote in ``deployed_cluster.py``. ``__init__`` never raises: Ray would give it up for
    good. What is wrong shows in ``describe``, and is tried again."""

    def __init__(
        self, path: str, disk: str, store_id: str, health: HealthOptions | None = None
    ) -> None:
        self._path, self._disk, self._store_id = Path(path), disk, store_id
        self._health = health
        self._state = "starting"
        self._reason: str | None = None
        self._part: _Part | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="node-host", daemon=True)
        self._thread.start()

    async def describe(self) -> bytes:
        """``Told``, as msgpack."""
        part, reason = self._part, self._reason
        if part is None:
            return msgspec.msgpack.encode(Told(self._disk, self._state, reason, 0, {}, {}))
        owners = {place: owner.view() for place, owner in part.owners.items()}
        return msgspec.msgpack.encode(
            Told(self._disk, self._state, reason, part.version, owners, part.sockets)
        )

    async def stop(self) -> None:
        """End the owners in order, give the folder back."""
        self._ending.set()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _run(self) -> None:
        pause_s = _RETRY_S_MIN
        while not self._ending.is_set():
            try:
                part = _Part(self._path, self._disk, self._store_id, self._lost, self._health)
            except Exception as error:
                known = isinstance(error, NeverforgetError | OSError)
                log.error("the part in %s: %s", self._path, error, exc_info=not known)
                self._state, self._reason = "failing", str(error)
                self._ending.wait(pause_s)
                pause_s = min(2 * pause_s, _RETRY_S_MAX)
                continue
            pause_s = _RETRY_S_MIN
            self._part, self._state, self._reason = part, "serving", None
            part.wait(self._ending)
            self._part, self._state = None, "starting"
            part.close()
        self._state = "ended"

    def _lost(self, why: str) -> None:
        log.error("%s: %s", self._path, why)
        if self._part is not None:
            self._part.lost.set()


class _Part:
    """The owners on this node, from LOCK to LOCK. Raises what hinders it, with nothing held."""

    def __init__(
        self, path: Path, disk: str, store_id: str, on_lost: Any, health: HealthOptions | None
    ) -> None:
        self.lost = threading.Event()
        self.sockets: dict[int, str] = {}
        self.owners: dict[int, Owner] = {}
        raise_descriptor_limit()
        with typed_errors(path):
            self._lock = DirectoryLock.acquire(path, role="serve")
        try:
            with typed_errors(path):
                description = check_part(path, disk, store_id)
                self.version = description.version
                self._store = StoreDirectory(path, store_id, _config(path, description))
                self._folder = socket_folder(path, store_id)
            self._start(description, disk, on_lost, health)
        except BaseException:
            self.close()
            raise

    def _start(
        self, description: Description, disk: str, on_lost: Any, health: HealthOptions | None
    ) -> None:
        from neverforget.runtime.cluster import Cluster

        self._cluster: Cluster = Cluster.join_deployed()
        store, process = self._store, this_process()
        specs = OwnerSpecs(store, process, self._folder, place=disk[:8], name=description.name)
        watched: list[Owner] = []
        connect = partial(DeployedChannel, Where(description=description))
        self._late = LateOwners(specs, self._cluster, store.config, watched.append, connect)
        for partition, where in enumerate(description.partitions):
            if where == disk:
                spec = specs.partition(partition)
                spawn = partial(self._cluster.spawn, spec)
                owner = Owner(spec, spawn(), spawn)
                self.owners[partition] = owner
                self.sockets[partition] = spec.socket
                watched.append(owner)
        self._watchdog = Watchdog(watched, self._cluster, on_lost, health, self._lock.displaced)
        if description.longterm == disk:
            self._start_longterm(specs, watched)
        self._watchdog.start()

    def _start_longterm(self, specs: OwnerSpecs, watched: list[Owner]) -> None:
        """At once, and the reflector, too: where others ask, no bell hangs."""
        endpoint = Endpoint(
            store_id=self._store.store_id,
            kind="serve",
            process=this_process(),
            boot=boot_id(),
            node=os.uname().nodename,
            started_at=time.time_ns() // 1000,
            longterm=specs.longterm().socket,
            longterm_actor=specs.longterm().name,
            embedders=specs.embedder_sockets(),
            reflector=specs.reflector_socket(),
        )
        self._late.begin(endpoint, longterm_now=True, reflector_now=True)
        for owner in watched:
            if owner.spec.name == endpoint.longterm_actor:
                self.owners[LONGTERM] = owner
                self.sockets[LONGTERM] = endpoint.longterm
        if (reflector := self._late.reflector) is not None:
            self.owners[REFLECTOR] = reflector
            self.sockets[REFLECTOR] = endpoint.reflector

    def wait(self, ending: threading.Event) -> None:
        """Until the folder or Ray is lost, or the host is to end."""
        while not ending.wait(0.1):
            if self.lost.is_set():
                return

    def close(self) -> None:
        if hasattr(self, "_late"):
            self._late.close()
        if hasattr(self, "_watchdog"):
            self._watchdog.stop()
            if self._cluster.lost() is None:
                self._end_owners()
        if hasattr(self, "_folder"):
            leave_socket_folder(self._store.path, self._folder)
        self._lock.release()

    def _end_owners(self) -> None:
        owners = self._watchdog.owners
        if (reflector := self._late.reflector) is not None:
            self._cluster.stop([reflector.handle])  # while those are there that it works with
            owners.remove(reflector)
        known = [owner for owner in owners if owner.process is not None]
        self._cluster.end([owner.handle for owner in owners if owner.process is None])
        for name in self._cluster.stop([owner.handle for owner in known]):
            log.warning("%s did not end in order; it will be recovered", name)


def _config(path: Path, description: Description) -> Config:
    """Host settings from the description, fixed ones from the folder: reindex may have changed the
    embedder."""
    hosted = {name: value for name, value in description.settings.items() if name in HOST}
    return effective(Config(**hosted), read_stored(path))
