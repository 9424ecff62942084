"""Claim: chunking finds facts in long documents clearly better than the documents whole.

python -m bench.bench_planted

Documents of 10,000 to 50,000 characters in the manner of handbooks, notes of meetings, incident
reports, specifications, chats and code, with facts at known places, and short memories among them
(``bench/planted.py``); one store, all of it searched, through the public interface. First without
chunks (documents are embedded window by window), then the same store opened with chunking. A fact
counts as found by the rank of the memory it stands in; "place": the fact stands whole in the chunk
that the hit points to. Each is asked for twice, in words of its own and in quite other words; short
memories among everything and, "alone", with nothing but short ones searched. The peers are plain
BM25 and plain vectors (the nearest window) over the same texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

import neverforget as nf
from bench.measure import Options, Table, main, scratch
from bench.planted import Planted, Question, corpus
from neverforget.actors.embedder_checked import CheckedEmbedder
from neverforget.runtime.embedders import made
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.text_index import TextDocument, TextIndex

CUTS: Final = (1, 5)
DEPTH: Final = 10
NEVER: Final = 100_000_000
STRATEGIES: Final = ("text", "vector", "hybrid")
GROUPS: Final = (
    "long",
    "long, in other words",
    "short",
    "short, in other words",
    "short alone, in other words",
)
SHORT: Final = "short"  # the namespace of short memories; "alone": only there is searched
CLEARLY: Final = 0.05  # of recall@5, and a shorter memory's may not fall by more than a question

Place = tuple[int, tuple[int, int] | None]  # number of a memory, span of the chunk in it
Rank = Callable[[str, bool], list[Place]]  # the best first; True: of the short memories only


class Figures(msgspec.Struct):
    """Shares of the questions of a group."""

    questions: int
    recall: dict[int, float]
    mrr: float
    place: float


def asked(planted: Planted, group: str) -> list[tuple[str, Question]]:
    found = planted.asked(long=group.startswith("long"))
    return [(one.otherwise if "other" in group else one.text, one) for one in found]


def judged(
    rank: Rank, questions: Sequence[tuple[str, Question]], *, alone: bool = False
) -> Figures:
    ranks: list[int] = []
    placed = 0
    for text, question in questions:
        found = rank(text, alone)
        at = next((n for n, (memory, _) in enumerate(found, 1) if memory == question.memory), 0)
        ranks.append(at)
        span = found[at - 1][1] if at else None
        placed += span is not None and span[0] <= question.start and question.stop <= span[1]
    count = len(ranks)
    recall = {cut: sum(0 < at <= cut for at in ranks) / count for cut in CUTS}
    return Figures(count, recall, sum(1 / at for at in ranks if at) / count, placed / count)


# ---- what ranks ----------------------------------------------------------------------------------


def plain_words(folder: Path, texts: Sequence[str], documents: int) -> Rank:
    index = TextIndex.create(LocalFileSystem(), folder)
    index.load((TextDocument(row, text) for row, text in enumerate(texts)), 0)
    snapshot = index.snapshot()
    index.close()
    short = range(documents, len(texts))

    def rank(query: str, alone: bool) -> list[Place]:
        allowed = list(short) if alone else None
        return [(int(row), None) for row in snapshot.search(query, DEPTH, allowed=allowed).ids]

    return rank


def plain_vectors(texts: Sequence[str], documents: int, embedder: CheckedEmbedder) -> Rank:
    answers = [embedder.embed_all([text]) for text in texts]
    vectors = np.concatenate([answer.vectors for answer in answers])
    owners = np.repeat(np.arange(len(texts)), [len(answer.vectors) for answer in answers])

    def rank(query: str, alone: bool) -> list[Place]:
        best = np.full(len(texts), -2.0)
        np.maximum.at(best, owners, vectors @ embedder.query(query))
        if alone:
            best[:documents] = -2.0
        return [(int(row), None) for row in np.argsort(-best, kind="stable")[:DEPTH]]

    return rank


def ours(store: nf.Store, numbers: dict[str, int], strategy: Any) -> Rank:
    def rank(query: str, alone: bool) -> list[Place]:
        within = SHORT if alone else None
        hits = store.recall(query, limit=DEPTH, strategy=strategy, namespace=within)
        assert hits.complete, hits.reason
        return [(numbers[hit.memory.id], span_of(hit.chunk)) for hit in hits]

    return rank


def span_of(chunk: nf.Chunk | None) -> tuple[int, int] | None:
    if chunk is None or chunk.start is None or chunk.stop is None:
        return None
    return chunk.start, chunk.stop


# ---- measuring -----------------------------------------------------------------------------------


def run(planted: Planted, folder: Path) -> dict[str, dict[str, Figures]]:
    embedder = made("minilm")
    assert embedder is not None
    results: dict[str, dict[str, Figures]] = {}

    def measure(name: str, rank: Rank) -> None:
        results[name] = {
            group: judged(rank, asked(planted, group), alone="alone" in group) for group in GROUPS
        }

    measure("plain BM25", plain_words(folder / "words", planted.texts, planted.documents))
    measure("plain vectors", plain_vectors(planted.texts, planted.documents, embedder))
    numbers: dict[str, int] = {}
    for chunked, over in ((False, NEVER), (True, 2_000)):
        with nf.open(folder / "store", inline=True, chunk_over_characters=over) as store:
            if not numbers:
                made_of = store.remember_many(
                    {"text": text, "namespace": () if at < planted.documents else SHORT}
                    for at, text in enumerate(planted.texts)
                )
                numbers = {memory.id: at for at, memory in enumerate(made_of)}
            store.settle(timeout=3_600)
            assert bool(store.chunks(next(iter(numbers)))) == chunked
            for strategy in STRATEGIES:
                name = f"{strategy}, {'chunked' if chunked else 'whole'}"
                measure(name, ours(store, numbers, strategy))
    return results


def missed(results: dict[str, dict[str, Figures]]) -> list[str]:
    """Which promises do not hold; none is what we want."""
    wrong = []
    whole, chunked = results["hybrid, whole"], results["hybrid, chunked"]
    for group in GROUPS:
        gain = chunked[group].recall[5] - whole[group].recall[5]
        least = CLEARLY if group == "long" else -1.01 / whole[group].questions
        if gain < least:
            wrong.append(f"{group}: recall@5 changes by {gain:+.3f}, at least {least:+.3f}")
    return wrong


def table(results: dict[str, dict[str, Figures]]) -> str:
    heads = ["questions", "method", *(f"R@{cut}" for cut in CUTS), "MRR", "place"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for group in GROUPS:
        for method, its in results.items():
            one = its[group]
            values = [*(one.recall[cut] for cut in CUTS), one.mrr]
            place = f"{one.place:.3f}" if "chunked" in method and "long" in group else ""
            cells = [f"{group} ({one.questions})", method, *(f"{v:.3f}" for v in values), place]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def measured(options: Options) -> Table:
    planted = corpus()
    if options.quick:
        planted = planted.cut(4)
    with scratch(options, "planted") as folder:
        results = run(planted, folder)
    long = [len(text) for text in planted.texts[: planted.documents]]
    return Table(
        "planted",
        "Finding facts in long documents",
        [
            f"{len(long)} documents of {min(long):,} to {max(long):,} characters and "
            f"{len(planted.texts) - len(long)} short memories in one store, no LLM; share of the "
            "facts found first, and among the first 5; reciprocal rank within the first 10",
            f"target: by hybrid recall chunking adds {CLEARLY} to recall@5 of long documents, and "
            "takes no more than one question from any others",
            "; ".join(f"**missed**: {wrong}" for wrong in missed(results)) or "met",
        ],
        [],
        table(results),
    )


if __name__ == "__main__":
    main(measured)
