"""How the region of the long-term store is opened and let go of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from neverforget.actors.longterm_spec import LongTermSpec
from neverforget.actors.owner_spec import region_options
from neverforget.actors.region_life import LOCK_WAIT_S
from neverforget.actors.store_embedder import folder_of
from neverforget.storage.clock import Clock
from neverforget.storage.directory_lock import Role
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.spare import Submit


class LongTermOpening:
    """An ``Opening``. ``leave`` is called before a region is closed: whatever searches it or
    follows its log must have ended when that returns.
    """

    def __init__(
        self,
        spec: LongTermSpec,
        fs: FileSystem,
        clock: Clock,
        lock: bool,
        leave: Callable[[LongTermRegion], None],
    ) -> None:
        self.name, self.label = "the long-term store", f"lt{spec.shard}"
        self.directory = spec.directory
        self.role: Role = spec.role
        self._spec = spec
        self._fs = fs
        self._clock = clock
        self._lock = lock
        self._leave = leave

    def open(
        self, *, submit: Submit, read_only: bool, predecessor: LongTermRegion | None
    ) -> LongTermRegion:
        spec = self._spec
        return LongTermRegion.open(
            self._fs,
            Path(spec.directory),
            store_id=spec.store_id,
            shard=spec.shard,
            role=spec.role,
            host=spec.host,
            clock=self._clock,
            options=region_options(spec),
            lock=self._lock,
            lock_wait_s=LOCK_WAIT_S,
            submit=submit,
            read_only=read_only,
            predecessor=predecessor,
            derived=Path(spec.directory) / folder_of(self._fs, Path(spec.directory)),
        )

    def close(self, region: LongTermRegion) -> None:
        self._leave(region)
        region.close()
