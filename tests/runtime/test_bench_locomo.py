"""The LoCoMo benchmark on generated look-alikes: it reads, ranks and judges; nothing of the data is
here.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from bench import bench_locomo, measure
from bench.bench_locomo import CATEGORIES, DEFAULT, evidence_of, judged, run, samples, table
from neverforget.runtime.embedder_hash import HashEmbedder
from neverforget.runtime.embedders import made

THINGS = (
    *("kayak", "violin", "greenhouse", "telescope"),
    *("marathon", "pottery", "sourdough", "aquarium"),
)


def look_alike(name: str, seed: int) -> dict[str, Any]:
    """Two people, two sessions, one subject a turn."""
    rng = random.Random(seed)
    speakers = (f"Ylva{name}", f"Tomasz{name}")
    conversation: dict[str, Any] = {"speaker_a": speakers[0], "speaker_b": speakers[1]}
    asked: list[dict[str, Any]] = []
    for session in (1, 2):
        turns = []
        for at, thing in enumerate(rng.sample(THINGS, len(THINGS)), 1):
            speaker, dia_id = speakers[at % 2], f"D{session}:{at}"
            detail = f"{thing}{rng.randrange(1000)}"
            turns.append(
                {
                    "speaker": speaker,
                    "dia_id": dia_id,
                    "text": f"I bought a {thing} called {detail}",
                }
            )
            question = f"What did {speaker} say of {detail}?"
            asked.append(
                {"question": question, "evidence": [dia_id], "category": at % 4 + 1, "answer": ""}
            )
        conversation[f"session_{session}"] = turns
        conversation[f"session_{session}_date_time"] = f"1:5{session} pm on {session} May, 2023"
    conversation["session_9_date_time"] = "1:59 pm on 9 May, 2023"
    turns[0]["blip_caption"] = "a photo of a lighthouse"
    asked.append({"question": "trap", "evidence": ["D1:1"], "category": 5, "answer": ""})
    asked.append({"question": "nothing", "evidence": [], "category": 1, "answer": ""})
    return {"sample_id": name, "conversation": conversation, "qa": asked}


def test_evidence_is_every_turn_that_is_named() -> None:
    place = {"D8:6": 3, "D9:17": 4, "D9:1": 5}
    assert evidence_of(["D8:6; D9:17"], place) == {3, 4}
    assert evidence_of(["D9:1 D4:4", "D:11:26", ""], place) == {5}


def test_questions_without_evidence_or_a_right_answer_are_left_out() -> None:
    (sample,) = samples([look_alike("one", 1)])
    assert len(sample.turns) == 2 * len(THINGS)
    assert len(sample.questions) == 2 * len(THINGS)
    assert {category for _, category, _ in sample.questions} == set(CATEGORIES)
    assert any("lighthouse" in text for _, _, text, _, _ in sample.turns)


def test_recall_is_the_share_of_the_evidence_and_the_rank_that_of_the_first() -> None:
    ranked = list(range(30))
    assert judged(ranked, {4, 7, 19, 25}) == ([0.25, 0.5, 0.75], 1 / 5)
    assert judged(ranked, {25}) == ([0.0, 0.0, 0.0], 0.0)


def test_context_stays_within_a_session() -> None:
    (sample,) = samples([look_alike("one", 1)])
    memories = bench_locomo.memories_of(sample, 0)
    last_of_first, first_of_second = memories[len(THINGS) - 1], memories[len(THINGS)]
    assert last_of_first.context == memories[len(THINGS) - 2].text
    assert first_of_second.context == memories[len(THINGS) + 1].text


def test_every_method_is_measured_in_every_category_and_the_words_are_found() -> None:
    embedder = made(HashEmbedder(32))
    assert embedder is not None
    results = run([look_alike("one", 1), look_alike("two", 2)], embedder)
    for figures in results.values():
        assert set(figures) == {*CATEGORIES.values(), "all"}
        assert figures["all"].questions == 4 * len(THINGS)
    assert results["plain BM25"]["all"].recall[5] == 1.0
    assert results[DEFAULT]["all"].recall[10] == 1.0
    lines = table(results).splitlines()
    assert len(lines) == 2 + 5 * len(results)


def test_without_the_data_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(bench_locomo.VARIABLE, raising=False)
    monkeypatch.setattr("sys.argv", ["bench_locomo"])
    measure.main(bench_locomo.measured)
    assert "skipped" in capsys.readouterr().out


def test_a_missed_target_is_named() -> None:
    figures = bench_locomo.Figures(1, {5: 0.6, 10: 0.8, 20: 0.9}, 0.5)
    better = bench_locomo.Figures(1, {5: 0.5, 10: 0.8, 20: 0.8}, 0.5)
    said = bench_locomo.missed({"text": {"all": better}, DEFAULT: {"all": figures}})
    assert said == ["R@5 is 0.600, the target 0.65", "text finds as much in the top 10"]
