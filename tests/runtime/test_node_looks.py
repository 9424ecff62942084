"""What nodes are asked at once."""

from __future__ import annotations

import threading

import pytest

from neverforget.runtime.node_looks import NodeLooks
from neverforget.storage.errors import UnsupportedFormat


def test_a_node_that_does_not_answer_holds_up_nobody_else() -> None:
    """The keeper asked one node after the other: one that hung held up failovers for a minute."""
    told, asked = threading.Event(), []

    def look(node: str) -> str:
        asked.append(node)
        if node == "slow":
            told.wait()
        return node.upper()

    looks = NodeLooks(look)
    looks.ask(["slow", "quick"], 0.05)
    while (quick := looks.answer("quick")) is None:
        looks.ask(["slow", "quick"], 0.05)
    assert quick == "QUICK" and looks.answer("slow") is None
    told.set()
    looks.ask(["slow"], 60.0)
    assert looks.answer("slow") == "SLOW"
    assert asked.count("slow") == 1


def test_what_goes_wrong_on_a_node_is_raised_once_and_then_it_is_asked_again() -> None:
    wrong = [UnsupportedFormat("another store's")]

    def look(node: str) -> str:
        if wrong:
            raise wrong.pop()
        return "well"

    looks = NodeLooks(look)
    looks.ask(["a"], 60.0)
    with pytest.raises(UnsupportedFormat, match="another"):
        looks.answer("a")
    looks.ask(["a"], 60.0)
    assert looks.answer("a") == "well"


def test_a_node_that_went_away_is_forgotten() -> None:
    looks = NodeLooks(str.upper)
    looks.ask(["a"], 60.0)
    looks.ask([], 0.0)
    with pytest.raises(KeyError):
        looks.answer("a")
