"""The long documents of ``bench_planted``: facts stand where it says, once, among their rivals."""

from __future__ import annotations

from collections import Counter

from bench.bench_planted import GROUPS, Figures, Place, judged, missed
from bench.planted import LENGTH, Question, corpus


def test_the_corpus_is_always_the_same_and_facts_stand_where_it_says() -> None:
    planted = corpus()
    assert planted == corpus() and planted != corpus(seed=1)
    documents = planted.texts[: planted.documents]
    assert len(documents) == 48
    assert all(LENGTH[0] / 2 < len(text) < LENGTH[1] * 1.5 for text in documents)
    assert len(planted.questions) == 126 and len(planted.asked(long=True)) == 97
    for question in planted.questions:
        text = planted.texts[question.memory]
        assert text[question.start : question.stop] == question.fact
        assert sum(text.count(question.fact) for text in planted.texts) == 1
    homes = Counter(one.memory for one in planted.asked(long=True))
    assert len(homes) == 48 and max(homes.values()) <= 3


def test_a_smaller_corpus_has_the_facts_of_its_documents() -> None:
    planted = corpus().cut(2)
    assert planted.documents == 2 and {q.memory for q in planted.asked(long=True)} == {0, 1}
    for one in planted.questions:
        assert planted.texts[one.memory][one.start : one.stop] == one.fact


def test_a_fact_is_in_its_place_if_the_chunk_has_all_of_it() -> None:
    asked = [("q", Question("q", "", "fact", 7, 10, 14))]

    def place(span: tuple[int, int] | None) -> float:
        ranked: list[Place] = [(3, None), (7, span)]
        found = judged(lambda _query, _alone: ranked, asked)
        assert (found.recall, found.mrr) == ({1: 0.0, 5: 1.0}, 0.5)
        return found.place

    assert [place(span) for span in ((0, 14), (10, 14), (11, 20), None)] == [1.0, 1.0, 0.0, 0.0]
    assert judged(lambda _query, _alone: [], asked) == Figures(1, {1: 0.0, 5: 0.0}, 0.0, 0.0)


def test_a_missed_promise_is_told() -> None:
    def figures(recall: float) -> Figures:
        return Figures(100, {5: recall}, 0.5, 0.5)

    whole: dict[str, Figures] = {group: figures(0.6) for group in GROUPS}
    better: dict[str, Figures] = {group: figures(0.7) for group in GROUPS}
    assert missed({"hybrid, whole": whole, "hybrid, chunked": better}) == []
    worse = better | {"long": figures(0.64), "short": figures(0.58)}
    wrong = missed({"hybrid, whole": whole, "hybrid, chunked": worse})
    assert [line.split(":")[0] for line in wrong] == ["long", "short"]
