"""Claim: the default hybrid recall finds 0.75 of the evidence of LoCoMo's questions in the top 10.

NEVERFORGET_LOCOMO=locomo.json python -m bench.bench_locomo

Every turn of a conversation is remembered as a memory (its speaker, its time, the turns beside it
as context, the caption of an image as part of the text), all conversations in one store, each in
its own namespace. For each question of categories 1 to 4 that has evidence, the memories of its
conversation are ranked; the figures are the share of its evidence turns among the first 5, 10 and
20, and the reciprocal rank of the first one. No LLM takes part. The data are not part of this
project; without the variable nothing is measured.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench.measure import Options, Table, main
from neverforget.actors.embedder_checked import CheckedEmbedder
from neverforget.actors.fusion import FusionConfig
from neverforget.actors.query_preparation import Speakers, prepare_query, prepare_text
from neverforget.actors.searching import search
from neverforget.runtime.embedders import made
from neverforget.runtime.importers.locomo import parse_date
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.longterm_generations import Generations
from neverforget.storage.longterm_index import LongTermIndex
from neverforget.storage.longterm_results import MemoryFilter, NewMemory
from neverforget.storage.longterm_view import LongTermView
from neverforget.storage.text_index import TextDocument, TextIndex

VARIABLE = "NEVERFORGET_LOCOMO"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
CUTS = (5, 10, 20)
TARGETS = {5: 0.65, 10: 0.75}
DEFAULT = "hybrid, the default"

_EVIDENCE = re.compile(r"D\d+:\d+")
_BATCH = 64


@dataclass
class Sample:
    """``turns``: dia_id, speaker, text, microseconds UTC, session; in the order they were said."""

    name: str
    turns: list[tuple[str, str, str, int, str]]
    questions: list[tuple[str, int, set[int]]]  # text, category, places of the evidence
    rows: list[int] = field(default_factory=list)  # of its turns, in the store


# ---- reading -------------------------------------------------------------------------------------


def samples(data: Iterable[dict[str, Any]]) -> Iterator[Sample]:
    for value in data:
        turns = list(_turns(value["conversation"]))
        place = {dia_id: at for at, (dia_id, *_) in enumerate(turns)}
        questions = []
        for asked in value["qa"]:
            evidence = evidence_of(asked.get("evidence", []), place)
            if asked["category"] in CATEGORIES and evidence:
                questions.append((asked["question"], asked["category"], evidence))
        yield Sample(str(value["sample_id"]), turns, questions)


def evidence_of(given: Iterable[str], place: dict[str, int]) -> set[int]:
    """Places of the turns that are named; some names are two in one string, some name none."""
    named = (name for text in given for name in _EVIDENCE.findall(text))
    return {place[name] for name in named if name in place}


def _turns(conversation: dict[str, Any]) -> Iterator[tuple[str, str, str, int, str]]:
    numbers = sorted(int(m[1]) for k in conversation if (m := re.fullmatch(r"session_(\d+)", k)))
    for number in numbers:
        session = f"session_{number}"
        began = parse_date(conversation[f"{session}_date_time"])
        for at, turn in enumerate(conversation[session]):
            said = began + timedelta(seconds=at)
            text = " ".join(filter(None, (turn["text"], turn.get("blip_caption"))))
            when = int(said.timestamp() * 1_000_000)
            yield turn["dia_id"], turn["speaker"], text, when, session


# ---- a store -------------------------------------------------------------------------------------


def memories_of(sample: Sample, first: int) -> list[NewMemory]:
    """One a turn. Context is the turn before and the turn after, within the session."""
    turns = sample.turns
    found = []
    for at, (dia_id, speaker, text, when, session) in enumerate(turns):
        beside = [turns[n] for n in (at - 1, at + 1) if 0 <= n < len(turns)]
        context = "\n".join(turn[2] for turn in beside if turn[4] == session)
        number = first + at
        found.append(
            NewMemory(
                f"018f{number >> 16:04x}-{number & 0xFFFF:04x}-7000-8000-{number:012x}",
                text or "(nothing)",
                key=dia_id,
                speaker=speaker,
                namespace=(sample.name,),
                occurred_at=when,
                context=context or None,
            )
        )
    return found


def remember_all(region: LongTermRegion, found: list[Sample]) -> None:
    count = 0
    for number, sample in enumerate(found):
        new = memories_of(sample, count)
        region.remember(new, by="bench", request=(1, number + 1))
        sample.rows = list(range(count, count + len(new)))
        count += len(new)
    region.write()
    region.sync()


def embed_all(index: LongTermIndex, embedder: CheckedEmbedder) -> None:
    speakers: dict[tuple[str, ...], Speakers] = {}
    while waiting := index.take_waiting(_BATCH):
        for one in waiting:
            if one.namespace not in speakers:
                known = index.view().rows.speakers_within(one.namespace)
                speakers[one.namespace] = Speakers(known)
        texts = [prepare_text(one.text, speakers[one.namespace]) for one in waiting]
        answer = embedder.embed_all(texts)
        for at, one in enumerate(waiting):
            reason = answer.failed.get(at) or answer.waiting.get(at)
            if reason is not None:
                raise SystemExit(f"a turn was not embedded: {reason}")
            index.embedded(one, answer.vectors[answer.owners == at])


# ---- ranking -------------------------------------------------------------------------------------

Rank = Callable[[Sample, str], list[int]]  # rows of a sample's turns, best first


def our_methods(
    view: LongTermView, found: list[Sample], embedder: CheckedEmbedder
) -> dict[str, Rank]:
    known = {s.name: Speakers(view.rows.speakers_within((s.name,))) for s in found}
    vectors: dict[str, Any] = {}

    def ranked(sample: Sample, question: str, **how: Any) -> list[int]:
        query = prepare_query(question, known[sample.name])
        if query.meaning not in vectors:
            vectors[query.meaning] = embedder.query(query.meaning)
        wanted = MemoryFilter(namespace=(sample.name,))
        vector = vectors[query.meaning]
        return [r.row for r in search(view, query, vector, wanted, limit=max(CUTS), **how)]

    alone = FusionConfig(context=0.0)
    return {
        "text (dated words, speaker)": lambda s, q: ranked(s, q, strategy="text", config=alone),
        "text with neighbour context": lambda s, q: ranked(s, q, strategy="text"),
        "vector (names masked, speaker)": lambda s, q: ranked(s, q, strategy="vector"),
        "hybrid without context": lambda s, q: ranked(s, q, config=alone),
        "hybrid by reciprocal rank": lambda s, q: ranked(s, q, fusion="rrf"),
        DEFAULT: ranked,
    }


def plain_words(folder: Path, found: list[Sample]) -> Rank:
    """BM25 over the turns as they are, stemmed, stop words dropped from the query."""
    text = TextIndex.create(LocalFileSystem(), folder)
    pairs = ((row, turn[2]) for s in found for row, turn in zip(s.rows, s.turns))
    text.load((TextDocument(row, words) for row, words in pairs), 0)
    snapshot = text.snapshot()
    text.close()

    def rank(sample: Sample, question: str) -> list[int]:
        hits = snapshot.search(question, max(CUTS), allowed=sample.rows)
        return [int(row) for row in hits.ids]

    return rank


def plain_vectors(found: list[Sample], embedder: CheckedEmbedder) -> Rank:
    """Cosine of every turn as it is, every one looked at; of a long turn the nearest window."""
    held: dict[str, tuple[Any, Any]] = {}
    for sample in found:
        answer = embedder.embed_all([turn[2] or "(nothing)" for turn in sample.turns])
        held[sample.name] = (answer.vectors, answer.owners)

    def rank(sample: Sample, question: str) -> list[int]:
        vectors, owners = held[sample.name]
        best = np.full(len(sample.turns), -2.0)
        np.maximum.at(best, owners, vectors @ embedder.query(question))
        return [sample.rows[at] for at in np.argsort(-best, kind="stable")[: max(CUTS)]]

    return rank


# ---- measuring -----------------------------------------------------------------------------------


class Figures(msgspec.Struct):
    """Means over the questions of a category. ``recall``: by how many are looked at."""

    questions: int
    recall: dict[int, float]
    mrr: float


def judged(ranked: list[int], evidence: set[int]) -> tuple[list[float], float]:
    """Recall at each cut, and the reciprocal rank within the deepest cut."""
    recall = [len(evidence.intersection(ranked[:cut])) / len(evidence) for cut in CUTS]
    first = next((at for at, row in enumerate(ranked[: max(CUTS)], 1) if row in evidence), None)
    return recall, 0.0 if first is None else 1 / first


def measure(found: list[Sample], rank: Rank) -> dict[str, Figures]:
    scores: dict[str, list[list[float]]] = defaultdict(list)
    for sample in found:
        for question, category, evidence in sample.questions:
            ranked = rank(sample, question)
            recall, first = judged(ranked, {sample.rows[at] for at in evidence})
            for name in (CATEGORIES[category], "all"):
                scores[name].append([*recall, first])
    figures = {}
    for name in (*CATEGORIES.values(), "all"):
        if name in scores:
            means = np.mean(scores[name], axis=0).tolist()
            figures[name] = Figures(len(scores[name]), dict(zip(CUTS, means)), means[-1])
    return figures


def run(data: list[dict[str, Any]], embedder: CheckedEmbedder) -> dict[str, dict[str, Figures]]:
    found = list(samples(data))
    with tempfile.TemporaryDirectory(prefix="nf-locomo-") as name:
        folder, fs = Path(name), LocalFileSystem()
        LongTermRegion.create(fs, folder / "region", store_id="bench")
        region = LongTermRegion.open(fs, folder / "region", store_id="bench")
        stored = Generations.open(
            fs, folder / "derived", region.state,
            model=embedder.model_id, dimension=embedder.dimension,
        )  # fmt: skip
        try:
            remember_all(region, found)
            stored.index.notice()
            stored.index.bring()
            embed_all(stored.index, embedder)
            methods = {
                "plain BM25": plain_words(folder / "words", found),
                "plain vectors, exact": plain_vectors(found, embedder),
                **our_methods(stored.index.view(), found, embedder),
            }
            return {name: measure(found, rank) for name, rank in methods.items()}
        finally:
            stored.close()
            region.close()


def table(results: dict[str, dict[str, Figures]]) -> str:
    """A GitHub table: a line a method and category."""
    heads = ["method", "questions", "", *(f"R@{cut}" for cut in CUTS), "MRR"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for method, by_category in results.items():
        for category, its in by_category.items():
            name = f"**{method}**" if category == "all" else method
            values = [*(its.recall[cut] for cut in CUTS), its.mrr]
            cells = [name, category, str(its.questions), *(f"{value:.3f}" for value in values)]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def missed(results: dict[str, dict[str, Figures]]) -> list[str]:
    """Which promises do not hold; none is what we want."""
    ours = results[DEFAULT]["all"]
    wrong = [
        f"R@{cut} is {ours.recall[cut]:.3f}, the target {target}"
        for cut, target in TARGETS.items()
        if ours.recall[cut] < target
    ]
    for method, its in results.items():
        if "hybrid" not in method:
            better = [cut for cut in CUTS if its["all"].recall[cut] >= ours.recall[cut]]
            wrong += [f"{method} finds as much in the top {cut}" for cut in better]
    return wrong


def measured(options: Options) -> Table | None:
    path = os.environ.get(VARIABLE)
    if not path:
        print(f"skipped: set {VARIABLE} to a LoCoMo file; it is not part of this project")
        return None
    data = json.loads(Path(path).read_text())
    embedder = made("minilm")
    assert embedder is not None
    results = run(data[:2] if options.quick else data, embedder)
    ours = results[DEFAULT]["all"]
    reached = [f"R@{cut} {ours.recall[cut]:.3f}, target >= {TARGETS[cut]}" for cut in TARGETS]
    return Table(
        "locomo",
        "Finding the evidence of LoCoMo's questions",
        [
            f"{len(data)} conversations; every turn a memory, no LLM; share of the evidence turns "
            "among the first so many, and reciprocal rank of the first",
            f"{FusionConfig()}",
            "; ".join(reached + [f"**missed**: {wrong}" for wrong in missed(results)]),
        ],
        [],
        table(results),
    )


if __name__ == "__main__":
    main(measured)
