"""Generations of the long-term store: how long others wait while one is written, and opening.

    python -m bench.bench_generations [DIRECTORY] [COUNT]

Memories of 500 bytes with vectors of 384 dimensions, made beforehand. One is published while an
owner goes on writing and an indexer follows; then the store is opened again. Prints the longest
call of each kind in milliseconds, seconds of opening, and resident bytes a memory.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import psutil

from neverforget.storage.errors import NeverforgetError
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.longterm_generations import Generations
from neverforget.storage.longterm_results import NewMemory
from neverforget.storage.vector_index import VectorIndex, build_base

FS = LocalFileSystem()
STORE, MODEL = "bench", "random"
DIMENSION = 384
TEXT_BYTES = 500
BATCH = 500
TRAINED_ON_MAX = 100_000  # of vectors without any order, more teach nothing
_WORDS = [
    f"{stem}{n}" for stem in ("barn", "lake", "harbour", "tariff", "plum") for n in range(4000)
]
T = TypeVar("T")


def text_of(number: int) -> str:
    rng = random.Random(number)
    text = f"memory {number} "
    while len(text) < TEXT_BYTES:
        text += rng.choice(_WORDS) + " "
    return text[:TEXT_BYTES]


def new_memory(number: int) -> NewMemory:
    memory_id = f"018f{number >> 16:04x}-{number & 0xFFFF:04x}-7000-8000-{number:012x}"
    return NewMemory(
        memory_id, text_of(number), tags=(f"t{number % 100}",), speaker=f"speaker{number % 50}"
    )


def vectors_of(start: int, stop: int) -> Any:
    made = np.random.default_rng(start).standard_normal((stop - start, DIMENSION), np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


class Longest:
    """The longest call of each kind, in milliseconds."""

    def __init__(self) -> None:
        self.ms: defaultdict[str, float] = defaultdict(float)

    def of(self, kind: str, call: Callable[[], T]) -> T:
        begun = time.perf_counter()
        answer = call()
        self.ms[kind] = max(self.ms[kind], (time.perf_counter() - begun) * 1e3)
        return answer


class Owner(threading.Thread):
    """Writes one memory after the other, as the owner's loop does, until it is stopped."""

    def __init__(
        self, region: LongTermRegion, stored: Generations, start: int, longest: Longest
    ) -> None:
        super().__init__(daemon=True)
        self.region, self.stored, self.longest = region, stored, longest
        self.turn = threading.Lock()
        self.number = start
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.wait(0.001):
            with self.turn:
                self.longest.of("append", self._append)
                self.longest.of("notice", self.stored.index.notice)
            self.longest.of("view", self.stored.index.view)

    def _append(self) -> None:
        self.region.remember((new_memory(self.number),), by="b", request=(1, self.number + 1))
        self.region.write()
        self.region.sync()
        self.number += 1


def fill(region: LongTermRegion, count: int) -> None:
    for start in range(0, count, BATCH):
        batch = [new_memory(number) for number in range(start, min(count, start + BATCH))]
        region.remember(batch, by="b", request=(1, start + 1))
        region.write()
    region.sync()


def with_vectors(stored: Generations, count: int) -> None:
    """Vectors for all rows at once, as if they had been embedded one by one."""
    asked = iter((min(count, TRAINED_ON_MAX), count))

    def batches() -> Iterator[tuple[Any, Any]]:
        stop = next(asked) if count > 25_000 else count
        for start in range(0, stop, 8_192):
            end = min(stop, start + 8_192)
            yield np.arange(start, end) << 3, vectors_of(start, end)

    wanted = min(count, TRAINED_ON_MAX) if count > 25_000 else count
    base = build_base(DIMENSION, batches, wanted)
    stored.index.begin_vectors(VectorIndex(base), np.arange(count))


def publish_beside(region: LongTermRegion, stored: Generations, count: int) -> dict[str, float]:
    longest = Longest()
    owner = Owner(region, stored, count, longest)
    owner.start()
    begun = time.perf_counter()
    with owner.turn:
        publication = longest.of("begin", stored.begin)
    publisher = threading.Thread(target=publication.run)
    publisher.start()
    index = stored.index
    while publisher.is_alive():
        longest.of("bring", lambda: index.bring(16))
        for one in index.take_waiting(16):
            index.embedded(one, vectors_of(one.row, one.row + 1))
        publisher.join(0.005)
    longest.ms["run"] = (time.perf_counter() - begun) * 1e3
    longest.of("finish", lambda: stored.finish(publication))
    owner.stopped.set()
    owner.join()
    longest.ms["appended"] = owner.number - count
    return dict(longest.ms)


def resident() -> int:
    """Bytes of this process alone: what is mapped of files is the kernel's to take back."""
    info = psutil.Process().memory_info()
    return int(info.rss - info.shared)


def open_all(directory: Path, derived: Path) -> None:
    """In a process of its own: what the one that wrote it all left in memory does not count."""
    before, begun = resident(), time.perf_counter()
    region = LongTermRegion.open(FS, directory, store_id=STORE, derived=derived)
    region_s = time.perf_counter() - begun
    stored = Generations.open(FS, derived, region.state, model=MODEL, dimension=DIMENSION)
    open_s, held = time.perf_counter() - begun, resident() - before
    rows = region.state.table.count
    assert not stored.findings, stored.findings
    print(
        f"opened {rows:,} memories: region {region_s:.2f} s, all {open_s:.2f} s, "
        f"{held / rows:,.0f} bytes a memory in memory, {stored.index.waiting} without vectors",
        flush=True,
    )
    stored.close()
    region.close()


def main(root: Path, count: int) -> None:
    directory, derived = root / "lt", root / "derived-1"
    begun = time.perf_counter()

    def said(what: str, values: dict[str, float] | None = None) -> None:
        rest = " ".join(f"{name}={value:,.2f}" for name, value in (values or {}).items())
        print(f"{time.perf_counter() - begun:8.1f} s  {what} {rest}", flush=True)

    LongTermRegion.create(FS, directory, store_id=STORE)
    region = LongTermRegion.open(FS, directory, store_id=STORE)
    fill(region, count)
    said("remembered")
    stored = Generations.open(FS, derived, region.state, model=None, expects_vectors=True)
    said("words")
    stored.begin_vectors(MODEL, DIMENSION)
    with_vectors(stored, count)
    said("vectors")
    told = publish_beside(region, stored, count)
    said("published beside writes, longest ms:", told)
    stored.index.bring()
    stored.close()
    with suppress(NeverforgetError):
        region.seal()
    region.close()
    command = [sys.executable, "-m", "bench.bench_generations", "--open", str(root)]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--open"]:
        open_all(Path(sys.argv[2]) / "lt", Path(sys.argv[2]) / "derived-1")
        sys.exit()
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="nf-bench-"))
    made = Path(tempfile.mkdtemp(prefix="generations-", dir=place))
    try:
        main(made, int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
    finally:
        shutil.rmtree(made, ignore_errors=True)
