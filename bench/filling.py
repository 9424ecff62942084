"""A long-term store filled with synthetic memories, words and vectors and all, without an owner."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from bench.memories import BLOCK, DIMENSION, Corpus
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.longterm_generations import Generations

STORE_ID: Final = "bench"
MODEL: Final = "bench"


def filled(
    region_directory: Path,
    derived: Path,
    corpus: Corpus,
    *,
    store_id: str = STORE_ID,
    model: str = MODEL,
) -> dict[str, float]:
    """Remember everything and store one generation of it. Seconds by step, the making of the
    memories not counted.
    """
    fs, spent = LocalFileSystem(), {"remember": 0.0}
    if not region_directory.exists():
        LongTermRegion.create(fs, region_directory, store_id=store_id)
    region = LongTermRegion.open(fs, region_directory, store_id=store_id)
    for at in range(0, corpus.count, BLOCK):
        new = corpus.memories(at, at + BLOCK)
        start = time.perf_counter()
        region.remember(new, by="bench", request=(1, at + 1))
        region.write()
        region.sync()
        spent["remember"] += time.perf_counter() - start
    start = time.perf_counter()
    stored = Generations.open(fs, derived, region.state, model=model, dimension=DIMENSION)
    spent["words"] = time.perf_counter() - start
    while waiting := stored.index.take_waiting(BLOCK):
        first = waiting[0].row // BLOCK * BLOCK
        vectors = corpus.vectors(first, first + BLOCK)
        for one in waiting:
            stored.index.embedded(one, vectors[one.row - first : one.row - first + 1])
    start = time.perf_counter()
    stored.publish()
    spent["publish"] = time.perf_counter() - start
    stored.close()
    region.close()
    return spent
