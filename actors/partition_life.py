"""How a partition's region is opened."""

from __future__ import annotations

from pathlib import Path

from neverforget.actors.owner_spec import PartitionSpec, region_options
from neverforget.actors.region_life import LOCK_WAIT_S
from neverforget.storage.clock import Clock
from neverforget.storage.directory_lock import Role
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.region import Region
from neverforget.storage.spare import Submit


class PartitionOpening:
    """An ``Opening`` of a ``Region``."""

    def __init__(self, spec: PartitionSpec, fs: FileSystem, clock: Clock, lock: bool) -> None:
        self.name, self.label = f"partition {spec.partition}", f"p{spec.partition}"
        self.directory = spec.directory
        self.role: Role = spec.role
        self._spec = spec
        self._fs = fs
        self._clock = clock
        self._lock = lock

    def open(self, *, submit: Submit, read_only: bool, predecessor: Region | None) -> Region:
        spec = self._spec
        return Region.open(
            self._fs,
            Path(spec.directory),
            store_id=spec.store_id,
            partition=spec.partition,
            role=spec.role,
            host=spec.host,
            clock=self._clock,
            options=region_options(spec),
            lock=self._lock,
            lock_wait_s=LOCK_WAIT_S,
            submit=submit,
            read_only=read_only,
            predecessor=predecessor,
        )

    def close(self, region: Region) -> None:
        region.close()
