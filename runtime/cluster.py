"""Ray, for whoever hosts a store: a private one of our own, or the one the caller has started.

Before this module is imported in a process that will ``start`` a private Ray, that process calls
``process_environment.prepare_for_ray``: Ray reads its environment when it is imported.

A private one is always ``address="local"`` (never a stranger's cluster), has a temporary folder of
its own with a short name (its sockets, too, have 108 bytes), sends nothing to anybody and writes
nothing into HOME. ``ray.shutdown`` is only called on a private one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray._private import worker as ray_worker
from ray.exceptions import GetTimeoutError, RayActorError
from ray.util.client import ray as ray_client

from neverforget.actors import ray_link
from neverforget.actors.actor_options import NAMESPACE
from neverforget.actors.chunker_spec import ChunkerSpec
from neverforget.actors.embedder_spec import EmbedderSpec
from neverforget.actors.handles import HEAD_S, OwnerHandle, end_all, stop_all
from neverforget.actors.longterm_spec import LongTermSpec
from neverforget.actors.owner_spec import PartitionSpec
from neverforget.actors.process_end import pid_exists
from neverforget.actors.ray_metrics import metrics_port
from neverforget.actors.reflector_spec import ReflectorSpec
from neverforget.actors.spawn import (
    Node,
    made_remote,
    pickled,
    spawn_embedder,
    spawn_longterm,
    spawn_partition,
    spawn_reflector,
)
from neverforget.runtime import embedders, extractors
from neverforget.runtime.endpoint import checked_folder
from neverforget.runtime.process_environment import python_path
from neverforget.storage.errors import Unavailable

if TYPE_CHECKING:
    from neverforget.actors.ports import Owners

log = logging.getLogger(__name__)
_OBJECT_STORE_BYTES = 80 * 1024 * 1024  # nothing of ours goes there; Ray wants 75 MiB at least
_TEMPORARY_BYTES_MAX = 44  # Ray adds up to 63 bytes for its longest socket name
_OWNER_STOP_S = 30.0
_VITAL = ("raylet", "gcs_server")


class Cluster:
    """The Ray that owners live in. ``close`` it, whoever started it."""

    def __init__(self, *, private_folder: Path | None, environment: dict[str, str]) -> None:
        context = ray.get_runtime_context()
        self.node_id: str = context.get_node_id()
        self.address: str = context.gcs_address
        self._job: str = context.get_job_id()
        self.namespace = NAMESPACE
        self.metrics_port = metrics_port()
        self._private_folder = private_folder
        self._node = Node(self.node_id, environment)

    @classmethod
    def start(cls, store_id: str, owners: int) -> Cluster:
        """A private Ray on this machine, for ``owners`` actors."""
        assert not ray.is_initialized(), "a process has one Ray"
        folder = _private_folder(store_id)
        try:
            ray.init(
                address="local",
                _temp_dir=str(folder),
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                # One worker process stands ready for each CPU: for every owner, and for the first
                # one that must be started again.
                num_cpus=owners + 1,
                num_gpus=0,
                object_store_memory=_OBJECT_STORE_BYTES,
                namespace=NAMESPACE,
            )
        except Exception as error:
            shutil.rmtree(folder, ignore_errors=True)
            why = str(error).partition("\n")[0]
            raise Unavailable(f"Ray does not start: {why}", outcome="not_applied") from error
        return cls(private_folder=folder, environment={})

    @classmethod
    def join(cls) -> Cluster:
        """The Ray that this process is connected to already."""
        assert ray.is_initialized()
        return cls(private_folder=None, environment={"PYTHONPATH": python_path()})

    @classmethod
    def join_deployed(cls) -> Cluster:
        """The Ray of this actor, on its node. Every node of it has the package installed."""
        assert ray.is_initialized()
        return cls(private_folder=None, environment={})

    def spawn(self, spec: PartitionSpec) -> OwnerHandle:
        return spawn_partition(spec, self._node)

    def spawn_longterm(
        self,
        spec: LongTermSpec,
        embedder_sockets: Sequence[str],
        chunker: ChunkerSpec,
        summarizer: Any,
    ) -> OwnerHandle:
        """``summarizer``: an object that this process was given, or None."""
        if summarizer is not None:
            chunker = chunker._replace(pickled=pickled(summarizer))
        return spawn_longterm(spec, embedder_sockets, chunker, self._node)

    def spawn_embedder(self, spec: EmbedderSpec, objects: Mapping[str, Any]) -> OwnerHandle:
        """``objects``: embedders that this process was given, by the names of their settings."""
        sent = {name: pickled(embedder) for name, embedder in objects.items()}
        return spawn_embedder(spec, embedders.made, sent, self._node)

    def spawn_reflector(
        self, spec: ReflectorSpec, extractor: Any, connect: Callable[[], Owners]
    ) -> OwnerHandle:
        """``extractor``: an object that this process was given, or None."""
        sent = None if extractor is None else pickled(extractor)
        return spawn_reflector(spec, connect, extractors.made, sent, self._node)

    def stop(self, owners: Sequence[OwnerHandle]) -> list[str]:
        """End them in order. The names of those that did not."""
        return stop_all(owners, _OWNER_STOP_S)

    def end(self, owners: Sequence[OwnerHandle]) -> None:
        """End them at once, whatever they do."""
        end_all(owners)

    def headless(self) -> bool:
        """Nobody can be told anything through Ray who was not told before."""
        return ray_link.trouble(HEAD_S) is not None

    def actors(self, cls: type[Any], arguments: Sequence[tuple[Any, ...]]) -> ActorGroup:
        """One actor of the plain class ``cls`` for each of ``arguments``, ended by ``close``."""
        return ActorGroup(cls, arguments)

    def lost(self) -> str | None:
        """Why owners can no longer be started again, None while they can. Also reaps: a raylet that
        nobody has waited for keeps its workers alive."""
        if not ray.is_initialized() or ray.get_runtime_context().get_job_id() != self._job:
            return "ray.shutdown was called"
        node: Any = ray_worker._global_node
        if node is None:
            return None  # somebody else's node: they watch it
        for name, _process in node.dead_processes():
            if name in _VITAL:
                return f"{name} has ended"
        return None

    def close(self) -> None:
        if self._private_folder is not None:
            ray.shutdown()
            shutil.rmtree(self._private_folder, ignore_errors=True)


class ActorGroup:
    """Plain objects, each in a process of its own. Methods may run while another one does."""

    def __init__(self, cls: type[Any], arguments: Sequence[tuple[Any, ...]]) -> None:
        # Two calls at once: one that works for long, and one that asks how it is getting on.
        remote_class = made_remote(cls, num_cpus=0, max_concurrency=2, max_restarts=0)
        self._actors = [remote_class.remote(*each) for each in arguments]
        self._running: list[Any] = []

    def call(self, method: str, *arguments: Any, timeout_s: float) -> list[Any]:
        """Ask all of them and wait. Raises what one of them raised, or Unavailable."""
        return self._wait([getattr(a, method).remote(*arguments) for a in self._actors], timeout_s)

    def begin(self, method: str, *arguments: Any) -> None:
        """Let all of them run ``method``; ``results`` has what it returns."""
        self._running = [getattr(a, method).remote(*arguments) for a in self._actors]

    def finished(self, timeout_s: float) -> bool:
        """Wait at most so long for what ``begin`` began."""
        _, unfinished = ray.wait(self._running, num_returns=len(self._running), timeout=timeout_s)
        return not unfinished

    def results(self, timeout_s: float) -> list[Any]:
        return self._wait(self._running, timeout_s)

    def close(self) -> None:
        for actor in self._actors:
            ray.kill(actor)

    def _wait(self, calls: list[Any], timeout_s: float) -> list[Any]:
        try:
            found: list[Any] = ray.get(calls, timeout=timeout_s)
        except (RayActorError, GetTimeoutError) as error:
            raise Unavailable(f"an agent does not answer: {error}", outcome="unknown") from error
        return found


def is_ours_to_use() -> bool:
    """Whether this process is a driver that called ``ray.init`` itself, not through Ray Client.

    A task or actor is no driver: owners that belong to it would end with it, so it attaches, or
    starts a host of its own, like any process without Ray.
    """
    if not ray.is_initialized() or ray_client.is_connected():
        return False
    return bool(ray_worker.global_worker.mode == ray_worker.SCRIPT_MODE)


def _private_folder(store_id: str) -> Path:
    """A new folder for Ray's sockets and logs; those of hosts that were killed are removed."""
    for base in (Path(tempfile.gettempdir()), Path("/tmp")):
        home = base / f"nf-{os.geteuid()}"
        folder = home / f"{store_id[:8]}-{os.getpid()}"
        if len(os.fsencode(folder)) <= _TEMPORARY_BYTES_MAX:
            break
    checked_folder(home)
    for old in home.iterdir():
        pid = old.name.rpartition("-")[2]
        if pid.isdecimal() and not pid_exists(int(pid)):
            shutil.rmtree(old, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700)
    return folder
