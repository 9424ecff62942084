"""Long work in slices: between two of them whoever owns the region answers others.

Work is a generator that yields whenever it has done about as much as an append may wait for. What
it knew before a ``yield`` may have changed behind it: it looks again, or does without a ``yield``
what must be of one moment. Who cannot wait, or has nobody to give way to, does it ``in_one_go``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Slices = Generator[None, None, T]


def in_one_go(work: Slices[T]) -> T:
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result


def whole(sliced: Callable[P, Slices[T]]) -> Callable[P, T]:
    """The same call, for who wants its answer at once."""

    @wraps(sliced)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return in_one_go(sliced(*args, **kwargs))

    return call
