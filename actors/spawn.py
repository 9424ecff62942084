"""The one place where plain classes become Ray actors."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import ray
from ray import cloudpickle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from neverforget.actors.actor_options import (
    CHUNKER,
    EMBEDDER,
    LONGTERM,
    NAMESPACE,
    PARTITION,
    REFLECTOR,
)
from neverforget.actors.chunker_actor import ChunkerActor
from neverforget.actors.chunker_spec import ChunkerSpec
from neverforget.actors.embedder_actor import EmbedderActor, Make
from neverforget.actors.embedder_spec import EmbedderSpec
from neverforget.actors.handles import OwnerHandle, RemoteChunker, end_all
from neverforget.actors.longterm_actor import LongTermActor
from neverforget.actors.longterm_spec import LongTermSpec
from neverforget.actors.owner_spec import PartitionSpec
from neverforget.actors.partition_actor import PartitionActor
from neverforget.actors.reflector_actor import ReflectorActor
from neverforget.actors.reflector_spec import ReflectorSpec
from neverforget.storage.directory_lock import this_process
from neverforget.storage.errors import Unavailable

if TYPE_CHECKING:
    from neverforget.actors.ports import Owners

log = logging.getLogger(__name__)

# Ray frees the name of an actor that was told to end a moment later.
_NAME_FREE_S = 10.0
_LEFT_OVER_S = 3.0


class Node(NamedTuple):
    """Where actors run: the node that has the store's disk. ``environment``: variables that their
    processes need; {} lets Ray take a worker that stands ready.
    """

    id: str
    environment: dict[str, str]


def made_remote(cls: type[Any], **options: Any) -> Any:
    """The plain class as an actor class. (Decorated where it stands, Ray would pickle it by value,
    together with the globals of its module.)"""
    remote_class: Any = ray.remote(cls)
    return remote_class.options(**options)


def spawn_partition(spec: PartitionSpec, node: Node) -> OwnerHandle:
    """Start the owner of a region. It ends with this process."""
    return _spawn(PartitionActor, PARTITION, spec.name, node, spec)


def spawn_longterm(
    spec: LongTermSpec, embedders: Sequence[str], chunker: ChunkerSpec, node: Node
) -> OwnerHandle:
    """The same for the long-term store; ``embedders``: the sockets of the pool. It starts chunkers
    by itself, as it needs them.
    """
    spawn = partial(spawn_chunker, chunker, node)
    return _spawn(LongTermActor, LONGTERM, spec.name, node, spec, tuple(embedders), spawn)


def spawn_chunker(spec: ChunkerSpec, node: Node) -> RemoteChunker:
    """A member of the chunker pool. It ends with this process, and has no name: nobody else asks
    it."""
    remote_class = made_remote(ChunkerActor, **CHUNKER, **_where(node))
    return RemoteChunker(remote_class.remote(spec, this_process()))


def spawn_embedder(
    spec: EmbedderSpec, make: Make, objects: Mapping[str, bytes], node: Node
) -> OwnerHandle:
    """A member of the embedder pool; ``objects``: as ``pickled`` makes them, by name."""
    return _spawn(EmbedderActor, EMBEDDER, spec.name, node, spec, make, dict(objects))


def spawn_reflector(
    spec: ReflectorSpec,
    connect: Callable[[], Owners],
    make: Make,
    extractor: bytes | None,
    node: Node,
) -> OwnerHandle:
    """The reflector; ``extractor``: as ``pickled`` makes it, where that is an object."""
    return _spawn(ReflectorActor, REFLECTOR, spec.name, node, spec, connect, make, extractor)


def pickled(given: Any) -> bytes:
    """As Ray would: a class that stands in a script or notebook travels with it."""
    pickle: Any = cloudpickle
    dumped: bytes = pickle.dumps(given)
    return dumped


def _spawn(
    cls: type[Any], fixed: dict[str, Any], name: str, node: Node, *arguments: Any
) -> OwnerHandle:
    options: dict[str, Any] = {
        **fixed,
        "name": name,
        "namespace": NAMESPACE,
        **_where(node),
    }
    remote_class = made_remote(cls, **options)
    began = time.monotonic()
    left_over = True
    while True:
        try:
            return OwnerHandle(name, remote_class.remote(*arguments))
        except ValueError as error:
            waited_s = time.monotonic() - began
            if left_over and waited_s > _LEFT_OVER_S:
                # Of a host before this one, which could not tell it to end while Ray's head was
                # away. This one holds the store's LOCK: nobody else may have an owner here.
                log.warning("%s is still there; ending it", name)
                end_all([OwnerHandle(name)])
                left_over = False
            if waited_s > _NAME_FREE_S:
                raise Unavailable(
                    f"an actor {name} of another host does not end: {error}", outcome="not_applied"
                ) from error
            time.sleep(0.05)


def _where(node: Node) -> dict[str, Any]:
    options: dict[str, Any] = {
        # Hard: the log is on this node's disk, and sockets do not reach further. Another node would
        # find an empty directory.
        "scheduling_strategy": NodeAffinitySchedulingStrategy(node.id, soft=False),
    }
    if node.environment:
        options["runtime_env"] = {"env_vars": node.environment}
    return options
