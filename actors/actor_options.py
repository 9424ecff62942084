"""What Ray is told about each kind of actor, and why."""

from __future__ import annotations

from typing import Any

NAMESPACE = "neverforget"  # names are per namespace; callers have one of their own

PARTITION: dict[str, Any] = {
    # An owner that died is started again for as long as its host lives.
    "max_restarts": -1,
    # Ray would repeat a call after later ones, and twice: the client retries, under a request id.
    "max_task_retries": 0,
    # Owners wait for disks. A reserved CPU would keep two of them from starting on a small machine.
    "num_cpus": 0,
    # Calls only await the socket loop. Above partition_actor.CALLS_MAX, so that what is too much is
    # refused by name instead of piling up in Ray's queue.
    "max_concurrency": 1200,
}


def partition_name(store_id: str, place: str, partition: int) -> str:
    """Carries the store's id and place: two stores on one cluster never meet, nor do a store and
    its copy."""
    return f"{store_id}-{place}-p{partition}"
