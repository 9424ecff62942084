"""Generations of the long-term store: how long others wait while one is written, and opening.

    python -m bench.bench_generations [DIRECTORY] [COUNT] [BEHIND]

Memories of 500 bytes with vectors of 384 dimensions, made beforehand. One is published while an
owner goes on writing, somebody searches words, and an indexer follows: all of it, with words alone,
the vectors on their turn, and words once more when BEHIND memories (100,000) have gathered, with
their words in and not yet in. Then the store is opened again, and once more with BEHIND memories
that were written after the last generation. Prints the longest call of each kind in milliseconds,
beside each kind of generation and with none being written, seconds of opening, and resident bytes a
memory. Behind a call's milliseconds stands how many this process computed meanwhile, in whatever
thread: on a machine that others use, the call itself waited for no more.
"""

from __future__ import annotations

import gc
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

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
SWITCH_S = 0.0005  # as in the process of the long-term owner
_ALONE_S: Final = 5.0
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
    """The longest call of each kind, in milliseconds; and that with the most computing in it."""

    def __init__(self) -> None:
        self.ms: defaultdict[str, float] = defaultdict(float)
        self.computing_ms: defaultdict[str, float] = defaultdict(float)

    def of(self, kind: str, call: Callable[[], T]) -> T:
        begun, before = time.perf_counter(), time.process_time()
        answer = call()
        took = (time.perf_counter() - begun) * 1e3
        computed = min(took, (time.process_time() - before) * 1e3)
        self.ms[kind] = max(self.ms[kind], took)
        self.computing_ms[kind] = max(self.computing_ms[kind], computed)
        return answer

    def __str__(self) -> str:
        own = self.computing_ms
        return " ".join(f"{kind}={ms:,.1f} ({own[kind]:,.1f})" for kind, ms in self.ms.items())


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


class Reader(threading.Thread):
    """Searches words, in a view of the moment, until it is stopped."""

    def __init__(self, stored: Generations, longest: Longest) -> None:
        super().__init__(daemon=True)
        self.stored, self.longest = stored, longest
        self.stopped = threading.Event()
        self._words = ""

    def run(self) -> None:
        number = 0
        while not self.stopped.wait(0.005):
            number += 1
            self._words = " ".join(text_of(number).split()[2:7])
            self.longest.of("recall", self._recall)

    def _recall(self) -> None:
        self.stored.index.view().text.search(self._words, 30)


def fill(region: LongTermRegion, begin: int, end: int) -> None:
    for start in range(begin, end, BATCH):
        batch = [new_memory(number) for number in range(start, min(end, start + BATCH))]
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


def beside(
    region: LongTermRegion,
    stored: Generations,
    start: int,
    begin: Callable[[], Any],
    finish: Callable[[Any], object],
) -> Longest:
    """The longest calls of an owner that writes memories from number ``start`` on, and of an
    indexer, while this is begun, run and finished.
    """
    longest = Longest()
    owner, reader = Owner(region, stored, start, longest), Reader(stored, longest)
    owner.start()
    reader.start()
    begun = time.perf_counter()
    with owner.turn:
        job = longest.of("begin", begin)
    worker = threading.Thread(target=job.run)
    worker.start()
    index = stored.index
    while worker.is_alive():
        longest.of("bring", lambda: index.bring(16))
        for one in index.take_waiting(16):
            index.embedded(one, vectors_of(one.row, one.row + 1))
        worker.join(0.005)
    longest.ms["run"] = (time.perf_counter() - begun) * 1e3
    longest.of("finish", lambda: finish(job))
    for thread in (owner, reader):
        thread.stopped.set()
        thread.join()
    longest.ms["appended"] = owner.number - start
    return longest


class Nothing:
    """An owner and an indexer alone: what they wait for each other, and for the machine."""

    def run(self) -> None:
        time.sleep(_ALONE_S)


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


def main(root: Path, count: int, behind: int) -> None:
    directory, derived = root / "lt", root / "derived-1"
    begun = time.perf_counter()

    def said(what: str, longest: object = "") -> None:
        print(f"{time.perf_counter() - begun:8.1f} s  {what} {longest}", flush=True)

    LongTermRegion.create(FS, directory, store_id=STORE)
    beside_it = ThreadPoolExecutor(1).submit  # what a log does beside its owner
    region = LongTermRegion.open(FS, directory, store_id=STORE, submit=beside_it)
    fill(region, 0, count)
    said("remembered")
    stored = Generations.open(FS, derived, region.state, model=None, expects_vectors=True)
    said("words")
    stored.begin_vectors(MODEL, DIMENSION)
    with_vectors(stored, count)
    said("vectors")
    sys.setswitchinterval(SWITCH_S)
    gc.collect()
    gc.freeze()  # as the owner of a region does when it has opened it
    for what, more, words_in, begin, finish in (
        ("nothing", 0, True, Nothing, lambda _: None),
        ("all of it", 0, True, stored.begin, stored.finish),
        ("words", 0, True, lambda: stored.begin(vectors=False), stored.finish),
        ("vectors", 0, True, lambda: stored.begin_folding(store=True), stored.finish_folding),
        ("words", behind, True, lambda: stored.begin(vectors=False), stored.finish),
        ("words", behind, False, lambda: stored.begin(vectors=False), stored.finish),
        ("nothing", 0, True, Nothing, lambda _: None),
    ):
        fill(region, region.state.table.count, region.state.table.count + more)
        stored.index.notice()
        stored.index.bring(None if words_in else 0)
        lag = f", {stored.index.lag:,} behind" if more else ""
        told = beside(region, stored, region.state.table.count, begin, finish)
        said(f"{what}{lag} after {more:,} more, beside writes, longest ms:", told)
        stored.index.notice()
        stored.index.bring()
    stored.publish()
    stored.close()
    command = [sys.executable, "-m", "bench.bench_generations", "--open", str(root)]
    for more in (0, behind):
        fill(region, region.state.table.count, region.state.table.count + more)
        with suppress(NeverforgetError):
            region.seal()
        region.close()
        subprocess.run(command, check=True)
        if not more:
            region = LongTermRegion.open(FS, directory, store_id=STORE, derived=derived)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--open"]:
        open_all(Path(sys.argv[2]) / "lt", Path(sys.argv[2]) / "derived-1")
        sys.exit()
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="nf-bench-"))
    made = Path(tempfile.mkdtemp(prefix="generations-", dir=place))
    try:
        given = [int(each) for each in sys.argv[2:4]]
        main(made, *[*given, *(100_000, 100_000)[len(given) :]])
    finally:
        shutil.rmtree(made, ignore_errors=True)
