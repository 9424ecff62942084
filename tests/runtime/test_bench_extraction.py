"""The extraction benchmark on generated look-alikes; nothing of the data is here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import neverforget as nf
from bench import bench_extraction as bench
from bench import bench_locomo, measure
from neverforget.runtime.embedder_hash import HashEmbedder
from tests.runtime.test_bench_locomo import THINGS, look_alike


@pytest.fixture
def look_alikes(tmp_path: Path) -> Path:
    path = tmp_path / "look-alikes.json"
    data = [look_alike("one", 1), look_alike("two", 2)]
    data[0]["conversation"]["session_1"][0]["text"] += " Thanks! Wow! Talk to you soon!"
    path.write_text(json.dumps(data))
    return path


def test_facts_and_turns_are_measured_alike(look_alikes: Path, tmp_path: Path) -> None:
    results = bench.run(tmp_path, look_alikes, HashEmbedder(32), None)
    assert len(results) == 4
    turns, facts = (results[f"{name}, tuned on"] for name in (bench.TURNS, bench.FACTS))
    assert turns.memories_per_100 == facts.memories_per_100 == 100
    assert turns.recall["all"][1] == facts.recall["all"][1] == 1.0
    assert (turns.filler, facts.filler) == (1.0, 0.0)
    assert facts.behind == turns.behind == 10
    lines = bench.table(results).splitlines()
    assert len(lines) == 2 + len(results)
    assert len({line.count("|") for line in lines}) == 1


def test_facts_come_from_reflection_with_the_turns_behind_them(
    look_alikes: Path, tmp_path: Path
) -> None:
    with nf.open(tmp_path / "store", inline=True, embedder="none", reflect_every_turns=0) as store:
        found = bench.conversations(store, tmp_path / "one.json", look_alikes, None)
        assert [len(each.keys) for each in found] == [2 * len(THINGS)] * 2
        assert bench.reflected(store, found[0]) == bench.Memories([], {})
        assert store.reflect().turns == 4 * len(THINGS)
        kept = bench.reflected(store, found[0])
        turns = bench.remembered(store, found[0])
    assert set().union(*kept.turns.values()) <= set(found[0].keys.values())
    assert len(kept.texts) == len(kept.turns) == 2 * len(THINGS)
    assert any(text.endswith("a photo of a lighthouse") for text in turns.texts)


@pytest.mark.parametrize(
    ("said", "filler"),
    [
        ("Hey Ylva! I bought a boat. Thanks so much, Ylva! It sails well.", 2),
        ("Wow! That's so awesome, Tomasz. Talk to you soon!", 3),
        ("I was happy to hear from the harbour master.", 0),
    ],
)
def test_filler_is_a_list_made_by_hand(said: str, filler: int) -> None:
    assert len(bench.fillers(said)) == filler


def test_ten_turns_are_ten_whether_one_or_more_stand_behind_a_memory() -> None:
    ranked = [{"a", "b", "c"}, {"d", "e", "f"}, {"a"}, {"g", "h", "i"}, {"j", "k"}, {"l"}]
    assert bench.first_ten_turns(ranked) == ranked[:4]
    assert bench.share(ranked[:2], {"a", "f", "k", "l"}) == 0.5


def test_a_missed_target_is_named() -> None:
    good = bench.Figures(100, 100, 1.0, {"all": [0.6, 0.8, 0.9]}, 0.8, 500, 10)
    bad = bench.Figures(90, 100, 0.0, {"all": [0.6, 0.4, 0.9]}, 0.4, 500, 10)
    said = bench.missed({f"{bench.TURNS}, not tuned on": good, f"{bench.FACTS}, not tuned on": bad})
    assert said == [
        "not tuned on: R@10 of facts is 0.500 of that of every turn",
        "not tuned on: 90 memories of 100 turns",
    ]


def test_without_the_data_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(bench_locomo.VARIABLE, raising=False)
    monkeypatch.setattr("sys.argv", ["bench_extraction"])
    measure.main(bench.measured)
    assert "skipped" in capsys.readouterr().out
