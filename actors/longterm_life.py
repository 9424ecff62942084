"""How the region of the long-term store is opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from neverforget.actors.longterm_spec import LongTermSpec
from neverforget.actors.region_opening import RegionOpening
from neverforget.actors.store_embedder import folder_of
from neverforget.actors.tokenizers import TokenCounter
from neverforget.storage.clock import Clock
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.longterm import LongTermRegion


def longterm_opening(
    spec: LongTermSpec,
    fs: FileSystem,
    clock: Clock,
    lock: bool,
    leave: Callable[[LongTermRegion], None],
) -> RegionOpening[LongTermRegion]:
    """``leave``: see there; what searches the region or follows its log must have ended."""

    def open_region(fs: FileSystem, directory: Path, **how: Any) -> LongTermRegion:
        derived = directory / folder_of(fs, directory)
        how |= {"derived": derived, "count_tokens": TokenCounter(spec.tokenizer)}
        return LongTermRegion.open(fs, directory, shard=spec.shard, **how)

    name, label = "the long-term store", f"lt{spec.shard}"
    log = f"longterm-{spec.shard}"
    return RegionOpening(name, label, spec, fs, clock, lock, open_region, leave, shipped_as=log)
