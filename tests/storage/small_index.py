"""A small long-term region with everything derived from it, and vectors made of words."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from neverforget.storage.longterm_generations import Generations
from neverforget.storage.longterm_index import LongTermIndex, Waiting
from neverforget.storage.longterm_results import MemoryFilter, MemoryView
from neverforget.storage.longterm_view import Found, LongTermView
from neverforget.storage.vector_index import VectorBounds
from tests.storage.small_longterm import LongTermBench

DIMENSION = 16
MODEL = "words-16"
BOUNDS = VectorBounds(flat_max=1_000, overlay_max=64, exact_max=20)


def vector(text: str) -> Any:
    """The same for equal words, near for texts that share some."""
    seeds = [zlib.crc32(word.encode()) for word in text.lower().split()]
    rows = [np.random.default_rng(seed).normal(size=DIMENSION) for seed in seeds]
    mean = np.sum(rows, axis=0)
    return (mean / np.linalg.norm(mean)).astype(np.float32)


def windows(text: str) -> Any:
    """A vector for each line."""
    return np.stack([vector(line) for line in text.splitlines() if line.strip()])


class IndexBench(LongTermBench):
    """``LongTermBench`` with ``stored``, its generations; ``follow`` after each write."""

    def __init__(self, directory: Path, **how: Any) -> None:
        super().__init__(directory / "region", **how)
        self.derived = directory / "derived"
        self.stored = self.open_derived()

    def open_derived(self, **how: Any) -> Generations:
        given: dict[str, Any] = {"model": MODEL, "dimension": DIMENSION, "bounds": BOUNDS} | how
        return Generations.open(self.fs, self.derived, self.region.state, **given)

    @property
    def index(self) -> LongTermIndex:
        return self.stored.index

    def follow(self, *, embed: bool = True) -> LongTermView:
        self.index.notice()
        self.index.bring()
        if embed:
            while waiting := self.index.take_waiting(3):
                for one in waiting:
                    self.embed(one)
        return self.index.view()

    def embed(self, one: Waiting) -> bool:
        return self.index.embedded(one, windows(one.text))

    def reopen_all(self, **how: Any) -> LongTermView:
        self.stored.close()
        self.reopen()
        self.stored = self.open_derived(**how)
        return self.index.view()

    # ---- looking -------------------------------------------------------------------------------

    def row(self, memory: MemoryView) -> int:
        return self.region.row(memory.id, include_forgotten=True)

    def words(self, query: str, field: str = "text", limit: int = 10, **wanted: Any) -> list[str]:
        view = self.index.view()
        gate = view.gate(MemoryFilter(**wanted))
        return self.texts_of(view.find_words(query, limit, gate, field))

    def near(self, query: str, limit: int = 10, **wanted: Any) -> list[str]:
        view = self.index.view()
        return self.texts_of(
            view.find_near(vector(query), limit, view.gate(MemoryFilter(**wanted)))
        )

    def texts_of(self, found: Found) -> list[str]:
        return [self.region.view(row).text for row in found.rows]


@contextmanager
def indexed(directory: Path, **how: Any) -> Iterator[IndexBench]:
    bench = IndexBench(directory, **how)
    try:
        yield bench
    finally:
        bench.stored.close()
        bench.region.close()
