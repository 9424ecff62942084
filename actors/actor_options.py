"""What Ray is told about each kind of actor, and why."""

from __future__ import annotations

from typing import Any

NAMESPACE = "neverforget"  # names are per namespace; callers have one of their own
REFLECTOR_OWNER = "r0"  # the reflector, in the names of actors and sockets

PARTITION: dict[str, Any] = {
    # An owner that died is started again for as long as its host lives.
    "max_restarts": -1,
    # Ray would repeat a call after later ones, and twice: the client retries, under a request id.
    "max_task_retries": 0,
    # Owners wait for disks. A reserved CPU would keep two of them from starting on a small machine.
    "num_cpus": 0,
    # Calls only await the socket loop. Above actor_shell.CALLS_MAX, so that what is too much is
    # refused by name instead of piling up in Ray's queue.
    "max_concurrency": 1200,
}

# An owner like a partition's: it has a log on this node's disk, and searches in threads of its own.
LONGTERM: dict[str, Any] = {**PARTITION}

EMBEDDER: dict[str, Any] = {
    # It has nothing to lose: the next one reads the model again and goes on.
    "max_restarts": -1,
    # Who asked asks again, or another member.
    "max_task_retries": 0,
    # One native thread, at a lower priority (background.NICE). With a CPU reserved, a store on
    # a machine of two would have none left for the application's own tasks.
    "num_cpus": 0,
    # Texts come over the socket; calls only describe and stop it.
    "max_concurrency": 1200,
}

REFLECTOR: dict[str, Any] = {
    # All its progress is in the logs: the next one goes on where they end.
    "max_restarts": -1,
    # Who asked asks again.
    "max_task_retries": 0,
    # It works only while nobody waits, at a lower priority (background.NICE).
    "num_cpus": 0,
    # It is asked through its socket; calls only describe and stop it.
    "max_concurrency": 1200,
}

KEEPER: dict[str, Any] = {
    # It comes back wherever there is room: what it must know stands on the disks.
    "max_restarts": -1,
    # Who asked asks again.
    "max_task_retries": 0,
    # It looks at nodes once a second.
    "num_cpus": 0,
    # A whole fleet connects at once; calls only read what it knows.
    "max_concurrency": 1200,
}

NODE_HOST: dict[str, Any] = {
    # The owners of its node end with it and come back with the next one.
    "max_restarts": -1,
    # The keeper asks again.
    "max_task_retries": 0,
    # It watches.
    "num_cpus": 0,
    # Threads: the keeper asks it once a second, and has it stop.
    "max_concurrency": 8,
}

CHUNKER: dict[str, Any] = {
    # The owner that had it made tells by its death that a text may be to blame, and makes another.
    "max_restarts": 0,
    # What is cut twice is cut once too often; who asked decides.
    "max_task_retries": 0,
    # It works only while somebody waits for nothing, at a lower priority (background.NICE).
    "num_cpus": 0,
    # One thread asks it.
    "max_concurrency": 1,
}


def owner_name(store_id: str, place: str, owner: str) -> str:
    """Carries the store's id and place: two stores on one cluster never meet, nor do a store and
    its copy. ``owner``: "p0", "lt0", "e0", "r0", as in the names of sockets."""
    return f"{store_id}-{place}-{owner}"
