"""Fusing legs: the arithmetic, to the last digit that is promised."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neverforget.actors.fusion import (
    CONTEXT,
    TEXT,
    VECTOR,
    FusionConfig,
    Leg,
    reciprocal,
    weighted,
)
from neverforget.storage.errors import InvalidArgument


def leg(name: str, *ranked: str) -> Leg[str]:
    return Leg(name, [(what, 1.0 - at / 10) for at, what in enumerate(ranked)])


def test_reciprocal_rank_fusion_of_three_lists_gives_the_published_numbers() -> None:
    found = reciprocal([leg(TEXT, "a", "b"), leg(CONTEXT, "b", "c"), leg(VECTOR, "b", "d")])
    assert [(one.what, round(one.score, 9)) for one in found] == [
        ("b", 0.048915918),
        ("a", 0.016393443),
        ("c", 0.016129032),
        ("d", 0.016129032),
    ]
    assert found[0].sources == {TEXT: 2, CONTEXT: 1, VECTOR: 1}
    assert found[1].sources == {TEXT: 1}


def test_reciprocal_rank_fusion_says_its_arithmetic() -> None:
    found = reciprocal([leg(TEXT, "a", "b"), leg(VECTOR, "b")], {TEXT: 0.5, VECTOR: 2.0}, k=10)
    assert found[0].explain() == (
        "text: rank 2, 0.5 / (10 + 2) = 0.041666667\n"
        "vector: rank 1, 2 / (10 + 1) = 0.181818182\n"
        "score = 0.223484848"
    )


def test_weighted_fusion_stretches_each_leg_to_its_own_range() -> None:
    legs = [
        Leg(TEXT, [("a", 9.0), ("b", 5.0)], {"c": 1.0}),
        Leg(VECTOR, [("b", 0.9), ("c", 0.7)], {"a": 0.5}),
    ]
    found = weighted(legs, {TEXT: 0.4, VECTOR: 0.6})
    assert [one.what for one in found] == ["b", "a", "c"]
    scores = {one.what: one.score for one in found}
    assert scores == pytest.approx({"b": 0.4 * 0.5 + 0.6, "a": 0.4, "c": 0.6 * 0.5})
    assert found[0].sources == {TEXT: 2, VECTOR: 1}
    assert found[2].sources == {VECTOR: 2}, "scored by the words, found only by meaning"


def test_the_explanation_of_a_weighted_score_can_be_recomputed() -> None:
    legs = [Leg(TEXT, [("a", 8.0), ("b", 4.0)]), Leg(VECTOR, [("a", 0.5)], {"b": 0.25})]
    found = weighted(legs, {TEXT: 0.4, VECTOR: 0.6}, boosted={"b"}, boost=0.15)
    assert found[1].explain() == (
        "text: rank 2, score 4.000000 of 4.000000..8.000000, 0.4 * 0.000000000 = 0.000000000\n"
        "vector: not found, score 0.250000 of 0.250000..0.500000, 0.6 * 0.000000000 = 0.000000000\n"
        "speaker: +0.150000000\n"
        "score = 0.150000000"
    )


def test_a_candidate_without_a_score_gets_nothing_from_that_leg() -> None:
    """A memory that is not embedded yet."""
    found = weighted([leg(TEXT, "a"), Leg(VECTOR, [("b", -0.2)])], {TEXT: 0.4, VECTOR: 0.6})
    assert [(one.what, one.score) for one in found] == [("b", 0.6), ("a", 0.4)]
    assert "vector: no score" in found[1].explain()


def test_legs_that_found_nothing_fuse_to_nothing() -> None:
    empty: list[Leg[str]] = [Leg(TEXT, []), Leg(VECTOR, [])]
    assert weighted(empty, {TEXT: 1.0, VECTOR: 1.0}) == []
    assert reciprocal(empty) == []


def test_candidates_that_all_score_alike_get_all_of_it() -> None:
    found = weighted([Leg(TEXT, [("b", 2.0), ("a", 2.0)])], {TEXT: 0.5})
    assert [(one.what, one.score) for one in found] == [("a", 0.5), ("b", 0.5)]


SCORES = st.dictionaries(st.integers(0, 30), st.floats(-5, 50), max_size=20)


@given(st.lists(SCORES, min_size=1, max_size=3), st.sets(st.integers(0, 30)))
def test_scores_are_the_sum_of_their_shares_and_stay_in_bounds(
    given_scores: list[dict[int, float]], boosted: set[int]
) -> None:
    names = [TEXT, CONTEXT, VECTOR][: len(given_scores)]
    legs = [
        Leg(name, sorted(scores.items(), key=lambda kv: -kv[1])[:10], dict(scores))
        for name, scores in zip(names, given_scores)
    ]
    weights = FusionConfig().weights()
    found = weighted(legs, weights, boosted=boosted, boost=0.15)
    assert {one.what for one in found} == {what for each in legs for what, _ in each.ranked}
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    for one in found:
        assert one.score == pytest.approx(sum(s.points for s in one.shares) + one.boost + one.lift)
        assert -1e-9 <= one.score <= sum(weights.values()) + 0.15 + 1e-9


CROWD = [f"crowd {n:03}" for n in range(200)]


def crowded(rare: dict[str, float], low: float = 0.1) -> list[Leg[str]]:
    """What words and vectors say of a crowd that is alike, and of the few in ``rare``, which the
    words find best and the vectors worst.
    """
    words = rare | dict.fromkeys(CROWD, 1.0)
    near = {name: 0.7 - at / 10_000 for at, name in enumerate(CROWD)}
    ranked = sorted(words, key=lambda what: (-words[what], what))[:100]
    others = {what: score for what, score in words.items() if what not in ranked}
    return [
        Leg(TEXT, [(what, words[what]) for what in ranked], others),
        Leg(VECTOR, list(near.items())[:100], near | dict.fromkeys(rare, low)),
    ]


def test_the_best_match_of_one_leg_is_shown_though_a_crowd_has_more_points() -> None:
    """It stood behind two hundred texts that are all alike."""
    found = weighted(crowded({"rare": 9.0}), {TEXT: 0.25, VECTOR: 0.75})
    assert [one.what for one in found] == [*CROWD[:9], "rare", *CROWD[9:100]]
    rare, tenth = found[9], found[10]
    assert rare.score == tenth.score > 0.7 and rare.sources == {TEXT: 1}
    assert rare.lift == pytest.approx(rare.score - 0.25)
    assert rare.explain().splitlines()[2:] == [
        f"best match of a search, raised to the first 10: +{rare.lift:.9f}",
        f"score = {rare.score:.9f}",
    ]
    assert all(one.lift == 0 for one in found if one is not rare)
    for limit in (0, 5, 9, 10, 11, 300):
        same = weighted(crowded({"rare": 9.0}), {TEXT: 0.25, VECTOR: 0.75}, limit=limit)
        assert same == found[:limit], "a page is cut out of one order"


def test_a_leg_that_prefers_nobody_in_particular_raises_nobody() -> None:
    many = {f"rare {n}": 9.0 - n / 10 for n in range(11)}
    found = weighted(crowded(many), {TEXT: 0.25, VECTOR: 0.75})
    assert [one.what for one in found[:11]] == CROWD[:11]
    few = {f"rare {n}": 9.0 - n / 10 for n in range(10)}
    found = weighted(crowded(few), {TEXT: 0.25, VECTOR: 0.75})
    assert [one.what for one in found[:11]] == [*CROWD[:9], "rare 0", CROWD[9]]


def one_of_first(found: list[Any], what: int) -> bool:
    """It was raised as the best match of a search that is sure of it."""
    return any(one.what == what and one.lift > 0 for one in found)


@given(st.data())
def test_every_leg_that_is_sure_has_its_best_match_among_the_first(data: st.DataObject) -> None:
    scores = st.fixed_dictionaries({n: st.sampled_from([0.0, 1.0, 2.0, 9.0]) for n in range(25)})
    legs = []
    for name in (TEXT, CONTEXT, VECTOR):
        its = data.draw(scores)
        ranked = sorted(its.items(), key=lambda kv: (-kv[1], kv[0]))
        legs.append(Leg(name, ranked[:20], its))
    boosted = data.draw(st.sets(st.integers(0, 24)))
    rows = st.integers(0, 24)
    past = data.draw(st.dictionaries(rows, st.lists(rows, max_size=3), max_size=20))
    found = weighted(
        legs, FusionConfig().weights(), boosted=boosted, boost=0.15, past=past, loss=0.5
    )
    for one in found:
        points = sum(share.points for share in one.shares)
        assert one.score == pytest.approx(points + one.boost + one.past + one.lift)
        assert (one.past <= 0) if one.what in past else one.past >= 0
    place = {one.what: at for at, one in enumerate(found)}
    for what, others in past.items():
        for other in set(others) & place.keys() - past.keys():
            assert what not in place or place[other] < place[what] or one_of_first(found, what)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    shown = {one.what for one in found[:10]}
    for leg in legs:
        values = [s for share in found for s in share.shares if s.leg == leg.name]
        if len({s.value for s in values}) > 1 and sum(s.value > 0.6 for s in values) <= 10:
            assert leg.ranked[0][0] in shown
    for one in found:
        assert one.lift >= 0 and (one.lift == 0 or 1 in one.sources.values())


def test_weights_that_mean_nothing_are_refused() -> None:
    wrong: list[dict[str, Any]] = [
        {"text": -0.1},
        {"vector": float("nan")},
        {"speaker": float("inf")},
        {"candidates": 0},
        {"rrf_k": 0},
    ]
    for each in wrong:
        with pytest.raises(InvalidArgument):
            FusionConfig(**each)


def test_what_is_not_valid_now_loses_part_of_its_score() -> None:
    legs: list[Leg[str]] = [Leg(TEXT, [("old", 4.0), ("new", 3.0), ("other", 1.0)])]
    found = weighted(
        legs, {TEXT: 1.0}, boosted={"old"}, boost=0.2, past={"old": (), "none": ()}, loss=0.5
    )
    assert [one.what for one in found] == ["new", "old", "other"], "the other one is far off"
    old = found[1]
    assert old.score == pytest.approx(0.6) == -old.past
    assert "not valid now: -0.600000000" in old.explain() and found[0].past == 0.0
    ranked = reciprocal([leg(TEXT, "old", "new", "other")], past={"old": ()}, loss=0.5)
    assert [one.what for one in ranked] == ["new", "other", "old"]
    assert ranked[2].score == pytest.approx(0.5 / 61) == -ranked[2].past


def test_what_holds_in_the_place_of_something_comes_before_it() -> None:
    """Who asks where somebody lives finds the town that she has left, by its words, and is told
    where she lives now first.
    """
    legs: list[Leg[str]] = [Leg(TEXT, [("old", 4.0), ("near", 1.0), ("new", 0.5), ("far", 0.1)])]
    found = weighted(legs, {TEXT: 1.0}, past={"old": ["new", "gone"]}, loss=0.5)
    assert [one.what for one in found] == ["new", "old", "near", "far"]
    new, old = found[:2]
    assert new.score == old.score == pytest.approx(0.5) and new.past > 0
    assert "holds in the place of another: +" in new.explain()
    ranked = reciprocal([leg(TEXT, "old", "a", "new")], past={"old": ["new"]}, loss=0.9)
    assert [one.what for one in ranked] == ["a", "new", "old"]


def test_of_two_that_match_alike_the_valid_one_comes_first_however_few_there_are() -> None:
    """The worst candidate of a leg has 0 when its scores are stretched: of two memories the one
    that was superseded stood before the one that holds, for a hundredth of a score.
    """
    legs = [Leg(TEXT, [("old", 4.0), ("new", 3.9)]), Leg(VECTOR, [("old", 0.81), ("new", 0.8)])]
    weights = {TEXT: 0.4, VECTOR: 0.6}
    assert [one.what for one in weighted(legs, weights)] == ["old", "new"]
    new, old = weighted(legs, weights, past={"old": ()}, loss=0.5)
    assert (new.what, new.score, old.score, old.past) == ("new", 0.0, 0.0, -1.0)
    assert [one.what for one in weighted(legs, weights, past={"old": (), "new": ()}, loss=0.5)] == [
        "old", "new",
    ]  # fmt: skip


@pytest.mark.parametrize("past", [-0.1, 1.1, float("nan")])
def test_the_loss_is_a_part(past: float) -> None:
    with pytest.raises(InvalidArgument):
        FusionConfig(past=past)
