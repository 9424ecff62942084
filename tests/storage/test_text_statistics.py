"""One query is scored with one set of numbers, wherever a commit divides memory from disk."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from neverforget.storage import text_statistics
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.text_document import CorpusSize
from neverforget.storage.text_index import CONTEXT, TEXT, TextDocument, TextIndex
from neverforget.storage.text_overlay import coarse_length

FS = LocalFileSystem()
WORDS = [f"word{n}" for n in range(40)]


@contextmanager
def divided(directory: Path, documents: list[TextDocument], on_disk: int) -> Iterator[TextIndex]:
    """An index with the first ``on_disk`` documents on disk, the others in memory."""
    index = TextIndex.create(FS, directory)
    index.load(documents[:on_disk], 1)
    index.add(documents[on_disk:])
    try:
        yield index
    finally:
        index.close()


def scores_of(index: TextIndex, query: str, field: str = TEXT) -> dict[int, float]:
    """By id, best first."""
    hits = index.snapshot().search(query, 1_000, field=field)
    return dict(zip(hits.ids.tolist(), hits.scores.tolist()))


def text_of(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, weights=range(1, 41), k=words))


def random_documents(
    rng: random.Random, count: int, lengths: Iterable[int] = range(1, 120)
) -> list[TextDocument]:
    choices = list(lengths)
    return [
        TextDocument(
            n,
            text_of(rng, rng.choice(choices)),
            text_of(rng, rng.choice(choices)) if n % 3 else "",
        )
        for n in range(count)
    ]


class Model:
    """BM25 as it is written down. ``counted``: the documents whose words count; ``lengths``: those
    whose average length does.
    """

    def __init__(
        self, counted: list[TextDocument], lengths: list[TextDocument], field: str
    ) -> None:
        self._field = field
        self._counted = [self.words(one) for one in counted]
        self._average = sum(len(self.words(one)) for one in lengths) / len(lengths)

    def words(self, document: TextDocument) -> list[str]:
        return (document.text if self._field == TEXT else document.context).split()

    def score(self, document: TextDocument, query: str) -> float:
        total, its = 0.0, self.words(document)
        for word in query.split():
            n = sum(word in words for words in self._counted)
            idf = math.log(1 + (len(self._counted) - n + 0.5) / (n + 0.5))
            norm = 1.2 * (0.25 + 0.75 * coarse_length(len(its)) / self._average)
            total += idf * 2.2 * its.count(word) / (its.count(word) + norm)
        return total


def test_a_number_that_today_has_too_is_found_wherever_it_stands(tmp_path: Path) -> None:
    """Every memory of the 30th has the word 30. The one that says it twice stood behind those on
    disk, where a word that all have weighed twice as much as over all of them.
    """
    parcels = [
        TextDocument(n, f"parcel number {n}", date="Monday 30 November 2026") for n in range(40)
    ]
    for on_disk in (0, 1, 10, 20, 30, 31, 39, 40):
        with divided(tmp_path / str(on_disk), parcels, on_disk) as index:
            assert next(iter(scores_of(index, "number 30"))) == 30, on_disk


def test_scores_are_those_of_one_formula_over_both_parts(
    tmp_path: Path, rng: random.Random
) -> None:
    """After a commit somewhere, documents are added, replaced and removed: of those on disk the
    words count on until they are merged away, of those in memory only while they live.
    """
    for attempt in range(6):
        documents = random_documents(rng, 60)
        on_disk = rng.randint(20, 59)
        with divided(tmp_path / str(attempt), documents, on_disk) as index:
            living = {one.id: one for one in documents}
            replaced = [
                TextDocument(key, text_of(rng, 30), text_of(rng, 5))
                for key in rng.sample(range(60), 10)
            ]
            index.add(replaced)
            living.update({one.id: one for one in replaced})
            for key in rng.sample(range(60), 10):
                index.remove([key])
                del living[key]
            old = documents[:on_disk]
            counted = old + [one for one in living.values() if one not in old]
            for field in (TEXT, CONTEXT):
                model = Model(counted, old, field)
                for _ in range(5):
                    query = " ".join(rng.sample(WORDS, 3))
                    expected = {key: model.score(one, query) for key, one in living.items()}
                    expected = {key: score for key, score in expected.items() if score}
                    assert scores_of(index, query, field) == pytest.approx(expected, rel=1e-4)


def test_any_division_of_documents_of_one_length_gives_the_same_order_and_scores(
    tmp_path: Path, rng: random.Random
) -> None:
    documents = random_documents(rng, 50, [30])
    whole: dict[Any, dict[int, float]] = {}
    queries = [" ".join(rng.sample(WORDS, 3)) for _ in range(10)]
    for on_disk in (50, 0, 1, 17, 25, 49):
        with divided(tmp_path / str(on_disk), documents, on_disk) as index:
            for query in queries:
                found = scores_of(index, query)
                expected = whole.setdefault(query, found)
                assert found == pytest.approx(expected, rel=1e-4)
                assert in_order(found, expected)


def in_order(found: dict[int, float], scores: dict[int, float]) -> bool:
    """Whether ``found`` is in the order of ``scores``, but for equal ones."""
    its = [scores[key] for key in found]
    return all(one >= other * (1 - 1e-4) for one, other in pairwise(its))


def test_another_average_length_moves_a_score_by_no_more_than_itself(
    tmp_path: Path, rng: random.Random
) -> None:
    """The one number that tantivy cannot be told: the average is that of the disk."""
    documents = random_documents(rng, 80)
    lengths = [len(one.text.split()) for one in documents]
    queries = [" ".join(rng.sample(WORDS, 3)) for _ in range(10)]
    whole: dict[str, dict[int, float]] = {}
    for on_disk in (80, 10, 30, 60):
        average = sum(lengths[:on_disk]) / on_disk
        off = average / (sum(lengths) / len(lengths))
        with divided(tmp_path / str(on_disk), documents, on_disk) as index:
            for query in queries:
                found = scores_of(index, query)
                expected = whole.setdefault(query, found)
                assert found.keys() == expected.keys()
                for key, score in found.items():
                    least, most = min(1.0, off) * 0.9999, max(1.0, off) * 1.0001
                    assert least * expected[key] <= score <= most * expected[key]


def test_removed_documents_on_disk_count_until_they_are_merged_away(
    tmp_path: Path, rng: random.Random
) -> None:
    documents = random_documents(rng, 40)
    with divided(tmp_path / "text", documents, 40) as index:
        index.remove(range(10))
        index.commit(2)
        index.add([TextDocument(99, text_of(rng, 20))])
        counted = index.snapshot()._searcher.counted(TEXT, WORDS, CorpusSize())
        words = sum(len(one.text.split()) for one in documents)
        assert counted is not None and counted.documents == 40
        assert counted.average == pytest.approx(words / 40)
        index.remove(range(40))  # a segment in which nothing lives goes at once
        index.commit(3)
        counted = index.snapshot()._searcher.counted(TEXT, WORDS, CorpusSize())
        assert counted == (1, 20)


def test_a_word_of_removed_documents_alone_has_no_numbers_to_go_by(tmp_path: Path) -> None:
    with divided(tmp_path / "text", [TextDocument(n, f"alpha {n}") for n in range(9)], 9) as index:
        index.add([TextDocument(8, "beta"), TextDocument(9, "beta 8")])
        index.remove([3])
        index.commit(2)
        index.add([TextDocument(10, "gamma 3")])
        snapshot = index.snapshot()
        assert snapshot._searcher.counted(TEXT, ["3"], CorpusSize()) is None
        assert snapshot.search("gamma 3", 9).ids.tolist() == [10]
        assert snapshot.search("beta gamma", 9).ids.tolist()[0] == 10


def test_should_tantivy_explain_in_other_words_all_that_was_written_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_statistics, "_AVERAGE", "something else")
    documents = [TextDocument(n, f"alpha {n}") for n in range(10)]
    with divided(tmp_path / "text", documents, 5) as index:
        first, second = scores_of(index, "alpha 2"), scores_of(index, "alpha 7")
        assert next(iter(first)) == 2 and next(iter(second)) == 7
        assert first[2] == pytest.approx(second[7])


def test_of_a_long_query_the_words_that_are_rare_in_memory_count_too(tmp_path: Path) -> None:
    """They were taken for words that nothing has, which come last."""
    common = [f"common{n}" for n in range(100)]
    documents = [TextDocument(n, " ".join(common)) for n in range(20)]
    with divided(tmp_path / "text", [*documents, TextDocument(99, "needle")], 20) as index:
        assert 99 in scores_of(index, " ".join([*common, "needle"]))
