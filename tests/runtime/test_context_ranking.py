"""Which memories come first, by each strategy."""

from __future__ import annotations

import math
from typing import Any

import pytest

import neverforget as nf
from neverforget.runtime.context_ranking import STRATEGIES, checked_strategy, ranked
from neverforget.runtime.working_values import WorkingItem
from tests.runtime.context_parts import DAY, HOUR, NOW, item


def order(items: list[WorkingItem], strategy: Any) -> list[str]:
    return [each.item.memory.text for each in ranked(items, strategy, NOW)]


OLD = item("old and often", 1, used_at=NOW - 99 * HOUR, accesses=9)
NEW = item("new and never", 2, used_at=NOW, created_at=NOW)
GREAT = item("great", 3, used_at=NOW - 9 * HOUR, accesses=1, importance=10)


def test_each_strategy_has_its_own_first() -> None:
    items = [GREAT, OLD, NEW]
    assert order(items, "recent") == ["new and never", "great", "old and often"]
    assert order(items, "important") == ["great", "new and never", "old and often"]
    assert order(items, "balanced") == ["old and often", "new and never", "great"]


def test_balanced_adds_how_often_and_how_recently() -> None:
    scores = {
        each.item.memory.text: each.score for each in ranked([GREAT, OLD, NEW], "balanced", NOW)
    }
    assert scores["old and often"] == pytest.approx((1 + 1 / 100) / 2)
    assert scores["great"] == pytest.approx((math.log(2) / math.log(10) + 1 / 10) / 2)


def test_a_memory_that_was_never_recalled_still_counts() -> None:
    """A product of the two terms would make it nothing, however new it is."""
    assert ranked([OLD, NEW], "balanced", NOW)[1].score == pytest.approx(0.5)
    assert ranked([NEW], "balanced", NOW)[0].score == pytest.approx(0.5)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_pinned_ones_come_first_and_what_is_no_longer_true_last(strategy: Any) -> None:
    past = item("past", 1, valid_to=NOW - DAY, importance=10, used_at=NOW, accesses=9)
    future = item("future", 2, valid_from=NOW + DAY, importance=9, used_at=NOW, accesses=9)
    low = item("low", 3, importance=0, used_at=NOW - 99 * DAY)
    pinned = item("pinned", 4, pinned=True, importance=0, used_at=NOW - 99 * DAY)
    found = order([past, future, low, pinned], strategy)
    assert found[:2] == ["pinned", "low"] and set(found[2:]) == {"past", "future"}


def test_equally_important_ones_are_shown_the_newest_first() -> None:
    items = [item(f"{n}", n, importance=n % 2, created_at=NOW + n * DAY) for n in range(5)]
    assert order(items, "important") == ["3", "1", "4", "2", "0"]


@pytest.mark.parametrize("strategy", ["recent", "balanced"])
def test_hits_of_one_recall_stay_in_their_order(strategy: Any) -> None:
    items = [item(f"{n}", n, importance=n % 3, accesses=1) for n in range(6)]
    assert order(items, strategy) == ["0", "1", "2", "3", "4", "5"]


def test_clocks_that_were_set_back_do_no_harm() -> None:
    assert ranked([item("x", used_at=NOW + DAY)], "recent", NOW)[0].score == 1


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(nf.InvalidArgument, match="'recent', 'important', 'balanced'"):
        checked_strategy("best")
