"""Whether derived files are damaged, looked into when a search fails as damage makes it fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from neverforget.storage.clock import Clock
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.identity import read_identity
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.manifest import examine_in_use
from neverforget.storage.results import Finding

_APART_S: Final = 60.0  # a search that fails for another reason costs every byte once so often


class SuspectedDamage:
    """``directory``: where the derived files are now."""

    def __init__(
        self, fs: FileSystem, clock: Clock, region: LongTermRegion, directory: Callable[[], Path]
    ) -> None:
        self._fs, self._clock, self._region, self._directory = fs, clock, region, directory
        self._is_suspected = False
        self._not_before = 0.0

    def suspect(self) -> None:
        """Any thread."""
        self._is_suspected = True

    def found(self) -> tuple[Finding, ...]:
        """Damage that lasts, every byte read, where there is a suspicion. On the indexer's thread,
        which may wait: nothing of what is damaged can be searched.
        """
        suspected, self._is_suspected = self._is_suspected, False
        if not suspected or self._clock.monotonic() < self._not_before:
            return ()
        log_id = read_identity(self._fs, self._region.state.directory).log_id
        damage = examine_in_use(self._fs, self._directory, log_id).findings
        self._not_before = self._clock.monotonic() + _APART_S
        return damage
