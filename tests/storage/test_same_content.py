"""What counts as the same content under one key."""

from __future__ import annotations

from typing import Any

import pytest

from neverforget.storage.same_content import same_content


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (None, None),
        ("x", "x"),
        (b"x", b"x"),
        (1, 1.0),
        (0.0, -0.0),
        (2**60, float(2**60)),
        (float("nan"), float("nan")),
        ({"a": 1, "b": [2, {"c": 3}]}, {"b": [2.0, {"c": 3.0}], "a": 1}),
        ([], []),
        ({}, {}),
        (nested(399), nested(399)),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_the_same(one: Any, other: Any) -> None:
    assert same_content(one, other) and same_content(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (None, False),
        (0, False),
        (1.0, True),
        ("1", 1),
        ("x", b"x"),
        (2**60 + 1, float(2**60)),
        (float("nan"), 0.0),
        ([1, 2], [2, 1]),
        ([1], [1, 1]),
        ([], {}),
        ([], None),
        ({"a": None}, {}),
        ({"a": 1}, {"b": 1}),
        (nested(399), nested(398)),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_not_the_same(one: Any, other: Any) -> None:
    assert not same_content(one, other) and not same_content(other, one)
