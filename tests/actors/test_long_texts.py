"""Texts of many windows are embedded in parts, and hold nobody up."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from neverforget.actors import long_texts
from neverforget.actors import longterm_messages as m
from neverforget.actors.embedder_health import PAUSE_S_MAX
from neverforget.actors.long_texts import parts_of
from tests.actors.conftest import Owning
from tests.actors.longterm_owners import OwnedLongTerm
from tests.fakes.embedders import POISON, Faulty, Plain, Poisoned, is_down, raises

WINDOW = 40
PART = 200


class Windowed(Plain):
    """Windows of so many characters. Those of texts with "long" wait until ``release`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.release = threading.Event(), threading.Event()

    def windows(self, text: str) -> list[str]:
        return [text[at : at + WINDOW] for at in range(0, len(text), WINDOW)]

    def embed(self, texts: Sequence[str]) -> Any:
        if any("long" in text for text in texts):
            self.entered.set()
            self.release.wait()
        return super().embed(texts)


@pytest.fixture(autouse=True)
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_texts, "PART_CHARACTERS", PART)
    monkeypatch.setattr(long_texts, "_OVERLAP", 20)
    monkeypatch.setattr(long_texts, "_NEAR", 30)


def long_text(parts: int, word: str = "long") -> str:
    return " ".join(f"{word}{n}" for n in range(parts * PART // (len(word) + 4)))


NUMBERS = "".join(f"{n}x" for n in range(300))


@pytest.mark.parametrize(
    "text", ["", NUMBERS[:PART], NUMBERS, long_text(7), long_text(3) + NUMBERS]
)
def test_parts_are_all_of_a_text_and_each_overlaps_the_one_before(text: str) -> None:
    parts = parts_of(text)
    assert len(parts) == 1 or all(0 < len(part) <= PART for part in parts)
    stop = 0
    for part in parts:
        start = text.index(part)
        assert start == 0 or start <= stop - 1
        stop = start + len(part)
    assert stop == len(text)
    if text == long_text(7):
        assert {word for part in parts for word in part.split()} == set(text.split())


def test_short_texts_are_embedded_while_a_long_one_is(owning: Owning) -> None:
    """They waited for all of its windows: minutes, where it has thousands."""
    embedder = Windowed()
    owned = owning(embedder)
    first, *_ = owned.remember(long_text(10), long_text(10, "alsolong"), "green tea")
    owned.index()  # which is told what is new
    try:
        owned.until(embedder.entered.is_set)
        for n in range(3):
            owned.remember(f"another {n}")
    finally:
        embedder.release.set()
    owned.settle()
    order = [text for batch in embedder.asked for text in batch]
    last_of_the_long = max(at for at, text in enumerate(order) if "long" in text)
    assert order.index("green tea") < last_of_the_long
    assert all(order.index(f"another {n}") < last_of_the_long for n in range(3))
    assert owned.index().waiting == owned.index().failed == 0
    assert owned.index().vectors >= 3 + 1 + 2 * 10 * PART // WINDOW
    assert owned.found("another 2", strategy="vector", limit=1) == ["another 2"]
    near = owned.found("long3 long4 long5", strategy="vector", limit=1)
    assert owned.get(first) == near


def test_an_outage_costs_a_long_text_only_the_part_that_is_under_way(owning: Owning) -> None:
    embedder = Faulty()
    owned = owning(embedder)
    text = long_text(3)
    embedder.fault = FailsAt(2)
    owned.remember(text)
    owned.until(lambda: owned.index().embedder_state == "failing")
    assert (owned.index().waiting, owned.index().vectors) == (1, 0)
    embedder.fault = None
    owned.pass_time(PAUSE_S_MAX + 1)
    owned.settle()
    parts = parts_of(text)
    assert owned.index().vectors == len(parts)
    asked = [each for batch in embedder.asked for each in batch]
    assert asked.count(parts[0]) == 1 and set(parts) <= set(asked)


class FailsAt:
    """Down at the call with this number, and from then on."""

    def __init__(self, call: int) -> None:
        self.calls_left = call

    def __call__(self, rows: np.ndarray[Any, Any]) -> Any:
        self.calls_left -= 1
        return rows if self.calls_left > 0 else is_down(rows)


def test_a_long_text_that_cannot_be_embedded_fails_and_the_next_one_goes(owning: Owning) -> None:
    owned = owning(Poisoned(raises))
    owned.remember(long_text(3) + f" {POISON} " + long_text(3), long_text(4, "good"))
    owned.settle()
    index = owned.index()
    assert (index.failed, index.waiting, index.embedder_state) == (1, 0, "ok")
    assert index.vectors == len(parts_of(long_text(4, "good")))


def test_a_long_text_that_is_revised_meanwhile_is_embedded_as_it_is_then(owning: Owning) -> None:
    embedder = Windowed()
    owned = owning(embedder)
    (memory,) = owned.remember(long_text(10))
    owned.index()  # which is told what is new
    try:
        owned.until(embedder.entered.is_set)
        owned.ask(owned.revise(memory, text="short and sweet"), m.MemoriesReply)
    finally:
        embedder.release.set()
    owned.settle()
    assert owned.index().vectors == 1
    (other,) = owned.remember(long_text(2, "else"))
    owned.settle()
    assert owned.get(other) == owned.found("else1 else2", strategy="vector", limit=1)


def test_a_query_that_is_a_book_is_refused(longterm: OwnedLongTerm) -> None:
    """Its thousands of windows kept everybody else's queries waiting."""
    longterm.remember("green tea")
    query = "tea " * 10_000
    for strategy in ("vector", "hybrid", "text"):
        refused = longterm.recall_request(query, strategy=strategy)
        assert longterm.refused(refused) == "invalid_argument"
    assert longterm.found("tea " * 8_000) == ["green tea"]
