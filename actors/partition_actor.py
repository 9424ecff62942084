"""A partition as an actor.

What reads and writes logs is loaded in the actor's process only. Ray loads this module wherever
somebody gets hold of the actor: a client on another node needs none of it.
"""

from __future__ import annotations

from neverforget.actors.actor_shell import ActorShell, Owner
from neverforget.actors.owner_spec import PartitionSpec


class PartitionActor(ActorShell):
    def __init__(self, spec: PartitionSpec) -> None:
        super().__init__(spec, f"partition-{spec.partition}", lambda: _made(spec))


def _made(spec: PartitionSpec) -> Owner:
    from neverforget.actors.partition import Partition

    return Partition(spec)
