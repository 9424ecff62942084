"""Claim: 1,000 documents of 20 KB at once hold nobody up: ``remember`` takes at most 1.5 times as
long as in an idle store while they are chunked, the pool of chunkers grows and shrinks to nothing,
and memory stays bounded.

All of it in one run, by a client that is attached to hosted stores. Throughput by pool size: from
the first document until nothing waits, with and without summaries, and nobody asking for anything
meanwhile. Latency: a memory of 300 characters every few ms in the store that chunks and in another
one that does nothing else, in turn, so that a slow moment of the machine hits both; and in the
first store before and after.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil

import neverforget as nf
from bench import ours
from bench.long_documents import CHARACTERS, document
from bench.measure import TEXT, Options, Row, Table, main, quantile, scratch
from neverforget.actors.chunker_pool import IDLE_S

DOCUMENTS = 1_000
POOLS = (1, 2, 4)
GIVEN_AT_ONCE = 50
PACE_S = 0.005
RATIO_MAX = 1.5
MIB = 1024 * 1024


class Chunked(NamedTuple):
    """``busy``, ``calm``: nanoseconds of each ``remember`` meanwhile, in this store and in one that
    was idle. ``owner``, ``pool``: the most memory that the owner, and all chunkers together, had to
    themselves, in bytes.
    """

    seconds: float
    chunks: int
    chunkers: int
    busy: list[int]
    calm: list[int]
    owner: int
    pool: int


@contextmanager
def store(path: Path, **settings: Any) -> Iterator[nf.Store]:
    """A hosted one of these settings, whose owner has been asked once."""
    nf.open(path, inline=True, partitions=1, **settings).close()
    with ours.hosted(path) as opened:
        opened.remember("first")
        opened.settle()
        yield opened


def give(opened: nf.Store, documents: list[str]) -> None:
    for first in range(0, len(documents), GIVEN_AT_ONCE):
        some = documents[first : first + GIVEN_AT_ONCE]
        opened.remember_many([{"text": text} for text in some])


def remembering(stores: list[nf.Store], until: Callable[[], bool]) -> list[list[int]]:
    """One memory after the other, in uneven steps, in each of the stores by turns; nanoseconds."""
    draw = random.Random(0)
    samples: list[list[int]] = [[] for _ in stores]
    while not until():
        for opened, taken in zip(stores, samples):
            start = time.perf_counter_ns()
            opened.remember(TEXT)
            taken.append(time.perf_counter_ns() - start)
            time.sleep(draw.uniform(0, 2 * PACE_S))
    return samples


def alone(opened: nf.Store, seconds: float) -> list[int]:
    end = time.monotonic() + seconds
    (samples,) = remembering([opened], lambda: time.monotonic() > end)
    return samples


class Watch:
    """Looks at the store and its processes, a few times a second. ``coming``: documents that are to
    be chunked.
    """

    def __init__(self, opened: nf.Store, coming: int = 0, pause_s: float = 0.25) -> None:
        self._opened = opened
        self._derived = opened.status().longterm.derived + coming  # and more: each has some chunks
        self._pause_s = pause_s
        self._due = 0.0
        self._owner = psutil.Process(opened.status().longterm.pid)
        self.chunkers = self.owner = self.pool = 0

    def over(self) -> bool:
        """Nothing waits any more."""
        if time.monotonic() < self._due:
            return False
        found = self._opened.status().longterm
        self.chunkers = max(self.chunkers, found.chunkers)
        self.owner = max(self.owner, private_bytes(self._owner))
        raylet = self._owner.parent()
        siblings = [] if raylet is None else raylet.children()
        self.pool = max(self.pool, sum(map(private_bytes, filter(is_chunker, siblings))))
        self._due = time.monotonic() + self._pause_s
        return found.chunks_waiting == found.chunks_running == 0 and found.derived >= self._derived


def is_chunker(process: psutil.Process) -> bool:
    try:
        return any(word.startswith("ray::Chunker") for word in process.cmdline())
    except psutil.Error:
        return False


def private_bytes(process: psutil.Process) -> int:
    try:
        found: int = process.memory_full_info().uss
    except psutil.Error:
        return 0
    return found


def chunked(opened: nf.Store, documents: list[str], idle: nf.Store | None = None) -> Chunked:
    """``idle``: another store; somebody remembers in both meanwhile."""
    before = opened.status().longterm.derived
    watch = Watch(opened, len(documents), 0.05 if idle is None else 0.25)
    start = time.monotonic()
    give(opened, documents)
    busy, calm = list[int](), list[int]()
    if idle is not None:
        busy, calm = remembering([opened, idle], watch.over)
    while not watch.over():
        time.sleep(0.02)
    seconds = time.monotonic() - start
    found = opened.status().longterm
    assert found.chunks_failed == 0, found.chunk_error
    made = found.derived - before
    return Chunked(seconds, made, watch.chunkers, busy, calm, watch.owner, watch.pool)


# ---- throughput ----------------------------------------------------------------------------------


def throughput(folder: Path, documents: list[str], pools: tuple[int, ...]) -> list[Row]:
    rows = []
    for summarizer in ("none", "extractive"):
        for most in pools:
            path = folder / f"{summarizer}-{most}"
            settings = {"embedder": "none", "chunker_processes": most, "summarizer": summarizer}
            with store(path, **settings) as opened:
                warm = chunked(opened, [f"{text} warm" for text in documents[:16]])
                found = chunked(opened, documents)
            what = "documents chunked" if summarizer == "none" else "the same, with a summary"
            rows.append(
                Row(
                    f"{what}, pool of {most}", "1/s", len(documents) / found.seconds,
                    "chunks stored", found.chunks / found.seconds,
                    "chunkers seen", max(found.chunkers, warm.chunkers),
                )
            )  # fmt: skip
    return rows


# ---- latency -------------------------------------------------------------------------------------


def latency(folder: Path, documents: list[str], options: Options, embedder: str) -> list[Row]:
    seconds = 1.0 if options.quick else 5.0
    path = folder / f"latency-{embedder}"
    with (
        store(path, embedder=embedder) as opened,
        store(path.with_suffix(".idle"), embedder=embedder) as idle,
    ):
        alone(opened, 1.0)
        rest = alone(opened, seconds)
        empty = Watch(opened)
        empty.over()
        found = chunked(opened, documents, idle)
        if embedder == "none":  # else the embedder is at work for minutes still
            opened.settle()
            rest += alone(opened, seconds)
            assert opened.verify().ok, "a chunk stands alone"
        gone_s = until_gone(opened)
        left = Watch(opened)
        left.over()
    what = f"remember while {len(documents):,} documents are chunked, {embedder}"
    rows = []
    for share, name in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99")):
        busy, calm, before = (
            quantile(each, share) / 1000 for each in (found.busy, found.calm, rest)
        )
        aimed = share == 0.5 and embedder == "none"
        rows.append(
            Row(
                f"{what}, {name}", "us", busy, "idle store", calm, "itself, before and after",
                before, busy / calm, f"<= {RATIO_MAX}" if aimed else "",
                busy / calm <= RATIO_MAX if aimed else None,
            )
        )  # fmt: skip
    rows += [
        Row(f"the documents chunked meanwhile, {embedder}", "1/s", len(documents) / found.seconds),
        Row(
            f"chunkers, {embedder}", "at most", found.chunkers,
            "left in the end", left.chunkers, "gone after, s", gone_s,
            None, "0 left", left.chunkers == 0,
        ),
        Row(
            f"memory of the owner, {embedder}", "MiB", found.owner / MIB,
            "before", empty.owner / MIB, "after", left.owner / MIB,
        ),
        Row(f"memory of all chunkers, {embedder}", "MiB", found.pool / MIB),
    ]  # fmt: skip
    return rows


def until_gone(opened: nf.Store) -> float:
    """Seconds until there is no chunker any more."""
    start = time.monotonic()
    while opened.status().longterm.chunkers and time.monotonic() < start + 3 * IDLE_S:
        time.sleep(0.1)
    return time.monotonic() - start


def run(options: Options) -> Table:
    count = 40 if options.quick else DOCUMENTS
    documents = [document(number) for number in range(count)]
    with scratch(options, "chunking") as folder:
        pools = POOLS[:2] if options.quick else POOLS
        rows = throughput(folder, documents[: count // 2], pools)
        rows += latency(folder, documents, options, "none")
        rows += latency(folder, documents[: count // 5], options, "minilm")
    notes = [
        f"{count:,} documents of {CHARACTERS:,} characters with headings, "
        f"{GIVEN_AT_ONCE} in one call, one after the other",
        "throughput: half of them, nobody asks for anything meanwhile; latency: a memory of 300 "
        "characters every "
        f"{2000 * PACE_S:.0f} ms, durable, and the owner's loop leaves most of its time to that",
        "idle store: another one that is hosted beside it, asked by turns; itself: the store that "
        "chunks, while it did not",
        "the owner's loop, which stores what was cut, and its indexer share one interpreter: they "
        "are the limit where nothing is summarised",
        "minilm: a fifth of the documents; the embedder is at work on the chunks meanwhile",
        "memory: private to the processes, the most that was seen",
    ]
    return Table(
        "chunking", "Chunking long memories behind the back of whoever remembers", notes, rows
    )


if __name__ == "__main__":
    main(run)
