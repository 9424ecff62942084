"""One search from its legs to its results, over a small store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from neverforget.actors.fusion import FusionConfig
from neverforget.actors.query_preparation import Speakers, prepare_query
from neverforget.actors.searching import Result, search
from neverforget.storage.errors import InvalidArgument
from neverforget.storage.longterm_results import MemoryFilter
from tests.storage.small_index import IndexBench, indexed, vector


def ask(bench: IndexBench, query: str, *, embed: bool = True, **how: Any) -> list[Result]:
    view = bench.index.view()
    wanted = how.pop("wanted", MemoryFilter())
    prepared = prepare_query(query, Speakers(view.rows.speakers_within(wanted.namespace)))
    near = vector(prepared.meaning) if embed else None
    return search(view, prepared, near, wanted, **how)


def texts(bench: IndexBench, found: list[Result]) -> list[str]:
    return [bench.region.view(one.row).text for one in found]


def test_a_hybrid_search_joins_what_each_leg_found(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        bench.remember("green barn")
        bench.remember("nothing of that kind", context="by the green barn")
        bench.remember("a lake")
        bench.follow()
        found = ask(bench, "green barn")
        assert texts(bench, found)[0] == "green barn"
        assert set(found[0].fused.sources) == {"text", "vector"}
        assert found[0].fused.sources["text"] == 1
        beside = next(one for one in found if one.row == 1)
        assert beside.fused.sources["context"] == 1
        shares = {share.leg: share for share in beside.fused.shares}
        assert (shares["text"].rank, shares["text"].score) == (None, 0.0)
        assert "score = " in found[0].fused.explain()


def test_a_memory_by_the_person_whom_the_query_names_comes_first(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        for speaker in ("Ylva", "Tomasz"):
            bench.remember("we painted the barn", speaker=speaker)
        bench.follow()
        for speaker, row in (("Ylva", 0), ("Tomasz", 1)):
            found = ask(bench, f"What did {speaker} paint?")
            assert (found[0].row, found[0].fused.boost) == (row, FusionConfig().speaker)
        both = ask(bench, "What did Ylva and Tomasz paint?")
        assert [one.fused.boost for one in both] == [0.0, 0.0]


def test_dates_in_words_are_found(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        day_us = 86_400_000_000
        for n in range(19_500, 19_520):
            bench.remember("we met", occurred_at=n * day_us)
        bench.follow()
        found = ask(bench, "who was met on 25 May 2023?", strategy="text")
        view = bench.region.view(found[0].row)
        assert view.occurred_at == 19_502 * day_us  # 2023-05-25


def test_strategies_and_fusions_are_as_asked(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        for n in range(12):
            bench.remember(f"barn {n}", context="the lake")
        bench.follow()
        assert {leg for r in ask(bench, "barn", strategy="text") for leg in r.fused.sources} == {
            "text"
        }
        assert {leg for r in ask(bench, "barn", strategy="vector") for leg in r.fused.sources} == {
            "vector"
        }
        ranked = ask(bench, "barn 3", fusion="rrf")
        assert ranked[0].fused.score == pytest.approx(1 / 61 + 1 / 61)
        without = FusionConfig(context=0.0)
        assert all(
            share.leg != "context"
            for one in ask(bench, "barn lake", config=without)
            for share in one.fused.shares
        )
        wrong: list[dict[str, Any]] = [
            {"strategy": "both"},
            {"fusion": "sum"},
            {"limit": -1},
            {"offset": -1},
        ]
        for each in wrong:
            with pytest.raises(InvalidArgument):
                ask(bench, "barn", **each)


def test_pages_of_results_follow_each_other(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        for n in range(150):
            bench.remember(f"barn {'tree ' * (n % 9)}{n}")
        bench.follow()
        whole = [one.row for one in ask(bench, "barn", limit=150)]
        assert len(set(whole)) == 150
        small = FusionConfig(candidates=150)
        pages = [ask(bench, "barn", limit=30, offset=at, config=small) for at in range(0, 150, 30)]
        assert [one.row for page in pages for one in page] == whole


def test_without_a_vector_the_words_answer(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        bench.remember("green barn")
        bench.follow(embed=False)
        assert texts(bench, ask(bench, "barn", embed=False)) == ["green barn"]
        assert ask(bench, "barn", embed=False, strategy="vector") == []
        assert texts(bench, ask(bench, "barn")) == ["green barn"], "not embedded yet"


def test_a_filter_that_leaves_few_gets_all_of_them(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        bench.remember_many(
            *(bench.new(f"barn {n}", tags=("kept",) if n % 60 == 5 else ()) for n in range(240))
        )
        bench.follow()
        found = ask(bench, "barn", wanted=MemoryFilter(tags=("kept",)))
        assert {one.row for one in found} == {5, 65, 125, 185}
