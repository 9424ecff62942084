"""One search from its legs to its results, over a small store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from neverforget.actors.fusion import FusionConfig
from neverforget.actors.query_preparation import Speakers, prepare_query
from neverforget.actors.searching import Result, best_chunk, search
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


def test_ranks_are_fused_to_the_number(tmp_path: Path) -> None:
    """Three legs that rank [a, b], [b, c] and [b, d]."""
    with indexed(tmp_path) as bench:
        a = bench.row(bench.remember("barn barn barn"))
        b = bench.row(bench.remember("the barn by the lake", context="barn barn barn"))
        c = bench.row(bench.remember("sheep", context="a barn there"))
        d = bench.row(bench.remember("goats"))
        bench.follow(embed=False)
        for one in bench.index.take_waiting(10):
            if one.row in (b, d):
                bench.index.embedded(one, vector("barn" if one.row == b else "barn goats")[None])
        found = ask(bench, "barn", fusion="rrf")
        legs: dict[str, list[int]] = {"text": [a, b], "context": [b, c], "vector": [b, d]}
        for leg, rows in legs.items():
            ranks = {r.fused.sources[leg]: r.row for r in found if leg in r.fused.sources}
            assert [ranks[1], ranks[2]] == rows and len(ranks) == 2
        assert [(r.row, round(r.fused.score, 9)) for r in found] == [
            (b, 0.048915918),
            (a, 0.016393443),
            (c, 0.016129032),
            (d, 0.016129032),
        ]


def test_a_leg_that_finds_nothing_counts_for_nothing(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        bench.remember("green barn")
        bench.remember("blue lake")
        bench.follow()
        found = ask(bench, "green barn")
        assert found[0].fused.score == pytest.approx(1.0)
        assert [share.leg for share in found[0].fused.shares] == ["text", "vector"]


def test_words_and_meaning_of_one_chunk_count_together(tmp_path: Path) -> None:
    """A long memory had the words of one page and the meaning of another added up, and came before
    the one with a page that answers.
    """
    with indexed(tmp_path) as bench:
        rival = bench.remember("barn lake barn. goats and sheep")
        told = bench.remember("the barn by lake. trees and bees")
        bench.derive(rival, 16)
        bench.derive(told, 18)
        bench.follow(embed=False)
        meaning = {"goats and sheep": "barn lake", "the barn by lake. ": "barn lake barn"}
        for one in bench.index.take_waiting(10):
            bench.index.embedded(one, vector(meaning.get(one.text, one.text + " x y z"))[None])
        found = ask(bench, "barn lake")
        assert texts(bench, found) == [told.text, rival.text]
        assert bench.region.view(found[0].part).text == "the barn by lake. "
        assert set(found[0].fused.sources) == {"text", "vector"}
        by_rank = ask(bench, "barn lake", fusion="rrf")
        assert {one.row for one in by_rank} == {bench.row(told), bench.row(rival)}
        assert len(ask(bench, "barn lake", limit=1)) == 1


def test_the_chunk_that_answers_is_told_though_the_whole_comes_first(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        told = bench.remember("the barn is green. the lake is blue. the mill is red. ")
        bench.derive(told, 19, 37, summary="colours of the barn, the lake and the mill")
        bench.remember("a short one about a mill")
        bench.follow()
        view, row = bench.index.view(), bench.row(told)
        for query, wanted in (
            ("the mill is red. the lake", "the mill is red. "),
            ("green barn", "the barn is green. "),
        ):
            for meaning in (None, vector(query)):
                asked = prepare_query(query, Speakers(set()))
                part = best_chunk(view, asked, meaning, row, FusionConfig())
                assert part is not None and bench.region.view(part).text == wanted
        nothing = prepare_query("zyzzyva", Speakers(set()))
        assert best_chunk(view, nothing, None, row, FusionConfig()) is None
        assert best_chunk(view, nothing, None, row + 1, FusionConfig()) is None


TEXTS = (
    "東京都の天気は晴れです",
    "我们明天去北京开会",
    "서울에서 점심을 먹었다",
    "ฉันรักภาษาไทย",
    "Zoë met Søren at the café in Łódź; naïve façade",
    "the parse_http_header function in HTTPServer calls std::vector<int>::push_back()",
    "C++ and C# differ from C",
    'she said "AND that is NOT OR nothing" to him',
    "error E-4711: file /etc/nginx/nginx.conf not found",
    "price is 3.50 euro (50% off) for item #42",
    "mail ylva@example.org or call +49-30-1234",
    "😀 we laughed about 🚀 launches",
)


ASKED = (
    ("天気", 0),
    ("東京", 0),
    ("北京", 1),
    ("明天开会", 1),
    ("점심", 2),
    ("ภาษา", 3),
    ("cafe", 4),
    ("CAFÉ", 4),
    ("zoe soren", 4),
    ("lodz", 4),
    ("naive facade", 4),
    ("parse_http_header", 5),
    ("http header parsing", 5),
    ("HTTPServer", 5),
    ("push_back", 5),
    ("std::vector", 5),
    ("C++", 6),
    ("C#", 6),
    ('"AND that" OR NOT (nothing', 7),
    ("E-4711", 8),
    ("nginx.conf", 8),
    ("/etc/nginx", 8),
    ("item #42", 9),
    ("ylva@example.org", 10),
    ("+49-30-1234", 10),
    ("🚀", 11),
)


def test_words_of_any_script_and_code_are_found(tmp_path: Path) -> None:
    with indexed(tmp_path) as bench:
        bench.remember_many(*(bench.new(text) for text in TEXTS))
        bench.follow(embed=False)
        for query, expected in ASKED:
            found = ask(bench, query, embed=False, strategy="text")
            assert texts(bench, found)[:1] == [TEXTS[expected]], query


ODD = (
    *(
        "",
        " ",
        "*",
        "?",
        "~",
        "{",
        '"',
        "'",
        '"unclosed',
        "(((",
        "))",
        "<barn>",
        "/barn/",
        "[a TO z]",
    ),
    *("a AND", "AND OR NOT", "+barn -lake", "barn && lake || x", "text:barn", "id:1", "label:n"),
    *("barn^2", "barn*", "barn~2", "IN [", "\\", "\x00", "\n\t\r", "\u202e", "\u0301"),
    *("\ud800", "barn \udfff lake", "a" * 100_000, "barn " * 20_000),
)


@pytest.mark.parametrize("strategy", ["text", "hybrid"])
def test_nothing_in_a_query_is_an_operator_or_raises(tmp_path: Path, strategy: str) -> None:
    with indexed(tmp_path) as bench:
        bench.remember("green barn", context="blue lake", speaker="Ylva")
        bench.follow(embed=False)
        for query in ODD:
            found = ask(bench, query, embed=False, strategy=strategy)
            words = {"barn", "lake"} & set(query.replace("/", " ").split())
            assert found or not words, query


@pytest.mark.parametrize("fusion", ["weighted", "rrf"])
def test_what_is_valid_now_comes_first(tmp_path: Path, fusion: str) -> None:
    """What has ended, or was superseded, is found behind it; as_of asks for another time."""
    with indexed(tmp_path) as bench:
        bench.remember("Ann lives in the town of Oslo", valid_from=100, valid_to=200)
        bench.remember("Ann lives in the town of Bergen", valid_from=200)
        bench.remember("Ann lives in the town of Rome", valid_from=900)
        bench.remember("a lake")
        bench.follow()

        def found(**how: Any) -> list[str]:
            results = ask(bench, "Ann lives in the town of Oslo", fusion=fusion, **how)
            return [text.split()[-1] for text in texts(bench, results)]

        assert found()[0] == "Oslo"
        assert found(now=300)[0] == "Bergen"
        assert set(found(now=300)[:3]) == {"Bergen", "Oslo", "Rome"}
        assert found(now=150)[0] == "Oslo" and found(now=950)[-1] != "Rome"
        assert found(now=300, wanted=MemoryFilter(as_of=150)) == ["Oslo", "lake"]
        even = FusionConfig(past=0.0)
        assert found(now=300, config=even)[0] == "Oslo"


@pytest.mark.parametrize("fusion", ["weighted", "rrf"])
def test_the_fact_of_a_subject_that_holds_now_comes_before_what_has_ended(
    tmp_path: Path, fusion: str
) -> None:
    """It may say it in other words than the query, as "moved" for "lives"."""
    with indexed(tmp_path) as bench:
        home = ("subject:ann-home",)
        bench.remember("Ann lives in Oslo", valid_from=100, valid_to=200, tags=home)
        bench.remember("big news: off to Bergen for good", valid_from=200, tags=home)
        bench.remember("Bo lives in Rome", valid_from=100, tags=("subject:bo-home",))
        bench.remember("here he lives, said Tom of Ann", tags=("other",))
        bench.remember("so off to Paris", valid_from=250, tags=home, namespace=("elsewhere",))
        bench.follow()

        def places(**how: Any) -> list[int]:
            return [one.row for one in ask(bench, "Ann lives in Oslo", fusion=fusion, **how)]

        assert places().index(0) < places().index(1)
        found = places(now=300)
        assert found.index(1) < found.index(0) and found.index(1) < found.index(4)
        assert places(now=150)[0] == 0
