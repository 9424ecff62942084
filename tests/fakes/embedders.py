"""Embedders that misbehave on purpose. Their classes are importable, so they pickle."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from neverforget.actors.embedder_contract import Vectors
from neverforget.runtime.embedder_hash import HashEmbedder

POISON = "poison"


class Plain:
    """The protocol and nothing besides: no windows, not thread-safe. Keeps what it was asked."""

    def __init__(self, dimension: int = 8) -> None:
        self.model_id = f"plain-{dimension}"
        self.dimension = dimension
        self.asked: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> Any:
        self.asked.append(list(texts))
        return HashEmbedder(self.dimension).embed(texts)


class Poisoned(Plain):
    """Fails when a text that holds POISON is in the batch, in the way of ``fail``."""

    def __init__(self, fail: Callable[[Vectors, list[int]], Any], dimension: int = 8) -> None:
        super().__init__(dimension)
        self.fail = fail

    def embed(self, texts: Sequence[str]) -> Any:
        rows = super().embed(texts)
        poisoned = [i for i, text in enumerate(texts) if POISON in text]
        return self.fail(rows, poisoned) if poisoned else rows


def raises(rows: Vectors, poisoned: list[int]) -> Any:
    raise ValueError(f"cannot read {POISON} {poisoned}")


def nan_in_its_row(rows: Vectors, poisoned: list[int]) -> Any:
    rows[poisoned] = np.nan
    return rows


def nan_everywhere(rows: Vectors, poisoned: list[int]) -> Any:
    return np.full_like(rows, np.nan)


def zero_in_its_row(rows: Vectors, poisoned: list[int]) -> Any:
    rows[poisoned] = 0
    return rows


def infinity_in_its_row(rows: Vectors, poisoned: list[int]) -> Any:
    rows[poisoned, 0] = np.inf
    return rows


def a_row_too_few(rows: Vectors, poisoned: list[int]) -> Any:
    return rows[:-1]


def another_dimension(rows: Vectors, poisoned: list[int]) -> Any:
    return np.hstack([rows, rows])


def ragged(rows: Vectors, poisoned: list[int]) -> Any:
    return [[1.0] * (i + 1) for i in range(len(rows) + 1)]


def nothing(rows: Vectors, poisoned: list[int]) -> Any:
    return None


FAILURES = (
    raises,
    nan_in_its_row,
    nan_everywhere,
    zero_in_its_row,
    infinity_in_its_row,
    a_row_too_few,
    another_dimension,
    ragged,
    nothing,
)


class Hanging(Plain):
    """Hangs in ``embed`` until ``release`` is set; ``entered`` is set meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.release = threading.Event(), threading.Event()

    def embed(self, texts: Sequence[str]) -> Any:
        self.entered.set()
        self.release.wait()
        return super().embed(texts)


class Answering(Plain):
    """Answers with what ``answer`` makes of the right rows."""

    def __init__(self, answer: Callable[[Vectors], Any], dimension: int = 8) -> None:
        super().__init__(dimension)
        self.answer = answer

    def embed(self, texts: Sequence[str]) -> Any:
        return self.answer(super().embed(texts))


class Faulty(Plain):
    """Does what ``fault`` does with the right rows, for as long as there is one. Any thread may set
    it.
    """

    def __init__(self, dimension: int = 8) -> None:
        super().__init__(dimension)
        self.fault: Callable[[Vectors], Any] | None = None

    def embed(self, texts: Sequence[str]) -> Any:
        rows, fault = super().embed(texts), self.fault
        return rows if fault is None else fault(rows)


def is_down(rows: Vectors) -> Any:
    raise ConnectionError("it is down")
