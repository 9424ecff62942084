"""The part of a deployed store on one node while a node host has it: its owners, from LOCK to LOCK.

Which parts these are follows from the description on the disk. When that changes, ``follow`` ends
the owners of parts that were moved away, in order, and starts those of parts that came; the others
are left alone. Only changed settings need all of them to start anew.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from neverforget.actors.descriptor_limit import raise_descriptor_limit
from neverforget.actors.places import LONGTERM, REFLECTOR
from neverforget.actors.process_end import terminate
from neverforget.runtime.config import HOST, Config, effective
from neverforget.runtime.deployed_channel import DeployedChannel
from neverforget.runtime.deployed_disk import check_part
from neverforget.runtime.deployment import Description, Where
from neverforget.runtime.endpoint import Endpoint, leave_socket_folder, socket_folder
from neverforget.runtime.late_owners import LateOwners
from neverforget.runtime.owner_specs import OwnerSpecs
from neverforget.runtime.store_directory import StoreDirectory
from neverforget.runtime.store_path import typed_errors
from neverforget.runtime.stored_settings import read_stored
from neverforget.runtime.watchdog import HealthOptions, Owner, Watchdog
from neverforget.storage.directory_lock import DirectoryLock, boot_id, this_process

if TYPE_CHECKING:
    from neverforget.runtime.cluster import Cluster

log = logging.getLogger(__name__)
_TERMINATE_S = 8.0


class NodePart:
    """Raises what hinders it, with nothing held. Used by one thread; ``owners`` and ``sockets``, by
    the number of the place, and ``version`` may be read by others."""

    def __init__(
        self,
        path: Path,
        disk: str,
        store_id: str,
        on_lost: Callable[[str], None],
        health: HealthOptions | None,
    ) -> None:
        self._path, self._disk = path, disk
        self.sockets: dict[int, str] = {}
        self.owners: dict[int, Owner] = {}
        self._watchdog: Watchdog | None = None
        self._late: LateOwners | None = None
        self._folder: Path | None = None
        self._terms: dict[int, int] = {}
        raise_descriptor_limit()
        with typed_errors(path):
            self._lock = DirectoryLock.acquire(path, role="serve")
        try:
            with typed_errors(path):
                description = check_part(path, disk, store_id)
                self._store = StoreDirectory(path, store_id, _config(path, description))
                self._folder = socket_folder(path, store_id)
            self._join(on_lost, health)
            self._go_by(description)
        except BaseException:
            self.close()
            raise

    def _join(self, on_lost: Callable[[str], None], health: HealthOptions | None) -> None:
        from neverforget.runtime.cluster import Cluster

        self._cluster: Cluster = Cluster.join_deployed()
        self._watchdog = Watchdog([], self._cluster, on_lost, health, self._lock.displaced)
        self._watchdog.start()

    def follow(self) -> bool:
        """Go by the description that stands on the disk now. False: all of it must start anew."""
        with typed_errors(self._path):
            description = check_part(self._path, self._disk, self._store.store_id)
        if description.started != self._description.started:
            return False
        self._go_by(description)
        return True

    def _go_by(self, description: Description) -> None:
        """``version`` is that of ``description`` when nobody is left whom it moved away."""
        terms = {p: description.moved.get(p, 0) for p in description.places_of(self._disk)}
        for place, term in list(self._terms.items()):
            if terms.get(place) != term:
                self._end(place)
        self._description = description
        specs = OwnerSpecs(
            self._store,
            this_process(),
            self._folder,
            place=self._disk[:8],
            name=description.name,
            terms=description.moved,
        )
        for place, term in terms.items():
            if place not in self._terms:
                self._start(place, specs)
                self._terms[place] = term
        self.version = description.version

    # ---- starting --------------------------------------------------------------------------------

    def _start(self, place: int, specs: OwnerSpecs) -> None:
        assert self._watchdog is not None
        if place == LONGTERM:
            self._start_longterm(specs)
            return
        spec = specs.partition(place)
        spawn = partial(self._cluster.spawn, spec)
        owner = Owner(spec, spawn(), spawn)
        self.owners[place], self.sockets[place] = owner, spec.socket
        self._watchdog.watch(owner)

    def _start_longterm(self, specs: OwnerSpecs) -> None:
        """At once, and the reflector, too: where others ask, no bell hangs."""
        assert self._watchdog is not None
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
        connect = partial(DeployedChannel, Where(description=self._description))
        config, watch = self._store.config, self._watchdog.watch
        self._late = late = LateOwners(specs, self._cluster, config, watch, connect)
        late.begin(endpoint, longterm_now=True, reflector_now=True)
        for owner in self._watchdog.owners:
            if owner.spec.name == endpoint.longterm_actor:
                self.owners[LONGTERM] = owner
                self.sockets[LONGTERM] = endpoint.longterm
        if late.reflector is not None:
            self.owners[REFLECTOR] = late.reflector
            self.sockets[REFLECTOR] = endpoint.reflector

    # ---- ending ----------------------------------------------------------------------------------

    def _end(self, place: int) -> None:
        """In order, as far as its owner lets that happen: what it acknowledged is shipped then."""
        log.info("%s: place %d is moved elsewhere", self._path, place)
        del self._terms[place]
        owner = self.owners.pop(place, None)
        self.sockets.pop(place, None)
        if place == LONGTERM:
            self._let_end(self._leave_longterm())
        elif owner is not None:
            self._let_end([owner])

    def _leave_longterm(self) -> list[Owner]:
        """The reflector ends first, while those are there that it works with. Who else is to end:
        all that are no partition's."""
        assert self._late is not None and self._watchdog is not None
        self._late.close()
        reflector, self._late = self._late.reflector, None
        self.owners.pop(REFLECTOR, None)
        self.sockets.pop(REFLECTOR, None)
        if reflector is not None:
            self._watchdog.leave(reflector)
            self._cluster.stop([reflector.handle])
        partitions = list(self.owners.values())
        return [owner for owner in self._watchdog.owners if owner not in partitions]

    def _let_end(self, owners: Sequence[Owner]) -> None:
        """One that was never greeted may hang, and has acknowledged nothing."""
        assert self._watchdog is not None
        for owner in owners:
            self._watchdog.leave(owner)
        known = [owner for owner in owners if owner.process is not None]
        self._cluster.end([owner.handle for owner in owners if owner.process is None])
        for name in self._cluster.stop([owner.handle for owner in known]):
            log.warning("%s did not end in order; it will be recovered", name)

    def _end_without_ray(self, owners: Sequence[Owner]) -> None:
        """In order, too: they take SIGTERM so."""
        if self._late is not None:
            self._late.close()
        known = [owner.process for owner in owners if owner.process is not None]
        for process in terminate(known, _TERMINATE_S):
            log.warning("process %d did not end in order; it will be recovered", process.pid)

    def close(self) -> None:
        """End everything in order, unless Ray is gone; give the folder back."""
        try:
            if self._watchdog is not None:
                self._end_all(self._watchdog)
            if self._folder is not None:
                leave_socket_folder(self._path, self._folder)
        finally:  # whoever of them is left has its region's lock
            self._lock.release()

    def _end_all(self, watchdog: Watchdog) -> None:
        watchdog.stop()
        if self._cluster.headless():
            self._end_without_ray(watchdog.owners)
        elif self._cluster.lost() is None:
            if self._late is not None:
                self._leave_longterm()
            self._let_end(watchdog.owners)
        elif self._late is not None:
            self._late.close()


def _config(path: Path, description: Description) -> Config:
    """Host settings from the description, fixed ones from the folder: reindex may have changed the
    embedder. Where the memories were never here, it is the one of the description."""
    hosted = {name: value for name, value in description.settings.items() if name in HOST}
    stored = {"embedder": description.config.embedder_name, **read_stored(path)}
    return effective(Config(**hosted), stored)
