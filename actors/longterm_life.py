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
from neverforget.storage.embedder_file import (
    EMBEDDER_FILE,
    EmbedderFile,
    collect_folders,
    write_embedder,
)
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.identity import Identity
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.region_creation import create_region
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.shipping_mark import marked_term


def longterm_opening(
    spec: LongTermSpec,
    fs: FileSystem,
    clock: Clock,
    lock: bool,
    leave: Callable[[LongTermRegion], None],
) -> RegionOpening[LongTermRegion]:
    """``leave``: see there; what searches the region or follows its log must have ended."""

    def open_region(fs: FileSystem, directory: Path, **how: Any) -> LongTermRegion:
        replica = how.get("replica")
        if replica is not None and marked_term(fs, directory) < replica.term:
            # It was moved here. What stands here from before is of a log that may have been cut.
            collect_folders(fs, directory, keep="")
        derived = directory / folder_of(fs, directory)
        how |= {"derived": derived, "count_tokens": TokenCounter(spec.tokenizer)}
        return LongTermRegion.open(fs, directory, shard=spec.shard, **how)

    name, label = "the long-term store", f"lt{spec.shard}"
    log = f"longterm-{spec.shard}"

    def make(fs: FileSystem, directory: Path, identity: Identity, options: RegionOptions) -> None:
        fs.make_directory(directory)
        if not fs.exists(directory / EMBEDDER_FILE):
            write_embedder(fs, directory, EmbedderFile(spec.embedder))
        create_region(fs, directory, identity, options)

    return RegionOpening(
        name, label, spec, fs, clock, lock, open_region, leave, shipped_as=log, make=make
    )
