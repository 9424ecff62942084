"""The one place where plain classes become Ray actors."""

from __future__ import annotations

import time
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from neverforget.actors.actor_options import NAMESPACE, PARTITION
from neverforget.actors.handles import PartitionHandle
from neverforget.actors.partition_actor import PartitionActor
from neverforget.actors.region_life import PartitionSpec
from neverforget.storage.errors import Unavailable

# Ray frees the name of an actor that was told to end a moment later.
_NAME_FREE_S = 10.0


def made_remote(cls: type[Any], **options: Any) -> Any:
    """The plain class as an actor class. (Decorated where it stands, Ray would pickle it by value,
    together with the globals of its module.)"""
    remote_class: Any = ray.remote(cls)
    return remote_class.options(**options)


def spawn_partition(
    spec: PartitionSpec, *, node_id: str, environment: dict[str, str]
) -> PartitionHandle:
    """Start the owner of a region on the node that has its disk. It ends with this process.

    ``environment``: variables its process needs; {} lets Ray take a worker that stands ready.
    """
    name = spec.name
    options: dict[str, Any] = {
        **PARTITION,
        "name": name,
        "namespace": NAMESPACE,
        # Hard: the log is on this node's disk. Another node would find an empty directory.
        "scheduling_strategy": NodeAffinitySchedulingStrategy(node_id, soft=False),
    }
    if environment:
        options["runtime_env"] = {"env_vars": environment}
    remote_class = made_remote(PartitionActor, **options)
    give_up_at = time.monotonic() + _NAME_FREE_S
    while True:
        try:
            return PartitionHandle(name, remote_class.remote(spec))
        except ValueError as error:
            if time.monotonic() > give_up_at:
                raise Unavailable(
                    f"an actor {name} of another host does not end: {error}", outcome="not_applied"
                ) from error
            time.sleep(0.05)
