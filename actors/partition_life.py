"""How a partition's region is opened."""

from __future__ import annotations

from functools import partial

from neverforget.actors.owner_spec import PartitionSpec
from neverforget.actors.region_opening import RegionOpening
from neverforget.storage.clock import Clock
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.region import Region


def partition_opening(
    spec: PartitionSpec, fs: FileSystem, clock: Clock, lock: bool
) -> RegionOpening[Region]:
    number = spec.partition
    open_region = partial(Region.open, partition=number)
    return RegionOpening(
        f"partition {number}", f"p{number}", spec, fs, clock, lock, open_region,
        shipped_as=f"partition-{number}",
    )  # fmt: skip
