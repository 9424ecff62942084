"""A partition as an actor."""

from __future__ import annotations

from neverforget.actors.actor_shell import ActorShell
from neverforget.actors.owner_spec import PartitionSpec
from neverforget.actors.partition import Partition


class PartitionActor(ActorShell):
    def __init__(self, spec: PartitionSpec) -> None:
        super().__init__(spec, f"partition-{spec.partition}", lambda: Partition(spec))
