"""Claim: recall over 100,000 memories, query already embedded, takes less than 5 ms.

python -m bench.bench_recall [--sizes 1000 100000]

Memories of 384 dimensions and 40 words with 40 words of context (``bench/memories.py``), embedded
beforehand, from 1,000 to 1,000,000: by words and meaning, by either, with filters that leave 1 %
and 0.01 %. The peers answer from the very same files, in this process: FAISS alone, tantivy alone,
and both one after the other (a vector search and a search of each text field, 100 results each,
nothing fused, no filter, no memory looked up). The limit of a vector search is a flat FAISS index.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tantivy

from bench.bench_memory import private_bytes
from bench.bench_recall_attached import attached
from bench.filling import MODEL, STORE_ID, filled
from bench.measure import Options, Rounds, Row, Table, interleave, main, scratch
from bench.memories import BLOCK, DIMENSION, Corpus
from bench.ours import Call
from neverforget.actors.query_preparation import PreparedQuery
from neverforget.actors.searching import Result, search
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.longterm_generations import Generations
from neverforget.storage.longterm_results import MemoryFilter
from neverforget.storage.longterm_view import LongTermView
from neverforget.storage.text_disk import analyzer
from neverforget.storage.vector_math import faiss

SIZES = (1_000, 10_000, 100_000, 1_000_000)
QUERIES, ASKED_FOR_RECALL = 211, 200
CANDIDATES, PROBES = 100, 64
TARGET_US, TARGET_RECALL = 5_000, 0.95
FILTERS = {
    "1 %, by tag": MemoryFilter(tags=("hundred:h7",)),
    "1 %, by namespace": MemoryFilter(namespace=("user", "u7")),
    "1 %, by where, asked before": MemoryFilter(where={"metadata.n": 7}),
    "0.01 %, by tag": MemoryFilter(tags=("thousands:t7",)),
    "0.01 %, by tag and where": MemoryFilter(tags=("hundred:h7",), where={"metadata.m": 7}),
}
Query = tuple[str, Any]


def run(options: Options) -> Table:
    sizes = options.sizes or ((1_000, 3_000) if options.quick else SIZES)
    rows: list[Row] = []
    with scratch(options, "recall") as folder:
        for size in sizes:
            rows += measured(folder / f"{size}", size, options)
        rows += attached(folder, min(sizes[-1], 100_000), options)
    return Table(
        "recall",
        "Recall by words and meaning, as memories grow",
        [
            "p50 unless it says p99, each query once a round, page cache warm; query embedded "
            "beforehand, but in the rows that say otherwise",
            "a query: six words of some memory, two of them in 3 to 5 % of all; its vector has a "
            "cosine of about 0.75 to that memory's",
            "FAISS + tantivy: one search of the vectors and one of each text field in the same "
            f"files, {CANDIDATES} results each, nothing fused, filtered or looked up",
            "the first search with a new `where` asks the records of all that passes the other "
            "filters, once: the row says what that takes",
            "memory: private memory of a process that has opened the store, over one that opened "
            "an empty one",
        ],
        rows,
    )


# ---- a store -------------------------------------------------------------------------------------


@contextmanager
def opened(folder: Path) -> Iterator[LongTermView]:
    fs = LocalFileSystem()
    region = LongTermRegion.open(fs, folder / "region", store_id=STORE_ID)
    stored = Generations.open(
        fs, folder / "derived", region.state, model=MODEL, dimension=DIMENSION
    )
    assert not stored.findings and not stored.index.waiting, "it is opened as it was stored"
    try:
        yield stored.index.view()
    finally:
        stored.close()
        region.close()


def child(folder: Path) -> tuple[float, int]:
    """Seconds of opening, and private bytes then, of a fresh process."""
    command = [sys.executable, "-m", "bench.bench_recall", "open", str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    seconds, held = json.loads(done.stdout.splitlines()[-1])
    return float(seconds), int(held)


def open_and_tell(folder: Path) -> None:
    start = time.perf_counter()
    with opened(folder) as view:
        seconds = time.perf_counter() - start
        assert view.vectors is not None
        print(json.dumps([seconds, private_bytes()]))


# ---- who answers ---------------------------------------------------------------------------------


class Ours:
    def __init__(self, view: LongTermView) -> None:
        self.view = view

    def __call__(self, query: Query, wanted: MemoryFilter, strategy: str) -> list[Result]:
        prepared = PreparedQuery(query[0], query[0], None)
        return search(self.view, prepared, query[1], wanted, strategy=strategy)


class Plain:
    """FAISS and tantivy as they are, over the files of a store."""

    def __init__(self, derived: Path) -> None:
        (path,) = derived.glob("vectors-*")
        self.vectors: Any = faiss.read_index(str(path))
        (path,) = derived.glob("text-*")
        index = tantivy.Index.open(str(path))
        index.register_tokenizer("neverforget", analyzer())
        self._index, self._searcher = index, index.searcher()

    def near(self, query: Query) -> Any:
        parameters = None
        if isinstance(self.vectors, faiss.IndexIVF):
            parameters = faiss.SearchParametersIVF(nprobe=PROBES)
        return self.vectors.search(query[1][None], CANDIDATES, params=parameters)[1][0]

    def words(self, query: Query, field: str) -> Any:
        return self._searcher.search(self._index.parse_query(query[0], [field]), CANDIDATES)

    def both(self, query: Query) -> None:
        self.near(query)
        self.words(query, "text")
        self.words(query, "context")


def measured(folder: Path, size: int, options: Options) -> list[Row]:
    corpus = Corpus(size)
    spent = filled(folder / "region", folder / "derived", corpus)
    empty = folder.with_name("empty")
    if not empty.exists():
        filled(empty / "region", empty / "derived", Corpus(0))
    held_by_empty = child(empty)[1]
    seconds, held = child(folder)
    queries = corpus.queries(QUERIES)
    faiss.omp_set_num_threads(1)
    flat = faiss.IndexFlatIP(DIMENSION)
    for at in range(0, size, BLOCK):
        flat.add(corpus.vectors(at, at + BLOCK))
    with opened(folder) as view:
        ours, plain = Ours(view), Plain(folder / "derived")
        first_where = _seconds(
            lambda: ours(queries[0], MemoryFilter(where={"metadata.n": 8}), "text")
        )
        rounds = latencies(ours, plain, flat, queries, options)
        found = recalled(ours, plain, flat, queries[: 20 if options.quick else ASKED_FOR_RECALL])
    disk = {name: _disk_bytes(folder / name) for name in ("region", "derived")}
    return [
        *latency_rows(rounds, size),
        *recall_rows(found, size),
        Row(f"first search with a new where, {size:,}", "ms", first_where * 1e3),
        Row(f"remember, 1,000 a batch, durable, {size:,}", "memories/s", size / spent["remember"]),
        Row(f"index the words of all, {size:,}", "s", spent["words"]),
        Row(f"store a generation, {size:,}", "s", spent["publish"]),
        Row(f"open, {size:,}", "s", seconds, target="< 5 s" if size >= 10**6 else "",
            met=seconds < 5 if size >= 10**6 else None),
        Row(f"disk, log, {size:,}", "bytes/memory", disk["region"] / size),
        Row(f"disk, indexes, {size:,}", "bytes/memory", disk["derived"] / size,
            "vectors as float32", 4.0 * DIMENSION),
        Row(f"memory, opened, {size:,}", "bytes/memory", (held - held_by_empty) / size,
            "vectors as float32", 4.0 * DIMENSION),
    ]  # fmt: skip


def latencies(
    ours: Ours, plain: Plain, flat: Any, queries: list[Query], options: Options
) -> Rounds:
    everything = MemoryFilter()

    def asking(name: str, ask: Callable[[Query], object]) -> Call:
        turn = itertools.cycle(queries)
        return Call(name, lambda: ask(next(turn)))

    contenders = [
        asking(strategy, lambda q, s=strategy: ours(q, everything, s))  # type: ignore[misc]
        for strategy in ("hybrid", "text", "vector")
    ]
    contenders += [
        asking(name, lambda q, w=wanted: ours(q, w, "hybrid"))  # type: ignore[misc]
        for name, wanted in FILTERS.items()
    ]
    contenders += [
        asking("FAISS + tantivy", plain.both),
        asking("FAISS", plain.near),
        asking("tantivy", lambda q: (plain.words(q, "text"), plain.words(q, "context"))),
        asking("flat", lambda q: flat.search(q[1][None], CANDIDATES)),
    ]
    for wanted in FILTERS.values():
        ours(queries[0], wanted, "hybrid")
    calls = 20 if options.quick else QUERIES
    few = 5 if options.quick or flat.ntotal > 200_000 else 50
    return interleave(
        contenders, rounds=2 if options.quick else 5, calls=lambda n: few if n == "flat" else calls
    )


def recalled(ours: Ours, plain: Plain, flat: Any, queries: list[Query]) -> dict[str, float]:
    """recall@10 against the flat index: of ours, of FAISS, and of ours under a filter."""
    wanted = FILTERS["1 %, by tag"]
    mask = np.flatnonzero(ours.view.gate(wanted).mask)
    selected = faiss.SearchParameters(sel=faiss.IDSelectorBatch(mask))
    found: dict[str, list[float]] = {"ours": [], "FAISS": [], "ours, 1 %": []}
    for query in queries:
        exact = set(flat.search(query[1][None], 10)[1][0].tolist())
        inside = set(flat.search(query[1][None], 10, params=selected)[1][0].tolist()) - {-1}
        by_ours = {one.row for one in ours(query, MemoryFilter(), "vector")}
        by_faiss = {int(each) >> 3 for each in plain.near(query)[:10]}
        filtered = {one.row for one in ours(query, wanted, "vector")}
        found["ours"].append(len(exact & by_ours) / len(exact))
        found["FAISS"].append(len(exact & by_faiss) / len(exact))
        found["ours, 1 %"].append(len(inside & filtered) / max(1, len(inside)))
    return {name: float(np.mean(values)) for name, values in found.items()}


# ---- rows ----------------------------------------------------------------------------------------


def latency_rows(m: Rounds, size: int) -> list[Row]:
    counts, both = size == 100_000, "FAISS + tantivy"
    hybrid = m.us("hybrid")
    rows = [
        Row(
            f"hybrid, {size:,}", "us", hybrid, both, m.us(both), ratio=m.ratio("hybrid", both),
            target=f"< {TARGET_US:,} us" if counts else "",
            met=hybrid < TARGET_US if counts else None,
        ),
        Row(
            f"hybrid, p99, {size:,}", "us", m.us("hybrid", 0.99), both, m.us(both, 0.99),
            ratio=m.ratio("hybrid", both, 0.99),
        ),
        Row(
            f"text, {size:,}", "us", m.us("text"), "tantivy, two fields", m.us("tantivy"),
            ratio=m.ratio("text", "tantivy"),
        ),
        Row(
            f"vector, {size:,}", "us", m.us("vector"), "FAISS", m.us("FAISS"), "flat", m.us("flat"),
            m.ratio("vector", "FAISS"),
        ),
    ]  # fmt: skip
    for name in FILTERS:
        rows.append(
            Row(
                f"hybrid, {name}, {size:,}", "us", m.us(name), "unfiltered", hybrid,
                ratio=m.ratio(name, "hybrid"),
            )
        )  # fmt: skip
    return rows


def recall_rows(found: dict[str, float], size: int) -> list[Row]:
    def row(what: str, value: float, peer: float | None) -> Row:
        return Row(
            f"recall@10, {what}, {size:,}", "", value, "FAISS" if peer is not None else "", peer,
            "flat", 1.0, target=f">= {TARGET_RECALL}", met=value >= TARGET_RECALL,
        )  # fmt: skip

    return [row("vector", found["ours"], found["FAISS"]), row("1 %", found["ours, 1 %"], None)]


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _disk_bytes(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    if sys.argv[1:2] == ["open"]:
        open_and_tell(Path(sys.argv[2]))
    else:
        main(run, sized=True)
