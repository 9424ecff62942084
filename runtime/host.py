"""The host of a store: holds its LOCK, keeps its owners running, publishes where they are.

Order of coming up: LOCK, identity (or creation), Ray, partitions, control socket, ENDPOINT. The
owner of the long-term store, its embedders and the reflector are started when somebody needs them,
which who only talks for a short while never does: at their sockets hang bells until then. Order of
going: ENDPOINT removed, bells, watchdog, reflector, owners (drained, sealed, stopped), embedders,
control socket, LOCK, Ray. Nothing that was acknowledged depends on the second list ever running.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from neverforget.actors.descriptor_limit import raise_descriptor_limit
from neverforget.actors.owner_spec import OwnerSpec
from neverforget.actors.server import SocketServer
from neverforget.runtime.channel import closed
from neverforget.runtime.config import Config, host_settings
from neverforget.runtime.control import HostService
from neverforget.runtime.endpoint import (
    HOST_SOCKET,
    Endpoint,
    leave_socket_folder,
    remove_endpoint,
    socket_folder,
    write_endpoint,
)
from neverforget.runtime.late_owners import LateOwners
from neverforget.runtime.owner_specs import OwnerSpecs
from neverforget.runtime.process_environment import prepare_for_ray
from neverforget.runtime.start_report import StartReport
from neverforget.runtime.store_directory import (
    StoreDirectory,
    has_records,
    make_directory,
    prepare,
)
from neverforget.runtime.store_path import real_path, typed_errors
from neverforget.runtime.watchdog import HealthOptions, Owner, Watchdog
from neverforget.storage.directory_lock import DirectoryLock, boot_id, this_process
from neverforget.storage.filesystem import LocalFileSystem

if TYPE_CHECKING:
    from neverforget.actors.handles import OwnerHandle
    from neverforget.runtime.cluster import Cluster

log = logging.getLogger(__name__)
_OWNER_START_S = 60.0


class Host:
    """Make it with ``start``. ``close`` is for any thread, and idempotent."""

    def __init__(
        self,
        store: StoreDirectory,
        lock: DirectoryLock,
        cluster: Cluster,
        *,
        linger_s: float | None,
        on_end: Callable[[str | None], None],
        health: HealthOptions | None,
    ) -> None:
        self.store = store
        self.endpoint: Endpoint
        self._lock = lock
        self._cluster = cluster
        self._on_end = on_end
        self._process = this_process()
        self._closing = threading.Lock()
        self._closed = False
        self._server: SocketServer | None = None
        self._folder = socket_folder(store.path, store.store_id)
        self._specs = OwnerSpecs(store, self._process, self._folder)
        self._partitions = [self._owner(n) for n in range(store.config.partitions)]
        owners = list(self._partitions)
        self._late = LateOwners(self._specs, cluster, store.config, owners.append)
        self._watchdog = Watchdog(
            owners, cluster, self._on_end, health, self._lost_store, self._late.reflect
        )
        self._service = HostService(
            store.store_id,
            role=lock.holder.role,
            ray_address=cluster.address,
            owners=lambda: [owner.view() for owner in list(owners)],
            linger_s=linger_s,
            on_idle=lambda: self._on_end(None),
            metrics_port=cluster.metrics_port,
        )

    @classmethod
    def start(
        cls,
        path: Path,
        asked: Config,
        *,
        role: Literal["serve", "application"],
        linger_s: float | None = None,
        on_end: Callable[[str | None], None] = lambda why: None,
        create: bool = True,
        store_id: str | None = None,
        health: HealthOptions | None = None,
    ) -> Host:
        """Host the store at ``path``, which is made if nothing is there.

        ``on_end(why)`` is called, on a thread of the host's, when it should be closed: nobody has
        needed it for ``linger_s`` (None), or its Ray or its directory is lost. Raises StoreLocked,
        what ``prepare`` raises, and Unavailable when Ray or the owners do not start.
        """
        with typed_errors(path):
            make_directory(path, create=create)
            lock = DirectoryLock.acquire(path, role=role)
        cluster: Cluster | None = None
        host: Host | None = None
        try:
            with typed_errors(path):
                store = prepare(LocalFileSystem(), path, asked, create=create, store_id=store_id)
            cluster = _cluster(store, role)
            host = cls(store, lock, cluster, linger_s=linger_s, on_end=on_end, health=health)
            host._come_up()
        except BaseException:
            if host is not None:
                host.close()
            else:
                lock.release()
                if cluster is not None:
                    cluster.close()
            raise
        return host

    def close(self) -> None:
        """Drain, seal and stop the owners, give the store back. Ray ends only if it is ours."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            if not self.displaced:  # what stands there now is somebody else's
                remove_endpoint(self.store.path, self._process)
            self._late.close()
            self._watchdog.stop()
            # Without its Ray there is nobody to tell, and asking would make Ray start a new one.
            if self._cluster.lost() is None:
                self._end_owners()
            if self._server is not None:
                self._server.stop()
            leave_socket_folder(self.store.path, self._folder)
            self._lock.release()
            self._cluster.close()

    @property
    def displaced(self) -> bool:
        """The directory of the store was deleted, renamed or replaced."""
        return self._lock.displaced() is not None

    def _lost_store(self) -> str | None:
        why = self._lock.displaced()
        return why and f"{why}; turns acknowledged since then may be lost with it"

    def lend_embedder(self, embedder: Any) -> str:
        """Have the pool embed with this object, too; the name of its setting. Calls under way are
        asked again."""
        with self._closing:
            if self._closed:
                raise closed()
            return self._late.lend(embedder)

    def _end_owners(self) -> None:
        if (reflector := self._late.reflector) is not None:
            # First, and while those are there that it works with.
            self._cluster.stop([reflector.handle])
            self._watchdog.owners.remove(reflector)
        # One that was never seen has nothing to seal; to tell it would be to wait for its start.
        known = [o for o in self._watchdog.owners if o.process is not None]
        self._cluster.end([o.handle for o in self._watchdog.owners if o.process is None])
        # The long-term owner gives its embedders up by itself: they may go with it.
        for name in self._cluster.stop([owner.handle for owner in known]):
            log.warning("%s did not end in order; it will be recovered", name)

    def _come_up(self) -> None:
        for owner in self._partitions:
            told = owner.handle.describe(_OWNER_START_S)
            if told["state"] not in ("serving", "recovering"):
                log.error("%s is %s: %s", owner.handle.name, told["state"], told["reason"])
            self._watchdog.check(owner)
        self._server = SocketServer(
            self._folder / HOST_SOCKET, self._service, store_id=self.store.store_id
        )
        self._server.start("host")
        self.endpoint = Endpoint(
            store_id=self.store.store_id,
            kind="serve" if self._lock.holder.role == "serve" else "application",
            process=self._process,
            boot=boot_id(),
            node=os.uname().nodename,
            started_at=time.time_ns() // 1000,
            control=str(self._server.path),
            sockets=tuple(owner.spec.socket for owner in self._partitions),
            actors=tuple(owner.handle.name for owner in self._partitions),
            longterm=self._specs.longterm().socket,
            longterm_actor=self._specs.longterm().name,
            embedders=self._specs.embedder_sockets(),
            reflector=self._specs.reflector_socket(),
            reflector_actor=self._specs.reflector().name,
            ray_address=self._cluster.address,
            ray_namespace=self._cluster.namespace,
            settings=host_settings(self.store.config),
        )
        # Callers on other nodes find the long-term owner by its name in Ray, where no bell hangs;
        # and memories may wait for their vectors.
        role = self._lock.holder.role
        needed = role == "application" or has_records(self.store.longterm)
        self._late.begin(self.endpoint, longterm_now=needed)
        write_endpoint(self.store.path, self.endpoint)
        self._watchdog.start()

    def _owner(self, partition: int) -> Owner:
        spec = self._specs.partition(partition)
        return _watched(spec, lambda: self._cluster.spawn(spec))


def _watched(spec: OwnerSpec, spawn: Callable[[], OwnerHandle]) -> Owner:
    return Owner(spec, spawn(), spawn)


def _cluster(store: StoreDirectory, role: Literal["serve", "application"]) -> Cluster:
    if role == "serve":
        prepare_for_ray()
    # Only now: Ray reads its environment when it is imported.
    from neverforget.runtime.cluster import Cluster

    if role == "serve":
        return Cluster.start(store.store_id, store.config.partitions)
    return Cluster.join()


def serve(
    path: str | os.PathLike[str],
    *,
    linger: float | None = None,
    config: Config | None = None,
    ready: Callable[[Endpoint], None] | None = None,
    health: HealthOptions | None = None,
) -> int:
    """Host the store at ``path`` until SIGTERM or SIGINT, until nobody has been attached for
    ``linger`` seconds, or until its Ray or its directory is lost. The exit code: 0, or 1 in the
    last case.

    For the main thread of a process of its own. Raises what ``Host.start`` raises; whoever started
    this process to attach to it (``opening.py``) is told the same.
    """
    raise_descriptor_limit()  # every client keeps a connection to the host
    report = StartReport.from_environment()
    end = _End()
    try:
        host = Host.start(
            real_path(path),
            config or Config(),
            role="serve",
            linger_s=linger,
            on_end=lambda why: end.call(why or f"no client for {linger:g} s", failed=bool(why)),
            health=health,
        )
    except Exception as error:
        report.failed(error)
        end.close()
        raise
    with _signals(end):
        report.ready()
        if ready is not None:
            ready(host.endpoint)
        why, failed = end.wait()
        log.log(logging.ERROR if failed else logging.INFO, "ending: %s", why)
        host.close()
    end.close()
    return 1 if failed else 0


class _End:
    """Waits for the reason to end; the first one counts. Signal handlers and threads may call it:
    it is one byte in a pipe, and takes no lock."""

    def __init__(self) -> None:
        self._out, self._in = os.pipe()
        self._why: tuple[str, bool] | None = None

    def call(self, why: str, *, failed: bool = False) -> None:
        self._why = self._why or (why, failed)
        with contextlib.suppress(OSError):
            os.write(self._in, b"\0")

    def wait(self) -> tuple[str, bool]:
        """Why, and whether that is a failure."""
        poll = select.poll()
        poll.register(self._out, select.POLLIN)
        poll.poll()
        assert self._why is not None, "it is set before the byte is written"
        return self._why

    def close(self) -> None:
        os.close(self._out)
        os.close(self._in)


@contextlib.contextmanager
def _signals(end: _End) -> Iterator[None]:
    """SIGTERM and SIGINT end the host in order, for as long as this lasts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGINT)

    def told(number: int, _frame: object) -> None:
        end.call(f"told to by {signal.Signals(number).name}")

    before = [signal.signal(number, told) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
